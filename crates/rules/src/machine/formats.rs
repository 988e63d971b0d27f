//! Formats of `printf` and its kin: which arguments they ask for.
//!
//! Nearly all of them are constants, which the program's files have. Of others nothing is said here.

use std::sync::Arc;

use image::Program;
use rustc_hash::FxHashMap;

/// Bytes of a format that are looked at.
const MOST: usize = 4096;
/// Arguments of one call that are looked at.
const MOST_ARGUMENTS: usize = 64;

/// How an argument is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// In a general register, of which so many bytes count.
    General(u8),
    /// In a vector register.
    Double,
    /// In memory, 16 bytes of which ten count.
    Long,
}

impl Kind {
    pub(super) fn bytes(self) -> u8 {
        match self {
            Kind::General(n) => n,
            Kind::Double => 8,
            Kind::Long => 10,
        }
    }
}

/// An argument that a format asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Its number among those behind the format, from 1 on.
    pub(super) position: usize,
    pub(super) kind: Kind,
    /// The conversion, such as `%d`.
    pub(super) text: String,
}

/// Where an argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In this register of those that arguments are passed in.
    General(u8),
    Vector(u8),
    /// So many words behind the return address.
    Stack(u16),
}

type Parsed = Option<Arc<[Wanted]>>;

/// Formats that were read.
#[derive(Default)]
pub(super) struct Formats {
    known: FxHashMap<(u64, bool), Parsed>,
    /// The files that they were read from.
    read: Option<Arc<Program>>,
}

impl Formats {
    /// What the format at an address asks for, if it is a constant and makes sense.
    pub(super) fn at(&mut self, at: u64, wide: bool, program: Option<&Arc<Program>>) -> Parsed {
        let program = program?;
        if !self.read.as_ref().is_some_and(|p| Arc::ptr_eq(p, program)) {
            self.known.clear();
            self.read = Some(program.clone());
        }
        let read = || {
            let bytes = program.constant(at, MOST)?;
            let text = match wide {
                true => narrow(&bytes)?,
                false => {
                    let end = bytes.iter().position(|b| *b == 0)?;
                    bytes[..end].to_vec()
                }
            };
            parse(&text).map(Arc::from)
        };
        self.known.entry((at, wide)).or_insert_with(read).clone()
    }
}

/// The same with a byte for each wide character. Conversions are all ASCII.
fn narrow(bytes: &[u8]) -> Option<Vec<u8>> {
    let (words, _) = bytes.as_chunks::<4>();
    let words: Vec<u32> = words.iter().map(|w| u32::from_le_bytes(*w)).collect();
    let end = words.iter().position(|w| *w == 0)?;
    let byte = |w: &u32| if *w < 0x80 { *w as u8 } else { 0xff };
    Some(words[..end].iter().map(byte).collect())
}

/// A format that is being read.
struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    /// The number of the next argument that is not asked for by number.
    next: usize,
    numbered: bool,
    out: Vec<Wanted>,
}

/// The arguments that a format asks for, in their order. None if one of its conversions is not known, or if it is not known
/// where all of them are.
pub(super) fn parse(text: &[u8]) -> Option<Vec<Wanted>> {
    let mut reader = Reader {
        text,
        at: 0,
        next: 1,
        numbered: false,
        out: Vec::new(),
    };
    while let Some(n) = reader.text[reader.at..].iter().position(|b| *b == b'%') {
        reader.at += n;
        reader.conversion()?;
    }
    let (mut out, numbered) = (reader.out, reader.numbered);
    out.sort_by_key(|w| w.position);
    let last = out.last().map_or(0, |w| w.position);
    if numbered && reader.next > 1 || last > MOST_ARGUMENTS {
        return None;
    }
    // One that is asked for twice is passed in one way.
    let alike = out.windows(2).all(|w| {
        let same = w[0].position == w[1].position;
        !same || std::mem::discriminant(&w[0].kind) == std::mem::discriminant(&w[1].kind)
    });
    let gaps = out.windows(2).any(|w| w[1].position > w[0].position + 1);
    let first = out.first().is_none_or(|w| w.position == 1);
    (alike && !gaps && first).then_some(out)
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn number(&mut self) -> Option<usize> {
        let digits = self.text[self.at..].iter();
        let len = digits.take_while(|b| b.is_ascii_digit()).count();
        let text = std::str::from_utf8(&self.text[self.at..self.at + len]).ok()?;
        self.at += len;
        text.parse().ok()
    }

    /// `12$`
    fn position(&mut self) -> Option<usize> {
        let before = self.at;
        let n = self.number().filter(|_| self.peek() == Some(b'$'));
        match n {
            Some(_) => {
                self.at += 1;
                self.numbered = true;
            }
            None => self.at = before,
        }
        n
    }

    fn want(&mut self, position: Option<usize>, kind: Kind, text: &str) {
        let position = position.unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        });
        self.out.push(Wanted {
            position,
            kind,
            text: text.to_owned(),
        });
    }

    /// A width or precision.
    fn amount(&mut self) {
        if self.peek() == Some(b'*') {
            self.at += 1;
            let position = self.position();
            self.want(position, Kind::General(4), "*");
        } else {
            self.number();
        }
    }

    fn conversion(&mut self) -> Option<()> {
        let begin = self.at;
        self.at += 1;
        let position = self.position();
        while self.peek().is_some_and(|b| b"-+ #0'I".contains(&b)) {
            self.at += 1;
        }
        self.amount();
        if self.peek() == Some(b'.') {
            self.at += 1;
            if self.peek() == Some(b'-') {
                self.at += 1;
            }
            self.amount();
        }
        let length = self.at;
        while self.peek().is_some_and(|b| b"hlqjztZL".contains(&b)) {
            self.at += 1;
        }
        let length = &self.text[length..self.at];
        let conversion = self.peek()?;
        self.at += 1;
        let kind = match (conversion, length) {
            (b'%', _) | (b'm', b"") => return Some(()),
            (b'd' | b'i' | b'o' | b'u' | b'x' | b'X', _) => Kind::General(match length {
                b"hh" => 1,
                b"h" => 2,
                b"" => 4,
                b"l" | b"ll" | b"q" | b"j" | b"z" | b"t" | b"Z" | b"L" => 8,
                _ => return None,
            }),
            (b'c', b"") => Kind::General(1),
            (b'c', b"l") | (b'C', b"") => Kind::General(4),
            (b's', b"" | b"l" | b"h") | (b'S', b"") | (b'p', b"") | (b'n', _) => Kind::General(8),
            (b'a' | b'A' | b'e' | b'E' | b'f' | b'F' | b'g' | b'G', b"" | b"l") => Kind::Double,
            (b'a' | b'A' | b'e' | b'E' | b'f' | b'F' | b'g' | b'G', b"L") => Kind::Long,
            _ => return None,
        };
        let text = String::from_utf8_lossy(&self.text[begin..self.at]).into_owned();
        self.want(position, kind, &text);
        Some(())
    }
}

