//! Questions about control: which branch made this instance happen?
//!
//! All instructions of a function that depend on the same branches ask the same question, and
//! within one call one answer is for all of them: the last of these branches before, or the call.

use std::rc::Rc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::reader::FrameId;
use crate::wanted::Wants;

/// Number of a set of branches.
pub(crate) type SetId = u32;

/// Some branches, by their addresses.
pub(crate) struct Set {
    branches: Rc<[u64]>,
    /// A bit for each of them; other branches may have the same.
    bits: u64,
}

/// Those who ask about a set of branches, within a call.
pub(crate) struct Question {
    pub(crate) set: SetId,
    pub(crate) askers: SmallVec<[Wants; 4]>,
}

/// What is asked within one call, by number of the set.
#[derive(Default)]
struct Call {
    questions: SmallVec<[Question; 2]>,
    bits: u64,
}

#[derive(Default)]
pub(crate) struct Asked {
    sets: Vec<Set>,
    numbers: FxHashMap<Rc<[u64]>, SetId>,
    calls: FxHashMap<FrameId, u32>,
    list: Vec<Call>,
    free: Vec<u32>,
    /// Lists that are not used.
    room: Vec<SmallVec<[Wants; 4]>>,
    /// Questions that are open, in all calls.
    open: usize,
    /// The call that was looked up last: the next question is mostly about the same. Only here may a
    /// call be known of which nothing is asked: in a loop, it is asked again at once.
    near: Option<(FrameId, Option<u32>)>,
}

fn bit(branch: u64) -> u64 {
    1 << (branch.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58)
}

/// The bits of some branches.
pub(crate) fn bits(branches: impl Iterator<Item = u64>) -> u64 {
    branches.fold(0, |all, b| all | bit(b))
}

impl Set {
    /// Whether a branch of these bits can be one of the set.
    #[inline]
    pub(crate) fn may_have(&self, bits: u64) -> bool {
        self.bits & bits != 0
    }

    pub(crate) fn has(&self, branch: u64) -> bool {
        self.branches.contains(&branch)
    }
}

impl Asked {
    pub(crate) fn set(&mut self, branches: Vec<u64>) -> SetId {
        let branches: Rc<[u64]> = branches.into();
        let next = self.sets.len() as SetId;
        let id = *self.numbers.entry(branches.clone()).or_insert(next);
        if id == next {
            let bits = bits(branches.iter().copied());
            self.sets.push(Set { branches, bits });
        }
        id
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open == 0
    }

    pub(crate) fn clear(&mut self) {
        self.calls.clear();
        self.list.clear();
        self.free.clear();
        self.open = 0;
        self.near = None;
    }

    #[inline]
    fn find(&mut self, frame: FrameId) -> Option<u32> {
        match self.near {
            Some((f, n)) if f == frame => n,
            _ => self.look_up(frame),
        }
    }

    fn look_up(&mut self, frame: FrameId) -> Option<u32> {
        if let Some((old, Some(n))) = self.near
            && self.list[n as usize].questions.is_empty()
        {
            self.forget(old, n);
        }
        let n = self.calls.get(&frame).copied();
        self.near = Some((frame, n));
        n
    }

    /// Somebody asks.
    pub(crate) fn ask(&mut self, frame: FrameId, set: SetId, asker: Wants, each: bool) {
        let same = |w: &&mut Wants| w.who == asker.who && (!each || w.earliest == asker.earliest);
        let question = self.question(frame, set);
        match question.askers.iter_mut().find(same) {
            Some(w) => w.join(asker),
            None => question.askers.push(asker),
        }
    }

    /// Those who ask about a set of branches.
    fn question(&mut self, frame: FrameId, set: SetId) -> &mut Question {
        let n = self.find(frame).unwrap_or_else(|| {
            let n = self.free.pop().unwrap_or_else(|| {
                self.list.push(Call::default());
                self.list.len() as u32 - 1
            });
            self.calls.insert(frame, n);
            self.near = Some((frame, Some(n)));
            n
        });
        let call = &mut self.list[n as usize];
        let at = call.questions.partition_point(|q| q.set < set);
        if call.questions.get(at).is_none_or(|q| q.set != set) {
            call.bits |= self.sets[set as usize].bits;
            self.open += 1;
            let askers = self.room.pop().unwrap_or_default();
            call.questions.insert(at, Question { set, askers });
        }
        &mut call.questions[at]
    }

