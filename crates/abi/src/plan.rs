//! After a system call the recorder must know which guest memory the kernel wrote; but the answer depends
//! on things that only exist before the call (how large the buffer was said to be, where the vectors
//! point) and on things that only exist after it (the result, the lengths the kernel told).
//!
//! A `Plan` is taken before: it turns the call's effects into ranges with an upper bound, captured from
//! arguments and memory, and a limit to be settled later. Asked after, it cuts the ranges to size.
//!
//! The ranges never run beyond the object that the caller handed to the kernel, with one exception
//! (`semctl` with `GETALL`, whose size only the kernel knows). They may include bytes
//! that the kernel left alone, such as padding. When the call failed they are cut to what is readable,
//! since the failure may be about exactly that memory.

use crate::errno;
use crate::layout::{IOV_MAX, IOVEC, MAX_ARG_STRLEN, MAX_RW_COUNT, PATH_MAX};
use crate::table::{self, Effect, Len, Num, When};
use crate::{Call, Class, Memory, Range, Refusal};

/// Which way data flows, seen from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    Read,
    Write,
}

/// What cuts a range to size after the call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    /// Nothing, the range is the object.
    Whole,
    /// The result, in units of so many bytes.
    Returned { unit: u64 },
    /// An integer of 4 or 8 bytes in guest memory.
    Told { at: u64, width: u8 },
    /// A 4-byte count in guest memory, in units of so many bytes.
    ToldItems { at: u64, unit: u64 },
    /// The first zero byte, which is included.
    Text,
}

/// One effect, with its memory as `count` ranges from `first` on.
#[derive(Clone, Copy, Debug)]
struct Item {
    flow: Flow,
    when: When,
    /// When it has come to that; before, the kernel may have looked or not.
    sure: When,
    limit: Limit,
    first: usize,
    count: usize,
}

/// What a particular call may read and write, taken before it runs.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    items: Vec<Item>,
    ranges: Vec<Range>,
    /// Where the pointers to the ranges lie, of those that lie in memory.
    places: Vec<Option<u64>>,
}

/// Memory that a call touched through a pointer that lies in memory itself, such as an element of a `struct iovec` array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Followed {
    /// Where the pointer lies.
    pub at: u64,
    pub range: Range,
    pub write: bool,
}

/// An address that the kernel is given.
#[derive(Clone, Copy)]
pub(crate) struct Pointer {
    to: u64,
    /// Where it lies, unless an argument or the call itself says it.
    at: Option<u64>,
}

impl From<u64> for Pointer {
    fn from(to: u64) -> Pointer {
        Pointer { to, at: None }
    }
}

impl Pointer {
    pub(crate) fn is_null(self) -> bool {
        self.to == 0
    }
}

impl Plan {
    /// Looks at a call that is about to run. A call that cannot be recorded is refused; the guest must then
    /// get the refusal's error instead of the call.
    pub fn before(call: &Call, mem: &dyn Memory) -> Result<Plan, Refusal> {
        let Some(entry) = table::entry(call.nr) else {
            return Err(Refusal {
                call: *call,
                why: crate::UNKNOWN,
                errno: errno::ENOSYS,
            });
        };
        let behaviour = entry.behaviour(call);
        if let Class::Refused { why, errno } = behaviour.class {
            return Err(Refusal {
                call: *call,
                why,
                errno,
            });
        }
        let mut draft = Draft {
            call,
            mem,
            plan: Plan::default(),
            sure: When::Success,
        };
        for effect in entry.effects.iter().chain(behaviour.effects) {
            draft.add(*effect);
        }
        Ok(draft.plan)
    }

    /// The memory that the kernel may have written, given the raw result of the call.
    pub fn writes(&self, ret: i64, mem: &dyn Memory) -> Vec<Range> {
        self.collect(Flow::Write, ret, mem)
    }

    /// The memory that the kernel may have read, given the raw result of the call.
    pub fn reads(&self, ret: i64, mem: &dyn Memory) -> Vec<Range> {
        self.collect(Flow::Read, ret, mem)
    }

