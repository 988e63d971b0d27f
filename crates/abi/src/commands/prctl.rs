//! `prctl` and `arch_prctl` by option, and `seccomp` by operation.
//!
//! Options that only concern the outside (privileges, parents, scheduling) are taken from the recording.
//! Options that act back on the guest are carried out again, or refused where the recorder needs
//! the mechanism for itself (time stamp counter, processor identification, system call filters).

use crate::Call;
use crate::errno::{EINVAL, ENODEV, EOPNOTSUPP, EPERM};
use crate::layout::{INT, LONG};
use crate::plan::Draft;
use crate::table::Effect::{By, In, Out, Text};
use crate::table::Len::{Fixed, RetAtMost};
use crate::table::Num::Size;
use crate::table::When::Success;
use crate::table::{Behaviour, Commands, OUTSIDE, Rule, SPACE, STATE, commands, refused};

pub(crate) const PRCTL: Commands = Commands {
    arg: 0,
    select: option,
    known: &[OPTIONS],
    otherwise: unknown,
};

pub(crate) const ARCH_PRCTL: Commands = Commands {
    arg: 0,
    select: option,
    known: &[ARCH_OPTIONS],
    otherwise: unknown,
};

fn option(call: &Call) -> u64 {
    call.args[0] & 0xffff_ffff
}

fn unknown(_: &Call) -> Behaviour {
    Behaviour::refused("this option is unknown", EINVAL)
}

const FILTER: Rule = refused(
    "a filter of system calls would interfere with the recorder's own",
    EINVAL,
);
const OWN: Rule = refused("the recorder needs this mechanism for itself", EINVAL);
/// The kernel answers EINVAL on x86-64.
const ELSEWHERE: Rule = OUTSIDE;
const SHADOW: Rule = refused("shadow stacks are not recorded", EOPNOTSUPP);

