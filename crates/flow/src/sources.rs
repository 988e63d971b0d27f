//! From bytes that are wanted to those that they were made of.

use image::effects::{Place, Transfer};
use smallvec::SmallVec;

use crate::plan::mask;
use crate::wanted::{Taken, Wish};

/// Places, and the part of each that matters: from where, and how many bytes.
pub(crate) type Uses = SmallVec<[(Place, u64, u64); 8]>;

/// What the bytes of a transfer that are wanted are made of; all of them if it is so said.
pub(crate) fn sources<W: Wish>(t: &Transfer, taken: &Taken<W>, all: bool, out: &mut Uses) {
    let whole = |p: Place| (p, 0, p.len().map_or(u64::MAX, u64::from));
    if all || t.lane == 0 {
        for s in &t.from {
            let p = whole(s.place);
            if !out.contains(&p) {
                out.push(p);
            }
        }
        return;
    }
    // The same byte may be wanted by many.
    let mut ranges: SmallVec<[(u64, u64); 4]> =
        taken.iter().map(|t| (t.at, t.at + t.len)).collect();
    ranges.sort_unstable();
    ranges.dedup_by(|next, kept| {
        let joined = next.0 <= kept.1;
        if joined {
            kept.1 = kept.1.max(next.1);
        }
        joined
    });
    if t.is_copy() {
        for &(a, b) in &ranges {
            out.push(match t.from[0].place {
                p @ Place::Whole(_) => (p, a, b - a),
                p => whole(p.part(a as u16, (b - a) as u16)),
            });
        }
        return;
    }
    let lane = u64::from(t.lane);
    for n in 0..t.from.len() {
        let first = out.len();
        for &(a, b) in &ranges {
            for l in a / lane..=(b - 1) / lane {
                let Some(p) = t.sources((l * lane) as u16).nth(n) else {
                    continue;
                };
                match out[first..].last_mut() {
                    // The next bytes of the same register or operand are one dependence.
                    Some((q, _, len)) if follows(*q, p) => {
                        let more = p.len().unwrap_or(0);
                        *len += u64::from(more);
                        match q {
                            Place::Register(r) => r.len += more,
                            Place::Memory { len, .. } => *len += more,
                            Place::Whole(_) => {}
                        }
                    }
                    Some((q, ..)) if *q == p => {}
                    _ => out.push(whole(p)),
                }
            }
        }
    }
}

/// `q` begins where `p` ends, in the same register or operand.
fn follows(p: Place, q: Place) -> bool {
    match (p, q) {
        (Place::Register(a), Place::Register(b)) => a.end() == b.at && mask(a) == mask(b),
        (
            Place::Memory { access, at, len },
            Place::Memory {
                access: other,
                at: next,
                ..
            },
        ) => access == other && at + len == next,
        _ => false,
    }
}
