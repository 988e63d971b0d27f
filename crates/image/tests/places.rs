//! Symbols, lines and functions against binutils and gdb.

mod harness;

use std::collections::BTreeSet;
use std::path::Path;

use harness::{compile, directory, run};
use image::{Mapping, Program};

const SOURCE: &str = r#"
#include <stdio.h>
#include <stdlib.h>
static inline __attribute__((always_inline)) int clamp(int v, int high) { // MARK: clamp
    if (v > high)
        return high;
    return v;
}
__attribute__((noinline)) int count(const char *text, int limit) { // MARK: count
    int n = 0;
    for (const char *p = text; *p; p++) // MARK: loop
        n += clamp(*p, limit); // MARK: body

    // This line has no code. MARK: empty
    printf("%d\n", n); // MARK: print
    return clamp(n, 100);
}
int main(int argc, char **argv) {
    int total = 0;
    for (int i = 0; i < argc; i++)
        total += count(argv[i], 50);
    if (total > 1000)
        abort();
    return total;
}
"#;

/// The line of a mark in the source.
fn line_of(mark: &str) -> u32 {
    let at = SOURCE
        .lines()
        .position(|l| l.contains(&format!("MARK: {mark}")));
    at.unwrap() as u32 + 1
}

/// A program as the kernel would map it at `base`, all of it executable for simplicity.
fn mapped(program: &Path, base: u64) -> Program {
    let mut image = Program::new();
    image.load(&mappings(program, base));
    image
}

fn mappings(program: &Path, base: u64) -> Vec<Mapping> {
    let text = run(
        "readelf",
        &["-lW", &program.display().to_string()],
        program.parent().unwrap(),
    );
    let number = |s: &str| u64::from_str_radix(s.trim_start_matches("0x"), 16).unwrap();
    let mut out = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.first() != Some(&"LOAD") {
            continue;
        }
        let (offset, vaddr, size) = (number(words[1]), number(words[2]), number(words[4]));
        let start = (base + vaddr) & !4095;
        out.push(Mapping {
            start,
            end: (base + vaddr + size).next_multiple_of(4096),
            offset: offset & !4095,
            executable: words[6..].contains(&"E"),
            name: program.to_path_buf(),
            file: program.to_path_buf(),
        });
    }
    assert!(!out.is_empty());
    out
}

/// Address, name of every function in the symbol table.
fn functions(program: &Path) -> Vec<(u64, String)> {
    let text = run(
        "nm",
        &[&program.display().to_string()],
        program.parent().unwrap(),
    );
    text.lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            matches!(words.next()?, "t" | "T").then_some(())?;
            Some((address, words.next()?.to_string()))
        })
        .collect()
}

const FLAGS: &[&str] = &[
    "-g -O0",
    "-g -O2",
    "-g -gdwarf-4 -O0",
    "-g -gdwarf-4 -O2",
    "-g -gdwarf-4 -O2 -gz",
    "-g -O3 -gz",
    "-g -O1 -no-pie -fno-pie",
    "-g -O2 -gsplit-dwarf",
    "-g -O2 -gdwarf-4 -gsplit-dwarf",
    "-g -O2 -fdebug-types-section",
];

