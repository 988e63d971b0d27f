//! The table of foreign programs.

use super::{Sketch, sketch};

pub(super) fn all() -> Vec<Sketch> {
    let mut all = text_tools();
    all.extend(archivers());
    all.extend(interpreters());
    all.extend(builders());
    all.extend(busybox());
    all.extend(others());
    all
}

fn text_tools() -> Vec<Sketch> {
    vec![
        sketch("ls -lR", "ls", &["-lR", "tree"]),
        sketch("ls missing", "ls", &["no-such-file"]),
        sketch("sort by column", "sort", &["-k2,2n", "-k1,1", "list.txt"]),
        sketch("sort unique", "sort", &["-u", "--parallel=1", "text.txt"]),
        sketch("awk sums", "awk", &["{ sum[$1] += $2 } END { for (k in sum) print k, sum[k] | \"sort\" }", "list.txt"])
            .children(),
        sketch("gawk functions", "gawk", &["-f", "prog.awk", "list.txt"]).file("prog.awk", AWK),
        sketch("sed script", "sed", &["-E", "-e", "s/(a[a-z]+) ([a-z]+)/\\2 <\\1>/g", "-e", "5,9d;$!N;P;D", "text.txt"]),
        sketch("sed in place", "sed", &["-i", "s/opal/OPAL/", "text.txt"]),
        sketch("grep -r", "grep", &["-rn", "harbor", "tree"]),
        sketch("grep regex", "grep", &["-cE", "(opal|kelp).*(amber|fjord) [0-9]+$", "text.txt"]),
        sketch("grep none", "grep", &["nothing-like-this", "text.txt"]),
        sketch("diff -u", "diff", &["-u", "--label=a", "--label=b", "text.txt", "other.txt"]),
        sketch("find", "find", &["tree", "-type", "f", "-size", "+1k", "-name", "*[0-4].txt"]),
        sketch("find -exec", "find", &["tree", "-name", "a*", "-exec", "wc", "-c", "{}", "+"]).children(),
        sketch("wc", "wc", &["list.txt", "text.txt"]),
        sketch("md5sum", "md5sum", &["list.txt", "text.txt"]),
        sketch("tr from stdin", "tr", &["a-z", "A-Z"]).input("mixed Case\nlines\n"),
        sketch("cat stdin", "cat", &["-n"]).input("one\ntwo\n\nthree"),
        sketch("cp and permissions", "cp", &["-a", "tree", "copy"]),
        sketch("env", "env", &["-i", "A=1", "env"]),
        sketch("bc", "bc", &["-lq"]).input("scale=60; 4*a(1)\nfor(i=0;i<20;i++) 2^i\nquit\n"),
        sketch("jq", "jq", &["[.items[] | select(.n % 3 == 0) | {key: .name, square: (.n * .n)}] | sort_by(.key)", "data.json"])
            .file("data.json", json()),
    ]
}

fn archivers() -> Vec<Sketch> {
    vec![
        sketch(
            "tar create",
            "tar",
            &["cf", "out.tar", "--sort=name", "tree"],
        ),
        sketch(
            "tar gzip",
            "tar",
            &["czf", "out.tar.gz", "--sort=name", "tree"],
        )
        .children(),
        sketch(
            "tar list",
            "tar",
            &["cvf", "/dev/null", "--sort=name", "tree"],
        ),
        sketch("gzip", "gzip", &["-9n", "list.txt"]),
        sketch("gzip bad input", "gzip", &["-t", "text.txt"]),
        sketch("bzip2", "bzip2", &["-k", "text.txt"]),
        sketch("xz", "xz", &["-k", "-T1", "list.txt"]),
        sketch("zstd", "zstd", &["-q", "--single-thread", "list.txt"]),
    ]
}

