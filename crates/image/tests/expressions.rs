//! C expressions, as gdb evaluates them.

mod harness;

use harness::{Core, compile, directory, gdb, load, stop};
use image::{Program, ValuePlace};

struct Scene {
    core: Core,
    program: Program,
}

impl Scene {
    fn of(name: &str, source: &str, flags: &[&str]) -> Scene {
        let directory = directory(name);
        let path = compile(&directory, "program", source, flags);
        let core = stop(&path, &["break here", "run", "up"]);
        Scene {
            program: load(&core),
            core,
        }
    }

    fn evaluate(&self, text: &str) -> Result<image::Evaluated, image::ExpressionError> {
        let frames = self.program.unwind(&self.core.registers, &self.core, 2);
        self.program.evaluate(text, &frames[1], &self.core)
    }

    /// gdb's answers, in the order of the questions.
    fn expected(&self, expressions: &[&str]) -> Vec<String> {
        let script = self.core.path.with_extension("py");
        let mut text = String::from("import gdb\ngdb.execute('frame 1')\n");
        for expression in expressions {
            text.push_str(&format!(
                "try:\n  print('answer', gdb.parse_and_eval({expression:?}))\nexcept gdb.error as e:\n  print('answer error', e)\n"
            ));
        }
        std::fs::write(&script, text).unwrap();
        let output = gdb(&self.core, &[&format!("source {}", script.display())]);
        output
            .lines()
            .filter_map(|l| l.strip_prefix("answer "))
            .map(str::to_owned)
            .collect()
    }

    #[track_caller]
    fn check(&self, expressions: &[&str]) {
        let expected = self.expected(expressions);
        assert_eq!(expected.len(), expressions.len());
        let mut wrong = String::new();
        for (expression, expected) in expressions.iter().zip(expected) {
            let found = match self.evaluate(expression) {
                Ok(found) => found.value,
                Err(error) => format!("error {error}"),
            };
            // The C library has several names for one function.
            let expected = expected.replace("__GI_", "");
            let refuses = |text: &str| {
                text.starts_with("error")
                    || ["<optimized out>", "<synthetic pointer>"].contains(&text)
            };
            let both_refuse = refuses(&found) && refuses(&expected);
            if found != expected && !both_refuse {
                wrong.push_str(&format!("{expression}: {found}, gdb: {expected}\n"));
            }
        }
        assert!(wrong.is_empty(), "{wrong}");
    }
}

const SOURCE: &str = r#"
#include <stdio.h>
#include <string.h>
enum colour { RED, GREEN = 5, BLUE };
struct point { short x, y; };
union word { unsigned int number; unsigned char bytes[4]; float real; };
struct node {
    int val;
    struct node *next;
    const char *name;
    struct point at[2];
    unsigned flag : 1, kind : 3;
    int level : 5;
    union word u;
    struct { int inner; union { long a; double b; }; };
    enum colour colour;
    int (*function)(const char *);
    double weight;
    _Bool yes;
};
static int counter = 42;
int grid[3][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10, 11, 12}};
__thread int mine = 77;
char text[16] = "hello";
typedef struct node node_t;
unsigned char small = 200;
long long big = -5000000000LL;
__attribute__((noinline)) void here(void) { __asm__ volatile(""); }
int work(int argc, struct node *list, double factor, float ratio) {
    static int calls = 9;
    int numbers[20] = {3, 1, 4, 1, 5};
    struct node local = *list;
    void *anything = list;
    char letter = 'q';
    char *string = text + 1;
    unsigned u = 7;
    int *p = numbers + 2;
    long double wide = 2.5L;
    calls++;
    here();
    return argc + local.val + letter + *string + (int)u + *p + (int)wide + anything_used(anything) + (int)(factor + ratio) + calls;
}
int anything_used(void *p) { return p != 0; }
int main(int argc, char **argv) {
    struct node b = {.val = 2, .name = "second", .at = {{1, 2}, {-3, 4}}, .flag = 1, .kind = 5, .level = -7,
        .u = {.number = 0x40490fdb}, .colour = GREEN, .function = puts, .weight = 0.1, .yes = 1};
    b.inner = 11;
    b.a = 99;
    struct node a = b;
    a.val = 1;
    a.next = &b;
    a.name = text;
    b.next = 0;
    return work(argc, &a, 1.5, 2.25f) + counter + mine + grid[0][0] + small + (int)big;
}
"#;