commands! { OPTIONS;
    1  PR_SET_PDEATHSIG:             OUTSIDE, [];
    2  PR_GET_PDEATHSIG:             OUTSIDE, [Out(1, Fixed(INT))];
    3  PR_GET_DUMPABLE:              OUTSIDE, [];
    4  PR_SET_DUMPABLE:              OUTSIDE, [];
    5  PR_GET_UNALIGN:               ELSEWHERE, [];
    6  PR_SET_UNALIGN:               ELSEWHERE, [];
    7  PR_GET_KEEPCAPS:              OUTSIDE, [];
    8  PR_SET_KEEPCAPS:              OUTSIDE, [];
    9  PR_GET_FPEMU:                 ELSEWHERE, [];
    10 PR_SET_FPEMU:                 ELSEWHERE, [];
    11 PR_GET_FPEXC:                 ELSEWHERE, [];
    12 PR_SET_FPEXC:                 ELSEWHERE, [];
    13 PR_GET_TIMING:                OUTSIDE, [];
    14 PR_SET_TIMING:                OUTSIDE, [];
    15 PR_SET_NAME:                  STATE,   [Text(1)];
    16 PR_GET_NAME:                  OUTSIDE, [Out(1, Fixed(16))];
    19 PR_GET_ENDIAN:                ELSEWHERE, [];
    20 PR_SET_ENDIAN:                ELSEWHERE, [];
    21 PR_GET_SECCOMP:               OUTSIDE, [];
    22 PR_SET_SECCOMP:               FILTER,  [];
    23 PR_CAPBSET_READ:              OUTSIDE, [];
    24 PR_CAPBSET_DROP:              OUTSIDE, [];
    25 PR_GET_TSC:                   OUTSIDE, [Out(1, Fixed(INT))];
    26 PR_SET_TSC:                   OWN,     [];
    27 PR_GET_SECUREBITS:            OUTSIDE, [];
    28 PR_SET_SECUREBITS:            OUTSIDE, [];
    29 PR_SET_TIMERSLACK:            OUTSIDE, [];
    30 PR_GET_TIMERSLACK:            OUTSIDE, [];
    31 PR_TASK_PERF_EVENTS_DISABLE:  OUTSIDE, [];
    32 PR_TASK_PERF_EVENTS_ENABLE:   OUTSIDE, [];
    33 PR_MCE_KILL:                  OUTSIDE, [];
    34 PR_MCE_KILL_GET:              OUTSIDE, [];
    35 PR_SET_MM:                    refused("it moves the bounds that the kernel keeps of the address space", EPERM), [];
    36 PR_SET_CHILD_SUBREAPER:       OUTSIDE, [];
    37 PR_GET_CHILD_SUBREAPER:       OUTSIDE, [Out(1, Fixed(INT))];
    38 PR_SET_NO_NEW_PRIVS:          OUTSIDE, [];
    39 PR_GET_NO_NEW_PRIVS:          OUTSIDE, [];
    40 PR_GET_TID_ADDRESS:           OUTSIDE, [Out(1, Fixed(LONG))];
    41 PR_SET_THP_DISABLE:           STATE,   [];
    42 PR_GET_THP_DISABLE:           OUTSIDE, [];
    43 PR_MPX_ENABLE_MANAGEMENT:     ELSEWHERE, [];
    44 PR_MPX_DISABLE_MANAGEMENT:    ELSEWHERE, [];
    45 PR_SET_FP_MODE:               ELSEWHERE, [];
    46 PR_GET_FP_MODE:               ELSEWHERE, [];
    47 PR_CAP_AMBIENT:               OUTSIDE, [];
    50 PR_SVE_SET_VL:                ELSEWHERE, [];
    51 PR_SVE_GET_VL:                ELSEWHERE, [];
    52 PR_GET_SPECULATION_CTRL:      OUTSIDE, [];
    53 PR_SET_SPECULATION_CTRL:      OUTSIDE, [];
    54 PR_PAC_RESET_KEYS:            ELSEWHERE, [];
    55 PR_SET_TAGGED_ADDR_CTRL:      ELSEWHERE, [];
    56 PR_GET_TAGGED_ADDR_CTRL:      ELSEWHERE, [];
    57 PR_SET_IO_FLUSHER:            OUTSIDE, [];
    58 PR_GET_IO_FLUSHER:            OUTSIDE, [];
    59 PR_SET_SYSCALL_USER_DISPATCH: OWN,     [];
    60 PR_PAC_SET_ENABLED_KEYS:      ELSEWHERE, [];
    61 PR_PAC_GET_ENABLED_KEYS:      ELSEWHERE, [];
    62 PR_SCHED_CORE:                OUTSIDE, [By(sched_core)];
    63 PR_SME_SET_VL:                ELSEWHERE, [];
    64 PR_SME_GET_VL:                ELSEWHERE, [];
    65 PR_SET_MDWE:                  STATE,   [];
    66 PR_GET_MDWE:                  OUTSIDE, [];
    67 PR_SET_MEMORY_MERGE:          OUTSIDE, [];
    68 PR_GET_MEMORY_MERGE:          OUTSIDE, [];
    69 PR_RISCV_V_SET_CONTROL:       ELSEWHERE, [];
    70 PR_RISCV_V_GET_CONTROL:       ELSEWHERE, [];
    71 PR_RISCV_SET_ICACHE_FLUSH_CTX: ELSEWHERE, [];
    72 PR_PPC_GET_DEXCR:             ELSEWHERE, [];
    73 PR_PPC_SET_DEXCR:             ELSEWHERE, [];
    74 PR_GET_SHADOW_STACK_STATUS:   ELSEWHERE, [];
    75 PR_SET_SHADOW_STACK_STATUS:   ELSEWHERE, [];
    76 PR_LOCK_SHADOW_STACK_STATUS:  ELSEWHERE, [];
    77 PR_TIMER_CREATE_RESTORE_IDS:  OUTSIDE, [];
    78 PR_FUTEX_HASH:                OUTSIDE, [];
    0x41555856 PR_GET_AUXV:          OUTSIDE, [Out(1, RetAtMost(Size(2)))];
    0x53564d41 PR_SET_VMA:           SPACE,   [Text(4)];
    0x59616d61 PR_SET_PTRACER:       OUTSIDE, [];
}

