//! The shipped files are right, and print as they were written.

use rules::{SHIPPED, compile, parse, print};

#[test]
fn shipped_files_have_no_faults() {
    for file in SHIPPED {
        let (_, wrong) = compile(file.text);
        let shown: Vec<String> = wrong
            .iter()
            .map(|d| d.render(file.name, file.text))
            .collect();
        assert!(shown.is_empty(), "{}", shown.join("\n"));
    }
}

#[test]
fn printed_files_parse_to_the_same() {
    for file in SHIPPED {
        let (items, _) = parse(file.text);
        let once = print::print(&items);
        let (again, wrong) = parse(&once);
        assert!(wrong.is_empty(), "{once}\n{wrong:?}");
        assert_eq!(print::print(&again), once);
    }
}
