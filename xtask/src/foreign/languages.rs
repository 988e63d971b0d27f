//! Languages: what reads a text and makes something of it.

use super::{Sketch, sketch};

/// `gcc` has its compiler run as a child, which nobody looks at; so the shell becomes it.
const COMPILER: &str = "exec \"$(gcc -print-prog-name=cc1)\" -quiet -fsyntax-only -Wall cc.c";

pub(super) fn all() -> Vec<Sketch> {
    vec![
        // Behind the front end it uses sparse sets, which read what was never written, and rightly.
        sketch("cc1", "sh", &["-c", COMPILER])
            .file("cc.c", CC)
            .children(),
        sketch("as", "as", &["-o", "work.o", "work.s"]).file("work.s", ASM),
        sketch("objdump", "objdump", &["-d", "/bin/true"]),
        sketch("readelf", "readelf", &["-aW", "/bin/true"]),
        sketch("bison", "bison", &["-o", "calc.c", "calc.y"])
            .file("calc.y", BISON)
            .children(),
        sketch("lua features", "lua5.4", &["features.lua"]).file("features.lua", LUA),
        sketch("perl features", "perl", &["features.pl"]).file("features.pl", PERL),
        sketch("php", "php", &["-n", "script.php"]).file("script.php", PHP),
        sketch("python doctest", "python3", &["-I", "tests.py"])
            .file("tests.py", DOCTEST)
            .env("PYTHONHASHSEED", "0")
            .env("PYTHONDONTWRITEBYTECODE", "1"),
        sketch("sqlite3 features", "sqlite3", &["-batch", ":memory:"]).input(SQL),
        sketch("tclsh", "tclsh", &["script.tcl"]).file("script.tcl", TCL),
    ]
}

const CC: &str = r#"#include <pthread.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
struct list { struct list *next; char name[16]; union { int i; double d; } v; };
static struct list *add(struct list *l, const char *name, int i)
{ struct list *n = malloc(sizeof *n); if (!n) abort(); *n = (struct list){ .next = l, .v.i = i }; strncpy(n->name, name, sizeof n->name - 1); return n; }
#define EACH(x, l) for (struct list *x = (l); x; x = x->next)
int main(void) { struct list *l = 0; for (int i = 0; i < 5; i++) l = add(l, i % 2 ? "odd" : "even", i);
  int sum = 0; EACH(x, l) switch (x->v.i) { case 1 ... 3: sum += _Generic(sum, int: 2, default: 3); break; default: sum--; }
  int unused; return printf("%d %s\n", sum, l->name) + sizeof(int[sum]); }
"#;
const ASM: &str = r#"	.macro twice from, to
	lea (\from, \from), \to
	.endm
	.text
	.globl work
	.type work, @function
work:
	.cfi_startproc
	push %rbp
	.cfi_def_cfa_offset 16
	.rept 200
	twice %rdi, %rax
	vaddps 8(%rax, %rcx, 4), %ymm1, %ymm2
	.endr
	jmp 1f
	.space 300
1:	pop %rbp
	ret
	.cfi_endproc
	.size work, . - work
	.section .rodata
text:	.string "some text"
	.quad text, work - text
