//! Random C programs that end, use no library and compute `result`.

/// A small generator of numbers, so that a failure can be repeated.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }

    fn one<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len() as u64) as usize]
    }
}

const HEAD: &str = "
static long call(long n, long a) {
    long r;
    __asm__ volatile(\"syscall\" : \"=a\"(r) : \"a\"(n), \"D\"(a) : \"rcx\", \"r11\", \"memory\");
    return r;
}
static void put(volatile long *p) {
    long r;
    __asm__ volatile(\"syscall\" : \"=a\"(r) : \"a\"(1), \"D\"(1), \"S\"(p), \"d\"(8) : \"rcx\", \"r11\", \"memory\");
}
volatile long result;
struct node { int v; unsigned char w; struct node *next; };
static struct node nodes[8];
static int g0, g1, g2, a0[8], a1[8];
static unsigned char bytes[16];
static void *place[5];
static int f0(int), f1(int), f2(int);
static int (*functions[3])(int) = {f0, f1, f2};
static int depth;
static __attribute__((noinline)) void leap(int x) {
    if (x & 1) __builtin_longjmp(place, 1);
}
";

pub(crate) fn program(seed: u64) -> String {
    let mut c = Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1);
    let mut out = HEAD.to_owned();
    for n in 0..3 {
        out += &format!(
            "static int f{n}(int x) {{\n  int y = x + {n}, z = 1;\n  struct node *p = &nodes[x & 7];\n  if (depth > 3) return x;\n  depth++;\n"
        );
        block(&mut c, &mut out, 2, &format!("f{n}"));
        out += "  depth--;\n  return y ^ z ^ p->v;\n}\n";
    }
    out += "void _start(void) {\n  int x = 5, y = 2, z = 3;\n  struct node *p = &nodes[0];\n  for (int i = 0; i < 8; i++) { nodes[i].v = i * 7; nodes[i].next = &nodes[(i + 3) & 7]; a0[i] = i; }\n";
    out += "  if (__builtin_setjmp(place)) { y += 11; goto over; }\n";
    for _ in 0..5 {
        block(&mut c, &mut out, 3, "s");
    }
    if c.below(2) == 0 {
        out += "  leap(y);\n";
    }
    out += "over:\n  result = (long)x + y + z + g0 + g1 * 3 + g2 + a1[3] + bytes[5] + p->v;\n  put(&result);\n  call(231, result & 63);\n}\n";
    out
}

fn value(c: &mut Chance) -> String {
    match c.below(9) {
        0 => format!("{}", c.below(20)),
        1..=3 => c.one(&["x", "y", "z"]).to_owned(),
        4 => c.one(&["g0", "g1", "g2"]).to_owned(),
        5 => format!("{}[{} & 7]", c.one(&["a0", "a1"]), c.one(&["x", "y", "z"])),
        6 => c.one(&["p->v", "p->w", "p->next->v"]).to_owned(),
        7 => format!("bytes[{} & 15]", c.one(&["x", "y", "z"])),
        _ => format!(
            "({} {} {})",
            c.one(&["x", "y", "z"]),
            c.one(&["+", "-", "*", "^", "&", "<", "=="]),
            c.below(9)
        ),
    }
}

fn place(c: &mut Chance) -> String {
    match c.below(6) {
        0 | 1 => c.one(&["x", "y", "z"]).to_owned(),
        2 => c.one(&["g0", "g1", "g2"]).to_owned(),
        3 => format!("{}[{} & 7]", c.one(&["a0", "a1"]), c.one(&["x", "y", "z"])),
        4 => c.one(&["p->v", "p->w"]).to_owned(),
        _ => format!("bytes[{} & 15]", c.one(&["x", "y", "z"])),
    }
}

fn block(c: &mut Chance, out: &mut String, depth: u32, label: &str) {
    for _ in 0..2 + c.below(3) {
        let (a, b) = (value(c), value(c));
        let id = out.len();
        match c.below(if depth == 0 { 3 } else { 9 }) {
            0 | 1 => {
                let to = place(c);
                *out += &format!(
                    "  {to} = {a} {} {b};\n",
                    c.one(&["+", "-", "*", "^", "|", "&"])
                );
            }
            2 => *out += "  p = p->next;\n",
            3 => {
                *out += &format!("  if ({a} < {b}) {{\n");
                block(c, out, depth - 1, label);
                *out += "  } else {\n";
                block(c, out, depth - 1, label);
                *out += "  }\n";
            }
            4 => {
                *out += &format!(
                    "  for (int i{id} = 0; i{id} < {}; i{id}++) {{\n",
                    2 + c.below(4)
                );
                block(c, out, depth - 1, label);
                *out += &format!("  if ({a} == {b}) {};\n", c.one(&["break", "continue"]));
                *out += "  }\n";
            }
            5 => {
                *out += &format!(
                    "  switch ({a} & 7) {{\n  case 0:\n  y++;\n  case 1:\n  z = {b};\n  break;\n  case 2:\n  x--;\n  break;\n  case 3:\n  y = 4;\n  case 4:\n  x = 9;\n  break;\n  case 5:\n  g2 = x;\n  break;\n  default:;\n"
                );
                block(c, out, depth - 1, label);
                *out += "  }\n";
            }
            6 => {
                *out += &format!(
                    "  {} += functions[(unsigned)({a}) % 3](({b}) & 15);\n",
                    c.one(&["x", "y", "g1"])
                )
            }
            7 => *out += &format!("  z = f{}({a});\n", c.below(3)),
            _ => *out += &format!("  if ({a} > 3) goto {label}{id};\n  y += 3;\n{label}{id}:;\n"),
        }
    }
}

/// A line that can be left out: one statement, which is no declaration and no jump by itself.
pub(crate) fn may_go(line: &str) -> bool {
    let first = line.trim_start().split([' ', ';', '(']).next();
    line.starts_with("  ")
        && line.ends_with(';')
        && !matches!(
            first,
            Some(
                "int"
                    | "struct"
                    | "long"
                    | "return"
                    | "break"
                    | "default:"
                    | "call"
                    | "put"
                    | "__asm__"
            )
        )
}

/// A statement that may lead elsewhere.
pub(crate) fn may_jump(line: &str) -> bool {
    let words = ["break;", "continue;", "goto ", "return x;"];
    line.starts_with("  if (") && words.iter().any(|w| line.contains(w))
}
