//! Calls about processes and threads: starting and ending them, who they are, what they may use, where they
//! run.

use crate::Blocking::{May, Never};
use crate::commands::prctl::{ARCH_PRCTL, PRCTL, SECCOMP};
use crate::errno::{E2BIG, ENOSYS, EPERM};
use crate::layout::{
    CAP_USER_DATA, CAP_USER_HEADER, INT, LONG, RLIMIT, RUSAGE, SCHED_PARAM, TIMESPEC, WAITID_INFO,
};
use crate::plan::Draft;
use crate::table::Effect::{By, In, Late, Opt, Out, Part, Reads, Text, Texts};
use crate::table::Len::{Arg, Fixed, Items, Ret, RetItems};
use crate::table::Num::{Int, Size, Uint};
use crate::table::When::{self, Above, Always};
use crate::table::{OUTSIDE, PROCESS, Rule, STATE, calls, refused};
use crate::{Call, Class};

calls! {
    24  sched_yield/0:            OUTSIDE, Never, [];
    39  getpid/0:                 OUTSIDE, Never, [];
    56  clone/5:                  PROCESS, Never, [By(clone)];
    57  fork/0:                   PROCESS, Never, [];
    58  vfork/0:                  PROCESS, May,   [];
    59  execve/3:                 PROCESS, Never, [Text(0), Texts(1), Texts(2)];
    60  exit/1:                   PROCESS, Never, [];
    61  wait4/4:                  OUTSIDE, May,   [Late(1, Fixed(INT), Above(0)), Late(3, Fixed(RUSAGE), Above(0))];
    97  getrlimit/2:              OUTSIDE, Never, [Out(1, Fixed(RLIMIT))];
    98  getrusage/2:              OUTSIDE, Never, [Out(1, Fixed(RUSAGE))];
    101 ptrace/4:                 refused("a guest under ptrace cannot trace another", EPERM), Never, [];
    102 getuid/0:                 OUTSIDE, Never, [];
    104 getgid/0:                 OUTSIDE, Never, [];
    105 setuid/1:                 OUTSIDE, Never, [];
    106 setgid/1:                 OUTSIDE, Never, [];
    107 geteuid/0:                OUTSIDE, Never, [];
    108 getegid/0:                OUTSIDE, Never, [];
    109 setpgid/2:                OUTSIDE, Never, [];
    110 getppid/0:                OUTSIDE, Never, [];
    111 getpgrp/0:                OUTSIDE, Never, [];
    112 setsid/0:                 OUTSIDE, Never, [];
    113 setreuid/2:               OUTSIDE, Never, [];
    114 setregid/2:               OUTSIDE, Never, [];
    115 getgroups/2:              OUTSIDE, Never, [Out(1, RetItems(INT, Int(0)))];
    116 setgroups/2:              OUTSIDE, Never, [In(1, Items(Int(0), INT))];
    117 setresuid/3:              OUTSIDE, Never, [];
    118 getresuid/3:              OUTSIDE, Never, [Out(0, Fixed(INT)), Out(1, Fixed(INT)), Out(2, Fixed(INT))];
    119 setresgid/3:              OUTSIDE, Never, [];
    120 getresgid/3:              OUTSIDE, Never, [Out(0, Fixed(INT)), Out(1, Fixed(INT)), Out(2, Fixed(INT))];
    121 getpgid/1:                OUTSIDE, Never, [];
    122 setfsuid/1:               OUTSIDE, Never, [];
    123 setfsgid/1:               OUTSIDE, Never, [];
    124 getsid/1:                 OUTSIDE, Never, [];
    125 capget/2:                 OUTSIDE, Never, [By(capget)];
    126 capset/2:                 OUTSIDE, Never, [By(capset)];
    // Flags such as READ_IMPLIES_EXEC change how later mappings come out.
    135 personality/1:            STATE,   Never, [];
    140 getpriority/2:            OUTSIDE, Never, [];
    141 setpriority/3:            OUTSIDE, Never, [];
    142 sched_setparam/2:         OUTSIDE, Never, [In(1, Fixed(SCHED_PARAM))];
    143 sched_getparam/2:         OUTSIDE, Never, [Out(1, Fixed(SCHED_PARAM))];
    144 sched_setscheduler/3:     OUTSIDE, Never, [In(2, Fixed(SCHED_PARAM))];
    145 sched_getscheduler/1:     OUTSIDE, Never, [];
    146 sched_get_priority_max/1: OUTSIDE, Never, [];
    147 sched_get_priority_min/1: OUTSIDE, Never, [];
    148 sched_rr_get_interval/2:  OUTSIDE, Never, [Out(1, Fixed(TIMESPEC))];
    154 modify_ldt/3:             refused("segments of the local descriptor table are not recorded", ENOSYS), Never, [];
    157 prctl/5:                  Rule::Commands(&PRCTL), Never, [];
    158 arch_prctl/2:             Rule::Commands(&ARCH_PRCTL), Never, [];
    160 setrlimit/2:              Rule::By(setrlimit), Never, [In(1, Fixed(RLIMIT))];
    186 gettid/0:                 OUTSIDE, Never, [];
    // What is behind the most processors that the kernel can have, it does not look at.
    203 sched_setaffinity/3:      OUTSIDE, Never, [Part(2, Arg(Uint(1)), 8)];
    204 sched_getaffinity/3:      OUTSIDE, Never, [Out(2, Ret(Uint(1)))];
    205 set_thread_area/1:        refused("32-bit segments are not recorded", ENOSYS), Never, [];
    211 get_thread_area/1:        refused("32-bit segments are not recorded", ENOSYS), Never, [];
    218 set_tid_address/1:        STATE,   Never, [];
    231 exit_group/1:             PROCESS, Never, [];
    // The kernel fills the structure even when there is no child to wait for.
    247 waitid/5:                 OUTSIDE, May,   [Late(2, Fixed(WAITID_INFO), Always), Opt(4, Fixed(RUSAGE))];
    251 ioprio_set/3:             OUTSIDE, Never, [];
    252 ioprio_get/2:             OUTSIDE, Never, [];
    272 unshare/1:                OUTSIDE, Never, [];
    273 set_robust_list/2:        STATE,   Never, [];
    274 get_robust_list/3:        OUTSIDE, Never, [Out(1, Fixed(LONG)), Out(2, Fixed(LONG))];
    302 prlimit64/4:              Rule::By(prlimit64), Never, [In(2, Fixed(RLIMIT)), Opt(3, Fixed(RLIMIT))];
    308 setns/2:                  OUTSIDE, Never, [];
    309 getcpu/3:                 OUTSIDE, Never, [Opt(0, Fixed(INT)), Opt(1, Fixed(INT))];
    312 kcmp/5:                   OUTSIDE, Never, [];
    314 sched_setattr/3:          OUTSIDE, Never, [By(sched_setattr)];
    315 sched_getattr/4:          OUTSIDE, Never, [Out(1, Arg(Uint(2)))];
    317 seccomp/3:                Rule::Commands(&SECCOMP), Never, [];
    322 execveat/5:               PROCESS, Never, [Text(1), Texts(2), Texts(3)];
    334 rseq/4:                   refused("the kernel would write the processor number at its own time", ENOSYS), Never, [];
    434 pidfd_open/2:             OUTSIDE, Never, [];
    435 clone3/2:                 PROCESS, Never, [In(0, Arg(Size(1))), By(clone3)];
    444 landlock_create_ruleset/3: OUTSIDE, Never, [In(0, Arg(Size(1)))];
    445 landlock_add_rule/4:      OUTSIDE, Never, [Reads(landlock_add_rule)];
    446 landlock_restrict_self/2: OUTSIDE, Never, [];
}

