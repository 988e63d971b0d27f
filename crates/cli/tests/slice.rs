//! `wherefore slice`, `where`, `value` and `source` on the example and on small programs.

mod harness;

use std::collections::BTreeSet;
use std::fs;

use harness::Place;
use serde_json::Value;

const INVENTORY: &str = include_str!("../../../examples/inventory.c");

fn lines(report: &Value) -> BTreeSet<u64> {
    let statements = report["statements"].as_array().expect("statements");
    statements
        .iter()
        .filter_map(|s| s["line"].as_u64())
        .collect()
}

/// The number of the only line with this text.
#[track_caller]
fn line(source: &str, text: &str) -> u64 {
    let found: Vec<usize> = (source.lines().enumerate())
        .filter(|(_, l)| l.contains(text))
        .map(|(n, _)| n + 1)
        .collect();
    assert_eq!(found.len(), 1, "lines with `{text}`");
    found[0] as u64
}

#[track_caller]
fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

#[test]
fn a_crash_is_explained() {
    let p = Place::new();
    let guest = p.build("inventory", INVENTORY, &["-O0"]);
    p.run(&guest, &[]).dies(11);
    let r = p.say(&["slice", "--json"]);
    r.exits(0);
    let report = json(&r.err);
    let found = lines(&report);
    // The order was written over the item that was freed, to which the favourite still pointed.
    for text in [
        "*order = (struct order)",
        "free(item); //",
        "shop->favourite = item;",
        "width(shop->favourite->name)",
    ] {
        assert!(found.contains(&line(INVENTORY, text)), "{text}: {found:?}");
    }
    let all = INVENTORY.lines().count();
    assert!(found.len() < all / 2, "{} of {all} lines", found.len());

    // Without control, and about one variable, it is smaller, and contained in the whole.
    let r = p.say(&["slice", "--json", "--data-only"]);
    let data = lines(&json(&r.err));
    assert!(data.is_subset(&found) && data.len() < found.len());

    let page = p.path("slice.html");
    p.say(&["slice", "--html", "-o", page.to_str().unwrap()])
        .exits(0);
    let page = fs::read_to_string(page).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
    assert!(!page.contains("http://") && !page.contains("https://"));
    assert!(page.contains("shop-&gt;favourite = item;"));
}

#[test]
fn who_wrote_it() {
    let p = Place::new();
    let guest = p.build("inventory", INVENTORY, &["-O0"]);
    p.run(&guest, &[]).dies(11);
    let at = format!(
        "inventory.c:{}#2",
        line(INVENTORY, "width(shop->favourite->name)")
    );
    let r = p.say(&["where", "shop->favourite->name", "--at", &at, "--json"]);
    r.exits(0);
    let report = json(&r.err);
    let writes = report["writes"].as_array().expect("writes");
    assert_eq!(
        writes[0]["line"],
        line(INVENTORY, "*order = (struct order)")
    );
    assert!(writes[0]["value"].as_str().unwrap().starts_with("1001 "));
    let last = writes.last().unwrap();
    assert_eq!(last["line"], line(INVENTORY, "item->name = strdup(name);"));

    let first = at.replace("#2", "#1");
    let r = p.say(&["value", "shop->favourite->sold", "--at", &first]);
    r.exits(0);
    assert_eq!(r.err, "shop->favourite->sold = 9\n");
}

#[test]
fn a_variable_of_a_loop() {
    let source = "\
int a[10], unrelated;
int main(void) {
    int sum = 0;
    for (int i = 0; i < 10; i++) {
        a[i] = i * i;
        unrelated += 3;
    }
    for (int i = 0; i < 10; i += 2)
        sum += a[i];
    return sum;
}
";
    let p = Place::new();
    let guest = p.build("loop", source, &["-O0"]);
    p.run(&guest, &[]).exits(120);
    let name = |n: u64| format!("loop.c:{n}");
    let r = p.say(&["slice", "--at", &name(10), "--var", "sum", "--json"]);
    r.exits(0);
    let found = lines(&json(&r.err));
    assert!(
        found.is_superset(&BTreeSet::from([3, 4, 5, 8, 9])),
        "{found:?}"
    );
    assert!(!found.contains(&6), "what has nothing to do with it");

    let r = p.say(&["source", "--json"]);
    let report = json(&r.err);
    let files = report["files"].as_object().unwrap();
    let (_, list) = files.iter().next().unwrap();
    let times = |n: u64| {
        let found = list.as_array().unwrap().iter().find(|l| l["line"] == n);
        found.map_or(0, |l| l["times"].as_u64().unwrap())
    };
    assert_eq!((times(5), times(6), times(9)), (10, 10, 5));

    // The n-th time.
    for (nth, value) in [(1, 0), (4, 9), (10, 81)] {
        let at = format!("loop.c:6#{nth}");
        let r = p.say(&["value", "a[i]", "--at", &at]);
        r.exits(0);
        assert_eq!(r.err, format!("a[i] = {value}\n"));
    }
}

