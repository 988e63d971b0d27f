//! The running kernel as the judge of the tables.
//!
//! A case makes real system calls on objects of known size. It runs twice, with the objects pre-filled with
//! two complementary patterns, so that every byte the kernel writes differs from the pattern in at least
//! one run. In each run, every byte that changed must be in a range that the plan reports, and every range
//! must lie within an object. Over both runs, a plan is also wrong if it reports writes where nothing ever
//! changed, or if a successful call left pattern in what it reports, unless the structure is known to have
//! holes.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use abi::{Call, Memory, Plan, Range};

/// Bytes around an object that nobody may touch.
const GUARD: usize = 128;

/// Calls whose structures have padding that the kernel does not fill.
const WITH_HOLES: &[&str] = &["getdents", "getdents64", "waitid", "recvmsg"];

/// This process as a guest.
pub(crate) struct Own;

impl Memory for Own {
    fn read(&self, addr: u64, buf: &mut [u8]) -> usize {
        const PAGE: u64 = 4096;
        let mut done = 0;
        while done < buf.len() {
            let at = addr.wrapping_add(done as u64);
            let len = (buf.len() - done).min((PAGE - at % PAGE) as usize);
            let local = libc::iovec {
                iov_base: buf[done..].as_mut_ptr().cast(),
                iov_len: len,
            };
            let remote = libc::iovec {
                iov_base: at as *mut libc::c_void,
                iov_len: len,
            };
            // SAFETY: the local vector is within `buf`; the remote one is checked by the kernel.
            let got = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
            if got != len as isize {
                return done + got.max(0) as usize;
            }
            done += len;
        }
        done
    }
}

struct Object {
    /// With guards before and after.
    bytes: Box<[u8]>,
    size: usize,
}

impl Object {
    fn addr(&self) -> u64 {
        self.bytes.as_ptr() as u64 + GUARD as u64
    }

    fn contains(&self, range: &Range) -> bool {
        range.addr >= self.addr() && range.addr + range.len <= self.addr() + self.size as u64
    }
}

/// What one call did to the objects, as pairs of object and offset.
struct Outcome {
    name: &'static str,
    line: String,
    failed: bool,
    /// Bytes that held the pattern before the call.
    pattern: BTreeSet<(usize, usize)>,
    planned: BTreeSet<(usize, usize)>,
    changed: BTreeSet<(usize, usize)>,
}

/// One run of a case.
pub(crate) struct Kernel {
    fill: u8,
    objects: Vec<Object>,
    outcomes: Vec<Outcome>,
    calls: BTreeSet<&'static str>,
    complaints: Vec<String>,
    skips: Vec<String>,
    fds: Vec<i32>,
}

impl Kernel {
    /// An object that holds the pattern.
    pub(crate) fn buf(&mut self, size: usize) -> u64 {
        self.with(size, &[])
    }