fn interpreters() -> Vec<Sketch> {
    let python = |name, text: &str| {
        sketch(name, "python3", &["-I", "script.py"])
            .file("script.py", text)
            .env("PYTHONHASHSEED", "0")
            .env("PYTHONDONTWRITEBYTECODE", "1")
    };
    vec![
        sketch("perl", "perl", &["script.pl"]).file("script.pl", PERL),
        python("python json", "import json\nd={str(i):[i,i*i,{'x':i/7}] for i in range(500)}\ns=json.dumps(d,sort_keys=True)\nprint(len(s),json.loads(s)==d,s[:80])\n"),
        python("python re", "import re\nt=open('text.txt').read()\nprint(len(re.findall(r'\\b(a|o)\\w+',t)),re.sub(r'(\\w+) (\\w+)',r'\\2 \\1',t)[:200])\n"),
        python("python hashlib", "import hashlib\nfor n in ('md5','sha1','sha256','sha3_512','blake2b'):\n print(n,hashlib.new(n,open('list.txt','rb').read()).hexdigest())\n"),
        python("python sqlite3", PYTHON_SQLITE),
        python("python subprocess", "import subprocess\np=subprocess.run(['sort','-u'],input='b\\na\\nb\\n',capture_output=True,text=True)\nprint(p.returncode,repr(p.stdout))\ntry:\n subprocess.run(['no-such-program'])\nexcept FileNotFoundError as e:\n print(e)\n"),
        python("python exceptions", "def f(n):\n return 1/0 if n==0 else f(n-1)\nf(20)\n"),
        python("python classes", PYTHON_CLASSES),
        python("python decimal", "from decimal import *\ngetcontext().prec=200\nprint(Decimal(2).sqrt(),Decimal(1)/Decimal(7))\nimport fractions,statistics,random\nrandom.seed(5)\nv=[random.random() for _ in range(500)]\nprint(statistics.fmean(v),fractions.Fraction(v[0]).limit_denominator(1000))\n"),
        python("python clock", "import time,os,uuid\nprint(time.time(),os.getpid(),uuid.uuid4(),os.urandom(8).hex())\n").nondeterministic(),
        python("python unittest", PYTHON_UNITTEST),
        python("python threading", "import threading\nr=[]\nl=threading.Lock()\ndef w(i):\n with l: r.append(i)\nt=[threading.Thread(target=w,args=(i,)) for i in range(8)]\n[x.start() for x in t];[x.join() for x in t]\nprint(sorted(r))\n"),
        sketch("lua", "lua5.4", &["script.lua"]).file("script.lua", LUA),
        sketch("luajit", "luajit", &["script.lua"]).file("script.lua", LUA),
        sketch("luajit without jit", "luajit", &["-joff", "script.lua"]).file("script.lua", LUA),
        sketch("node", "node", &["script.js"]).file("script.js", NODE),
        sketch("bash", "bash", &["script.sh"]).file("script.sh", BASH).children(),
        sketch("bash builtins", "bash", &["script.sh"]).file("script.sh", BASH_BUILTINS),
        sketch("sh error", "sh", &["-c", "echo out; echo err >&2; exit 7"]),
        sketch("sh killed", "sh", &["-c", "kill -TERM $$"]),
        sketch("sqlite3", "sqlite3", &["-batch", ":memory:"]).input(SQL),
        sketch("sqlite3 file", "sqlite3", &["-batch", "data.db"]).input(SQL),
    ]
}

fn builders() -> Vec<Sketch> {
    vec![
        sketch("git log", "git", &["-C", "repo", "log", "--stat"])
            .repository()
            .env("GIT_CONFIG_NOSYSTEM", "1"),
        sketch("git diff", "git", &["-C", "repo", "diff", "HEAD~9", "HEAD"])
            .repository()
            .env("GIT_CONFIG_NOSYSTEM", "1"),
        sketch("git fsck", "git", &["-C", "repo", "fsck", "--no-progress"])
            .repository()
            .env("GIT_CONFIG_NOSYSTEM", "1"),
        sketch("make", "make", &["-s"])
            .file("Makefile", MAKEFILE)
            .file("a.c", C_A)
            .file("b.c", C_B)
            .children(),
        sketch("make failing", "make", &[])
            .file("Makefile", "all:\n\t@echo trying\n\t@false\n")
            .children(),
        sketch("gcc", "gcc", &["-O2", "-c", "a.c"])
            .file("a.c", C_A)
            .children(),
        sketch("gcc link", "gcc", &["-o", "prog", "a.c", "b.c"])
            .file("a.c", C_A)
            .file("b.c", C_B)
            .children(),
        sketch("gcc error", "gcc", &["-c", "bad.c"])
            .file("bad.c", "int main(void) { return x; }\n")
            .children(),
    ]
}

fn busybox() -> Vec<Sketch> {
    vec![
        sketch("busybox sort", "busybox", &["sort", "-k2n", "list.txt"]),
        sketch(
            "busybox awk",
            "busybox",
            &[
                "awk",
                "{ n[$1]++; s += $2 } END { print s; for (k in n) print k, n[k] }",
                "list.txt",
            ],
        ),
        sketch(
            "busybox sed",
            "busybox",
            &["sed", "-n", "s/amber/<&>/gp", "text.txt"],
        ),
        sketch("busybox grep", "busybox", &["grep", "-rc", "kelp", "tree"]),
        sketch(
            "busybox sha256sum",
            "busybox",
            &["sha256sum", "list.txt", "text.txt"],
        ),
        sketch("busybox gzip", "busybox", &["gzip", "list.txt"]),
        sketch("busybox tar", "busybox", &["tar", "cf", "out.tar", "tree"]),
        sketch("busybox find", "busybox", &["find", "tree", "-name", "*3*"]),
        sketch(
            "busybox diff",
            "busybox",
            &["diff", "-L", "a", "-L", "b", "text.txt", "other.txt"],
        ),
        sketch(
            "busybox dc",
            "busybox",
            &["dc", "-e", "20 k 2 v p 3 v p + p"],
        ),
        sketch("busybox vi missing", "busybox", &["cat", "absent"]),
        sketch(
            "busybox sh",
            "busybox",
            &["sh", "-c", "for i in 1 2 3; do echo $i | cat; done; exit 4"],
        )
        .children(),
    ]
}