    /// What the kernel has touched through pointers that lie in memory, given the raw result of the call. Nothing if it has
    /// failed: how far it came is not known. What it may have read or written is said once.
    pub fn followed(&self, ret: i64, mem: &dyn Memory) -> Vec<Followed> {
        let mut found = Vec::new();
        if ret < 0 {
            return found;
        }
        for item in self.items.iter().filter(|item| item.sure.holds(ret)) {
            let write = item.flow == Flow::Write;
            let told = found.len();
            self.parts(item, ret, mem, &mut |range, at| {
                let Some(at) = at else { return };
                let same = |f: &Followed| (f.at, f.range) == (at, range);
                if !found[..told].iter().any(same) {
                    found.push(Followed { at, range, write });
                }
            });
        }
        found
    }

    fn collect(&self, flow: Flow, ret: i64, mem: &dyn Memory) -> Vec<Range> {
        let mut found = Vec::new();
        for item in self.items.iter().filter(|item| item.flow == flow) {
            self.parts(item, ret, mem, &mut |range, _| found.push(range));
        }
        found
    }

    /// The parts of an item's ranges that took part in the call, each with where the pointer to it lies.
    fn parts(
        &self,
        item: &Item,
        ret: i64,
        mem: &dyn Memory,
        found: &mut dyn FnMut(Range, Option<u64>),
    ) {
        let all = item.first..item.first + item.count;
        let ranges = &self.ranges[all.clone()];
        let mut left = item.budget(ranges, ret, mem);
        for (range, at) in ranges.iter().zip(&self.places[all]) {
            let len = range.len.min(left);
            left -= len;
            let len = if ret < 0 {
                readable(mem, range.addr, len)
            } else {
                len
            };
            if len > 0 {
                let addr = range.addr;
                found(Range { addr, len }, *at);
            }
        }
    }
}

impl Item {
    /// How many bytes of the item's ranges took part in the call.
    fn budget(&self, ranges: &[Range], ret: i64, mem: &dyn Memory) -> u64 {
        let faulted = ret == -i64::from(errno::EFAULT);
        if !self.when.holds(ret) {
            return if faulted && self.flow == Flow::Write {
                MAX_RW_COUNT
            } else {
                0
            };
        }
        match self.limit {
            Limit::Whole => u64::MAX,
            Limit::Returned { unit } => u64::try_from(ret).unwrap_or(0).saturating_mul(unit),
            Limit::Told { at, width } => word(mem, at, width).unwrap_or(u64::MAX),
            Limit::ToldItems { at, unit } => {
                word(mem, at, 4).map_or(u64::MAX, |count| count.saturating_mul(unit))
            }
            Limit::Text => ranges
                .first()
                .map_or(0, |range| text(mem, range.addr, range.len)),
        }
    }
}

impl When {
    fn holds(self, ret: i64) -> bool {
        match self {
            When::Success => ret >= 0 || errno::of(ret).is_none(),
            When::Always => true,
            When::Above(bound) => ret > bound,
            When::Exactly(value) => ret == value,
            When::Interrupted => errno::interrupted(ret),
        }
    }
}

/// A plan in the making: what the special functions of the tables work with.
pub(crate) struct Draft<'a> {
    call: &'a Call,
    mem: &'a dyn Memory,
    plan: Plan,
    /// When the kernel has come to what is told next.
    sure: When,
}

