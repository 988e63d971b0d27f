//! Slices and library breakpoints inside gdb: not what is printed about them, but where the program stands.
//!
//! The guest makes two sums with one statement, so which of its executions belong to which sum is known.

mod harness;

use harness::Place;
use harness::gdb::{answer, contains, debug, mark, told};

const GUEST: &str = "debug/two_sums.c";

/// A line of the guest, as slices name it.
#[track_caller]
fn at(name: &str) -> String {
    format!("two_sums.c:{}", mark(GUEST, name))
}

fn recorded(level: &str) -> Place {
    let p = Place::new();
    let program = p.guest(GUEST, &[level]);
    p.run(&program, &[]).exits(0);
    p
}

#[track_caller]
fn dialogue(p: &Place, commands: &str) -> Vec<(String, String)> {
    let ran = debug(p, commands);
    told(&ran, commands)
}

/// What all commands that begin so have printed, the last word of each.
fn last_words<'a>(all: &'a [(String, String)], command: &str) -> Vec<&'a str> {
    let texts = all.iter().filter(|(c, _)| c.starts_with(command));
    texts
        .map(|(_, t)| t.split_whitespace().next_back().unwrap_or(""))
        .collect()
}

/// The steps that `when` told.
fn steps(all: &[(String, String)]) -> Vec<u64> {
    let texts = all.iter().filter(|(c, _)| c == "when");
    texts
        .map(|(_, t)| t.split_whitespace().nth(1).unwrap().parse().unwrap())
        .collect()
}

/// The number that a slice has given to a statement.
#[track_caller]
fn number(slice: &str, place: &str) -> usize {
    let line = slice.lines().find(|l| l.contains(&format!("{place} ")));
    let line = line.unwrap_or_else(|| panic!("no {place} in {slice}"));
    line.split_whitespace().next().unwrap().parse().unwrap()
}

const BEGIN: &str = "break main\ncontinue\ndelete\n";
/// The line at which gdb believes the program to be.
const LINE: &str = "python print('line', gdb.selected_frame().find_sal().line)\n";

#[test]
fn sbreak_stops_at_the_executions_that_are_in_the_slice() {
    let p = recorded("-O0");
    let result = at("result");
    let first = format!("{BEGIN}slice {result} odd\n");
    let all = dialogue(&p, &first);
    let slice = answer(&all, "slice", 0);
    let add = number(slice, &at("add"));
    let odd = number(slice, &at("odd"));
    assert!(!slice.contains(&at("even")), "{slice}");

    // One statement: three of its six executions.
    let stop = format!("continue\n{LINE}print n\nprint to == &odd\n");
    let commands = format!("{first}sbreak 1 {add}\n{}continue\n", stop.repeat(3));
    let all = dialogue(&p, &commands);
    assert_eq!(last_words(&all, "print n"), ["3", "9", "15"]);
    assert_eq!(last_words(&all, "print to"), ["1", "1", "1"]);
    let line = mark(GUEST, "add").to_string();
    assert_eq!(last_words(&all, "python"), [&line; 3]);
    // Of the four that follow, the last one finds nothing more.
    contains(
        answer(&all, "continue", 4),
        &["No more reverse-execution history"],
    );

    // Two of them, in turn.
    let stop = format!("continue\n{LINE}");
    let commands = format!("{first}sbreak 1 {add},{odd}\n{}", stop.repeat(6));
    let all = dialogue(&p, &commands);
    let call = mark(GUEST, "odd").to_string();
    let lines = [&call, &line, &call, &line, &call, &line];
    assert_eq!(last_words(&all, "python"), lines);
}

#[test]
fn sbreak_all_and_snext_go_the_same_way_and_sprev_goes_it_back() {
    let p = recorded("-O0");
    let result = at("result");
    let here = format!("when\n{LINE}");
    // As many as there are: the slice says so.
    let count_it = format!("{BEGIN}goto 0\nslice {result} odd\nsbreak all 1\n");
    let all = dialogue(&p, &count_it);
    let said = answer(&all, "sbreak all", 0);
    let n: usize = said.split_whitespace().nth(4).unwrap().parse().unwrap();
    assert!(n > 15, "{said}");
    let commands = format!(
        "{BEGIN}slice {result} odd\ngoto 0\n{}snext\ngoto 0\nsbreak all 1\n{}sdelete 1\ncontinue\nslice {result} odd\ngoto {{end}}\n",
        format!("snext\n{here}").repeat(n),
        format!("continue\n{here}").repeat(n),
    );
    let commands = commands.replace(
        "goto {end}\n",
        &format!("{}sprev\n", format!("sprev\n{here}").repeat(n)),
    );
    let all = dialogue(&p, &commands);
    let (steps, lines) = (steps(&all), last_words(&all, "python"));
    assert_eq!(steps.len(), 3 * n);
    assert!(steps[..n].is_sorted_by(|a, b| a < b), "{steps:?}");
    assert_eq!(
        steps[..n],
        steps[n..2 * n],
        "by breakpoints and step by step"
    );
    assert_eq!(lines[..n], lines[n..2 * n]);
    let back: Vec<u64> = steps[2 * n..].iter().rev().copied().collect();
    assert_eq!(steps[..n], back, "the way back");
    contains(answer(&all, "snext", n), &["nothing behind step"]);
    contains(answer(&all, "sprev", n), &["nothing before step"]);
    // Lines of the other sum are not on the way; those of this one are, as often as they count.
    let times = |name: &str| {
        let line = mark(GUEST, name).to_string();
        lines[..n].iter().filter(|l| **l == line).count()
    };
    assert_eq!(times("odd"), 3);
    assert_eq!(times("add"), 3);
    assert_eq!(times("even"), 0);
    assert_eq!(times("result"), 1);
    // Its breakpoints go with the slice.
    contains(
        answer(&all, "continue", n + 1),
        &["No more reverse-execution history"],
    );
}

