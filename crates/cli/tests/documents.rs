//! The README and the manual show what the tool really prints.

mod harness;

use std::path::Path;
use std::process::Stdio;

use harness::Place;
use harness::gdb::{debug, told};

/// Without what differs from machine to machine: addresses, steps, and the compiler's choice of
/// instructions.
fn steady(text: &str) -> Vec<String> {
    text.lines()
        .map(str::trim)
        .filter(|l| !l.starts_with("instruction") && !l.starts_with("registers"))
        .map(|l| {
            let words = l.split(|c: char| !c.is_alphanumeric() && c != ',');
            let varying = words.filter(|w| {
                let digits = w.chars().filter(char::is_ascii_digit).count();
                (w.starts_with("0x") && w.len() > 8) || (digits >= 6 && digits + 1 >= w.len())
            });
            let mut line = l.to_owned();
            for word in varying {
                line = line.replace(word.trim_end_matches(','), "~");
            }
            line
        })
        .collect()
}

#[test]
fn the_first_screen_is_what_the_first_command_prints() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap();
    let p = Place::new();
    let program = p.path("inventory");
    let built = std::process::Command::new("cc")
        .args(["-g", "-o"])
        .arg(&program)
        .arg("examples/inventory.c")
        .current_dir(&root)
        .status()
        .expect("this test needs a C compiler");
    assert!(built.success());
    let mut c = p.wherefore(&["run", "--"]);
    c.arg(&program).current_dir(&root).stdout(Stdio::piped());
    let ran = harness::finish(c);
    ran.dies(11);
    let printed = steady(&format!("{}{}", ran.out, ran.err)).join("\n");
    for file in ["README.md", "docs/commands.md"] {
        let text = std::fs::read_to_string(root.join(file)).unwrap();
        let shown = steady(&text).join("\n");
        assert!(shown.contains(&printed), "{file} does not show\n{printed}");
    }
}

#[test]
fn every_verb_and_option_is_in_the_manual() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let manual = std::fs::read_to_string(root.join("docs/commands.md")).unwrap();
    let p = Place::new();
    for verb in ["run", "replay", "locate", "ls", "info", "rm"] {
        assert!(manual.contains(&format!("## {verb}\n")), "{verb}");
        let help = p.say(&[verb, "--help"]).out;
        for word in help
            .split_whitespace()
            .filter(|w| w.starts_with("--") && w.len() > 2)
        {
            let option = word.trim_end_matches(|c: char| !c.is_alphanumeric());
            if !matches!(option, "--help" | "--version" | "--output") {
                assert!(manual.contains(option), "{verb} {option}");
            }
        }
    }
}

#[test]
fn the_example_of_locate_is_what_it_prints() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap();
    let p = Place::new();
    // The build command of the suite writes to the target folder of the repository.
    for file in ["difference.c", "difference.toml"] {
        let text = std::fs::read_to_string(root.join("examples/locate").join(file)).unwrap();
        std::fs::write(p.path(file), text.replace("../../target/", "")).unwrap();
    }
    let mut c = p.wherefore(&["locate", "difference.toml"]);
    c.stdout(Stdio::piped());
    let ran = harness::finish(c);
    ran.exits(1);
    let text = std::fs::read_to_string(root.join("docs/locate.md")).unwrap();
    let shown = steady(&text);
    let printed = steady(&format!("{}{}", ran.err, ran.out));
    // The figures at the end differ from run to run.
    for line in printed
        .iter()
        .take_while(|l| !l.contains("replacements in"))
    {
        // Which of two equal changes is found first depends on the number of CPUs.
        if !line.contains("--set") && !line.contains("time in") {
            assert!(
                shown.contains(line),
                "docs/locate.md does not show {line:?}"
            );
        }
    }
}

/// A transcript of the manual: what was typed, and the lines that it shows of what was printed.
fn transcript(section: &str) -> Vec<(String, Vec<String>)> {
    let mut out: Vec<(String, Vec<String>)> = Vec::new();
    for line in section.lines().filter_map(|l| l.strip_prefix("    ")) {
        if let Some(command) = line.strip_prefix("(gdb) ") {
            out.push((command.to_owned(), Vec::new()));
        } else if let Some((_, shown)) = out.last_mut() {
            shown.push(line.to_owned());
        }
    }
    out
}

/// What is shown of each command is printed by it, in that order.
#[test]
fn the_stories_of_debug_are_what_gdb_prints() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let manual = std::fs::read_to_string(root.join("docs/debug.md")).unwrap();
    for name in ["wrong_count", "stale_device"] {
        let start = format!("$ wherefore debug -- ./{name}\n");
        let section = manual.split(&start).nth(1).expect("a story");
        let section = section.split("\n## ").next().unwrap();
        let told_in_manual = transcript(section);
        assert!(told_in_manual.len() > 8, "{name}");
        let p = Place::new();
        let program = p.guest(&format!("debug/{name}.c"), &["-O0"]);
        p.run(&program, &[]).dies(11);
        let commands: String = (told_in_manual.iter())
            .map(|(c, _)| format!("{c}\n"))
            .collect();
        let ran = debug(&p, &commands);
        for ((command, shown), (_, printed)) in told_in_manual.iter().zip(told(&ran, &commands)) {
            let printed = plain(&printed);
            let mut rest = printed.iter();
            for line in plain(&shown.join("\n")) {
                assert!(
                    rest.any(|l| *l == line),
                    "{name}: {command} does not print {line:?}:\n{}",
                    printed.join("\n")
                );
            }
        }
    }
}

/// As `steady`, and without folders, numbers of processes and addresses.
fn plain(text: &str) -> Vec<String> {
    let words = |l: &str| -> Vec<String> {
        l.split_whitespace()
            .map(|w| match w.rsplit_once('/') {
                Some((_, name)) => name.to_owned(),
                None => w.to_owned(),
            })
            .map(|w| match w.trim_end_matches([')', ',']) {
                "ADDRESS" => "~".to_owned(),
                number if number.len() > 3 && number.bytes().all(|b| b.is_ascii_digit()) => {
                    "~".to_owned()
                }
                _ => w,
            })
            .collect()
    };
    steady(text).iter().map(|l| words(l).join(" ")).collect()
}
