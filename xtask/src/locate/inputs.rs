//! Tests for the programs in `guests/locate/`, made up from a fixed seed.

/// Arguments and standard input.
pub(crate) type Input = (Vec<String>, String);

/// Tests per program, from which suites are chosen.
pub(crate) const TESTS: usize = 1000;

struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }

    fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.roll(list.len() as u64) as usize]
    }
}

pub(crate) fn inputs(program: &str) -> Vec<Input> {
    let mut dice = Dice(program.bytes().map(u64::from).sum::<u64>() + 17);
    let make = match program {
        "alarm" => alarm,
        "tokens" => tokens,
        "sched" => sched,
        "subst" => subst,
        _ => stats,
    };
    (0..TESTS).map(|_| make(&mut dice)).collect()
}

fn alarm(dice: &mut Dice) -> Input {
    let altitude = 500 + dice.roll(3) * 100;
    let other = 500 + dice.roll(3) * 100;
    let separations = [
        "300", "399", "400", "450", "499", "500", "520", "560", "640", "700", "740", "760",
    ];
    let mut args = vec![
        u64::from(dice.roll(8) > 0).to_string(),
        u64::from(dice.roll(4) > 0).to_string(),
        dice.roll(2).to_string(),
        altitude.to_string(),
        dice.pick(&["300", "599", "600", "601", "650"]).to_owned(),
        other.to_string(),
        dice.roll(4).to_string(),
    ];
    args.push(dice.pick(&separations).to_owned());
    args.push(dice.pick(&separations).to_owned());
    args.push(
        if dice.roll(4) > 0 {
            0
        } else {
            1 + dice.roll(2)
        }
        .to_string(),
    );
    args.push((1 + dice.roll(2)).to_string());
    (args, String::new())
}

fn tokens(dice: &mut Dice) -> Input {
    let words = [
        "if",
        "not",
        "while",
        "x1",
        "_a",
        "foo_2",
        "12",
        "0x1f",
        "0X0",
        "1.5",
        "1.2.3",
        "0x1.2",
        "\"ab\"",
        "\"a\\\"b\"",
        "\"open\n",
        "<=",
        "!=",
        "+=",
        "->",
        "-<",
        "&&",
        "||",
        "&",
        "(",
        ")",
        ";",
        "$",
        "# note\n",
        "or",
        "==",
        "-",
        "else",
    ];
    let mut text = String::new();
    for _ in 0..2 + dice.roll(8) {
        text.push_str(dice.pick(&words));
        text.push_str(dice.pick(&[" ", " ", "\n", "\t", ""]));
    }
    (Vec::new(), text)
}

fn sched(dice: &mut Dice) -> Input {
    let args = (0..3).map(|_| dice.roll(4).to_string()).collect();
    let mut text = String::new();
    for _ in 0..2 + dice.roll(8) {
        let ratio = dice.pick(&["0", "0.3", "0.5", "0.9", "1"]);
        match dice.roll(8) {
            0 => text.push_str(&format!("new {}\n", dice.roll(5))),
            1 => text.push_str(&format!("up {} {ratio}\n", dice.roll(4))),
            2 | 3 => text.push_str("block\n"),
            4 => text.push_str(&format!("wake {ratio}\n")),
            5 => text.push_str("run\n"),
            6 => text.push_str("end\n"),
            _ => text.push_str("flush\n"),
        }
    }
    text.push_str("flush\n");
    (args, text)
}

fn subst(dice: &mut Dice) -> Input {
    let patterns = [
        "a", "ab", "a*", "ba*c", ".b", "a.c", "^a", "c$", "[a-c]", "[^a-c]", "[a-c]*x", "x*y",
        "\\*", "a$b", "[b-d]c", ".*", "^b*", "[^x]y", "z", "a**", "b**c",
    ];
    let by = ["X", "<&>", "", "\\&", "&&", "a\\tb"];
    let texts = [
        "abc", "aabbcc", "xyz", "bac", "", "a*c", "abcabc", "xxy", "a$b", "zzz c", "bbbaaac",
        "axbycz", "a*b**c",
    ];
    let args = vec![dice.pick(&patterns).to_owned(), dice.pick(&by).to_owned()];
    let mut text = String::new();
    for _ in 0..1 + dice.roll(3) {
        text.push_str(dice.pick(&texts));
        text.push('\n');
    }
    (args, text)
}

fn stats(dice: &mut Dice) -> Input {
    let mut text = String::new();
    for _ in 0..1 + dice.roll(2) {
        let (rows, columns) = (
            1 + dice.roll(3),
            if dice.roll(9) == 0 {
                12
            } else {
                1 + dice.roll(4)
            },
        );
        text.push_str(&format!("{rows} {columns}\n"));
        let below = dice.roll(5) == 0;
        for _ in 0..rows * columns {
            let n = dice.roll(30) as i64 - if below { 40 } else { 0 };
            text.push_str(&format!("{n} "));
        }
        text.push('\n');
    }
    (Vec::new(), text)
}
