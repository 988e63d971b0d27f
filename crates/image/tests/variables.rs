//! Local and global variables against gdb's `info locals` and `print`.

mod harness;

use std::collections::BTreeMap;

use harness::{Core, compile, crash, directory, gdb, load};

/// gdb's `name = value` lines for a frame.
fn expected(core: &Core, frame: usize, command: &str) -> BTreeMap<String, String> {
    let select = format!("frame {frame}");
    let text = gdb(core, &[&select, "echo ---\\n", command]);
    let text = text.rsplit("---\n").next().unwrap();
    text.lines()
        .filter_map(|line| line.split_once(" = "))
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect()
}

#[track_caller]
fn check(test: &str, source: &str, flag_sets: &[&str], frame: usize, least: usize) {
    let directory = directory(test);
    for (index, flags) in flag_sets.iter().enumerate() {
        let flags: Vec<&str> = flags.split_whitespace().collect();
        let program = compile(&directory, &format!("p{index}"), source, &flags);
        let core = crash(&program);
        let image = load(&core);
        let frames = image.unwind(&core.registers, &core, 20);
        let locals = image.locals(&frames[frame], &core);
        for (command, is_argument) in [("info locals", false), ("info args", true)] {
            let expected = expected(&core, frame, command);
            let ours: BTreeMap<String, String> = locals
                .iter()
                .filter(|v| v.is_argument == is_argument)
                .map(|v| (v.name.clone(), v.value.clone()))
                .collect();
            assert_eq!(ours, expected, "{command} with {flags:?}");
        }
        assert!(locals.len() >= least, "{locals:#?}");
        // The types, as gdb spells them.
        for variable in &locals {
            let select = format!("frame {frame}");
            let ask = format!("whatis {}", variable.name);
            let text = gdb(&core, &[&select, "echo ---\\n", &ask]);
            let expected = text.rsplit("---\ntype = ").next().unwrap().trim();
            // gdb shortens the name the compiler gave in full.
            let ours = variable.type_name.replace("long long int", "long long");
            assert_eq!(ours, expected, "{} with {flags:?}", variable.name);
        }
    }
}

#[test]
fn locals_of_many_types() {
    check(
        "locals_c",
        r#"
#include <string.h>
#include <stdio.h>
typedef unsigned int word;
typedef struct { double re, im; } complex_t;
struct node { struct node *next; int value; };
enum state { IDLE, BUSY = 10 };
int *volatile nothing;
static int counter = 7;
int add(int a, int b) { return a + b; }
int work(int size, const char *label) {
    int numbers[4] = {1, 2, 3, 4};
    int grid[2][3] = {{1, 2, 3}, {4, 5, 6}};
    int zeros[100];
    char name[16];
    word w = 0xfffffff0;
    complex_t c = {1.5, -2};
    struct node tail = {0, 2}, head = {&tail, 1};
    struct node *list = &head;
    enum state s = BUSY;
    int (*operation)(int, int) = add;
    const char *const words[2] = {"one", "two"};
    unsigned char bytes[3] = {1, 2, 3};
    long long big = -9000000000000000000ll;
    float half = 0.5f;
    void *nowhere = 0;
    int **pp = (int **)&nothing;
    static int calls = 3;
    memset(zeros, 0, sizeof zeros);
    strcpy(name, "abc");
    {
        int inside = size + 1;
        calls += inside + *nothing;
    }
    printf("%p %d %f %d", (void *)list, numbers[0], c.re, operation(1, 2));
    printf("%d %d %s %d %lld %f %p %p %s", w, s, words[0], bytes[0], big, half, nowhere, (void *)pp, name);
    return grid[1][1] + counter;
}
int main(void) { return work(3, "label"); }
"#,
        &["-g -O0", "-g -gdwarf-4 -O0"],
        0,
        16,
    );
}

#[test]
fn globals_by_name() {
    let directory = directory("globals");
    let source = r#"
struct pair { int a, b; } pair = {1, 2};
static const char *greeting = "hello";
int table[5] = {5, 4, 3, 2, 1};
int *volatile nothing;
int main(void) { return *nothing + greeting[0]; }
"#;
    let program = compile(&directory, "p", source, &["-g", "-O0"]);
    let core = crash(&program);
    let image = load(&core);
    for name in ["pair", "greeting", "table", "nothing"] {
        let text = gdb(&core, &["echo ---\\n", &format!("print {name}")]);
        let expected = text.rsplit("$1 = ").next().unwrap().trim();
        // gdb names the type of a pointer that stands alone.
        let expected = match expected.strip_prefix('(') {
            Some(rest) => rest.split_once(") ").unwrap().1,
            None => expected,
        };
        let ours = image.global(name, &core).unwrap();
        assert_eq!(ours.value, expected, "{name}");
        let symbol = image.data_symbol(ours.address.unwrap()).unwrap();
        assert_eq!((symbol.name.as_str(), symbol.offset), (name, 0));
    }
    assert_eq!(image.global("absent", &core), None);
}

/// rustc's own programs: names without hashes, and text for `&str`.
#[test]
fn a_rust_program() {
    let directory = directory("rust");
    let source = r#"
struct Point { x: i32, y: i32 }
#[inline(never)]
fn leaf(text: &str, point: &Point, n: u64) -> i32 {
    let p = std::hint::black_box(std::ptr::null::<i32>());
    unsafe { p.read_volatile() + point.x + point.y + text.len() as i32 + n as i32 }
}
fn main() { std::process::exit(leaf("some text", &Point { x: 3, y: 4 }, 99)); }
"#;
    std::fs::write(directory.join("p.rs"), source).unwrap();
    let flags = [
        "-g",
        "-Cdebug-assertions=off",
        "-Coverflow-checks=off",
        "p.rs",
    ];
    harness::run("rustc", &flags, &directory);
    let core = crash(&directory.join("p"));
    let image = load(&core);
    let frames = image.backtrace(&core.registers, &core, 40);
    let leaf = frames
        .iter()
        .position(|f| f.function.as_deref() == Some("p::leaf"));
    let leaf = leaf.unwrap_or_else(|| panic!("{frames:#?}"));
    assert_eq!(frames[leaf + 1].function.as_deref(), Some("p::main"));
    let arguments: Vec<String> = frames[leaf]
        .arguments
        .iter()
        .map(|a| format!("{}={}", a.name, a.value))
        .collect();
    assert_eq!(arguments[0], "text=\"some text\"");
    assert_eq!(arguments[2], "n=99");
    assert!(frames.iter().any(|f| f.function.as_deref() == Some("main")));
}