/// Every address of a function, with all inlined frames, as `addr2line -i -f` sees it.
#[test]
fn every_address_has_the_place_binutils_gives_it() {
    let directory = directory("every_address");
    for (index, flags) in FLAGS.iter().enumerate() {
        // Of several lines at one address binutils takes the last, gdb and we one that begins a
        // statement; without rows that begin none, that is the same.
        let flags: Vec<&str> = flags
            .split_whitespace()
            .chain(["-gno-statement-frontiers"])
            .collect();
        let program = compile(&directory, &format!("p{index}"), SOURCE, &flags);
        let base = if flags.contains(&"-no-pie") {
            0
        } else {
            0x5550_0000_0000
        };
        // binutils does not follow split debug information, so it is asked about the same code
        // built without.
        let whole: Vec<&str> = flags
            .iter()
            .copied()
            .filter(|f| *f != "-gsplit-dwarf")
            .collect();
        let oracle = if whole.len() < flags.len() {
            let source = format!("p{index}.c");
            let mut arguments = vec!["-o", "whole", &source];
            arguments.extend(whole);
            run("gcc", &arguments, &directory);
            directory.join("whole")
        } else {
            program.clone()
        };
        let image = mapped(&program, base);
        let mut compared = 0;
        for name in ["count", "main"] {
            let function = image.addresses_of_function(name);
            assert_eq!(function.len(), 1, "{name} with {flags:?}");
            let at = image.function_at(function[0].entry).unwrap();
            assert_eq!((at.name.as_str(), at.low), (name, function[0].entry));
            let path = oracle.display().to_string();
            let vaddrs: Vec<String> = (at.low..at.high)
                .map(|a| format!("{:#x}", a - base))
                .collect();
            let mut arguments = vec!["-i", "-f", "-a", "-e", &path];
            arguments.extend(vaddrs.iter().map(String::as_str));
            let text = run("addr2line", &arguments, &directory);
            for block in text.split("\n0x").flat_map(|b| b.split_once('\n')) {
                let address = u64::from_str_radix(block.0.trim_start_matches("0x"), 16).unwrap();
                let lines: Vec<&str> = block.1.lines().collect();
                let expected: Vec<String> = lines
                    .chunks(2)
                    .map(|pair| {
                        let place = pair[1].rsplit('/').next().unwrap();
                        let place = place.split(' ').next().unwrap();
                        format!("{} {place}", pair[0])
                    })
                    .collect();
                let ours: Vec<String> = image
                    .locate(base + address)
                    .iter()
                    .map(|p| {
                        let file = p.file.as_ref().unwrap().file_name().unwrap();
                        let line = p.line.map_or("?".into(), |l| l.to_string());
                        format!("{} {}:{line}", p.function.as_ref().unwrap(), file.display())
                    })
                    .collect();
                assert_eq!(ours, expected, "at {address:#x} with {flags:?}");
                compared += 1;
            }
        }
        assert!(compared > 50, "only {compared} addresses with {flags:?}");
        assert_eq!(image.warnings(), Vec::<String>::new(), "with {flags:?}");
    }
}

/// Each address we give for a line is one where binutils' table begins a statement of that line.
#[test]
fn lines_have_the_addresses_of_the_line_table() {
    let directory = directory("line_addresses");
    for (index, flags) in FLAGS.iter().enumerate() {
        let flags: Vec<&str> = flags.split_whitespace().collect();
        let name = format!("p{index}");
        let program = compile(&directory, &name, SOURCE, &flags);
        let base = if flags.contains(&"-no-pie") {
            0
        } else {
            0x5550_0000_0000
        };
        let image = mapped(&program, base);
        let path = program.display().to_string();
        let table = run("readelf", &["--debug-dump=decodedline", &path], &directory);
        let mut statements: BTreeSet<(u32, u64)> = BTreeSet::new();
        for row in table.lines().filter(|l| l.trim_end().ends_with('x')) {
            let words: Vec<&str> = row.split_whitespace().collect();
            if let [_, line, address, ..] = words[..]
                && let (Ok(line), Some(address)) = (line.parse(), address.strip_prefix("0x"))
            {
                statements.insert((line, u64::from_str_radix(address, 16).unwrap()));
            }
        }
        let file = format!("{name}.c");
        for mark in ["body", "print", "loop"] {
            let line = line_of(mark);
            let found = image.addresses_of_line(&file, line);
            assert!(!found.is_empty(), "{mark} with {flags:?}");
            for place in found {
                assert_eq!(place.line, line, "{mark} with {flags:?}");
                let row = (line, place.address - base);
                assert!(
                    statements.contains(&row),
                    "{row:x?} with {flags:?} {statements:x?}"
                );
            }
        }
        let next = image.addresses_of_line(&file, line_of("empty"));
        assert!(next.iter().all(|p| p.line == line_of("print")) && !next.is_empty());
        let by_tail = format!("line_addresses/{name}.c");
        assert_eq!(image.addresses_of_line(&by_tail, line_of("empty")), next);
        assert_eq!(image.addresses_of_line("other.c", 3), []);
        let text = image.source_line(&next[0].file, next[0].line).unwrap();
        assert!(text.contains("MARK: print"), "{text}");
    }
}

/// Of a file whose line tables do not name the source file nothing else is read. That shows in
/// what is wrong with it, which nobody has noticed then.
#[test]
fn files_that_cannot_have_a_line_are_left_alone() {
    let directory = directory("left_alone");
    for (index, flags) in ["-g", "-g -gdwarf-4", "-g -gz"].iter().enumerate() {
        let flags: Vec<&str> = flags.split_whitespace().collect();
        let program = compile(&directory, &format!("p{index}"), SOURCE, &flags);
        let path = program.display().to_string();
        std::fs::write(directory.join("info"), [0xff; 64]).unwrap();
        let change = ["--update-section", ".debug_info=info", &path];
        run("objcopy", &change, &directory);
        let image = mapped(&program, 0x5550_0000_0000);
        assert_eq!(image.addresses_of_line("other.c", 3), []);
        assert_eq!(image.warnings(), Vec::<String>::new(), "{flags:?}");
        assert_eq!(image.addresses_of_line(&format!("p{index}.c"), 3), []);
        assert!(!image.warnings().is_empty(), "{flags:?}");
    }
}