/// Where the arguments of a format are, if so many general registers, vector registers and words have others.
pub(super) fn places(list: &[Wanted], before: (u8, u8, u16)) -> Vec<Place> {
    let (mut general, mut vector, mut stack) = before;
    let mut out: Vec<Place> = Vec::new();
    for (n, wanted) in list.iter().enumerate() {
        // It was asked for before.
        if n > 0 && list[n - 1].position == wanted.position {
            out.push(out[n - 1]);
            continue;
        }
        out.push(match wanted.kind {
            Kind::General(_) if general < 6 => {
                general += 1;
                Place::General(general - 1)
            }
            Kind::Double if vector < 8 => {
                vector += 1;
                Place::Vector(vector - 1)
            }
            Kind::Long => {
                // The first word behind the return address is at a multiple of 16.
                stack = u16::next_multiple_of(stack, 2) + 2;
                Place::Stack(stack - 2)
            }
            Kind::General(_) | Kind::Double => {
                stack += 1;
                Place::Stack(stack - 1)
            }
        });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn asks(format: &str, wanted: &[(usize, Kind, &str)]) {
        let list = parse(format.as_bytes()).expect(format);
        let list: Vec<_> = list
            .iter()
            .map(|w| (w.position, w.kind, &*w.text))
            .collect();
        assert_eq!(list, wanted, "{format}");
    }

    #[test]
    fn conversions_ask_for_arguments() {
        use Kind::{Double, General, Long};
        asks("plain, 100%%, %m\n", &[]);
        asks("%d %hhd", &[(1, General(4), "%d"), (2, General(1), "%hhd")]);
        asks(
            "%-08lx|%zu",
            &[(1, General(8), "%-08lx"), (2, General(8), "%zu")],
        );
        asks("%5.2f%Lg", &[(1, Double, "%5.2f"), (2, Long, "%Lg")]);
        let starred = [
            (1, General(4), "*"),
            (2, General(4), "*"),
            (3, Double, "%*.*e"),
        ];
        asks("%*.*e", &starred);
        asks(
            "%lc%c%s",
            &[
                (1, General(4), "%lc"),
                (2, General(1), "%c"),
                (3, General(8), "%s"),
            ],
        );
        asks(
            "%2$s %1$d",
            &[(1, General(4), "%1$d"), (2, General(8), "%2$s")],
        );
        let again = [
            (1, General(4), "%1$*2$d"),
            (1, General(4), "%1$x"),
            (2, General(4), "*"),
        ];
        asks("%1$*2$d %1$x", &again);
        asks("%n%p", &[(1, General(8), "%n"), (2, General(8), "%p")]);
    }

    #[test]
    fn nothing_is_said_of_what_is_not_known() {
        for format in [
            "%k",
            "%",
            "%w8d",
            "%2$d",
            "%1$d %d",
            "%1$d %1$f",
            "%hhhd",
            "%99$d",
        ] {
            assert_eq!(parse(format.as_bytes()), None, "{format}");
        }
    }

    #[test]
    fn arguments_are_in_registers_first() {
        use Place::{General, Stack, Vector};
        let at =
            |format: &str, before| places(&parse(format.as_bytes()).expect(format), (before, 0, 0));
        assert_eq!(at("%d%g%s", 1), [General(1), Vector(0), General(2)]);
        assert_eq!(
            at("%d%d%d%g", 4),
            [General(4), General(5), Stack(0), Vector(0)]
        );
        assert_eq!(at("%d%Lf%d", 6), [Stack(0), Stack(2), Stack(4)]);
        let many = at("%f%f%f%f%f%f%f%f%f%d", 1);
        assert_eq!(many[7..], [Vector(7), Stack(0), General(1)]);
        assert_eq!(at("%1$d %1$x %2$d", 5), [General(5), General(5), Stack(0)]);
        let rest = parse(b"%d%g%d%Lf%g").expect("a format");
        assert_eq!(
            places(&rest, (5, 7, 1)),
            [General(5), Vector(7), Stack(1), Stack(2), Stack(4)]
        );
    }

    #[test]
    fn wide_formats_are_read_as_bytes() {
        let wide: Vec<u8> = "%d\u{e9}"
            .chars()
            .chain(['\0', 'x'])
            .flat_map(|c| u32::from(c).to_le_bytes())
            .collect();
        assert_eq!(narrow(&wide), Some(b"%d\xff".to_vec()));
        assert_eq!(narrow(&wide[..8]), None);
    }
}
