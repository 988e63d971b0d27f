//! Backtraces against gdb's, on the same core.
//!
//! Every program here crashes; gdb stops it, writes a core and reads it back. Our frames must
//! have gdb's functions, lines and argument values, whatever the flags.

mod harness;

use harness::{Core, compile, crash, directory, gdb, load, stop};
use image::{Frame, How};

/// A frame as both sides can show it.
#[derive(Debug, Clone, PartialEq)]
struct Shown {
    /// `function (arguments)`, the arguments by name.
    call: String,
    /// `file:line`, without directories.
    place: Option<String>,
}

impl Shown {
    fn function(&self) -> &str {
        self.call.split(" (").next().unwrap()
    }
}

/// gdb's frames, without those it infers from tail calls, and the indices of frames such an
/// inferred frame stood behind: what gdb knows of their arguments it knows from there.
fn expected(core: &Core) -> (Vec<Shown>, Vec<usize>) {
    let list_tail_calls = "python f = gdb.newest_frame()\nwhile f:\n  print('level', f.level(), f.type() == gdb.TAILCALL_FRAME)\n  f = f.older()";
    let script = core.path.with_extension("gdb");
    let commands = format!("{}\nend\n", list_tail_calls.replacen(' ', "\n", 1));
    std::fs::write(&script, commands).unwrap();
    let text = gdb(core, &["bt", &format!("source {}", script.display())]);
    let tail_calls: Vec<String> = text
        .lines()
        .filter_map(|l| l.strip_prefix("level ")?.strip_suffix(" True"))
        .map(|level| format!("#{level} "))
        .collect();
    let mut frames: Vec<Shown> = Vec::new();
    let mut vague = Vec::new();
    for line in text.lines().filter(|l| l.starts_with('#')) {
        // gdb shows the innermost frame once more when it opens the core.
        if line.starts_with("#0 ") {
            frames.clear();
        }
        if tail_calls.iter().any(|t| line.starts_with(t)) {
            vague.push(frames.len() - 1);
            continue;
        }
        let line = line.split_once(' ').unwrap().1.trim_start();
        let line = match line.split_once(" in ") {
            Some((address, rest)) if address.starts_with("0x") => rest,
            _ => line,
        };
        let line = match line.rsplit_once(" from ") {
            Some((front, _)) => front,
            None => line,
        };
        let (call, place) = match line.rsplit_once(" at ") {
            Some((front, place)) => (front, place.rsplit('/').next().map(str::to_string)),
            None => (line, None),
        };
        frames.push(Shown {
            call: sorted(&call.replace("<main()>", "<main>")),
            place,
        });
    }
    (frames, vague)
}

/// A frame with its arguments by name: gdb lists those of inlined calls in the order the compiler
/// happened to write them, we in that of the declaration.
fn sorted(frame: &str) -> String {
    let (Some(open), Some(close)) = (frame.find(" ("), frame.rfind(')')) else {
        return frame.to_string();
    };
    let text = &frame[open + 2..close];
    let mut arguments = vec![String::new()];
    let (mut depth, mut quoted, mut escaped) = (0, false, false);
    for c in text.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => quoted = !quoted,
            '{' | '(' if !quoted => depth += 1,
            '}' | ')' if !quoted => depth -= 1,
            ',' if !quoted && depth == 0 => {
                arguments.push(String::new());
                continue;
            }
            _ => {}
        }
        arguments.last_mut().unwrap().push(c);
    }
    let mut arguments: Vec<&str> = arguments.iter().map(|a| a.trim()).collect();
    arguments.sort_unstable();
    format!(
        "{} ({}{}",
        &frame[..open],
        arguments.join(", "),
        &frame[close..]
    )
}

fn shown(frame: &Frame) -> Shown {
    if frame.is_signal_frame {
        return Shown {
            call: "<signal handler called>".into(),
            place: None,
        };
    }
    let arguments: Vec<String> = frame
        .arguments
        .iter()
        .map(|a| format!("{}={}", a.name, a.value))
        .collect();
    let function = frame.function.as_deref().unwrap_or("??");
    let place = match (&frame.file, frame.line) {
        (Some(file), Some(line)) => Some(format!("{}:{line}", file.file_name().unwrap().display())),
        _ => None,
    };
    Shown {
        call: sorted(&format!("{function} ({})", arguments.join(", "))),
        place,
    }
}

