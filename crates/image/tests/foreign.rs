//! Foreign programs at random stops: backtraces, lines and variables as gdb has them.
//!
//! Lua and zlib are fetched by name from the package registry, once, and built. gdb runs them to
//! the n-th call of functions picked at random; at each stop it writes down its frames with their
//! variables, and a core, from which we have to find the same.
//!
//! `FOREIGN_STOPS` sets how many stops there are for each program, `FOREIGN_SEED` which.

mod harness;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::{load, read_core, run};

/// The sources of a crate, downloaded if they are not here yet.
fn fetch(name: &str, version: &str) -> PathBuf {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("packages");
    std::fs::create_dir_all(&home).unwrap();
    let find = || {
        let registries = std::fs::read_dir(home.join("registry/src")).ok()?;
        let mut places = registries
            .flatten()
            .map(|r| r.path().join(format!("{name}-{version}")));
        places.find(|p| p.exists())
    };
    if let Some(found) = find() {
        return found;
    }
    let output = Command::new("cargo")
        .args(["info", "-q", &format!("{name}@{version}")])
        .current_dir(std::env::temp_dir())
        .env("CARGO_HOME", &home)
        .output()
        .expect("cargo runs");
    let text = String::from_utf8_lossy(&output.stderr);
    find().unwrap_or_else(|| {
        panic!("this test needs the crate {name} {version} from the registry: {text}")
    })
}

const SCRIPT: &str = r#"
import gdb, random
random.seed(SEED)
for line in ['set width 0', 'set pagination off', 'set confirm off', 'set print elements 200',
             'set print repeats 10', 'set debuginfod enabled off', 'set print entry-values no',
             'set breakpoint pending on', 'set backtrace limit 12']:
    gdb.execute(line)
gdb.execute('break main')
gdb.execute('run ARGUMENTS > /dev/null')
names = NAMES
def clean(text):
    return text.replace('\n', ' ')
def describe(frame):
    line = frame.find_sal()
    inlined = frame.type() == gdb.INLINE_FRAME
    print('frame', frame.name() or '?', line.line if line.symtab else 0, int(inlined))
    try:
        block = frame.block()
    except RuntimeError:
        return
    seen = set()
    while block:
        for symbol in block:
            if not (symbol.is_argument or symbol.is_variable) or symbol.name in seen:
                continue
            if symbol.addr_class == gdb.SYMBOL_LOC_STATIC:
                continue
            seen.add(symbol.name)
            try:
                value = clean(str(symbol.value(frame)))
            except Exception as e:
                value = 'error ' + clean(str(e))
            print('variable', symbol.name, value)
        if block.function:
            break
        block = block.superblock
done = 0
for attempt in range(STOPS * 4):
    if done >= STOPS:
        break
    name = random.choice(names)
    stop = gdb.Breakpoint(name, temporary=True)
    stop.ignore_count = random.randrange(40)
    gdb.execute('continue', to_string=True)
    if gdb.selected_inferior().pid == 0:
        gdb.execute('run ARGUMENTS > /dev/null', to_string=True)
        if stop.is_valid():
            stop.delete()
        continue
    # A few steps on, so that stops are in the middle of things too.
    for _ in range(random.randrange(6)):
        gdb.execute('stepi', to_string=True)
    print('stop', done, name)
    frame = gdb.newest_frame()
    while frame and frame.type() in (gdb.NORMAL_FRAME, gdb.INLINE_FRAME):
        describe(frame)
        frame = frame.older()
    gdb.execute('generate-core-file stop%d.core' % done, to_string=True)
    done += 1
print('done', done)
gdb.execute('kill')
"#;

#[derive(Debug)]
struct Expected {
    function: String,
    line: u32,
    variables: Vec<(String, String)>,
}

/// Programs the compiler knows by names with these endings are copies made by it.
fn plain(name: &str) -> &str {
    name.split(['.', '(']).next().unwrap_or(name)
}