/// gdb's breakpoint on a function stands where we say its prologue ends.
#[test]
fn prologues_end_where_gdb_breaks() {
    let directory = directory("prologues");
    for (index, flags) in [
        "-g -O0",
        "-g -gdwarf-4 -O0",
        "-g -O2",
        "-g -Og",
        "-g -O0 -fcf-protection",
    ]
    .iter()
    .enumerate()
    {
        let flags: Vec<&str> = flags.split_whitespace().collect();
        let program = compile(&directory, &format!("p{index}"), SOURCE, &flags);
        let image = mapped(&program, 0x5550_0000_0000);
        for name in ["count", "main"] {
            let path = program.display().to_string();
            let command = format!("break {name}");
            let text = run(
                "gdb",
                &["-batch", "-nx", "-ex", &command, &path],
                &directory,
            );
            let address = text
                .split("at 0x")
                .nth(1)
                .unwrap()
                .split(':')
                .next()
                .unwrap();
            let expected = u64::from_str_radix(address, 16).unwrap();
            let ours = &image.addresses_of_function(name)[0];
            let after = ours.after_prologue - 0x5550_0000_0000;
            assert_eq!(
                after, expected,
                "{name} with {flags:?}: {after:#x}, gdb {expected:#x}"
            );
        }
    }
}

#[test]
fn symbols_and_stubs() {
    let directory = directory("symbols");
    for (index, flags) in [
        "-O2",
        "-O2 -fcf-protection -Wl,-z,ibtplt",
        "-O2 -no-pie -fno-pie",
        "-O2 -Wl,-z,now",
    ]
    .iter()
    .enumerate()
    {
        let flags: Vec<&str> = flags.split_whitespace().collect();
        let program = compile(&directory, &format!("p{index}"), SOURCE, &flags);
        let base = if flags.contains(&"-no-pie") {
            0
        } else {
            0x5550_0000_0000
        };
        let image = mapped(&program, base);
        let mut checked = 0;
        for (vaddr, name) in functions(&program) {
            if let Some(symbol) = image.symbol(base + vaddr) {
                assert_eq!(symbol.start, base + vaddr, "{name}");
                checked += usize::from(symbol.name == name);
            }
        }
        assert!(checked >= 4, "{checked} symbols");
        // objdump names the stubs it disassembles.
        let path = program.display().to_string();
        let text = run("objdump", &["-d", "--no-show-raw-insn", &path], &directory);
        let mut stubs = 0;
        for line in text.lines().filter(|l| l.ends_with("@plt>:")) {
            let (address, name) = line.split_once(" <").unwrap();
            let vaddr = u64::from_str_radix(address, 16).unwrap();
            let name = name.trim_end_matches(">:");
            let symbol = image.symbol(base + vaddr + 2);
            // objdump calls the lazy half of a split table by the same name.
            if let Some(symbol) = symbol {
                assert_eq!(symbol.name, name);
                assert_eq!(symbol.start, base + vaddr);
                stubs += 1;
            }
        }
        assert!(stubs >= 2, "{stubs} stubs with {flags:?}\n{text}");
    }
}

#[test]
fn a_stripped_program_has_only_offsets() {
    let directory = directory("stripped");
    let program = compile(&directory, "bare", SOURCE, &["-O2", "-s"]);
    let image = mapped(&program, 0x5550_0000_0000);
    assert_eq!(image.addresses_of_function("count"), []);
    assert_eq!(image.addresses_of_line("bare.c", 9), []);
    let entry = 0x5550_0000_1100;
    assert_eq!(image.locate(entry), []);
    assert_eq!(image.module_offset(entry).as_deref(), Some("bare+0x1100"));
    assert_eq!(image.warnings(), Vec::<String>::new());
}