/// What binutils says about the line of an innermost frame. gdb prefers the last row of the line
/// table that begins a statement, even if a later row at the same address is more precise.
fn line_by_addr2line(core: &Core, frame: &Frame) -> Option<String> {
    let module = frame.module.as_ref()?.display().to_string();
    let offset = frame.module_offset.as_ref()?.rsplit('+').next()?;
    let text = harness::run("addr2line", &["-e", &module, offset], core.path.parent()?);
    let place = text.trim().rsplit('/').next()?;
    Some(place.split(' ').next()?.to_string())
}

/// Whether two names are for one address of the program, when there is only the symbol table.
fn are_aliases(core: &Core, one: &str, other: &str) -> bool {
    // gdb drops the number of a part of a function: `sort.part.0` is its `sort.part`.
    if one.strip_suffix(".0") == Some(other) {
        return true;
    }
    let program = core.program.display().to_string();
    let symbols = harness::run("nm", &[&program], core.path.parent().unwrap());
    let address = |name: &str| {
        let ending = format!(" {name}");
        let line = symbols.lines().find(|l| l.ends_with(&ending))?;
        line.split(' ').next()
    };
    address(one).is_some() && address(one) == address(other)
}

/// Builds with each set of flags, crashes, and compares the whole stack.
#[track_caller]
fn check(test: &str, source: &str, flag_sets: &[&str]) {
    let directory = directory(test);
    for (index, flags) in flag_sets.iter().enumerate() {
        let flags: Vec<&str> = flags.split_whitespace().collect();
        let program = compile(&directory, &format!("p{index}"), source, &flags);
        let core = stop(&program, &["handle SIGFPE nostop noprint pass", "run"]);
        let image = load(&core);
        let frames = image.backtrace(&core.registers, &core, 100);
        assert_eq!(image.warnings(), Vec::<String>::new());
        let (expected, vague) = expected(&core);
        let ours: Vec<Shown> = frames.iter().map(shown).collect();
        assert!(expected.len() > 2, "gdb has no stack: {expected:#?}");
        let both = format!("with {flags:?}: ours\n{ours:#?}\ngdb's\n{expected:#?}");
        assert_eq!(ours.len(), expected.len(), "{both}");
        for (at, (ours, expected)) in ours.iter().zip(&expected).enumerate() {
            if vague.contains(&at) || ours.place.is_none() {
                let same = ours.function() == expected.function()
                    || are_aliases(&core, ours.function(), expected.function());
                assert!(same, "frame {at} {both}");
            } else {
                assert_eq!(ours.call, expected.call, "frame {at} {both}");
            }
            if ours.place != expected.place {
                assert_eq!(at, 0, "{both}");
                assert_eq!(ours.place, line_by_addr2line(&core, &frames[0]), "{both}");
            }
        }
    }
}

const ALL_FLAGS: &[&str] = &[
    "-g -O0",
    "-g -O2",
    "-g -gdwarf-4 -O0",
    "-g -gdwarf-4 -O2",
    "-g -O2 -no-pie -fno-pie",
    "-g -O1 -fomit-frame-pointer -fno-asynchronous-unwind-tables",
    "-g -O2 -gz",
    "-g -O3",
    "-g -Os",
    "-g -O2 -fdebug-types-section",
    "-g -O2 -static",
    "-g -O2 -flto",
];