#[test]
fn prune_and_record_leave_out_what_they_say() {
    let p = recorded("-O0");
    let [result, factor, odd, loops, sums] = ["result", "factor", "odd", "loop", "sums"].map(at);
    let commands = format!(
        "{BEGIN}slice {result} odd\nprune 1 factor\nslice 1\nprune 1 nothing\n\
         record {loops} on\nslice {result} odd\nrecord {result} off\nslice {result} odd\n\
         record off\nslice {result} odd\nsdelete 2\nslice 2\ninfo slices\nsdelete 2\n\
         record {loops}\nrecord nowhere.c:7 on\n"
    );
    let all = dialogue(&p, &commands);
    let has = |text: &str, place: &str| text.contains(&format!("{place} "));
    // The statement that set the factor, and only what came through it, is gone.
    let (before, after) = (answer(&all, "slice", 0), answer(&all, "slice 1", 0));
    assert!(has(before, &factor) && !has(after, &factor), "{after}");
    for place in [&odd, &loops, &sums, &result] {
        assert!(has(before, place) && has(after, place), "{after}");
    }
    // From the loop on: neither what set the factor nor what called the function is there.
    for n in [1, 2] {
        let part = answer(&all, "slice two_sums", n);
        assert!(!has(part, &factor) && !has(part, &sums), "{part}");
        assert!(has(part, &odd) && has(part, &result), "{part}");
    }
    let whole = answer(&all, "slice two_sums", 3);
    assert_eq!(
        whole.split_once(':').unwrap().1,
        before.split_once(':').unwrap().1,
        "all of the run again"
    );
    contains(answer(&all, "slice 2", 0), &["no slice `2`"]);
    let left = answer(&all, "info slices", 0);
    contains(
        left,
        &["slice 1:", "slice 3:", "slice 4:", "without factor"],
    );
    assert!(!left.contains("slice 2:"), "{left}");
    contains(answer(&all, "sdelete", 1), &["no slice `2`"]);
    contains(
        answer(&all, &format!("record {loops}"), 1),
        &["write FILE:LINE on"],
    );
    contains(answer(&all, "record nowhere", 0), &["nowhere.c:7"]);
}

/// An edge of a tree, by its name: the line and the step that it leads to.
fn edges(tree: &str) -> Vec<(String, usize, u64)> {
    let mut out = Vec::new();
    for line in tree.lines().filter(|l| l.contains("-> two_sums.c:")) {
        let name = line.split_whitespace().next().unwrap();
        let to = line.split("-> two_sums.c:").nth(1).unwrap();
        let digits = to.split(|c: char| !c.is_ascii_digit()).next().unwrap();
        let step = to.split("(step ").nth(1).unwrap();
        let step = step.split(')').next().unwrap();
        out.push((
            name.to_owned(),
            digits.parse().unwrap(),
            step.parse().unwrap(),
        ));
    }
    out
}

#[test]
fn follow_goes_to_where_the_tree_says() {
    for level in ["-O0", "-O2"] {
        let p = recorded(level);
        let begin = format!("{BEGIN}slice {} odd\nslice 1 tree\n", at("result"));
        let all = dialogue(&p, &begin);
        let edges = edges(answer(&all, "slice 1 tree", 0));
        assert!(edges.len() > 4, "{edges:?}");
        let follow = |(name, ..): &(String, usize, u64)| format!("follow {name}\nwhen\n{LINE}");
        let commands: String = edges.iter().map(follow).collect();
        let all = dialogue(&p, &format!("{begin}{commands}"));
        let (steps, lines) = (steps(&all), last_words(&all, "python"));
        for (i, (name, line, step)) in edges.iter().enumerate() {
            assert_eq!(steps[i], *step, "{name}");
            assert_eq!(lines[i], line.to_string(), "{name}");
        }
    }
    // What the sum was read from was written by the last addition to it.
    let p = recorded("-O0");
    let begin = format!("{BEGIN}slice {} odd\nslice 1 tree\n", at("result"));
    let all = dialogue(&p, &begin);
    let tree = answer(&all, "slice 1 tree", 0);
    let own = tree.rsplit(&at("result")).next().unwrap();
    let edge = own.lines().find(|l| l.ends_with("because of memory odd"));
    let edge = edge.expect("an edge").split_whitespace().next().unwrap();
    let commands =
        format!("{begin}follow {edge}\nprint n\nprint to == &odd\nprint odd\nstepi\nprint odd\n");
    let all = dialogue(&p, &commands);
    let values = last_words(&all, "print");
    assert_eq!(values, ["15", "1", "12", "27"]);
}