const CLONE_PIDFD: u64 = 0x1000;
const CLONE_PARENT_SETTID: u64 = 0x10_0000;
const CLONE_CHILD_SETTID: u64 = 0x100_0000;

/// The parent (which gets the child's id) finds the ids written in its memory, the child (which gets 0) in
/// its own; so the plan is asked once with each result.
fn clone_ids(draft: &mut Draft<'_>, flags: u64, pidfd: u64, parent_tid: u64, child_tid: u64) {
    if flags & CLONE_PIDFD != 0 {
        draft.write(Above(0), pidfd, INT.into());
    }
    if flags & CLONE_PARENT_SETTID != 0 {
        draft.write(Above(0), parent_tid, INT.into());
    }
    if flags & CLONE_CHILD_SETTID != 0 {
        draft.write(When::Exactly(0), child_tid, INT.into());
    }
}

/// `clone` returns a pidfd through the pointer it otherwise uses for the parent's copy of the id.
fn clone(draft: &mut Draft<'_>) {
    let (flags, parent_tid, child_tid) = (draft.arg(0), draft.arg(2), draft.arg(3));
    clone_ids(draft, flags, parent_tid, parent_tid, child_tid);
}

/// `struct clone_args` starts with flags, pidfd, child_tid and parent_tid, of 8 bytes each.
fn clone3(draft: &mut Draft<'_>) {
    let args = draft.arg(0);
    let field = |index: u64| draft.u64(args.wrapping_add(index * 8)).unwrap_or(0);
    let (flags, pidfd, child_tid, parent_tid) = (field(0), field(1), field(2), field(3));
    clone_ids(draft, flags, pidfd, parent_tid, child_tid);
}

