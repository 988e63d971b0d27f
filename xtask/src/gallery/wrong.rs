//! Programs whose output is wrong: where `locate` ranks the line at fault, with few tests.

use super::{Entry, Shelf};
use crate::scene::Complaints;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::fs;
use std::path::Path;

pub(super) const ENTRIES: [Entry; 5] = [
    Entry {
        name: "jq-indices",
        needs: &["gcc"],
        build: jq,
        check: |shelf| rank(shelf, "jv.c:664"),
    },
    Entry {
        name: "lua-utf8",
        needs: &["gcc"],
        build: lua_utf8,
        check: |shelf| rank(shelf, "lutf8lib.c:236"),
    },
    Entry {
        name: "lua-goto",
        needs: &["gcc"],
        build: lua_goto,
        check: |shelf| rank(shelf, "lparser.c:1395"),
    },
    Entry {
        name: "yajl-pair",
        needs: &["gcc", "dpkg-source"],
        build: yajl,
        check: |shelf| rank(shelf, "yajl_encode.c:142"),
    },
    Entry {
        name: "tidy",
        needs: &["gcc", "dpkg-source"],
        build: tidy,
        check: |shelf| rank(shelf, "messageobj.c:161"),
    },
];

/// What a search may take.
const BUDGET: &str = "120s";

struct Test<'a> {
    name: &'a str,
    args: &'a [&'a str],
    stdin: &'a str,
    expected: &'a str,
    /// On standard error instead.
    file: Option<(&'a str, &'a str)>,
}

const NONE: Test<'_> = Test {
    name: "",
    args: &[],
    stdin: "",
    expected: "",
    file: None,
};