/// Debug information kept beside the program is found by its link, and only if it is the right one.
#[test]
fn a_separate_debug_file() {
    let directory = directory("separate");
    let program = compile(
        &directory,
        "p",
        SOURCE,
        &["-g", "-O2", "-Wl,--build-id=none"],
    );
    run(
        "objcopy",
        &["--only-keep-debug", "p", "p.debug"],
        &directory,
    );
    run(
        "objcopy",
        &["--strip-all", "--add-gnu-debuglink=p.debug", "p"],
        &directory,
    );
    let image = mapped(&program, 0x5550_0000_0000);
    let count = image.addresses_of_function("count");
    assert_eq!(count.len(), 1);
    let place = image.locate(count[0].entry);
    assert_eq!(place.last().unwrap().function.as_deref(), Some("count"));
    assert!(place[0].line.is_some());

    std::fs::write(directory.join("p.debug"), b"something else").unwrap();
    let image = mapped(&program, 0x5550_0000_0000);
    assert_eq!(image.addresses_of_function("count"), []);
    let warnings = image.warnings();
    assert!(
        warnings.iter().any(|w| w.contains("another build")),
        "{warnings:?}"
    );
}

#[test]
fn split_debug_information_that_is_lost_is_reported() {
    let directory = directory("lost_dwo");
    let program = compile(
        &directory,
        "p",
        SOURCE,
        &[
            "-g",
            "-O2",
            "-gsplit-dwarf",
            "-gno-statement-frontiers",
            "-c",
        ],
    );
    drop(program);
    run("gcc", &["p", "-o", "linked", "-x", "none"], &directory);
    let program = directory.join("linked");
    for entry in std::fs::read_dir(&directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "dwo") {
            std::fs::remove_file(path).unwrap();
        }
    }
    let image = mapped(&program, 0x5550_0000_0000);
    let count = image.addresses_of_function("count");
    let place = image.locate(count[0].entry);
    // The line table stays in the program, and so does the symbol.
    assert_eq!(place[0].function.as_deref(), Some("count"));
    assert_eq!(place[0].line, Some(line_of("count")));
    let warnings = image.warnings();
    assert!(warnings.iter().any(|w| w.contains(".dwo")), "{warnings:?}");
}

#[test]
fn what_programs_have_in_common() {
    let directory = directory("common");
    let flags = ["-g", "-O2", "-gno-statement-frontiers"];
    let one = compile(&directory, "one", SOURCE, &flags);
    compile(&directory, "two", SOURCE, &flags);
    let places = |image: &image::Program| -> Vec<_> {
        let main = image.addresses_of_function("main")[0].entry;
        let f = image.function_at(main).unwrap();
        let places = (f.low..f.high).map(|pc| image.locate(pc));
        let names = places.map(|list| list.into_iter().map(|p| (p.function, p.line)).collect());
        names.collect::<Vec<Vec<_>>>()
    };
    let whole = places(&mapped(&one, 0x5550_0000_0000));
    run("dwz", &["-m", "both.dwz", "one", "two"], &directory);
    let image = mapped(&one, 0x5550_0000_0000);
    assert_eq!(places(&image), whole);
    assert_eq!(image.warnings(), Vec::<String>::new());
    std::fs::rename(directory.join("both.dwz"), directory.join("elsewhere")).unwrap();
    let image = mapped(&one, 0x5550_0000_0000);
    places(&image);
    let warnings = image.warnings();
    assert!(
        warnings.iter().any(|w| w.contains("both.dwz")),
        "{warnings:?}"
    );
}

#[test]
fn qualified_cpp_names() {
    let directory = directory("cpp_names");
    let source = r#"
namespace shapes {
struct Square { int side; int area() const; static int count(int); };
int Square::area() const { return side * side; }
int Square::count(int n) { return n; }
template <typename T> T twice(T v) { return v + v; }
template int twice<int>(int);
template long twice<long>(long);
}
int area() { return 1; }
int main() { return 0; }
"#;
    let program = compile(&directory, "p", source, &["-xc++", "-g"]);
    let image = mapped(&program, 0x5550_0000_0000);
    let names = |asked: &str| -> Vec<String> {
        let mut out: Vec<_> = image
            .addresses_of_function(asked)
            .into_iter()
            .map(|f| f.name)
            .collect();
        out.sort();
        out
    };
    assert_eq!(names("area"), ["area", "shapes::Square::area"]);
    assert_eq!(names("Square::area"), ["shapes::Square::area"]);
    assert_eq!(names("shapes::Square::count"), ["shapes::Square::count"]);
    assert_eq!(
        names("twice"),
        ["shapes::twice<int>", "shapes::twice<long>"]
    );
    assert_eq!(names("twice<int>"), ["shapes::twice<int>"]);
    assert_eq!(names("quare::area"), Vec::<String>::new());
    assert_eq!(names("_ZNK6shapes6Square4areaEv"), ["shapes::Square::area"]);
}
