//! Control flow graphs, post-dominators and control dependence.

mod harness;

use std::collections::BTreeSet;

use harness::{Core, compile, directory, load, stop};
use image::Program;
use image::cfg::dominance::PostDominators;
use image::cfg::{Graph, Graphs, Leaves};

/// splitmix64
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) % n as u64) as usize
    }
}

/// Whether the exit can be reached from a node without passing another.
fn escapes(successors: &[Vec<usize>], from: usize, without: usize) -> bool {
    let exit = successors.len();
    let mut seen = BTreeSet::from([from]);
    let mut work = vec![from];
    while let Some(node) = work.pop() {
        if node == without {
            continue;
        }
        if node >= exit {
            return true;
        }
        for to in &successors[node] {
            if seen.insert((*to).min(exit)) {
                work.push((*to).min(exit));
            }
        }
    }
    false
}

#[test]
fn post_dominators_are_those_of_the_definition() {
    for seed in 0..4000 {
        let mut chance = Chance(seed);
        let nodes = 1 + chance.below(12);
        let mut successors: Vec<Vec<usize>> = (0..nodes)
            .map(|_| {
                (0..chance.below(4))
                    .map(|_| chance.below(nodes + 1))
                    .collect()
            })
            .collect();
        let found = PostDominators::of(&successors);
        for list in &mut successors {
            if list.is_empty() {
                list.push(nodes);
            }
        }
        for node in &found.added {
            assert!(!escapes(&successors, *node, usize::MAX), "seed {seed}");
            successors[*node].push(nodes);
        }
        let dominates = |a: usize, b: usize| a != b && !escapes(&successors, b, a);
        for node in 0..nodes {
            let all: Vec<usize> = (0..nodes).filter(|a| dominates(*a, node)).collect();
            // The nearest is the one that all others dominate.
            let nearest = all
                .iter()
                .find(|n| all.iter().all(|a| a == *n || dominates(*a, **n)));
            assert_eq!(
                found.nearest(node),
                nearest.copied(),
                "seed {seed}, node {node} of {successors:?}"
            );
            // Control dependence: one way leads here in any case, another may not.
            for from in 0..nodes {
                let ways = &successors[from];
                let sure = |to: usize| to == node || (to < nodes && dominates(node, to));
                let by_definition = ways.iter().any(|to| sure(*to))
                    && (node == from || !dominates(node, from))
                    && !(node == from && ways.iter().all(|to| sure(*to)));
                let by_walk = ways
                    .iter()
                    .filter(|_| ways.len() > 1)
                    .any(|to| found.decided(from, *to).any(|n| n == node));
                let one_way = ways.iter().all(|to| to == &ways[0]);
                if !one_way {
                    assert_eq!(
                        by_walk, by_definition,
                        "seed {seed}, {node} on {from} of {successors:?}"
                    );
                }
            }
        }
    }
}

struct Scene {
    core: Core,
    program: Program,
}

impl Scene {
    fn of(name: &str, source: &str, flags: &[&str]) -> Scene {
        let directory = directory(name);
        let path = compile(&directory, "program", source, flags);
        let core = stop(&path, &["break main", "run"]);
        Scene {
            program: load(&core),
            core,
        }
    }

    fn graph(&self, function: &str) -> std::sync::Arc<Graph> {
        let found = self.program.addresses_of_function(function);
        let entry = found.first().expect("the function").entry;
        let graph = Graphs::new().graph(&self.program, &self.core, entry);
        graph.expect("a graph")
    }

    fn line_of(&self, pc: u64) -> u32 {
        self.program.locate(pc)[0].line.unwrap_or(0)
    }

    /// The lines of the branches that the code of a marked line depends on.
    fn controllers(&self, graph: &Graph, source: &str, mark: &str) -> BTreeSet<String> {
        let mark = format!("// {mark}");
        let line = source.lines().position(|l| l.ends_with(&mark));
        let line = line.expect("the mark") as u32 + 1;
        let mut out = BTreeSet::new();
        for block in &graph.blocks {
            if (block.start..block.end).any(|pc| self.line_of(pc) == line) {
                for at in graph.controllers(block.start) {
                    let by = self.line_of(*at) as usize;
                    let text = source.lines().nth(by - 1).unwrap_or("");
                    let text = text.rsplit_once("// ").map_or("?", |(_, m)| m);
                    out.insert(text.to_owned());
                }
            }
        }
        out
    }
}

const SWITCH: &str = r#"
#include <stdio.h>
volatile int sink;
__attribute__((noinline)) int choose(int x, int y) {
    switch (x) {
    case 1: sink = 11; return y + 1;
    case 2: sink = 12; return y * 3;
    case 3: sink = 13; y += 5; break;
    case 4: sink = 14; y -= 7; break;
    case 5: sink = 15; /* fall through */
    case 6: sink = 16; y ^= 3; break;
    case 7: sink = 17; return -1;
    case 9: sink = 19; y <<= 2; break;
    default: sink = 20; y = 0;
    }
    sink = 21;
    return y;
}
__attribute__((noinline)) int twice(int x, int y) {
    int r = 0;
    for (int i = 0; i < y; i++) {
        switch (x + i) {
        case 10: r += sink; break;
        case 11: r -= sink; sink = 3; break;
        case 12: r *= sink; sink = 4; break;
        case 13: r ^= sink; sink = 5; break;
        case 14: r |= sink; sink = 6; break;
        case 15: r &= sink; sink = 7; break;
        default: r = ~r;
        }
    }
    return r;
}
__attribute__((noinline)) int jumping(const unsigned char *code) {
    static const void *const labels[] = {&&add, &&twice, &&halt};
    int r = 1;
    goto *labels[*code++];
add: r += sink; goto *labels[*code++];
twice: r *= 2 + sink; goto *labels[*code++];
halt: return r;
}
int main(int argc, char **argv) {
    printf("%d %d %d\n", choose(argc, 2), twice(argc, 9), jumping((const unsigned char *)"\0\1\2"));
}
"#;