fn same(ours: &str, theirs: &str) -> bool {
    // We show fewer elements, and say less of what cannot be had.
    let missing = |t: &str| {
        t.starts_with("<optimized") || t.starts_with("<synthetic") || t.starts_with("<not saved")
    };
    if missing(ours) && missing(theirs) {
        return true;
    }
    // A structure of which nothing is left is said to be gone as a whole.
    let mut left = theirs.split([',', '{', '}']).map(str::trim);
    let gone = |p: &str| p.is_empty() || p.ends_with('=') || p.ends_with("<optimized out>");
    if missing(ours) && left.all(gone) {
        return true;
    }
    let theirs = theirs.replace("__GI_", "");
    // Each side cuts long values where it likes.
    let shown = |text: &str| {
        text.find("...")
            .map(|at| text[..at].trim_end_matches('"').to_owned())
    };
    match (shown(ours), shown(&theirs)) {
        (None, None) => ours == theirs,
        (a, b) => {
            let (a, b) = (
                a.as_deref().unwrap_or(ours),
                b.as_deref().unwrap_or(&theirs),
            );
            a.starts_with(b) || b.starts_with(a)
        }
    }
}

fn check(name: &str, program: &Path, arguments: &str, names: &[&str]) {
    let directory = program.parent().unwrap();
    let amount = |name, default: &str| std::env::var(name).unwrap_or(default.to_owned());
    let script = SCRIPT
        .replace("SEED", &amount("FOREIGN_SEED", "1"))
        .replace("STOPS", &amount("FOREIGN_STOPS", "8"))
        .replace("ARGUMENTS", arguments)
        .replace("NAMES", &format!("{names:?}"));
    std::fs::write(directory.join("stops.py"), script).unwrap();
    let text = run(
        "gdb",
        &[
            "-batch",
            "-nx",
            // Uninitialised bytes may happen to be a character.
            "-iex",
            "set charset UTF-8",
            "-x",
            "stops.py",
            program.to_str().unwrap(),
        ],
        directory,
    );
    let mut stops: Vec<Vec<Expected>> = Vec::new();
    for line in text.lines() {
        let mut words = line.splitn(2, ' ');
        let (kind, rest) = (words.next().unwrap(), words.next().unwrap_or(""));
        match kind {
            "stop" => stops.push(Vec::new()),
            "frame" => {
                let mut parts = rest.rsplitn(3, ' ');
                let _inlined = parts.next();
                let line = parts.next().and_then(|l| l.parse().ok()).unwrap_or(0);
                stops.last_mut().unwrap().push(Expected {
                    function: parts.next().unwrap_or("?").to_owned(),
                    line,
                    variables: Vec::new(),
                });
            }
            "variable" => {
                let (variable, value) = rest.split_once(' ').unwrap_or((rest, ""));
                let frame = stops.last_mut().and_then(|s| s.last_mut()).unwrap();
                frame
                    .variables
                    .push((variable.to_owned(), value.to_owned()));
            }
            _ => {}
        }
    }
    assert!(
        stops.len() > 2,
        "{name}: gdb made {} stops:\n{text}",
        stops.len()
    );
    let (mut frames, mut values, mut more, mut less) = (0, 0, 0, 0);
    let mut wrong = String::new();
    for (n, expected) in stops.iter().enumerate() {
        let path = directory.join(format!("stop{n}.core"));
        let core = read_core(&path, program);
        let image = load(&core);
        let raw = image.unwind(&core.registers, &core, 12);
        let ours = image.describe(&raw, &core);
        let mut complain = |text: String| wrong.push_str(&format!("stop {n}: {text}\n"));
        for (level, theirs) in expected.iter().enumerate() {
            let Some(frame) = ours.get(level) else {
                complain(format!("no frame {level}, gdb: {}", theirs.function));
                break;
            };
            frames += 1;
            let function = frame.function.as_deref().unwrap_or("?");
            if plain(function) != plain(&theirs.function) {
                complain(format!(
                    "frame {level} is {function}, gdb: {}",
                    theirs.function
                ));
                break;
            }
            if theirs.line != 0 && frame.line.unwrap_or(0) != theirs.line {
                let line = frame.line;
                complain(format!("{function} is at {line:?}, gdb: {}", theirs.line));
            }
            // Which of the inlined calls of its machine frame this is.
            let depth = ours[..level].iter().filter(|f| f.raw == frame.raw).count();
            let locals = image.locals(&raw[frame.raw], &core);
            let mut seen = HashSet::new();
            for local in locals.iter().filter(|l| l.inline_depth == depth) {
                let wanted = theirs.variables.iter().find(|(v, _)| *v == local.name);
                if let Some((_, theirs)) = wanted.filter(|_| seen.insert(local.name.clone())) {
                    values += 1;
                    // gcc says which registers outlive a call; gdb does not believe it.
                    if theirs == "<optimized out>" && local.value != *theirs {
                        more += 1;
                    } else if local.value == "<optimized out>" && !same(&local.value, theirs) {
                        less += 1;
                        println!("{function}: {} is lost, gdb: {theirs}", local.name);
                    } else if !same(&local.value, theirs) {
                        let same = local.value.bytes().zip(theirs.bytes());
                        let at = same.take_while(|(a, b)| a == b).count();
                        // Long values are shown from where they begin to differ.
                        let shown = |text: &str| {
                            let from = at.saturating_sub(30);
                            let text: String = text.chars().skip(from).take(160).collect();
                            text
                        };
                        let (ours, theirs) = (shown(&local.value), shown(theirs));
                        complain(format!(
                            "{function}: {} = {ours}, gdb: {theirs}",
                            local.name
                        ));
                    }
                }
            }
        }
        std::fs::remove_file(&path).unwrap();
    }
    let count = stops.len();
    println!(
        "{name}: {count} stops, {frames} frames, {values} values, {more} more and {less} fewer than gdb"
    );
    assert!(wrong.is_empty(), "{name}:\n{wrong}");
    // A value that is missing is not wrong, but there must be few of them.
    assert!(
        less * 100 <= values,
        "{name}: {less} of {values} values are lost"
    );
}