const EXPRESSIONS: [&str; 104] = [
    "argc",
    "list",
    "*list",
    "list->val",
    "list->next->val",
    "list->next->next",
    "list->name",
    "list->next->name",
    "*list->name",
    "list->at",
    "list->at[1]",
    "list->at[1].x",
    "list->next->at[1].x",
    "local",
    "local.val",
    "local.flag",
    "local.kind",
    "local.level",
    "local.u",
    "local.u.number",
    "local.u.real",
    "local.u.bytes",
    "local.u.bytes[1]",
    "local.inner",
    "local.a",
    "local.b",
    "local.colour",
    "local.function",
    "local.weight",
    "local.yes",
    "numbers",
    "numbers[2]",
    "numbers[0] + numbers[1]",
    "*numbers",
    "*(numbers + 2)",
    "p",
    "*p",
    "p[1]",
    "p[-1]",
    "p - numbers",
    "&numbers[3]",
    "&list->val",
    "*&list->val",
    "letter",
    "string",
    "*string",
    "string[2]",
    "text",
    "text[0]",
    "&text",
    "*text@1",
    "u",
    "u - 8",
    "-u",
    "u > -1",
    "small",
    "small + 100",
    "small << 4",
    "big",
    "big / 3",
    "big % 7",
    "~big",
    "counter",
    "grid",
    "grid[1]",
    "grid[1][2]",
    "*grid",
    "**grid",
    "&grid[1]",
    "grid[2][3] * 2",
    "mine",
    "factor",
    "ratio",
    "factor + ratio",
    "factor * 2",
    "ratio / 3",
    "wide",
    "anything",
    "(struct node *)anything",
    "((struct node *)anything)->val",
    "((node_t *)anything)->next->val",
    "(char)65",
    "(unsigned char)300",
    "(int)2.9",
    "(float)1/3",
    "(double)argc / 4",
    "sizeof(int)",
    "sizeof(struct node)",
    "sizeof local",
    "sizeof numbers",
    "GREEN",
    "(enum colour)6",
    "BLUE == 6",
    "list && list->next",
    "!list",
    "list == 0",
    "argc ? 10 : 20",
    "'a'",
    "'\\n'",
    "0x10 + 010",
    "1 < 2 && 3 < 2",
    "work::calls",
    "main",
    "*main",
];

#[test]
fn values_are_those_of_gdb() {
    for flags in [
        &["-g", "-O0", "-w"][..],
        &["-g", "-O0", "-w", "-gdwarf-4"],
        &["-g", "-O0", "-w", "-no-pie", "-fno-pie"],
        &["-g", "-O0", "-w", "-gz=zlib"],
    ] {
        let scene = Scene::of(&format!("values{}", flags.join("")), SOURCE, flags);
        let supported: Vec<&str> = EXPRESSIONS
            .into_iter()
            .filter(|e| !e.contains('@') && !["main", "*main"].contains(e))
            .collect();
        scene.check(&supported);
    }
}

#[test]
fn optimised_values_are_those_of_gdb() {
    let source = SOURCE.replace("int work(", "__attribute__((noinline)) int work(");
    let scene = Scene::of("values-O2", &source, &["-g", "-O2", "-w"]);
    scene.check(&[
        "argc",
        "list->val",
        "list->next->name",
        "counter",
        "grid[1][2]",
        "u",
        "p",
        "letter",
    ]);
}