#[test]
fn switches_go_through_their_tables() {
    for flags in [
        &["-g", "-O0"][..],
        &["-g", "-O1", "-fno-tree-switch-conversion"],
        &["-g", "-O2", "-fcf-protection=full"],
        &["-g", "-O0", "-no-pie", "-fno-pie"],
        &["-g", "-O2", "-no-pie", "-fno-pie"],
        &["-g", "-O3", "-fno-pie", "-no-pie", "-fcf-protection=none"],
        &["-O2", "-s", "-rdynamic"],
    ] {
        let scene = Scene::of(&format!("switch{}", flags.join("")), SWITCH, flags);
        for (function, least) in [("choose", 7), ("twice", 6), ("jumping", 3)] {
            let graph = scene.graph(function);
            let unknown = graph.blocks.iter().filter(|b| b.leaves == Leaves::Unknown);
            assert_eq!(unknown.count(), 0, "{flags:?}: {function}");
            let most = graph.blocks.iter().map(|b| b.successors.len()).max();
            assert!(most >= Some(least), "{flags:?}: {function}: {most:?}");
        }
    }
}

const WAYS: &str = r#"#include <assert.h>
#include <stdlib.h>
volatile int sink;
static int other(int n) { sink = n; return n * 3; }
int f(int a, int b) {
    sink = 1; // always
    if (a > 3) { // outer
        sink = 2; // first
        if (b > a) // inner
            sink = 3; // second
        else
            exit(3);
        sink = 4; // behind
    }
    while (b > 0) { // loop
        b -= a; // body
        if (b == 77) // leave
            break;
        sink = 5; // rest
    }
    assert(a != 9); // check
    sink = 6; // last
    return other(a);
}
int forever(int a) {
    for (;;) {
        sink = a; // round
        if (a) // asked
            sink = 8; // yes
    }
}
int main(int argc, char **argv) {
    int (*volatile g)(int) = argc > 100 ? forever : other;
    return f(argc, argc + 1) + g(1);
}
"#;

#[test]
fn statements_depend_on_their_conditions() {
    let scene = Scene::of("ways", WAYS, &["-g", "-O0"]);
    let f = scene.graph("f");
    let check = |graph: &Graph, mark: &str, expected: &[&str]| {
        let found = scene.controllers(graph, WAYS, mark);
        let expected: BTreeSet<String> = expected.iter().map(|s| (*s).to_owned()).collect();
        assert_eq!(found, expected, "{mark}");
    };
    check(&f, "first", &["outer"]);
    check(&f, "second", &["inner"]);
    // `exit` does not come back.
    check(&f, "behind", &["inner"]);
    check(&f, "body", &["loop"]);
    check(&f, "rest", &["leave"]);
    check(&f, "last", &["check"]);
    let forever = scene.graph("forever");
    check(&forever, "yes", &["asked"]);
    assert!(forever.blocks.iter().all(|b| b.leaves == Leaves::No));
    let asked = forever.blocks.iter().find(|b| b.successors.len() == 2);
    assert!(forever.is_branch(asked.unwrap().last));
}

#[test]
fn exceptions_land() {
    let source = r#"
#include <cstdio>
#include <stdexcept>
volatile int sink;
__attribute__((noinline)) void thrower(int n) { if (n > 2) throw std::runtime_error("no"); }
int catcher(int n) {
    try {
        thrower(n);
        sink = 1;
    } catch (const std::exception &e) {
        sink = 2; // caught
    }
    sink = 3;
    return n;
}
int main(int argc, char **argv) { return catcher(argc); }
"#;
    for optimise in ["-O0", "-O2"] {
        let name = format!("landing{optimise}");
        let scene = Scene::of(&name, source, &["-xc++", "-g", optimise]);
        let graph = scene.graph("catcher");
        let pads: Vec<u64> = graph
            .blocks
            .iter()
            .filter(|b| !b.landing_pads.is_empty())
            .map(|b| b.last)
            .collect();
        assert!(!pads.is_empty(), "{optimise}");
        let line = source.lines().position(|l| l.ends_with("// caught"));
        let line = line.unwrap() as u32 + 1;
        let caught = graph
            .blocks
            .iter()
            .find(|b| (b.start..b.end).any(|pc| scene.program.locate(pc)[0].line == Some(line)));
        let caught = caught.expect("the handler is reached");
        let thrown = graph.controllers(caught.start);
        assert!(!thrown.is_empty(), "{optimise}");
    }
}

#[test]
fn what_was_seen_is_believed() {
    let source = r#"
int f(void *to) { __asm__ volatile("jmp *%0\n1: nop\n2:" : : "r"(to)); return 1; }
int main(void) { return 0; }
"#;
    let scene = Scene::of("observed", source, &["-g", "-O0"]);
    let mut graphs = Graphs::new();
    let entry = scene.program.addresses_of_function("f")[0].entry;
    let graph = |graphs: &mut Graphs, pc| graphs.graph(&scene.program, &scene.core, pc).unwrap();
    let before = graph(&mut graphs, entry);
    let jump = before.blocks.iter().find(|b| b.leaves == Leaves::Unknown);
    let (jump, after) = jump.map(|b| (b.last, b.end)).expect("the jump");
    assert!(before.block_at(after).is_none());
    assert!(graphs.observe(jump, after));
    assert!(!graphs.observe(jump, after));
    let graph = graph(&mut graphs, entry);
    assert!(graph.block_at(after).is_some());
    assert!(graph.blocks.iter().any(|b| b.leaves == Leaves::Return));
}