fn suite(shelf: &Shelf, program: &str, tests: &[Test<'_>]) -> Result<()> {
    let mut text = format!("program = {program:?}\n");
    for t in tests {
        text += &format!(
            "\n[[test]]\nname = {:?}\nargs = {:?}\nstdin = {:?}\nexpected = {:?}\n",
            t.name, t.args, t.stdin, t.expected
        );
        if let Some((name, contents)) = t.file {
            text += &format!("files = {{ {name:?} = {contents:?} }}\n");
        }
    }
    Ok(fs::write(shelf.path("suite.toml"), text)?)
}

pub(super) fn jq(shelf: &Shelf) -> Result<()> {
    let source = shelf.crate_source("jq-src", "0.4.1")?;
    shelf.script(
        &source,
        r#"cp -r $SRC/modules/jq/src src; echo '#define JQ_VERSION "1.6"' > src/version.h
        sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^/"/' -e 's/$/\\n"/' src/builtin.jq > src/builtin.inc
        rm src/inject_errors.c
        gcc -g -O0 -w -D_GNU_SOURCE -DIEEE_8087=1 -DHAVE_MEMMEM -DHAVE_ISATTY -DHAVE_TIMEGM -DHAVE_GMTIME_R \
            -Isrc -I. src/*.c -o jq -lm -lpthread"#,
    )?;
    let test = |name, filter, expected| Test {
        name,
        args: filter,
        expected,
        ..NONE
    };
    suite(
        shelf,
        "jq",
        &[
            test(
                "apart",
                &["-nc", r#""a,b, cd, efg"|indices(", ")"#],
                "[3,7]\n",
            ),
            test("twice", &["-nc", r#""abcabc"|indices("abc")"#], "[0,3]\n"),
            test("array", &["-nc", "[1,1,1]|indices([1,1])"], "[0,1]\n"),
            test("overlap", &["-nc", r#""aaa"|indices("aa")"#], "[0,1]\n"),
        ],
    )
}

/// Builds the library with a program that runs one file.
pub(super) fn lua(shelf: &Shelf, source: &Path) -> Result<()> {
    let main = "#include <stdio.h>\n#include \"lua.h\"\n#include \"lualib.h\"\n#include \"lauxlib.h\"\n\
        int main(int argc, char **argv)\n{\n    lua_State *state = luaL_newstate();\n    luaL_openlibs(state);\n\
            if (luaL_dofile(state, argv[1]))\n        return puts(lua_tostring(state, -1)), 1;\n\
            lua_close(state);\n    return 0;\n}\n";
    fs::write(shelf.path("main.c"), main)?;
    shelf.script(
        source,
        "mkdir -p lib; cp $SRC/*.c $SRC/*.h lib; rm -f lib/lua.c lib/luac.c lib/onelua.c lib/ltests.c
         gcc -g -O0 -w -DLUA_USE_LINUX -Ilib main.c lib/*.c -o lua -lm -ldl",
    )
}

fn lua_utf8(shelf: &Shelf) -> Result<()> {
    let source = shelf.crate_source("lua-src", "544.0.1")?.join("lua-5.4.4");
    lua(shelf, &source)?;
    let program = |string: &str| {
        format!(
            "local n=0 local ok=pcall(function() for p,c in utf8.codes(\"{string}\") do n=n+1 end end) \
             print(ok and n or 'invalid')\n"
        )
    };
    let cases = [
        ("ascii", r"abc", "3\n"),
        ("two bytes", r"\195\169t\195\169", "3\n"),
        ("no byte", r"ab\255", "invalid\n"),
        ("stray", r"in\128valid", "invalid\n"),
        ("stray at the end", r"\195\169\191", "invalid\n"),
    ];
    let texts = cases.map(|(_, string, _)| program(string));
    let tests: Vec<Test<'_>> = cases
        .iter()
        .zip(&texts)
        .map(|((name, _, expected), text)| Test {
            name,
            args: &["in.lua"],
            expected,
            file: Some(("in.lua", text)),
            ..NONE
        })
        .collect();
    suite(shelf, "lua", &tests)
}

fn lua_goto(shelf: &Shelf) -> Result<()> {
    let source = shelf.crate_source("rlua", "0.9.0")?.join("lua");
    lua(shelf, &source)?;
    let text = |open| {
        format!(
            "local n=0 {open} goto test ::loop:: n=n+1 ::test:: if n<3 then goto loop end end print(n)\n"
        )
    };
    let (wrong, right) = (text("if true then"), text("do"));
    let test = |name, contents| Test {
        name,
        args: &["in.lua"],
        expected: "3\n",
        file: Some(("in.lua", contents)),
        ..NONE
    };
    suite(
        shelf,
        "lua",
        &[test("in a block", &right), test("in an if", &wrong)],
    )
}

fn yajl(shelf: &Shelf) -> Result<()> {
    let source = shelf.debian_source("yajl", "2.1.0-3+deb12u2")?;
    shelf.script(
        &source,
        r"mkdir -p include/yajl; cp $SRC/src/api/*.h include/yajl
        sed -e 's/\${YAJL_MAJOR}/2/; s/\${YAJL_MINOR}/1/; s/\${YAJL_MICRO}/0/' \
            $SRC/src/api/yajl_version.h.cmake > include/yajl/yajl_version.h
        gcc -g -O0 -w -Iinclude -I$SRC/src $SRC/src/*.c $SRC/reformatter/json_reformat.c -o reformat -lm",
    )?;
    let test = |name, stdin, expected| Test {
        name,
        args: &["-m"],
        stdin,
        expected,
        ..NONE
    };
    suite(
        shelf,
        "reformat",
        &[
            test("plain", r#"["abc"]"#, r#"["abc"]"#),
            test("pair", r#"["\uD834\uDD1Eabc"]"#, "[\"\u{1d11e}abc\"]"),
            test("escape", r#"["\u00e9bc"]"#, "[\"\u{e9}bc\"]"),
            test("half a pair", r#"["\uD834abc"]"#, r#"["?abc"]"#),
        ],
    )
}

fn tidy(shelf: &Shelf) -> Result<()> {
    let source = shelf.debian_source("tidy-html5", "2:5.6.0-11")?;
    shelf.script(
        &source,
        r#"gcc -g -O0 -w -DLIBTIDY_VERSION='"5.6.0"' -DRELEASE_DATE='"2017"' -I$SRC/include -I$SRC/src \
            $SRC/src/*.c $SRC/console/tidy.c -o tidy"#,
    )?;
    let page = "<!DOCTYPE html><title>t</title><p>x</b></p>\n";
    let options = |more: &'static [&'static str]| Test {
        args: more,
        file: Some(("m.html", page)),
        ..NONE
    };
    suite(
        shelf,
        "tidy",
        &[
            Test {
                name: "plain",
                expected: "line 1 column 32 - Warning: inserting implicit <body>\n\
                           line 1 column 36 - Warning: discarding unexpected </b>\n",
                ..options(&["-e", "-q", "-f", "/dev/stdout", "m.html"])
            },
            Test {
                name: "with names",
                expected: "line 1 column 32 - Warning: inserting implicit <body> (INSERTING_TAG)\n\
                           line 1 column 36 - Warning: discarding unexpected </b> (DISCARDING_UNEXPECTED)\n",
                ..options(&[
                    "-e",
                    "-q",
                    "--mute-id",
                    "yes",
                    "-f",
                    "/dev/stdout",
                    "m.html",
                ])
            },
        ],
    )
}

/// Searches, and tells where the line at fault is ranked; that there is a rank is all that is required.
fn rank(shelf: &Shelf, truth: &str) -> Result<Complaints> {
    let report = shelf.path("located.json");
    let report = report.to_str().context("a path that is text")?;
    let options = ["--truth", truth, "--budget", BUDGET, "--json", "-o", report];
    let mut command = shelf.command(&["locate", "suite.toml"]);
    let located = command.args(options).output()?;
    if located.status.code() != Some(1) {
        let words = String::from_utf8_lossy(&located.stderr);
        bail!("locate: {}: {}", located.status, words.trim_end());
    }
    let facts: Value = serde_json::from_slice(&fs::read(report)?)?;
    let tests = facts["tests"].as_array().context("tests")?;
    let failed = tests.iter().filter(|t| t["passed"] == false).count();
    let (found, search) = (&facts["truth"][0], &facts["search"]);
    println!(
        "  {failed} of {} tests fail; {truth} has rank {} of {} (score {:.1}), by Tarantula {}; \
         {} replacements in {:.0} s{}",
        tests.len(),
        found["rank"],
        facts["statements"],
        found["score"].as_f64().unwrap_or(0.0),
        found["tarantula_rank"],
        search["tally"]["tried"],
        search["seconds"].as_f64().unwrap_or(0.0),
        if search["complete"] == true {
            ""
        } else {
            ", not finished"
        },
    );
    let mut complaints = Complaints::new();
    if failed == 0 || failed == tests.len() {
        complaints.push(format!("{failed} of {} tests fail", tests.len()));
    }
    if found["rank"].is_null() {
        complaints.push(format!("{truth} has no rank"));
    }
    Ok(complaints)
}