fn others() -> Vec<Sketch> {
    vec![
        sketch(
            "openssl dgst",
            "openssl",
            &["dgst", "-sha256", "list.txt", "text.txt"],
        ),
        sketch(
            "openssl enc",
            "openssl",
            &[
                "enc",
                "-aes-256-cbc",
                "-K",
                "00",
                "-iv",
                "00",
                "-in",
                "text.txt",
                "-out",
                "text.enc",
            ],
        ),
        // The message tells how many milliseconds the failure took.
        sketch("curl refused", "curl", &["-sS", "http://127.0.0.1:9/"]).nondeterministic(),
        sketch("curl file", "curl", &["-sS", "--version"]),
        sketch(
            "wget refused",
            "wget",
            &["-nv", "-t", "1", "http://127.0.0.1:9/"],
        ),
        sketch(
            "vim",
            "vim",
            &[
                "-u",
                "NONE",
                "-i",
                "NONE",
                "-n",
                "-es",
                "-c",
                "%s/harbor/HARBOR/g | 1,50sort | wq",
                "text.txt",
            ],
        ),
        sketch("gdb --version", "gdb", &["--version"]),
        sketch("file", "file", &["list.txt", "tree", "tree/link"]),
    ]
}

fn json() -> String {
    let items: Vec<String> = (0..400)
        .map(|n| format!("{{\"name\":\"item{}\",\"n\":{n}}}", (n * 37) % 400))
        .collect();
    format!("{{\"items\":[{}]}}\n", items.join(","))
}

const AWK: &str = r#"
function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2) }
{ words[$1] = words[$1] " " $3 % 7; n++ }
END { PROCINFO["sorted_in"] = "@ind_str_asc"; for (w in words) printf "%-10s %d\n", w, length(words[w]); print n, fib(16), sprintf("%.10f", atan2(1, 2)) }
"#;
const PERL: &str = r#"
use strict; use warnings;
my %count; open(my $in, '<', 'list.txt') or die;
while (<$in>) { my ($w, $n) = split; $count{$w} += $n; }
print "$_ $count{$_}\n" for sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
my $text = do { local (@ARGV, $/) = 'text.txt'; <> };
my $hits = () = $text =~ /\b(\w)\w*\1\b/g; print "$hits\n";
sub fib { my $n = shift; $n < 2 ? $n : fib($n - 1) + fib($n - 2) } print fib(17), "\n";
eval { die { code => 5 } }; print "caught $@->{code}\n"; printf "%.12f %s\n", sin(1), join ',', map { $_ ** 2 } 1 .. 9;
exit 3;
"#;
const PYTHON_SQLITE: &str = r#"
import sqlite3
c = sqlite3.connect('py.db')
c.execute('create table t(a text, b integer, c integer)')
c.executemany('insert into t values(?,?,?)', (l.split() for l in open('list.txt')))
c.commit()
for row in c.execute('select a, count(*), sum(b) from t group by a order by 3'): print(row)
"#;
const PYTHON_CLASSES: &str = r#"
import collections, functools, heapq, itertools, bisect
@functools.lru_cache(None)
def f(n): return n if n < 2 else f(n - 1) + f(n - 2)
class Node:
    def __init__(self, v): self.v = v; self.l = self.r = None
    def add(self, v):
        side = 'l' if v < self.v else 'r'
        n = getattr(self, side)
        if n: n.add(v)
        else: setattr(self, side, Node(v))
    def __iter__(self):
        if self.l: yield from self.l
        yield self.v
        if self.r: yield from self.r
root = Node(500)
for i in range(800): root.add(i * 7919 % 1000)
print(sum(a * b for a, b in zip(root, itertools.count(1))), f(200))
print(collections.Counter(open('text.txt').read().split()).most_common(5), heapq.nsmallest(3, root))
"#;
const PYTHON_UNITTEST: &str = r#"
import io, unittest
class T(unittest.TestCase):
    def test_a(self): self.assertEqual(sorted([3, 1, 2]), [1, 2, 3])
    def test_b(self):
        with self.assertRaises(ZeroDivisionError): 1 / 0
    def test_c(self): self.assertEqual(1, 2)
