//! Backtraces against gdb's, on the same core.

mod harness;

use harness::{Core, compile, crash, directory, gdb, load};

/// gdb's frames as `function file:line`.
fn expected(core: &Core) -> Vec<String> {
    let text = gdb(core, &["bt"]);
    let mut out = Vec::new();
    for line in text.lines().filter(|l| l.starts_with('#')) {
        out.push(line.to_string());
    }
    out
}

#[test]
fn show() {
    let dir = directory("show");
    let source = r#"
#include <stdlib.h>
int *nothing;
__attribute__((noinline)) int leaf(int a, const char *text) { return *nothing + a + text[0]; }
int main(int argc, char **argv) { return leaf(argc + 4, "abc"); }
"#;
    let program = compile(&dir, "show", source, &["-g", "-O2"]);
    let core = crash(&program);
    let image = load(&core);
    println!("{:#?}", expected(&core));
    for f in image.backtrace(&core.registers, &core, 50) {
        println!(
            "{:?} {:?} {:?}:{:?} {:?} {:?}",
            f.function, f.module_offset, f.file, f.line, f.arguments, f.how
        );
    }
    println!("{:?} {:?}", image.warnings(), image.modules());
}
