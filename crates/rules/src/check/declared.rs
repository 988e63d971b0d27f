//! Allocators that the user declares.

use crate::diagnostic::Diagnostic;
use crate::syntax::{Allocator, Name};
use crate::term::Pair;

pub(super) fn pair(a: &Allocator, wrong: &mut Vec<Diagnostic>) -> Option<Pair> {
    let position = |list: &[Name], names: &[&str]| -> Vec<u8> {
        let found = list.iter().enumerate();
        let found = found.filter(|(_, n)| names.contains(&n.text.as_str()));
        found.map(|(i, _)| i as u8).collect()
    };
    let size = position(&a.allocate_parameters, &["size", "count"]);
    let pointer = position(&a.release_parameters, &["ptr"]);
    if size.is_empty() {
        let text = format!("which parameter of `{}` is the size?", a.allocate.text);
        wrong.push(
            Diagnostic::error(a.allocate.span, text)
                .help("call it `size`; with a second one called `count`, the product counts"),
        );
    }
    if pointer.len() != 1 {
        let text = format!("which parameter of `{}` is the pointer?", a.release.text);
        wrong.push(Diagnostic::error(a.release.span, text).help("call it `ptr`"));
    }
    let most = a.allocate_parameters.len().max(a.release_parameters.len());
    if most > 6 {
        let text = "only the first six parameters of a function are known".to_owned();
        wrong.push(Diagnostic::error(a.allocate.span, text));
    }
    Some(Pair {
        allocate: a.allocate.text.clone(),
        size: if size.is_empty() { return None } else { size },
        release: a.release.text.clone(),
        pointer: *pointer.first()?,
    })
}