/// `PR_SCHED_CORE_GET` writes the cookie.
fn sched_core(draft: &mut Draft<'_>) {
    const GET: u32 = 0;
    if draft.int(1) == GET {
        draft.write(Success, draft.arg(4), LONG.into());
    }
}

commands! { ARCH_OPTIONS;
    0x1001 ARCH_SET_GS:               STATE,   [];
    0x1002 ARCH_SET_FS:               STATE,   [];
    0x1003 ARCH_GET_FS:               OUTSIDE, [Out(1, Fixed(LONG))];
    0x1004 ARCH_GET_GS:               OUTSIDE, [Out(1, Fixed(LONG))];
    0x1011 ARCH_GET_CPUID:            OUTSIDE, [];
    0x1012 ARCH_SET_CPUID:            refused("the recorder needs this mechanism for itself", ENODEV), [];
    0x1021 ARCH_GET_XCOMP_SUPP:       OUTSIDE, [Out(1, Fixed(LONG))];
    0x1022 ARCH_GET_XCOMP_PERM:       OUTSIDE, [Out(1, Fixed(LONG))];
    0x1023 ARCH_REQ_XCOMP_PERM:       STATE,   [];
    0x1024 ARCH_GET_XCOMP_GUEST_PERM: OUTSIDE, [Out(1, Fixed(LONG))];
    0x1025 ARCH_REQ_XCOMP_GUEST_PERM: OUTSIDE, [];
    0x2001 ARCH_MAP_VDSO_X32:         refused("it maps kernel code that a replay does not have", EINVAL), [];
    0x2002 ARCH_MAP_VDSO_32:          refused("it maps kernel code that a replay does not have", EINVAL), [];
    0x2003 ARCH_MAP_VDSO_64:          refused("it maps kernel code that a replay does not have", EINVAL), [];
    // The start-up code of some C libraries asks under this number, from before it was settled, and most
    // kernels answer EINVAL.
    0x3001 ARCH_CET_STATUS:           OUTSIDE, [Out(1, Fixed(3 * LONG))];
    0x4001 ARCH_GET_UNTAG_MASK:       OUTSIDE, [Out(1, Fixed(LONG))];
    0x4002 ARCH_ENABLE_TAGGED_ADDR:   STATE,   [];
    0x4003 ARCH_GET_MAX_TAG_BITS:     OUTSIDE, [Out(1, Fixed(LONG))];
    0x4004 ARCH_FORCE_TAGGED_SVA:     STATE,   [];
    0x5001 ARCH_SHSTK_ENABLE:         SHADOW,  [];
    0x5002 ARCH_SHSTK_DISABLE:        SHADOW,  [];
    0x5003 ARCH_SHSTK_LOCK:           SHADOW,  [];
    0x5004 ARCH_SHSTK_UNLOCK:         SHADOW,  [];
    0x5005 ARCH_SHSTK_STATUS:         OUTSIDE, [Out(1, Fixed(LONG))];
}

pub(crate) const SECCOMP: Commands = Commands {
    arg: 0,
    select: option,
    known: &[SECCOMP_OPERATIONS],
    otherwise: unknown,
};

commands! { SECCOMP_OPERATIONS;
    0 SECCOMP_SET_MODE_STRICT:  FILTER,  [];
    1 SECCOMP_SET_MODE_FILTER:  FILTER,  [];
    2 SECCOMP_GET_ACTION_AVAIL: OUTSIDE, [In(2, Fixed(INT))];
    // Three sizes of 2 bytes.
    3 SECCOMP_GET_NOTIF_SIZES:  OUTSIDE, [Out(2, Fixed(6))];
}