s = io.StringIO()
r = unittest.TextTestRunner(stream=s).run(unittest.defaultTestLoader.loadTestsFromTestCase(T))
print(r.testsRun, len(r.failures), len(r.errors))
raise SystemExit(len(r.failures))
"#;
const LUA: &str = r#"
local function sieve(n) local s, c = {}, 0 for i = 2, n do if not s[i] then c = c + 1 for j = i * i, n, i do s[j] = true end end end return c end
local function mandel(w) local t = 0 for y = 0, w - 1 do for x = 0, w - 1 do local cr, ci, zr, zi, n = 2 * x / w - 1.5, 2 * y / w - 1, 0, 0, 0
  while n < 50 and zr * zr + zi * zi < 4 do zr, zi, n = zr * zr - zi * zi + cr, 2 * zr * zi + ci, n + 1 end t = t + n end end return t end
local words = {} for line in io.lines('list.txt') do local w, n = line:match('(%a+) (%d+)') words[w] = (words[w] or 0) + n end
local names = {} for w in pairs(words) do names[#names + 1] = w end table.sort(names)
for _, w in ipairs(names) do print(w, string.format('%d', words[w])) end
print(sieve(300000), mandel(120))
local co = coroutine.wrap(function() for i = 1, 5 do coroutine.yield(i * i) end end)
print(co(), co(), co()) print(select(2, pcall(error, { 1 })) ~= nil)
local s = {} for i = 1, 20000 do s[#s + 1] = ('x'):rep(i % 7) .. i end print(#table.concat(s))
"#;
const NODE: &str = r#"
function sieve(n) { const s = new Uint8Array(n + 1); let c = 0; for (let i = 2; i <= n; i++) if (!s[i]) { c++; for (let j = i * i; j <= n; j += i) s[j] = 1; } return c; }
class P { constructor(x) { this.x = x; } add(o) { return new P(this.x + o.x); } }
let p = new P(0); for (let i = 0; i < 300000; i++) p = p.add(new P(i % 7));
const m = new Map(); for (const l of require('fs').readFileSync('list.txt', 'utf8').trim().split('\n')) { const [w, n] = l.split(' '); m.set(w, (m.get(w) || 0) + +n); }
console.log(sieve(500000), p.x, JSON.stringify([...m].sort()));
process.exitCode = 5;
"#;
const BASH: &str = r#"
set -u
declare -A count
while read -r word number _; do count[$word]=$(( ${count[$word]:-0} + number )); done < list.txt
for word in "${!count[@]}"; do echo "$word ${count[$word]}"; done | sort
echo "piped: $(head -5 text.txt | tr a-z A-Z | wc -c)"
( cd tree && ls | sort -r ) > listing.txt
cat listing.txt
trap 'echo trapped' USR1; kill -USR1 $$
wait
f() { local n=$1; (( n < 2 )) && { echo "$n"; return; }; echo $(( $(f $((n-1))) + $(f $((n-2))) )); }
f 6
exit 9
"#;
const BASH_BUILTINS: &str = r#"
a=(); for ((i = 0; i < 2000; i++)); do a+=($(( (i * 7919) % 1000 ))); done
s=0; for x in "${a[@]}"; do (( s += x * 3 )); done
echo "$s ${#a[@]} ${a[@]:5:4}"
t="the quick brown fox"; echo "${t^^} ${t//o/0} ${t#* } ${#t}"
[[ $t =~ q([a-z]+) ]] && echo "${BASH_REMATCH[1]}"
printf '%05d|%-6s|%x\n' 42 ab 255
case $t in *brown*) echo yes;; *) echo no;; esac
unset nothing; echo "${nothing:-default}"
"#;
const SQL: &str = "\
create table t(id integer primary key, name text, n integer);\n\
with recursive c(i) as (select 1 union all select i + 1 from c where i < 3000) insert into t select i, 'name' || (i * 37 % 500), i * i % 977 from c;\n\
create index by_name on t(name);\n\
select name, count(*), sum(n) from t group by name order by 3 desc, 1 limit 12;\n\
update t set n = n + 1 where name like '%7';\n\
delete from t where id % 5 = 0;\n\
select count(*), sum(n), avg(n) from t join (select 3 as k) where n % k = 0;\n\
select * from no_such_table;\n";
const MAKEFILE: &str = "\
prog: a.o b.o\n\tcc -o prog a.o b.o\n\t./prog\n\
%.o: %.c\n\tcc -O1 -c -o $@ $<\n";
const C_A: &str = "#include <stdio.h>\nint twice(int);\nint main(void) { for (int i = 0; i < 5; i++) printf(\"%d \", twice(i)); puts(\"\"); return 0; }\n";
const C_B: &str = "int twice(int x) { return 2 * x; }\n";
