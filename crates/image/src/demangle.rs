//! Names as people write them.
//!
//! Symbol tables hold encoded names. Reports want `ns::Shape::area` where the table says
//! `_ZNK2ns5Shape4areaEv`, and without the parameter types, because the arguments follow.

use cpp_demangle::{DemangleOptions, Symbol};

/// Mangled names longer than this are shown as they are: the expansion can be exponential.
const LONGEST: usize = 16 * 1024;

/// The readable form of a linker name, without parameter types and without hashes.
pub fn demangle(raw: &str) -> String {
    if raw.len() > LONGEST {
        return raw.to_string();
    }
    if let Ok(name) = rustc_demangle::try_demangle(raw) {
        return format!("{name:#}");
    }
    if raw.starts_with("_Z") || raw.starts_with("__Z") {
        let options = DemangleOptions::new()
            .no_params()
            .no_return_type()
            .recursion_limit(128);
        if let Some(name) = Symbol::new(raw)
            .ok()
            .and_then(|symbol| symbol.demangle_with_options(&options).ok())
        {
            return usual_spelling(name);
        }
    }
    raw.to_string()
}

/// The demangler writes `{vtable(Shape)}` where all other tools write `vtable for Shape`.
fn usual_spelling(name: String) -> String {
    let special = name
        .strip_prefix('{')
        .and_then(|n| n.strip_suffix(")}"))
        .and_then(|n| n.split_once('('));
    match special {
        Some((what, of)) if !what.contains(['{', ':']) => format!("{what} for {of}"),
        _ => name,
    }
}

/// Whether a name as typed means this function: all of it, or the tail of its qualified name.
pub(crate) fn matches(full: &str, asked: &str) -> bool {
    let is_tail = |full: &str| {
        full.strip_suffix(asked)
            .is_some_and(|front| front.is_empty() || front.ends_with("::"))
    };
    is_tail(full) || is_tail(without_template_arguments_at_end(full))
}

/// `max<int>` may be asked for as `max`. Only arguments at the end are dropped.
fn without_template_arguments_at_end(name: &str) -> &str {
    if !name.ends_with('>') || name.ends_with("->") || name.contains("operator") {
        return name;
    }
    let mut depth = 0usize;
    for (at, byte) in name.bytes().enumerate().rev() {
        match byte {
            b'>' => depth += 1,
            b'<' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return &name[..at];
                }
            }
            _ => {}
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::{demangle, matches};

    #[test]
    fn names_are_readable() {
        assert_eq!(demangle("_ZNK2ns5Shape4areaEv"), "ns::Shape::area");
        assert_eq!(
            demangle("_ZN4core3fmt5write17h0123456789abcdefE"),
            "core::fmt::write"
        );
        assert_eq!(demangle("_ZTVN2ns5ShapeE"), "vtable for ns::Shape");
        assert_eq!(demangle("main"), "main");
        assert_eq!(demangle("_Znonsense"), "_Znonsense");
    }

    #[test]
    fn asked_names_match_tails_only_at_a_separator() {
        assert!(matches("ns::Shape::area", "Shape::area"));
        assert!(matches("ns::Shape::area", "area"));
        assert!(matches("std::max<int>", "max"));
        assert!(!matches("ns::Shape::area", "rea"));
        assert!(!matches("ns::area::x", "area"));
    }
}
