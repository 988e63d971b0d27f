//! Places in a run, as they are typed.

use std::fmt;

/// A place in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Point {
    /// Where the guest died.
    Crash,
    Step(u64),
    /// The n-th time that a line is reached, from 1; the last time if no number is given.
    Line {
        file: String,
        line: u32,
        nth: Option<u64>,
    },
    /// The same for the entry of a function.
    Function {
        name: String,
        nth: Option<u64>,
    },
}

/// A part of a run: from one place to another, or from the beginning or to the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// The first time, if the place has no number.
    pub from: Option<Point>,
    /// The last time, if it has none.
    pub to: Option<Point>,
}

impl Point {
    /// The first time, unless it is said which.
    pub(crate) fn first(&self) -> Point {
        let mut first = self.clone();
        if let Point::Line { nth, .. } | Point::Function { nth, .. } = &mut first {
            nth.get_or_insert(1);
        }
        first
    }

    /// `crash`, a step, `FILE:LINE[#N]` or `FUNCTION[#N]`.
    pub fn parse(text: &str) -> Result<Point, String> {
        let text = text.trim();
        if text == "crash" {
            return Ok(Point::Crash);
        }
        let digits = text.replace([',', '_'], "");
        if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
            let step = digits.parse();
            return step
                .map(Point::Step)
                .map_err(|_| format!("`{text}` is too large for a step"));
        }
        let (place, nth) = match text.rsplit_once('#') {
            None => (text, None),
            Some((place, n)) => match n.replace([',', '_'], "").parse::<u64>() {
                Ok(n) if n > 0 => (place, Some(n)),
                _ => {
                    return Err(format!(
                        "`#{n}` does not say which time: write `#1`, `#2`, ..."
                    ));
                }
            },
        };
        if let Some((file, line)) = place.rsplit_once(':')
            && !file.ends_with(':')
        {
            let number = line.parse().ok().filter(|n| *n > 0);
            let line = number.ok_or(format!("`{line}` is not the number of a line"))?;
            if file.is_empty() {
                return Err("there is no file before the `:`".to_owned());
            }
            return Ok(Point::Line {
                file: file.to_owned(),
                line,
                nth,
            });
        }
        if place.is_empty() {
            return Err("a place is `crash`, a step, FILE:LINE[#N] or FUNCTION[#N]".to_owned());
        }
        Ok(Point::Function {
            name: place.to_owned(),
            nth,
        })
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nth = |n: &Option<u64>| n.map_or(String::new(), |n| format!("#{n}"));
        match self {
            Point::Crash => f.write_str("crash"),
            Point::Step(step) => write!(f, "step {step}"),
            Point::Line { file, line, nth: n } => write!(f, "{file}:{line}{}", nth(n)),
            Point::Function { name, nth: n } => write!(f, "{name}{}", nth(n)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed() {
        let line = |file: &str, line, nth| Point::Line {
            file: file.into(),
            line,
            nth,
        };
        assert_eq!(Point::parse("crash"), Ok(Point::Crash));
        assert_eq!(Point::parse("1,234"), Ok(Point::Step(1234)));
        assert_eq!(Point::parse("a/b.c:12"), Ok(line("a/b.c", 12, None)));
        assert_eq!(Point::parse("b.c:12#3"), Ok(line("b.c", 12, Some(3))));
        let function = Point::Function {
            name: "ns::f".into(),
            nth: Some(2),
        };
        assert_eq!(Point::parse("ns::f#2"), Ok(function));
        for wrong in [
            "",
            "b.c:",
            "b.c:x",
            ":3",
            "f#0",
            "f#x",
            "b.c:0",
            "99999999999999999999",
        ] {
            assert!(Point::parse(wrong).is_err(), "{wrong}");
        }
    }
}