impl Draft<'_> {
    /// What is told from here on, the kernel comes to on these results for certain.
    pub(crate) fn sure(&mut self, when: When) {
        self.sure = when;
    }

    pub(crate) fn call(&self) -> &Call {
        self.call
    }

    /// A whole argument.
    pub(crate) fn arg(&self, index: u8) -> u64 {
        self.call.args[usize::from(index)]
    }

    /// The lower half of an argument, as the kernel sees an `unsigned int`.
    pub(crate) fn int(&self, index: u8) -> u32 {
        self.arg(index) as u32
    }

    pub(crate) fn u16(&self, addr: u64) -> Option<u16> {
        word(self.mem, addr, 2).map(|value| value as u16)
    }

    pub(crate) fn u32(&self, addr: u64) -> Option<u32> {
        word(self.mem, addr, 4).map(|value| value as u32)
    }

    pub(crate) fn u64(&self, addr: u64) -> Option<u64> {
        word(self.mem, addr, 8)
    }

    /// The pointer at an address.
    pub(crate) fn pointer(&self, at: u64) -> Option<Pointer> {
        let at_it = |to| Pointer { to, at: Some(at) };
        self.u64(at).map(at_it)
    }

    /// How much of a range is mapped.
    pub(crate) fn readable(&self, addr: u64, len: u64) -> u64 {
        readable(self.mem, addr, len)
    }

    /// The kernel writes an object of a known size.
    pub(crate) fn write(&mut self, when: When, to: impl Into<Pointer>, len: u64) {
        self.push(Flow::Write, when, Limit::Whole, to.into(), len);
    }

    /// The kernel writes an object of which only the largest size is known.
    pub(crate) fn write_up_to(
        &mut self,
        when: When,
        to: impl Into<Pointer>,
        most: u64,
        limit: Limit,
    ) {
        self.push(Flow::Write, when, limit, to.into(), most);
    }

    /// The kernel reads an object.
    pub(crate) fn read(&mut self, from: impl Into<Pointer>, len: u64) {
        self.push(Flow::Read, When::Always, Limit::Whole, from.into(), len);
    }

    /// The kernel reads a string.
    pub(crate) fn read_text(&mut self, addr: u64) {
        self.push(Flow::Read, When::Always, Limit::Text, addr.into(), PATH_MAX);
    }

    /// The kernel reads an array of `struct iovec` and moves data through it.
    pub(crate) fn vectors(
        &mut self,
        flow: Flow,
        when: When,
        limit: Limit,
        array: impl Into<Pointer>,
        elements: u64,
    ) {
        let array = array.into();
        if array.is_null() || elements == 0 || elements > IOV_MAX {
            return;
        }
        self.read(array, elements * IOVEC);
        let first = self.plan.ranges.len();
        for element in 0..elements {
            let at = array.to.wrapping_add(element * IOVEC);
            let (Some(addr), Some(len)) = (self.u64(at), self.u64(at.wrapping_add(8))) else {
                break;
            };
            self.plan.ranges.push(Range {
                addr,
                len: len.min(MAX_RW_COUNT),
            });
            self.plan.places.push(Some(at));
        }
        let count = self.plan.ranges.len() - first;
        self.plan.items.push(Item {
            flow,
            when,
            sure: self.sure,
            limit,
            first,
            count,
        });
    }

    fn push(&mut self, flow: Flow, when: When, limit: Limit, pointer: Pointer, len: u64) {
        let addr = pointer.to;
        if addr == 0 || len == 0 {
            return;
        }
        // An object cannot reach past the end of the address space, whatever the guest claims.
        let len = len.min(addr.wrapping_neg());
        let first = self.plan.ranges.len();
        self.plan.ranges.push(Range { addr, len });
        self.plan.places.push(pointer.at);
        self.plan.items.push(Item {
            flow,
            when,
            sure: self.sure,
            limit,
            first,
            count: 1,
        });
    }

    fn num(&self, num: Num) -> u64 {
        num.of(self.call)
    }

    fn extent(&self, len: Len) -> (u64, Limit) {
        match len {
            Len::Fixed(bytes) => (u64::from(bytes), Limit::Whole),
            Len::Arg(num) => (self.num(num), Limit::Whole),
            Len::Items(num, unit) => (self.num(num).saturating_mul(u64::from(unit)), Limit::Whole),
            Len::Ret(num) | Len::RetAtMost(num) => (self.num(num), Limit::Returned { unit: 1 }),
            Len::RetItems(unit, num) => {
                let unit = u64::from(unit);
                (self.num(num).saturating_mul(unit), Limit::Returned { unit })
            }
        }
    }

    fn add(&mut self, effect: Effect) {
        let returned = Limit::Returned { unit: 1 };
        match effect {
            Effect::In(arg, len) => {
                let (bytes, limit) = self.extent(len);
                self.push(Flow::Read, When::Always, limit, self.arg(arg).into(), bytes);
            }
            Effect::Text(arg) => self.read_text(self.arg(arg)),
            Effect::Texts(arg) => self.texts(self.arg(arg)),
            Effect::Gather(arg, num) => {
                let (array, elements) = (self.arg(arg), self.num(num));
                self.vectors(Flow::Read, When::Always, returned, array, elements);
            }
            Effect::Scatter(arg, num) => {
                let (array, elements) = (self.arg(arg), self.num(num));
                self.vectors(Flow::Write, When::Success, returned, array, elements);
            }
            Effect::Out(arg, len) | Effect::Opt(arg, len) => {
                let (bytes, limit) = self.extent(len);
                self.push(
                    Flow::Write,
                    When::Success,
                    limit,
                    self.arg(arg).into(),
                    bytes,
                );
            }
            Effect::Late(arg, len, when) => {
                let (bytes, limit) = self.extent(len);
                self.push(Flow::Write, when, limit, self.arg(arg).into(), bytes);
            }
            Effect::Part(arg, len, _) => {
                let (bytes, limit) = self.extent(len);
                self.push(Flow::Read, When::Always, limit, self.arg(arg).into(), bytes);
            }
            Effect::InOut(arg, len) => {
                let (bytes, limit) = self.extent(len);
                self.push(Flow::Read, When::Always, limit, self.arg(arg).into(), bytes);
                self.push(
                    Flow::Write,
                    When::Success,
                    limit,
                    self.arg(arg).into(),
                    bytes,
                );
            }
            Effect::Told(buffer, size) => {
                let (buffer, size) = (self.arg(buffer), self.arg(size));
                self.told(When::Success, buffer, size);
            }
            Effect::Reads(describe) | Effect::By(describe) => describe(self),
        }
    }

    /// A buffer whose size stands at an address, before the call as the room there is, afterwards as the size
    /// of what there was to tell.
    pub(crate) fn told(&mut self, when: When, buffer: u64, size_at: u64) {
        if buffer == 0 || size_at == 0 {
            return;
        }
        let room = self
            .u32(size_at)
            .map_or(0, |size| u64::try_from(size as i32).unwrap_or(0));
        self.read(size_at, 4);
        self.write(when, size_at, 4);
        self.write_up_to(
            when,
            buffer,
            room,
            Limit::Told {
                at: size_at,
                width: 4,
            },
        );
    }

    fn texts(&mut self, array: u64) {
        /// The kernel takes far more, but a plan need not; what is beyond is only missing from `reads`.
        const MOST: u64 = 4096;
        if array == 0 {
            return;
        }
        for index in 0..MOST {
            let at = array.wrapping_add(index * 8);
            match self.u64(at) {
                Some(0) | None => return self.read(array, (index + 1) * 8),
                Some(to) => {
                    // The strings are gone after a successful execve, so their ends are found here.
                    let len = text(self.mem, to, MAX_ARG_STRLEN);
                    self.read(Pointer { to, at: Some(at) }, len);
                }
            }
        }
    }
}