    /// An object that starts with given bytes and goes on with the pattern.
    pub(crate) fn with(&mut self, size: usize, prefix: &[u8]) -> u64 {
        let mut bytes = vec![self.fill; size + 2 * GUARD].into_boxed_slice();
        bytes[GUARD..GUARD + prefix.len()].copy_from_slice(prefix);
        self.objects.push(Object { bytes, size });
        self.objects.last().map_or(0, Object::addr)
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> u64 {
        self.with(bytes.len(), bytes)
    }

    /// Little-endian words, for structures made of 8-byte fields.
    pub(crate) fn words(&mut self, words: &[u64]) -> u64 {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.bytes(&bytes)
    }

    pub(crate) fn ints(&mut self, ints: &[u32]) -> u64 {
        let bytes: Vec<u8> = ints.iter().flat_map(|int| int.to_le_bytes()).collect();
        self.bytes(&bytes)
    }

    pub(crate) fn text(&mut self, text: &str) -> u64 {
        self.bytes(format!("{text}\0").as_bytes())
    }

    /// A descriptor that is closed when the run ends.
    pub(crate) fn keep(&mut self, fd: i32) -> u64 {
        assert!(
            fd >= 0,
            "no descriptor: {}",
            std::io::Error::last_os_error()
        );
        self.fds.push(fd);
        fd as u64
    }

    /// The first int of an object, for results that come back in memory.
    pub(crate) fn int_at(&self, addr: u64) -> i32 {
        let mut bytes = [0; 4];
        Own.read(addr, &mut bytes);
        i32::from_le_bytes(bytes)
    }

    /// A call that must succeed and, if the plan says that it writes, must change something in one of the
    /// runs.
    #[track_caller]
    pub(crate) fn ok(&mut self, name: &'static str, args: &[u64]) -> i64 {
        let ret = self.call(name, args);
        if ret < 0 {
            self.complain(format!("{} should succeed", self.last()));
        }
        ret
    }

    /// A call that must fail in a certain way.
    #[track_caller]
    pub(crate) fn fails(&mut self, name: &'static str, args: &[u64], errno: i32) {
        let ret = self.call(name, args);
        if ret != -i64::from(errno) {
            self.complain(format!("{} should fail with error {errno}", self.last()));
        }
    }

    /// A call that this kernel may lack or forbid; then it counts as skipped.
    pub(crate) fn maybe(&mut self, name: &'static str, args: &[u64]) -> Option<i64> {
        let ret = self.call(name, args);
        if ret >= 0 {
            return Some(ret);
        }
        self.skips.push(self.last());
        None
    }

    /// A call that must fail in a certain way unless this kernel lacks it.
    #[track_caller]
    pub(crate) fn maybe_fails(&mut self, name: &'static str, args: &[u64], errno: i32) {
        match self.call(name, args) {
            ret if ret == -i64::from(errno) => {}
            ret if ret == -i64::from(libc::ENOSYS) => self.skips.push(self.last()),
            _ => self.complain(format!("{} should fail with error {errno}", self.last())),
        }
    }

    fn last(&self) -> String {
        self.outcomes
            .last()
            .map_or_else(String::new, |outcome| outcome.line.clone())
    }

    #[track_caller]
    pub(crate) fn complain(&mut self, what: String) {
        self.complaints
            .push(format!("{}: {what}", std::panic::Location::caller()));
    }

    #[track_caller]
    fn call(&mut self, name: &'static str, args: &[u64]) -> i64 {
        let nr = abi::number(name).expect("a call's name");
        let mut six = [0; 6];
        six[..args.len()].copy_from_slice(args);
        let call = Call { nr, args: six };
        let plan = match Plan::before(&call, &Own) {
            Ok(plan) => plan,
            Err(refusal) => {
                self.complain(refusal.to_string());
                return 0;
            }
        };
        let before: Vec<Box<[u8]>> = self
            .objects
            .iter()
            .map(|object| object.bytes.clone())
            .collect();
        // SAFETY: the cases pass pointers to objects of the sizes that the kernel expects; whether they do
        // is what the guards check.
        let ret =
            unsafe { libc::syscall(nr as i64, six[0], six[1], six[2], six[3], six[4], six[5]) };
        if ret == 0 && name.starts_with("clone") {
            // SAFETY: this is the child, whose memory is a copy that nobody looks at.
            unsafe { libc::_exit(0) };
        }
        let ret = if ret == -1 {
            -i64::from(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
        } else {
            ret
        };
        let line = abi::describe(&call, Some(ret));
        let ranges = plan.writes(ret, &Own);
        for range in &ranges {
            if !self.objects.iter().any(|object| object.contains(range)) {
                self.complain(format!("{line}: {range:x?} is beyond every object"));
            }
        }
        let outcome = self.compare(name, line, ret, &before, &ranges);
        if let Some((object, offset)) = outcome.changed.difference(&outcome.planned).next() {
            let missed = outcome.changed.difference(&outcome.planned).count();
            self.complain(format!(
                "{}: {missed} changed bytes are not planned, the first at {offset} of object {object}",
                outcome.line
            ));
        }
        self.outcomes.push(outcome);
        self.calls.insert(name);
        ret
    }

    fn compare(
        &self,
        name: &'static str,
        line: String,
        ret: i64,
        before: &[Box<[u8]>],
        ranges: &[Range],
    ) -> Outcome {
        let mut planned = BTreeSet::new();
        let mut changed = BTreeSet::new();
        let mut pattern = BTreeSet::new();
        for (index, object) in self.objects.iter().enumerate() {
            // The kernel wrote behind the compiler's back, so the bytes are read as the kernel sees them.
            let mut after = vec![0; object.bytes.len()];
            Own.read(object.bytes.as_ptr() as u64, &mut after);
            for (at, (old, new)) in before[index].iter().zip(&after).enumerate() {
                if old != new {
                    // Offsets in the guard before the object wrap to large numbers, which no plan covers.
                    changed.insert((index, at.wrapping_sub(GUARD)));
                }
            }
            for (offset, byte) in before[index][GUARD..GUARD + object.size].iter().enumerate() {
                if *byte == self.fill {
                    pattern.insert((index, offset));
                }
            }
            for range in ranges.iter().filter(|range| object.contains(range)) {
                let start = (range.addr - object.addr()) as usize;
                planned.extend((start..start + range.len as usize).map(|offset| (index, offset)));
            }
        }
        Outcome {
            name,
            line,
            failed: ret < 0,
            pattern,
            planned,
            changed,
        }
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        for fd in &self.fds {
            // SAFETY: the descriptors were handed to `keep` for this.
            unsafe { libc::close(*fd) };
        }
    }
}

/// All cases and what came of them.
#[derive(Default)]
pub(crate) struct Suite {
    pub(crate) calls: BTreeSet<&'static str>,
    pub(crate) checked: usize,
    pub(crate) skips: Vec<String>,
    pub(crate) complaints: Vec<String>,
    pub(crate) slack: String,
}

impl Suite {
    /// Runs a case with both patterns.
    pub(crate) fn case(&mut self, title: &str, run: impl Fn(&mut Kernel)) {
        let mut runs = [0xAA, 0x55].map(|fill| Kernel {
            fill,
            objects: Vec::new(),
            outcomes: Vec::new(),
            calls: BTreeSet::new(),
            complaints: Vec::new(),
            skips: Vec::new(),
            fds: Vec::new(),
        });
        for kernel in &mut runs {
            run(kernel);
            let complaints = kernel.complaints.drain(..);
            self.complaints
                .extend(complaints.map(|complaint| format!("{title}: {complaint}")));
        }
        let [first, second] = &runs;
        self.calls.extend(&first.calls);
        self.skips
            .extend(first.skips.iter().map(|skip| format!("{title}: {skip}")));
        for (one, two) in first.outcomes.iter().zip(&second.outcomes) {
            self.checked += 1;
            let planned: BTreeSet<_> = one.planned.union(&two.planned).collect();
            let changed: BTreeSet<_> = one.changed.union(&two.changed).collect();
            if !one.failed && changed.is_empty() && !planned.is_empty() {
                self.complaints.push(format!(
                    "{title}: {} is planned to write, but did not",
                    one.line
                ));
            }
            let pattern: BTreeSet<_> = one.pattern.intersection(&two.pattern).collect();
            let left = planned
                .iter()
                .filter(|at| pattern.contains(*at) && !changed.contains(*at));
            let left = left.count();
            if !one.failed && left > 0 && !WITH_HOLES.contains(&one.name) {
                let line = &one.line;
                self.complaints
                    .push(format!("{title}: {line} left {left} planned bytes alone"));
            }
            if planned.len() > changed.len() {
                let (planned, changed) = (planned.len(), changed.len());
                let _ = writeln!(self.slack, "{planned:6} {changed:6}  {}", one.line);
            }
        }
    }
}