#[test]
fn bad_requests() {
    let p = Place::new();
    let guest = p.build("inventory", INVENTORY, &["-O0"]);
    p.run(&guest, &[]).dies(11);
    for (args, says) in [
        (&["slice", "--at", "inventory.c:1"][..], "has no code"),
        (&["slice", "--at", "nowhere.c:10"], "no code at"),
        (&["slice", "--at", "main#2"], "reached once"),
        (&["slice", "--at", "inventory.c:x"], "number of a line"),
        (&["slice", "--at", "9999999999"], "step"),
        (&["slice", "--reg", "eaxx"], "no register"),
        (&["slice", "--var", "nonesuch"], "nonesuch"),
        (&["slice", "--prune", "nonesuch"], "cannot be pruned"),
        (&["slice", "--window", "5..3"], "ends before"),
        (&["value", "shop->", "--at", "print_poster"], "^"),
        (&["where", "1 + 2", "--at", "main"], "history"),
    ] {
        p.say(args).exits(2).says(says);
    }
    let fine = p.build("fine", "int main(void) { return 0; }", &[]);
    p.run(&fine, &[]).exits(0);
    p.say(&["slice"]).exits(2).says("did not crash");
}

#[test]
fn a_smashed_return_address() {
    let source = "\
#include <string.h>
static const char *text = \"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\";
void copy(const char *from) {
    char room[8];
    static int i;
    while (from[i]) {
        room[i] = from[i];
        i++;
    }
}
int main(void) { copy(text); return 0; }
";
    let p = Place::new();
    let guest = p.build("smash", source, &["-O0", "-fno-stack-protector"]);
    p.run(&guest, &[]).dies(11);
    let r = p.say(&["slice", "--json"]);
    r.exits(0);
    assert!(lines(&json(&r.err)).contains(&7), "who wrote the slot");
}

/// The second question is answered from the tape that the first one left, and so is one after that
/// tape was damaged.
#[test]
fn the_tape_is_kept() {
    let source = "\
int table[64];
int main(void) {
    int sum = 0;
    for (int i = 0; i < 200000; i++) {
        table[i % 64] += i;
        sum ^= table[i % 17];
    }
    return sum & 63;
}
";
    let p = Place::new();
    let guest = p.build("kept", source, &["-O1"]);
    p.run(&guest, &[]);
    let ask = || {
        let r = p.say(&["slice", "--at", "kept.c:8", "--json"]);
        r.exits(0);
        let mut report = json(&r.err);
        for name in ["replay_seconds", "slice_seconds"] {
            report["figures"][name] = Value::Null;
        }
        report
    };
    let first = ask();
    let name = p.names().remove(0);
    let tape = p.recordings().join(&name).join("tape");
    let whole = fs::read(&tape).expect("a tape");
    let steps = first["figures"]["steps"].as_u64().expect("steps");
    assert!(
        (whole.len() as u64) < steps / 2,
        "{} bytes for {steps} instructions",
        whole.len()
    );
    assert_eq!(ask(), first, "from the tape");
    fs::write(&tape, &whole[..whole.len() / 2]).unwrap();
    assert_eq!(ask(), first, "with half of the tape");
    assert_eq!(fs::read(&tape).unwrap().len(), whole.len(), "made again");
    let mut wrong = whole.clone();
    wrong[whole.len() / 4] ^= 1;
    fs::write(&tape, &wrong).unwrap();
    assert_eq!(ask(), first, "with a wrong byte among the records");
    assert_ne!(fs::read(&tape).unwrap(), wrong, "made again");
}

/// A call that the compiler put in line belongs to the statement as any other.
#[test]
fn a_statement_with_an_inlined_call() {
    let source = "\
volatile int seed = 7, other = 5;
static inline __attribute__((always_inline)) int mix(int n) {
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += seed + i;
    return sum;
}
int main(void) {
    volatile int total = other;
    total += mix(total);
    return total & 63;
}
";
    let p = Place::new();
    let guest = p.build("inlined", source, &["-O2"]);
    p.run(&guest, &[]);
    let r = p.say(&["slice", "--at", "inlined.c:10", "--json"]);
    r.exits(0);
    let report = json(&r.err);
    assert_eq!(
        (&report["at"]["line"], &report["at"]["nth"]),
        (&10.into(), &1.into())
    );
    let found = lines(&report);
    assert!(found.is_superset(&BTreeSet::from([5, 9])), "{found:?}");
}