"#;
const BISON: &str = r#"%{
int yylex(void);
void yyerror(const char *s);
%}
%token NUM
%left '+' '-'
%left '*' '/'
%%
in: | in expr '\n' { $$ = $2; };
expr: NUM | expr '+' expr { $$ = $1 + $3; } | expr '-' expr | expr '*' expr | expr '/' expr | '(' expr ')' { $$ = $2; };
"#;
const LUA: &str = r##"local out={}
local function p(...) local a=table.pack(...) for i=1,a.n do a[i]=tostring(a[i]) end out[#out+1]=table.concat(a,"\t") end
for i=1,200 do p(string.format("%5d|%-8s|%x|%g|%q",i,"s"..i,i*37,i/3,"a\n"..i)) end
p((("hello world"):gsub("o","0"))) p(("x=1,y=2"):match("(%w)=(%d)"))
for k,v in string.gmatch("a=1, b=2, c=3","(%w+)=(%w+)") do p(k,v) end
p(string.pack("<i4z",100,"abc"):byte(1,-1)) p(string.unpack("<i4",string.pack("<i4",-5)))
local t={} for i=1,2000 do t[i]=(i*7919)%1009 end table.sort(t,function(a,b) return a>b end) p(t[1],t[2000])
p(table.concat(table.move(t,1,20,5),","))
local co=coroutine.wrap(function(a) for i=1,10 do a=coroutine.yield(a*i) or a end end) for i=1,5 do p(co(i)) end
p(select("#",pcall(error,{}))) p(tostring(pcall(function() local x=nil; return x.y end)))
local mt=setmetatable({},{__index=function(_,k) return k.."!" end,__add=function() return 7 end,__gc=function() end,__close=function() end}) p(mt.foo,mt+1)
do local c<close> =mt end
local w=setmetatable({},{__mode="k"}) for i=1,100 do w[{}]=i end collectgarbage() collectgarbage("generational") for i=1,20000 do local _={i,tostring(i)} end collectgarbage("incremental")
p(load("return 1+2*3^2//1")()) p(#string.dump(function(a) return a+1 end)>0)
local f=load(string.dump(load("local a,b=... ; for i=1,10 do a=a+b end return a"))) p(f(1,2))
local function fib(n) if n<2 then return n end return fib(n-1)+fib(n-2) end p(fib(20))
p(math.floor(-3.5),math.tointeger(3.0),7//2,-7%3,7.5%2,1<<40,~0,5&3,"10"+5,math.type(1),math.max(1,5,3))
for c in utf8.codes and ("héé"):gmatch(utf8.charpattern) do p(c) end p(utf8.char(233,8364),utf8.len("héé"))
local ok,e=pcall(string.rep,"x",-1) p(tostring(ok),e) p(string.rep("ab",1000):find("ba",500,true))
local s={} for i=1,3000 do s[i]=("k"..i):rep(3) end local m={} for _,x in ipairs(s) do m[x]=#x end local n=0 for k in pairs(m) do n=n+m[k] end p(n)
local fh=io.tmpfile() fh:write(table.concat(out,"\n")) fh:seek("set",0) local c=0 for l in fh:lines() do c=c+#l end p(c) fh:close()
p(xpcall(function() error("deep") end,debug.traceback)) p(os.date("!%Y-%m-%d",0)) p(debug.getinfo(1,"l").currentline)
p(tostring(select(2,load("x = = 1"))))
goto done
::done:: print(table.concat(out,"\n"))
"##;
const PERL: &str = r#"use strict; use warnings;
use List::Util qw(sum reduce); use Data::Dumper; use POSIX (); use Encode; use Storable qw(dclone);
$Data::Dumper::Sortkeys = 1;
my @a = map { sprintf("%05.2f|%s", $_ / 3, pack("NnCa*", $_, $_, $_ & 255, "x$_")) } 1 .. 1000;
print length(join ",", sort { $b cmp $a } @a), "\n";
my %h; my $all = join " ", @a; $h{$1}++ while $all =~ /(\d\d\.\d)/g;
print join(",", map { "$_=$h{$_}" } sort keys %h), "\n", Dumper([1, { a => [2, 3] }, \"x"]);
local $_ = "x" x 50; s/(x)(?=x)/y$1/g; print; print unpack("%32C*", "abc"), sum(1 .. 100), reduce { $a * $b } 1 .. 9;
printf "%vd %b %e %s\n", "1.22.333", 10, 1e10 / 3, POSIX::strftime("%Y", gmtime 0);
print scalar(keys %{dclone(\%h)}), length(encode("UTF-16", "h\x{263a}")), "\n";
my $s = sub { my $n = shift; sub { $n++ } }->(3); $s->(); print $s->(), "\n"; print "$1-$2\n" if "2024-05" =~ /^(?<y>\d+)-(\d+)$/;
"#;
const PHP: &str = r#"<?php
$a = []; for ($i = 0; $i < 3000; $i++) $a["k" . $i * 7919 % 1000] = "x$i";
ksort($a); echo count($a), md5(serialize($a)), preg_replace("/x(\d)/", "<\\1>", implode(",", array_slice($a, 0, 9))), "\n";
class A { public $x = 1; function f() { yield 1; yield $this->x; } } foreach ((new A)->f() as $v) echo $v;
try { throw new Exception("e"); } catch (Exception $e) { echo $e->getMessage(), "\n"; }
usort($a, fn($p, $q) => strcmp($q, $p)); echo $a[0], json_encode(["a" => 1.5, "b" => [1, 2]]), sprintf("%05.2f", 1 / 3), strrev("abc"), date("Y", 0), "\n";
"#;
const DOCTEST: &str = r#"import bisect, collections, difflib, doctest, enum, heapq, io, pickle, random, statistics
for module in bisect, collections, difflib, enum, heapq, pickle, random, statistics:
    with io.StringIO() as out:
        import contextlib
        with contextlib.redirect_stdout(out): result = doctest.testmod(module)
    print(module.__name__, result.failed, result.attempted)
"#;
const SQL: &str = r#"create table t(id integer primary key, name text, n integer, x real, b blob);
with recursive c(i) as (select 1 union all select i+1 from c where i<2000) insert into t select i,'name'||(i*37%500),i*i%977,i/3.0,zeroblob(i%5) from c;
create index by_name on t(name); create view v as select name,sum(n) s from t group by name; select * from v order by s desc limit 5;
select name, row_number() over (partition by n%5 order by n), printf('%05.2f',x) from t where id<30; update t set n=n+1 where name glob '*7'; delete from t where id%5=0;
create virtual table f using fts5(a,b); insert into f select name,'text '||n||' word'||(n%13) from t; select count(*) from f where f match 'word5 OR word6'; select highlight(f,0,'<','>') from f where f match 'name7' limit 2;
create virtual table r using rtree(id,x0,x1); insert into r select id,n,n+1 from t; select count(*) from r where x0>100 and x1<300;
select json_extract('{"a":[1,2,{"b":3}]}','$.a[2].b'), json_group_array(n) from (select n from t limit 5); select group_concat(name,';') from (select distinct name from t order by 1 limit 5);
create trigger tr after insert on t begin update t set n=0 where id=new.id; end; insert into t values(99999,'q',5,1.5,x'00ff'); select n,hex(b),typeof(x) from t where id=99999; begin; delete from t; rollback; savepoint a; update t set n=1; rollback to a; release a;  select * from t a join t b on a.n=b.n where a.name like 'name1%'; select count(*) from t a join t b using(n) where a.id<200; vacuum; analyze; pragma integrity_check; alter table t add column z default 5; alter table t rename column z to zz; select sum(zz),max(name),abs(-5),round(2.567,1),upper('x'),substr('hello',2,3),instr('abc','c'),replace('aab','a','x'),date(0,'unixepoch'),strftime('%Y',0,'unixepoch'),coalesce(null,1),iif(1,2,3),quote('a''b'),sin(1.0) from t; reindex; with x as (select 1 a union select 2) select * from x except select 1; select * from nonexistent;
"#;
const TCL: &str = r#"proc f n { if {$n < 2} { return $n }; expr {[f [expr {$n - 1}]] + [f [expr {$n - 2}]]} }
puts [f 13]
set l {}
for {set i 0} {$i < 300} {incr i} { lappend l [expr {$i * 7919 % 1000}] }
puts [lsort -integer $l]
puts [regsub -all {(\d)} abc123 {<\1>}]
dict set d a b c
puts "$d [string map {a b} banana] [expr {2 ** 200}] [clock format 0 -gmt 1]"
coroutine c apply {{} { yield 1; yield 2 }}
puts [c]
catch { error oops } message
puts $message
"#;
