//! Any text is a rules file or gets complaints whose places are in the text.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let (_, complaints) = rules::compile(text);
    for complaint in complaints {
        assert!(
            text.get(complaint.span.start..complaint.span.end).is_some(),
            "{complaint:?}"
        );
    }
});