#[test]
fn c_values_of_many_types() {
    check(
        "c_values",
        r#"
#include <stdio.h>
#include <stdbool.h>
enum colour { RED, GREEN = 5, BLUE };
enum mode { READ = 1, WRITE = 2, EXEC = 4 };
struct point { int x; short y; };
struct line { struct point from, to; const char *name; };
union word { int whole; float part; };
struct bits { unsigned a : 3; int b : 5; unsigned long c : 40; };
typedef int (*compare)(const void *, const void *);
int *nothing;
struct point corners[3] = {{1, 2}, {3, 4}, {5, 6}};
char text[16] = "in an array";
static int order(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
__attribute__((noinline)) int last(struct line l, union word w, struct bits b, struct point *p) {
    return *nothing + l.from.x + w.whole + b.a + p->x;
}
__attribute__((noinline)) int second(double d, float f, enum colour c, enum mode m, bool yes,
                                     compare how, char letter) {
    struct line l = {{1, 2}, {3, 4}, "a\tname\n"};
    union word w = {0x3fc00000};
    struct bits b = {5, -3, 77};
    int r = last(l, w, b, &corners[1]);
    return r + (int)d + (int)f + c + m + yes + letter + (how != 0);
}
__attribute__((noinline)) int first(int i, unsigned u, long l, unsigned char b, const char *s, void *v, char **a) {
    int r = second(2.5, -0.25f, GREEN, (enum mode)(READ | EXEC), true, order, 'x');
    printf("%d %u %ld %d %s %p %p\n", i, u, l, b, s, v, (void *)a);
    return r + i;
}
int main(int argc, char **argv) {
    int r = first(-argc, 4000000000u, -5000000000l, 200, "quote \" and back\\slash", corners, argv);
    puts("done");
    return r;
}
"#,
        ALL_FLAGS,
    );
}

#[test]
fn c_inlined_calls() {
    check(
        "c_inlined",
        r#"
#include <stdio.h>
volatile int sink;
int *volatile nothing;
static inline __attribute__((always_inline)) int innermost(int depth, int *p) {
    sink = depth;
    return *p + depth;
}
static inline __attribute__((always_inline)) int middle(int a) {
    int r = innermost(a + 1, nothing);
    return r * 2;
}
__attribute__((noinline)) int outer(int a, int b) {
    int r = middle(a * b);
    printf("%d\n", r);
    return r + b;
}
__attribute__((noinline)) int recurse(int n) {
    if (n == 0) return outer(3, 4);
    int r = recurse(n - 1);
    sink = r;
    return r + n;
}
int main(int argc, char **argv) { int r = recurse(3); puts("done"); return r; }
"#,
        ALL_FLAGS,
    );
}

#[test]
fn through_library_callbacks_and_abort() {
    check(
        "c_library",
        r#"
#include <stdlib.h>
#include <stdio.h>
static int compare(const void *a, const void *b) {
    if (*(const int *)a == 3) abort();
    return *(const int *)a - *(const int *)b;
}
int main(void) {
    int numbers[5] = {5, 3, 4, 1, 2};
    qsort(numbers, 5, sizeof numbers[0], compare);
    puts("done");
    return numbers[0];
}
"#,
        &["-g -O0", "-g -O2", "-O2 -s", "-g -O2 -static"],
    );
}

#[test]
fn through_a_signal_handler() {
    check(
        "c_signal",
        r#"
#include <signal.h>
#include <stdlib.h>
#include <stdio.h>
static void handler(int number) { abort(); }
__attribute__((noinline)) int raiser(int seed) {
    volatile int zero = 0;
    return seed / zero;
}
int main(void) {
    static char stack[65536];
    stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&other, 0);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigaction(SIGFPE, &action, 0);
    int r = raiser(7);
    puts("done");
    return r;
}
"#,
        &["-g -O0", "-g -O2"],
    );
}

#[test]
fn cpp_methods_templates_and_references() {
    check(
        "cpp",
        r#"
#include <cstdio>
#include <cstdlib>
namespace shapes {
struct Base { int id; virtual ~Base() {} virtual int area(int scale) const { return id * scale; } };
struct Square : Base {
    int side;
    explicit Square(int s) : side(s) { id = 9; }
    int area(int scale) const override;
};
int Square::area(int scale) const { if (side) std::abort(); return scale; }
template <typename T> __attribute__((noinline)) T twice(const T &value, const Base &shape) {
    T r = shape.area(value) * 2;
    std::puts("");
    return r;
}
}
namespace { __attribute__((noinline)) int hidden(int &count) { count++; int r = shapes::twice<int>(count, shapes::Square(4)); std::puts(""); return r; } }
int main() { int n = 3; int r = hidden(n); std::puts(""); return r; }
"#,
        &[
            "-xc++ -g -O0",
            "-xc++ -g -gdwarf-4 -O0",
            "-xc++ -g -O2",
            "-xc++ -g -O1 -gz",
            "-xc++ -g -O0 -fdebug-types-section",
        ],
    );
}