    /// Takes the questions within a call to which there is an answer, with that; of those that may be about branches of
    /// these bits.
    #[inline]
    pub(crate) fn answer(
        &mut self,
        frame: FrameId,
        bits: u64,
        mut answer: impl FnMut(&Set, SetId) -> Option<u8>,
        out: &mut Vec<(Wants, u8)>,
    ) {
        let Some(n) = self.find(frame) else { return };
        let (sets, room) = (&self.sets, &mut self.room);
        let call = &mut self.list[n as usize];
        // All branches may be in a set that has none: the call is what decided.
        if call.bits & bits == 0 && bits != u64::MAX {
            return;
        }
        let before = call.questions.len();
        call.bits = 0;
        call.questions.retain(|q| {
            let set = &sets[q.set as usize];
            let answer = match set.may_have(bits) || bits == u64::MAX {
                true => answer(set, q.set),
                false => None,
            };
            match answer {
                Some(i) => {
                    out.extend(q.askers.iter().map(|w| (*w, i)));
                    let mut list = std::mem::take(&mut q.askers);
                    list.clear();
                    room.push(list);
                }
                None => call.bits |= set.bits,
            }
            answer.is_none()
        });
        self.open -= before - call.questions.len();
    }

    /// Whether a set has a branch.
    pub(crate) fn has(&self, set: SetId, branch: u64) -> bool {
        self.sets[set as usize].has(branch)
    }

    /// Takes the questions within a call that are answered.
    pub(crate) fn take(
        &mut self,
        frame: FrameId,
        mut is_answered: impl FnMut(&Set, SetId) -> bool,
        out: &mut Vec<Wants>,
    ) {
        let Some(n) = self.find(frame) else { return };
        let (sets, room) = (&self.sets, &mut self.room);
        let call = &mut self.list[n as usize];
        call.bits = 0;
        let before = call.questions.len();
        call.questions.retain(|q| {
            let answered = is_answered(&sets[q.set as usize], q.set);
            if answered {
                out.extend_from_slice(&q.askers);
                let mut list = std::mem::take(&mut q.askers);
                list.clear();
                room.push(list);
            } else {
                call.bits |= sets[q.set as usize].bits;
            }
            !answered
        });
        self.open -= before - call.questions.len();
    }

    /// Somebody asks about the call that began this frame.
    #[inline]
    pub(crate) fn about_call(&mut self, frame: FrameId) -> bool {
        let n = self.find(frame);
        n.is_some_and(|n| !self.list[n as usize].questions.is_empty())
    }

    /// Somebody asks about this branch, in this frame.
    #[inline]
    pub(crate) fn about_branch(&mut self, frame: FrameId, branch: u64) -> bool {
        let Some(n) = self.find(frame) else {
            return false;
        };
        let call = &self.list[n as usize];
        call.bits & bit(branch) != 0
            && call
                .questions
                .iter()
                .any(|q| self.sets[q.set as usize].branches.contains(&branch))
    }

    /// Those for whom the branch is the answer.
    pub(crate) fn branch(&mut self, frame: FrameId, branch: u64, out: &mut Vec<Wants>) {
        if self.about_branch(frame, branch) {
            self.take(frame, |set, _| set.branches.contains(&branch), out);
        }
    }

    /// Those for whom the call that began the frame is the answer.
    pub(crate) fn call(&mut self, frame: FrameId, out: &mut Vec<Wants>) {
        let Some(n) = self.find(frame) else { return };
        let call = std::mem::take(&mut self.list[n as usize]);
        self.open -= call.questions.len();
        out.extend(call.questions.into_iter().flat_map(|q| q.askers));
        self.forget(frame, n);
        self.near = Some((frame, None));
    }

    fn forget(&mut self, frame: FrameId, n: u32) {
        self.calls.remove(&frame);
        self.free.push(n);
    }
}