/// The lines at which the program stops, to its end.
fn lines_of_stops(all: &[(String, String)]) -> Vec<usize> {
    let lines = last_words(all, "python").into_iter();
    lines.map(|l| l.parse().unwrap()).collect()
}

#[test]
fn lbreak_stops_at_the_calls_that_are_meant() {
    let p = recorded("-O0");
    // Where things are: the same in every run.
    let end = mark(GUEST, "free");
    let all = dialogue(
        &p,
        &format!(
            "break {end}\ncontinue\nprint/x (long) second\nprint/x (long) &text[8]\nprint/x (long) &other[0]\nprint/x (long) first\n"
        ),
    );
    let values = last_words(&all, "print");
    let [second, late, other, first] = values[..] else {
        panic!("{values:?}");
    };
    let check = |lbreak: &str, marks: &[&str]| {
        let stop = format!("continue\n{LINE}");
        let commands = format!(
            "break calls\ncontinue\ndelete\n{lbreak}\n{}continue\nldelete 1\nldelete 1\n",
            stop.repeat(marks.len()),
        );
        let all = dialogue(&p, &commands);
        let expected: Vec<usize> = marks.iter().map(|m| mark(GUEST, m)).collect();
        assert_eq!(lines_of_stops(&all), expected, "{lbreak}");
        for n in 1..=marks.len() {
            contains(answer(&all, "continue", n), &["lbreak 1: a call of "]);
        }
        // And there are no others.
        let end = answer(&all, "continue", marks.len() + 1);
        contains(end, &["No more reverse-execution history"]);
        contains(answer(&all, "ldelete", 1), &["no lbreak 1"]);
    };
    check("lbreak strcpy", &["short", "long", "other"]);
    check("lbreak malloc if arg1==200", &["second"]);
    check("lbreak malloc if arg1==0x64", &["first"]);
    check(&format!("lbreak malloc if ret=={second}"), &["second"]);
    check(&format!("lbreak malloc if ret=={first}"), &["first"]);
    check(&format!("lbreak free if arg1=={second}"), &["free second"]);
    // The short text does not reach that far.
    check(&format!("lbreak strcpy if write {late} 4"), &["long"]);
    check(&format!("lbreak strcpy if write {other}"), &["other"]);
    check(&format!("lbreak strlen if read {late} 1"), &["length"]);
    check(&format!("lbreak strlen if access {other} 2"), &["length"]);
    check(&format!("lbreak strcpy if access {late}"), &["long"]);
    check(&format!("lbreak strlen if write {other}"), &[]);
    // Expressions are taken as they are when it is set.
    check("lbreak malloc if arg1==2*100", &["second"]);
    check("lbreak strcpy if write &text[8] 4", &["long"]);
    check("lbreak strcpy if write other", &["other"]);
    // One that is deleted stops nothing.
    let deleted = "break calls\ncontinue\ndelete\nlbreak strcpy\ncontinue\nldelete 1\ncontinue\n";
    let all = dialogue(&p, deleted);
    contains(answer(&all, "continue", 1), &["lbreak 1: a call of strcpy"]);
    contains(
        answer(&all, "continue", 2),
        &["No more reverse-execution history"],
    );
}

#[test]
fn lbreak_says_what_it_does_not_understand() {
    let p = recorded("-O0");
    let commands = format!(
        "{BEGIN}lbreak\nlbreak no_such_function\nlbreak free if arg9==1\nlbreak free if ret=1\n\
         lbreak free if write\nlbreak free if touch 1\nlbreak free if arg1==x\ninfo lbreaks\n\
         lbreak free if arg1==16\nlbreak malloc if ret==1\nlbreak strcpy if read 0x1000 8\ninfo lbreaks\n"
    );
    let all = dialogue(&p, &commands);
    let wrong = [
        ("lbreak no_such", "no file that is loaded has a function"),
        ("lbreak free if arg9", "none of arg1 to arg6"),
        ("lbreak free if ret=1", "write argN==VALUE"),
        ("lbreak free if write", "write argN==VALUE"),
        ("lbreak free if touch", "`touch` is not known"),
        ("lbreak free if arg1==x", "No symbol \"x\""),
    ];
    contains(answer(&all, "lbreak", 0), &["name of a function"]);
    for (command, why) in wrong {
        contains(answer(&all, command, 0), &[why]);
    }
    assert!(!answer(&all, "info lbreaks", 0).contains("free"));
    let list = answer(&all, "info lbreaks", 1);
    contains(
        list,
        &[
            "free if arg1==0x10",
            "malloc if ret==0x1",
            "strcpy if read 0x1000 8",
        ],
    );
}