/// An assignment that was not executed.
#[test]
fn a_part_of_the_run() {
    let source = "\
#include <stdlib.h>
int a, b, c;
int main(void)
{
    a = 1;
    for (int i = 0; i < 3; i++)
        b += a + i;
    c = b;
    if (c)
        abort();
    return 0;
}
";
    let p = Place::new();
    let guest = p.build("part", source, &["-O0"]);
    p.run(&guest, &[]).dies(6);
    let ask = |window: &str| {
        let r = p.say(&[
            "slice", "--json", "--at", "part.c:8", "--var", "b", "--window", window,
        ]);
        r.exits(0);
        lines(&json(&r.err))
    };
    assert!(ask("..").contains(&5) && ask("..crash").contains(&5));
    let loops = ask("part.c:7..");
    assert!(loops.contains(&7) && !loops.contains(&5), "{loops:?}");
    assert!(!ask("part.c:8..").contains(&7));
    let before = ask("main..part.c:7#1");
    assert!(!before.contains(&7), "all writes are later: {before:?}");
    let once = ask("main..part.c:7#2");
    assert!(once.contains(&7) && once.contains(&5), "{once:?}");
    for (window, why) in [
        ("part.c:8..part.c:5", "ends before"),
        ("part.c:7#4..", "reached 3 times"),
        ("part.c:7", "two steps or places"),
        ("part.c:x..", "not the number of a line"),
    ] {
        let r = p.say(&["slice", "--window", window]);
        r.exits(2).says(why);
    }
}