#[test]
fn members_of_classes() {
    let source = r#"
#include <string>
namespace shapes {
int count = 3;
struct Base { int id = 7; virtual ~Base() {} virtual int area(); };
struct Named { const char *name = "square"; };
struct Square : Base, Named { int side; Square(int s) : side(s) {} int area() override; };
}
void here() { __asm__ volatile(""); }
int shapes::Base::area() { return 0; }
int shapes::Square::area() { int twice = side * 2; int &alias = side; here(); return twice + alias; }
int main() { shapes::Square s(4); shapes::Base *b = &s; return b->area(); }
"#;
    let scene = Scene::of("classes", source, &["-xc++", "-g", "-O0"]);
    scene.check(&[
        "side",
        "this->side",
        "id",
        "this->id",
        "name",
        "this->name",
        "twice",
        "alias + 1",
        "shapes::count",
        "this->side * twice",
        "(shapes::Base *)this",
        "nothing",
    ]);
}

#[test]
fn lvalues_say_where_they_are() {
    let scene = Scene::of("places", SOURCE, &["-g", "-O0", "-w"]);
    let place = |text: &str| scene.evaluate(text).unwrap();
    let address = |text: &str| {
        let value = scene.evaluate(text).unwrap();
        let bytes: Vec<u8> = value.bytes.into_iter().map(Option::unwrap).collect();
        u64::from_le_bytes(bytes.try_into().unwrap())
    };
    for (lvalue, len) in [
        ("list->next->val", 4),
        ("numbers[2]", 4),
        ("*p", 4),
        ("local.u.bytes[1]", 1),
        ("mine", 4),
    ] {
        let found = place(lvalue);
        let at = address(&format!("&{lvalue}"));
        assert_eq!(
            found.places,
            [ValuePlace::Memory { address: at, len }],
            "{lvalue}"
        );
    }
    let field = place("local.kind");
    assert_eq!(field.bits, Some((1, 3)));
    assert!(place("argc + 1").places.is_empty());
    let register = place("$rsp");
    assert!(matches!(register.places[..], [ValuePlace::Register(r)] if r.name() == "rsp"));
}

#[test]
fn errors_say_what_and_where() {
    let scene = Scene::of("errors", SOURCE, &["-g", "-O0", "-w"]);
    for (text, at, reason) in [
        ("", 0, "there is no expression"),
        ("letr + 1", 0, "no variable `letr` here"),
        (
            "1 + leter",
            4,
            "no variable `leter` here; did you mean `letter`?",
        ),
        ("list->vak", 4, "has no member `vak`; did you mean `val`?"),
        ("*argc", 0, "this is no pointer: its type is `int`"),
        (
            "*anything",
            0,
            "this is a pointer to void; cast it to a pointer to something",
        ),
        ("list->next->next->val", 16, "memory at 0x0 cannot be read"),
        ("argc +", 6, "the expression ends too early"),
        ("(argc", 5, "`)` should stand here"),
        ("argc = 3", 5, "nothing can be assigned here"),
        ("here()", 4, "functions cannot be called in an expression"),
        ("argc / 0", 5, "division by zero"),
        ("&local.kind", 0, "a bit field has no address"),
        ("(struct nod *)list", 1, "no type `nod` is known"),
        ("$rex", 0, "there is no register `rex`"),
        ("argc ` 2", 5, "`` ` `` means nothing here"),
    ] {
        let error = scene.evaluate(text).expect_err(text);
        let reason = reason.replace("`` ` ``", "```");
        assert_eq!(error.at, at, "{text}: {error}");
        assert!(error.reason.contains(&reason), "{text}: {error}");
    }
    // Nothing that is typed makes it panic.
    let mut seed = 1u64;
    let pieces = [
        "(",
        ")",
        "*",
        "&",
        "list",
        "->",
        "val",
        "[",
        "]",
        "1",
        "-",
        "::",
        "sizeof",
        ".",
        "'",
        "$rax",
        "struct node",
        "?",
        ":",
        "0x",
        "1e+",
        "é",
        "~",
        "numbers",
        "<<",
        "99999999999999999999",
    ];
    for _ in 0..3000 {
        let mut text = String::new();
        for _ in 0..8 {
            seed = seed
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            text.push_str(pieces[(seed >> 33) as usize % pieces.len()]);
        }
        let _ = scene.evaluate(&text);
    }
    let _ = scene.evaluate(&"(".repeat(4000));
    let _ = scene.evaluate(&"-".repeat(4000));
}