const MAIN: &str = r#"
#include "lua.h"
#include "lauxlib.h"
#include "lualib.h"
int main(int argc, char **argv) {
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    if (luaL_dofile(L, argv[1])) { puts(lua_tostring(L, -1)); return 1; }
    lua_close(L);
    return 0;
}
"#;

const LUA: &str = r#"
local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
local t = {}
for i = 1, 200 do t[#t + 1] = string.format("%d:%s:%.3f", i, ("x"):rep(i % 7), math.sqrt(i)) end
table.sort(t)
local s = table.concat(t, ","):gsub("%d+", function(d) return d * 2 end)
print(#s, fib(12), pcall(error, { code = 1 }), select('#', s:byte(1, 9)))
local o = setmetatable({}, { __index = function(_, k) return k .. k end })
print(o.ab, o.cd, next({ 1, 2, 3 }), tostring(1e100), 7 // 2, 2 ^ 0.5)
collectgarbage()
"#;

fn lua(optimise: &str) {
    let source = fetch("lua-src", "547.0.0").join("lua-5.4.7");
    let directory = harness::directory(&format!("lua{optimise}"));
    std::fs::write(directory.join("start.c"), MAIN).unwrap();
    std::fs::write(directory.join("script.lua"), LUA).unwrap();
    let mut files: Vec<String> = std::fs::read_dir(&source)
        .unwrap()
        .flatten()
        .map(|f| f.path().display().to_string())
        .filter(|f| f.ends_with(".c") && !f.ends_with("lua.c") && !f.ends_with("luac.c"))
        .collect();
    files.sort();
    let include = format!("-I{}", source.display());
    let mut arguments = vec!["-g", optimise, "-w", "-DLUA_USE_LINUX", &include, "start.c"];
    arguments.extend(files.iter().map(String::as_str));
    arguments.extend(["-o", "lua", "-lm", "-ldl"]);
    run("gcc", &arguments, &directory);
    let names = [
        "luaV_execute",
        "luaH_getstr",
        "luaD_precall",
        "luaS_newlstr",
        "str_format",
        "sort",
        "auxsort",
        "luaV_finishget",
        "luaG_errormsg",
        "luaC_step",
        "luaK_exp2anyreg",
        "llex",
        "subexpr",
        "luaH_resize",
        "tconcat",
        "str_gsub",
        "luaO_tostring",
        "lua_pushvalue",
        "math_sqrt",
        "luaB_pcall",
        "propagatemark",
        "sweeplist",
    ];
    check(
        &format!("lua {optimise}"),
        &directory.join("lua"),
        "script.lua",
        &names,
    );
}

#[test]
fn lua_plain() {
    lua("-O0");
}

#[test]
fn lua_optimised() {
    lua("-O2");
}