#[test]
fn values_each_time() {
    let source = "\
#include <stdio.h>
struct item { struct item *next; double weight; } items[3] = { { &items[1], 1.5 }, { &items[2], 2.5 } };
int main(void)
{
    int n = 0;
    for (struct item *p = items; p; p = p->next) {
        n = n * 3 + 1;
        printf(\"%d %g %g\\n\", n, p->weight, p->next ? p->next->weight : -1);
    }
    return 0;
}
";
    let p = Place::new();
    let guest = p.build("each", source, &["-O0"]);
    let said = p.run(&guest, &[]);
    let at = ["--at", "each.c:8", "--every", "--json"];
    let ask = [
        &[
            "value",
            "n",
            "--and",
            "p->weight",
            "--and",
            "p->next->weight",
        ][..],
        &at,
    ]
    .concat();
    let told = json(&p.say(&ask).exits(0).err);
    let moments = told["moments"].as_array().expect("moments");
    assert_eq!(moments.len(), 3);
    for ((nth, m), line) in (1..).zip(moments).zip(said.out.lines()) {
        assert_eq!(m["at"]["nth"], nth);
        let value = |i: usize| &m["values"][i];
        let printed: Vec<&str> = line.split(' ').collect();
        assert_eq!([&value(0)["value"], &value(1)["value"]], printed[..2]);
        match nth {
            3 => assert!(
                value(2)["problem"].is_string(),
                "there is nothing after the last"
            ),
            _ => assert_eq!(value(2)["value"], printed[2]),
        }
    }
    let two = p.say(&["value", "n", "--at", "each.c:8", "--every", "-n", "2"]);
    two.exits(0)
        .says("n = 1\n")
        .says("n = 4\n")
        .says("and more");
    let last = p.say(&["value", "n", "--and", "p->weight", "--at", "each.c:8"]);
    last.exits(0).says("n = 13, p->weight = 0\n");
    let once = p.say(&["value", "n", "--at", "each.c:8#2", "--every"]);
    once.exits(2).says("is one time only");
}

#[test]
fn what_might_have_been() {
    let source = "\
#include <stdlib.h>
int skip, unrelated, limit = 3;
static void look(int n)
{
    if (n > 100)
        unrelated = 1;
    if (n > limit && n != 7)
        skip = 1;
}
static int find(int n)
{
    int at = 1, other = 0;
    while (n < 3) {
        if (n == 5)
            at = 0;
        if (n == 6)
            other = 1;
        n += 2;
    }
    return at;
}
int main(void)
{
    look(7);
    int at = find(limit - 3);
    if (!skip && at)
        abort();
    return 0;
}
";
    let p = Place::new();
    let guest = p.build("omission", source, &["-O0"]);
    p.run(&guest, &[]).dies(6);
    let ask = |options: &[&str]| {
        let r = p.say(&[&["slice", "--json"], options].concat());
        r.exits(0);
        lines(&json(&r.err))
    };
    // A global variable; and a local one, with what is counted by the loop around it.
    let (decide, others) = ([7, 14, 18, 13], [5, 16]);
    let plain = ask(&[]);
    assert!(
        decide.iter().all(|line| !plain.contains(line)),
        "nothing that was executed depends on them: {plain:?}"
    );
    let relevant = ask(&["--relevant"]);
    assert!(decide.iter().all(|l| relevant.contains(l)), "{relevant:?}");
    assert!(
        !others.iter().any(|l| relevant.contains(l)),
        "other variables: {relevant:?}"
    );
}

/// Where a function begins, its arguments are not yet where unoptimised code is said to keep them.
#[test]
fn arguments_are_known_where_a_function_is_reached() {
    let p = Place::new();
    let source = "int twice(int n) {\n    return 2 * n;\n}\n\
                  int main(void)\n{\n    int sum = 0;\n    for (int i = 5; i < 8; i++)\n\
                          sum += twice(i);\n    return sum != 36;\n}\n";
    for level in ["-O0", "-O1"] {
        let guest = p.build("twice", source, &[level, "-fno-inline", "-fno-ipa-cp"]);
        p.run(&guest, &[]).exits(0);
        for place in ["twice", "twice.c:1"] {
            let r = p.say(&["value", "n", "--at", place, "--every", "--json"]);
            r.exits(0);
            let report = json(&r.err);
            let moments = report["moments"].as_array().expect("moments");
            let values = moments.iter().map(|m| m["values"][0]["value"].as_str());
            let values: Vec<&str> = values.map(|v| v.expect("a value")).collect();
            assert_eq!(values, ["5", "6", "7"], "{level} {place}");
        }
        let r = p.say(&[
            "slice",
            "--json",
            "--at",
            "twice#2",
            "--var",
            "n",
            "--data-only",
        ]);
        r.exits(0);
        assert!(
            lines(&json(&r.err)).contains(&line(source, "sum += twice")),
            "{level}"
        );
    }
}

#[test]
fn a_history_is_told_in_the_terms_of_the_type() {
    let p = Place::new();
    let source = "struct { unsigned low : 3, high : 5; } pair;\ndouble share;\nint main(void)\n{\n\
                  pair.low = 5;\n    pair.high = 9;\n    share = 0.25;\n    share *= 3;\n    return 0;\n}\n";
    let guest = p.build("terms", source, &["-O0"]);
    p.run(&guest, &[]).exits(0);
    let last = format!("terms.c:{}", line(source, "return 0"));
    let values = |name: &str| -> Vec<String> {
        let r = p.say(&["where", name, "--at", &last, "--json"]);
        r.exits(0);
        let report = json(&r.err);
        let writes = report["writes"].as_array().expect("writes").iter();
        let values = writes.map(|w| w["value"].as_str().expect("a value").to_owned());
        values.collect()
    };
    assert_eq!(values("pair.high")[0], "9 (0x9)");
    assert_eq!(values("pair.low")[0], "5 (0x5)");
    assert_eq!(values("share"), ["0.75", "0.25"]);
}

#[test]
fn what_makes_no_sense_is_said_to() {
    let p = Place::new();
    let guest = p.build("inventory", INVENTORY, &["-O0"]);
    p.run(&guest, &[]).dies(11);
    for (args, words) in [
        (&["slice", "--var", "count + 1"][..], "names no object"),
        (&["slice", "--addr", "0x1000", "--len", "0"], "`--len 0`"),
        (&["where", "count", "-n", "0"], "a number from 1 on"),
    ] {
        let r = p.say(args);
        r.exits(2);
        assert!(r.err.contains(words), "{}", r.err);
    }
}

/// What is beside the program is looked for there, not beside the copy in the recording; and the program is named.
#[test]
fn debug_information_that_is_split_off() {
    let p = Place::new();
    let source = "int main(void)\n{\n    int sum = 12;\n    return sum - 12;\n}\n";
    let guest = p.build("split", source, &["-O0", "-gdwarf-4", "-gsplit-dwarf"]);
    let package = guest.with_extension("dwp");
    let packed = std::process::Command::new("dwp")
        .arg("-e")
        .args([&guest, std::path::Path::new("-o"), &package])
        .status();
    assert!(packed.expect("these tests need binutils").success());
    let folder = guest.parent().expect("a folder");
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        if entry.path().extension().is_some_and(|e| e == "dwo") {
            fs::remove_file(entry.path()).expect("a file");
        }
    }
    let asked = ["value", "sum", "--at", "split.c:4"];
    p.run(&guest, &[]).exits(0);
    p.say(&asked).exits(0).says("sum = 12");
    fs::remove_file(package).expect("a file");
    let r = p.say(&asked);
    r.exits(2);
    let named = format!("note: {}: the split debug information", guest.display());
    assert!(r.err.contains(&named), "{}", r.err);
}