/// Reads a little-endian integer of `width` bytes.
fn word(mem: &dyn Memory, addr: u64, width: u8) -> Option<u64> {
    let mut bytes = [0; 8];
    let wanted = &mut bytes[..usize::from(width)];
    (mem.read(addr, wanted) == wanted.len()).then(|| u64::from_le_bytes(bytes))
}

/// The length of a string with its zero byte, or of what is readable if there is none.
fn text(mem: &dyn Memory, addr: u64, most: u64) -> u64 {
    let mut chunk = [0; 256];
    let mut len = 0;
    while len < most {
        let want = (most - len).min(chunk.len() as u64) as usize;
        let got = mem.read(addr.wrapping_add(len), &mut chunk[..want]);
        if let Some(end) = chunk[..got].iter().position(|byte| *byte == 0) {
            return len + end as u64 + 1;
        }
        len += got as u64;
        if got < want {
            break;
        }
    }
    len
}

/// How much of a range can be read.
fn readable(mem: &dyn Memory, addr: u64, len: u64) -> u64 {
    let mut chunk = [0; 4096];
    let mut total = 0;
    while total < len {
        let want = (len - total).min(chunk.len() as u64) as usize;
        let got = mem.read(addr.wrapping_add(total), &mut chunk[..want]);
        total += got as u64;
        if got < want {
            break;
        }
    }
    total
}
