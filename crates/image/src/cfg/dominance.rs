//! Post-dominators and control dependence, over plain numbered graphs.
//!
//! A node post-dominates another if every path from that one to the exit goes through it. The
//! nearest post-dominator of each node is found by the iteration of Cooper, Harvey and Kennedy
//! on the reversed graph. A loop that cannot be left has no path to the exit; its head
//! gets an edge there, as if the loop might end where it begins, so that what is in it has
//! post-dominators too.
//!
//! A node depends on a branch (Ferrante, Ottenstein, Warren) if one way out of the branch leads
//! to it in any case, and another may avoid it.

/// For each node its nearest post-dominator; `None` for the exit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostDominators {
    nearest: Vec<Option<usize>>,
    /// Edges to the exit that were added for loops without end.
    pub added: Vec<usize>,
}

const NONE: usize = usize::MAX;

impl PostDominators {
    /// `successors` of each node; a node without any leads to the exit, and so does a successor
    /// that is no node.
    pub fn of(successors: &[Vec<usize>]) -> PostDominators {
        let exit = successors.len();
        let mut forward: Vec<Vec<usize>> = successors
            .iter()
            .map(|list| list.iter().map(|s| (*s).min(exit)).collect())
            .collect();
        for list in &mut forward {
            if list.is_empty() {
                list.push(exit);
            }
        }
        let mut backward = vec![Vec::new(); exit + 1];
        for (node, list) in forward.iter().enumerate() {
            for to in list {
                backward[*to].push(node);
            }
        }
        let order = postorder(&forward, exit);
        let mut rank = vec![0; exit + 1];
        for (n, node) in order.iter().enumerate() {
            rank[*node] = n;
        }
        let mut added = Vec::new();
        let mut reaches = vec![false; exit + 1];
        mark(&backward, exit, &mut reaches);
        for node in order {
            while !reaches[node] {
                let head = head_of_loop(&forward, &backward, node, &rank);
                added.push(head);
                backward[exit].push(head);
                forward[head].push(exit);
                mark(&backward, head, &mut reaches);
            }
        }

        let order = postorder_from(&backward, exit);
        let mut number = vec![NONE; exit + 1];
        for (n, node) in order.iter().enumerate() {
            number[*node] = n;
        }
        let mut nearest = vec![NONE; exit + 1];
        nearest[exit] = exit;
        let mut changed = true;
        while changed {
            changed = false;
            for node in order.iter().rev().filter(|n| **n != exit) {
                let mut best = NONE;
                for to in forward[*node].iter().filter(|t| nearest[**t] != NONE) {
                    best = if best == NONE {
                        *to
                    } else {
                        meet(&nearest, &number, best, *to)
                    };
                }
                if nearest[*node] != best {
                    nearest[*node] = best;
                    changed = true;
                }
            }
        }
        nearest.truncate(exit);
        let inside = |n: usize| (n < exit).then_some(n);
        PostDominators {
            nearest: nearest.into_iter().map(inside).collect(),
            added,
        }
    }

    /// The nearest post-dominator; `None` for the exit.
    pub fn nearest(&self, node: usize) -> Option<usize> {
        self.nearest[node]
    }

    /// The nodes that an edge decides over: those from its end up to where all ways meet again.
    pub fn decided(&self, from: usize, to: usize) -> impl Iterator<Item = usize> + '_ {
        let end = self.nearest[from];
        let mut next = (to < self.nearest.len()).then_some(to);
        std::iter::from_fn(move || {
            let node = next.filter(|n| Some(*n) != end)?;
            next = self.nearest[node];
            Some(node)
        })
    }
}

fn meet(nearest: &[usize], number: &[usize], mut a: usize, mut b: usize) -> usize {
    while a != b {
        while number[a] < number[b] {
            a = nearest[a];
        }
        while number[b] < number[a] {
            b = nearest[b];
        }
    }
    a
}

/// Where the loop begins that one cannot leave from a node, or from where the node leads.
fn head_of_loop(
    forward: &[Vec<usize>],
    backward: &[Vec<usize>],
    mut node: usize,
    rank: &[usize],
) -> usize {
    loop {
        let mut after = vec![false; backward.len()];
        let mut before = vec![false; backward.len()];
        mark(forward, node, &mut after);
        mark(backward, node, &mut before);
        let inside = |n: &usize| after[*n];
        match (0..forward.len()).filter(inside).find(|n| !before[*n]) {
            Some(further) => node = further,
            None => {
                let nodes = (0..forward.len()).filter(inside);
                return nodes.max_by_key(|n| rank[*n]).unwrap_or(node);
            }
        }
    }
}

/// Marks what a node leads to along these edges.
fn mark(edges: &[Vec<usize>], from: usize, reaches: &mut [bool]) {
    reaches[from] = true;
    let mut work = vec![from];
    while let Some(node) = work.pop() {
        for to in &edges[node] {
            if !reaches[*to] {
                reaches[*to] = true;
                work.push(*to);
            }
        }
    }
}

/// All nodes but the exit, those that others lead to first.
fn postorder(forward: &[Vec<usize>], exit: usize) -> Vec<usize> {
    let mut seen = vec![false; exit + 1];
    seen[exit] = true;
    let mut out = Vec::new();
    for root in 0..exit {
        visit(forward, root, &mut seen, &mut out);
    }
    out
}

fn postorder_from(edges: &[Vec<usize>], root: usize) -> Vec<usize> {
    let mut seen = vec![false; edges.len()];
    let mut out = Vec::new();
    visit(edges, root, &mut seen, &mut out);
    out
}

fn visit(edges: &[Vec<usize>], root: usize, seen: &mut [bool], out: &mut Vec<usize>) {
    if seen[root] {
        return;
    }
    seen[root] = true;
    let mut stack = vec![(root, 0)];
    while let Some((node, at)) = stack.last_mut() {
        let list = edges.get(*node).map_or(&[][..], Vec::as_slice);
        match list.get(*at) {
            Some(to) => {
                *at += 1;
                if !seen[*to] {
                    seen[*to] = true;
                    stack.push((*to, 0));
                }
            }
            None => {
                out.push(*node);
                stack.pop();
            }
        }
    }
}