/// A limit on the stack decides where a runaway recursion faults, so a replay must set it too; the other
/// limits only show in results, which come from the recording.
const RLIMIT_STACK: u32 = 3;

fn setrlimit(call: &Call) -> Class {
    if call.args[0] as u32 == RLIMIT_STACK {
        Class::GuestState
    } else {
        Class::Outside
    }
}

fn prlimit64(call: &Call) -> Class {
    let [pid, resource, limit, ..] = call.args;
    let own = pid as u32 == 0 && limit != 0;
    if own && resource as u32 == RLIMIT_STACK {
        Class::GuestState
    } else {
        Class::Outside
    }
}

/// Version 1 has 32 capabilities in one record; later ones have 64 in two.
fn capability_bytes(draft: &Draft<'_>) -> u64 {
    const VERSION_1: u32 = 0x1998_0330;
    let version_1 = draft.u32(draft.arg(0)) == Some(VERSION_1);
    if version_1 {
        CAP_USER_DATA
    } else {
        2 * CAP_USER_DATA
    }
}

/// Given a version it does not know, the kernel fails and writes the one it prefers.
fn capget(draft: &mut Draft<'_>) {
    draft.read(draft.arg(0), CAP_USER_HEADER.into());
    draft.write(Always, draft.arg(0), INT.into());
    draft.write(When::Success, draft.arg(1), capability_bytes(draft));
}

fn capset(draft: &mut Draft<'_>) {
    draft.read(draft.arg(0), CAP_USER_HEADER.into());
    draft.write(Always, draft.arg(0), INT.into());
    draft.read(draft.arg(1), capability_bytes(draft));
}

/// Given a structure of a size it does not know, the kernel fails and writes the size it prefers.
fn sched_setattr(draft: &mut Draft<'_>) {
    let attr = draft.arg(1);
    let size = draft.u32(attr).unwrap_or(0);
    draft.read(attr, size.into());
    draft.write(When::Exactly(-(E2BIG as i64)), attr, INT.into());
}

fn landlock_add_rule(draft: &mut Draft<'_>) {
    const PATH_BENEATH: u32 = 1;
    const NET_PORT: u32 = 2;
    match draft.int(1) {
        PATH_BENEATH => draft.read(draft.arg(2), 12),
        NET_PORT => draft.read(draft.arg(2), 16),
        _ => {}
    }
}