/// A call through a null pointer leaves no frame and no code at the program counter.
#[test]
fn a_call_to_nowhere() {
    let directory = directory("nowhere");
    for (name, target) in [("null", "0"), ("garbage", "0x1234567890")] {
        let source = format!(
            r#"
#include <stdio.h>
void (*volatile target)(int) = (void (*)(int)){target};
__attribute__((noinline)) int caller(int a) {{ target(a); puts(""); return a; }}
int main(void) {{ int r = caller(5); puts("done"); return r; }}
"#
        );
        let program = compile(&directory, name, &source, &["-g", "-O2"]);
        let core = crash(&program);
        let image = load(&core);
        let frames = image.backtrace(&core.registers, &core, 100);
        let names: Vec<_> = frames.iter().map(|f| f.function.as_deref()).collect();
        assert_eq!(
            names[..3],
            [None, Some("caller"), Some("main")],
            "{frames:#?}"
        );
        assert_eq!(frames[1].how, How::ReturnAddressAtTop);
        assert_eq!(frames[0].pc, core.registers.rip);
    }
}

/// Without any call frame information the frame pointer leads on, and without that a scan.
#[test]
fn without_call_frame_information() {
    let directory = directory("no_cfi");
    let source = r#"
#include <stdio.h>
int *volatile nothing;
__attribute__((noinline)) int leaf(int a) { char room[64]; snprintf(room, 9, "%d", a); return *nothing + room[0]; }
__attribute__((noinline)) int middle(int a) { int r = leaf(a); puts(""); return r; }
int main(void) { int r = middle(5); puts("done"); return r; }
"#;
    for (name, flag, how) in [
        ("pointer", "-fno-omit-frame-pointer", How::FramePointer),
        ("scan", "-fomit-frame-pointer", How::Scan),
    ] {
        let flags = [
            "-O1",
            flag,
            "-fno-asynchronous-unwind-tables",
            "-fno-unwind-tables",
        ];
        let program = compile(&directory, name, source, &flags);
        let core = crash(&program);
        let image = load(&core);
        let frames = image.backtrace(&core.registers, &core, 100);
        let names: Vec<_> = frames
            .iter()
            .filter_map(|f| f.function.as_deref())
            .collect();
        assert_eq!(names[0], "leaf");
        let at = |name| names.iter().position(|n| *n == name);
        let (middle, main) = (at("middle"), at("main"));
        assert!(middle.is_some() && middle < main, "{names:?}");
        assert_eq!(frames[middle.unwrap()].how, how, "{frames:#?}");
    }
}

/// A libc stripped of everything, as on most machines.
#[test]
fn libraries_without_debug_information() {
    let directory = directory("bare_libc");
    let libc = harness::run("gcc", &["-print-file-name=libc.so.6"], &directory);
    harness::run(
        "objcopy",
        &[
            "--strip-all",
            "--remove-section=.note.gnu.build-id",
            "--remove-section=.gnu_debuglink",
            libc.trim(),
            "libc.so.6",
        ],
        &directory,
    );
    let source = r#"
#include <stdlib.h>
#include <stdio.h>
static int compare(const void *a, const void *b) {
    if (*(const int *)a == 3) abort();
    return *(const int *)a - *(const int *)b;
}
int main(void) {
    int numbers[5] = {5, 3, 4, 1, 2};
    qsort(numbers, 5, sizeof numbers[0], compare);
    puts("done");
    return numbers[0];
}
"#;
    let program = compile(&directory, "sorter", source, &["-g", "-O2"]);
    let environment = format!("set environment LD_LIBRARY_PATH {}", directory.display());
    let core = stop(&program, &[&environment, "run"]);
    let image = load(&core);
    let libc = directory.join("libc.so.6");
    assert!(
        image.modules().iter().any(|m| m.name == libc),
        "another libc was used"
    );
    let frames = image.backtrace(&core.registers, &core, 100);
    let named: Vec<_> = frames
        .iter()
        .filter_map(|f| f.function.as_deref())
        .collect();
    for wanted in ["abort", "compare", "main", "_start"] {
        assert!(named.contains(&wanted), "{wanted} is not in {named:?}");
    }
    // Static functions of libc have no name left, but a place.
    assert!(frames.iter().any(|f| {
        f.function.is_none()
            && f.module_offset
                .as_ref()
                .is_some_and(|m| m.starts_with("libc.so.6+0x"))
    }));
    assert!(
        frames.iter().skip(1).all(|f| f.how == How::Cfi),
        "{frames:#?}"
    );
}
