//! What the engine benchmark runs: our own programs in `xtask/bench`, and interpreters that Debian provides.

use crate::compile::{self, Variant};
use crate::facts::Facts;
use crate::tool;
use anyhow::Result;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(super) struct Workload {
    pub(super) name: &'static str,
    pub(super) program: PathBuf,
    pub(super) args: Vec<String>,
    pub(super) start_only: bool,
    /// Its source, if it is ours.
    pub(super) source: Option<PathBuf>,
}

impl Workload {
    pub(super) fn command(&self) -> Vec<OsString> {
        std::iter::once(self.program.clone().into_os_string())
            .chain(self.args.iter().map(OsString::from))
            .collect()
    }

    /// The same program with AddressSanitizer in it, if we have its source.
    pub(super) fn sanitised(&self) -> Result<Option<PathBuf>> {
        let Some(source) = &self.source else {
            return Ok(None);
        };
        let mut facts = Facts::parse(&fs::read_to_string(source)?)?;
        facts.flags.push("-fsanitize=address".to_owned());
        compile::program(source, &facts, Variant::FAST).map(Some)
    }
}

const COMPILED: [(&str, &str); 11] = [
    ("tree insert", "tree.c"),
    ("sort", "sort.c"),
    ("compression", "compress.c"),
    ("matrix", "matrix.c"),
    ("fib", "fib.c"),
    ("string hash", "hash.c"),
    ("virtual calls", "virtual.cpp"),
    ("tiny loops", "loops.c"),
    ("bytecode", "bytecode.c"),
    ("small system calls", "calls.c"),
    ("hello world", "hello.c"),
];

/// Name, command, file name and contents of the script.
const SCRIPTS: [(&str, &str, &[&str], &str, &str); 6] = [
    (
        "SQLite",
        "sqlite3",
        &["-batch", ":memory:", ".read work.sql"],
        "work.sql",
        SQL,
    ),
    ("Lua", "lua5.4", &["work.lua"], "work.lua", LUA),
    (
        "LuaJIT",
        "luajit",
        &["work_jit.lua"],
        "work_jit.lua",
        LUAJIT,
    ),
    (
        "Python loop",
        "python3",
        &["-I", "work.py"],
        "work.py",
        PYTHON,
    ),
    ("Perl loop", "perl", &["work.pl"], "work.pl", PERL),
    // System calls as programs of the system make them. It has no script, but a place to begin.
    (
        "find",
        "find",
        &["/usr/share", "work.here", "-size", "+1000000k"],
        "work.here",
        "",
    ),
];

/// The workloads, and those that this machine lacks a program for, with the reason.
#[allow(
    clippy::type_complexity,
    reason = "a pair of lists that is taken apart at once"
)]
pub(super) fn all(place: &Path) -> Result<(Vec<Workload>, Vec<(&'static str, String)>)> {
    let (mut all, mut absent) = (Vec::new(), Vec::new());
    for (name, source) in COMPILED {
        let source = Path::new("xtask/bench").join(source);
        let facts = Facts::parse(&fs::read_to_string(&source)?)?;
        let program = compile::program(&source, &facts, Variant::FAST)?;
        all.push(Workload {
            name,
            program,
            args: Vec::new(),
            start_only: name == "hello world",
            source: Some(source),
        });
    }
    for (name, program, args, file, text) in SCRIPTS {
        fs::write(place.join(file), text)?;
        match tool::find_program(program) {
            Some(program) => {
                let args = args.iter().map(|arg| (*arg).to_owned()).collect();
                all.push(Workload {
                    name,
                    program,
                    args,
                    start_only: false,
                    source: None,
                });
            }
            None => absent.push((name, format!("{program} is not installed"))),
        }
    }
    Ok((all, absent))
}

const SQL: &str = "\
create table t(id integer primary key, name text, n integer);
with recursive c(i) as (select 1 union all select i + 1 from c where i < 300000)
  insert into t select i, 'name' || (i * 37 % 5000), i * 7919 % 9973 from c;
create index by_name on t(name);
select count(*) from (select name, sum(n) s from t group by name order by s);
select sum(a.n) from t a join t b on a.name = b.name where b.id < 3000;
update t set n = n + 1 where name like '%7';
select count(distinct n) from t;
";
const LUA: &str = "\
local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
local by = tonumber(arg[1] or 1)
local t = {} for i = 1, 300000 // by do t[i] = (i * 7919) % 100003 end table.sort(t)
local s = {} for i = 1, 200000 // by do s[#s + 1] = tostring(i) end
print(fib(31 - math.floor(math.log(by, 1.618))), t[100], #table.concat(s))
";
const LUAJIT: &str = "\
local function sieve(n) local s, c = {}, 0 for i = 2, n do if not s[i] then c = c + 1 for j = i * i, n, i do s[j] = true end end end return c end
local x = 0 for i = 1, 100000000 do x = (x * 3 + i) % 1000003 end
print(sieve(3000000), x)
";
const PYTHON: &str = "\
import sys
class A:
    def __init__(self): self.n = 0
    def step(self, i): self.n = (self.n * 3 + i) % 1000003
a, d = A(), {}
for i in range(1500000 // int((sys.argv + [1])[1])):
    a.step(i)
    d[a.n % 1000] = d.get(a.n % 1000, 0) + 1
print(a.n, len(d))
";
const PERL: &str = "\
my (%h, $n); for my $i (1 .. 4000000) { $n = ($n * 3 + $i) % 1000003; $h{$n % 1000} .= 'x' if $i % 3; }
print $n, ' ', scalar(keys %h), \"\\n\";
";
