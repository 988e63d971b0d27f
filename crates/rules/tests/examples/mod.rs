//! The examples of a manual: blocks of code between fences, and texts that were examples before they were damaged.

/// The word behind the fence of each block, and the block.
pub(crate) fn fenced(manual: &str) -> Vec<(String, String)> {
    let mut out: Vec<(String, String)> = Vec::new();
    let mut inside = false;
    for line in manual.lines() {
        match line.strip_prefix("```") {
            Some("") if inside => inside = false,
            Some(word) if !inside => {
                out.push((word.to_owned(), String::new()));
                inside = true;
            }
            _ if inside => {
                let (_, text) = out.last_mut().expect("a block was begun");
                text.push_str(line);
                text.push('\n');
            }
            _ => {}
        }
    }
    out
}

/// Texts in which a few characters are missing, are too many (of those in `more`), or the end is.
pub(crate) fn damaged(seeds: &[String], more: &str, times: usize) -> impl Iterator<Item = String> {
    let mut state = 1u64;
    let mut random = move |n: usize| {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 33) as usize % n.max(1)
    };
    let more: Vec<char> = more.chars().collect();
    (0..times).map(move |_| {
        let mut chars: Vec<char> = seeds[random(seeds.len())].chars().collect();
        for _ in 0..1 + random(4) {
            let at = random(chars.len());
            match random(3) {
                0 => {
                    chars.remove(at);
                }
                1 => chars.insert(at, more[random(more.len())]),
                _ => chars.truncate(at),
            }
            if chars.is_empty() {
                break;
            }
        }
        chars.into_iter().collect()
    })
}
