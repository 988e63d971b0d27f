//! Calls about the machine: its name, its log, modules, swap, quotas; and the numbers that never did
//! anything.

use crate::Blocking::{May, Never};
use crate::commands::quotactl::{QUOTACTL, QUOTACTL_FD};
use crate::commands::syslog::SYSLOG;
use crate::errno::{EACCES, ENOSYS, EPERM};
use crate::layout::{INT, NEW_UTSNAME, SYSINFO};
use crate::plan::{Draft, Limit};
use crate::table::Effect::{By, In, Out, Text};
use crate::table::Len::{Arg, Fixed, Items, Ret};
use crate::table::Num::{Int, Size};
use crate::table::When::{Always, Success};
use crate::table::{OUTSIDE, Rule, calls, refused};

/// The kernel answers ENOSYS itself.
const GONE: Rule = OUTSIDE;
const PORTS: Rule = refused(
    "reading ports gives the guest input that no call shows",
    EPERM,
);

calls! {
    63  uname/1:               OUTSIDE, Never, [Out(0, Fixed(NEW_UTSNAME))];
    99  sysinfo/1:             OUTSIDE, Never, [Out(0, Fixed(SYSINFO))];
    103 syslog/3:              Rule::Commands(&SYSLOG), May, [];
    134 uselib/1:              refused("it maps a library in a format no longer in use", ENOSYS), Never, [];
    153 vhangup/0:             OUTSIDE, Never, [];
    156 _sysctl/1:             refused("it was removed from the kernel in favour of /proc/sys", ENOSYS), Never, [];
    163 acct/1:                OUTSIDE, Never, [Text(0)];
    167 swapon/2:              OUTSIDE, Never, [Text(0)];
    168 swapoff/1:             OUTSIDE, Never, [Text(0)];
    169 reboot/4:              OUTSIDE, Never, [];
    170 sethostname/2:         OUTSIDE, Never, [In(0, Arg(Int(1)))];
    171 setdomainname/2:       OUTSIDE, Never, [In(0, Arg(Int(1)))];
    172 iopl/1:                PORTS,   Never, [];
    173 ioperm/3:              PORTS,   Never, [];
    174 create_module/2:       GONE,    Never, [];
    175 init_module/3:         OUTSIDE, Never, [In(0, Arg(Size(1))), Text(2)];
    176 delete_module/2:       OUTSIDE, Never, [Text(0)];
    177 get_kernel_syms/1:     GONE,    Never, [];
    178 query_module/5:        GONE,    Never, [];
    179 quotactl/4:            Rule::Commands(&QUOTACTL), Never, [Text(1)];
    180 nfsservctl/3:          GONE,    Never, [];
    181 getpmsg/5:             GONE,    Never, [];
    182 putpmsg/5:             GONE,    Never, [];
    183 afs_syscall/5:         GONE,    Never, [];
    184 tuxcall/3:             GONE,    Never, [];
    185 security/3:            GONE,    Never, [];
    236 vserver/5:             GONE,    Never, [];
    246 kexec_load/4:          OUTSIDE, Never, [In(2, Items(Size(1), 32))];
    298 perf_event_open/5:     refused("counters would be written to guest memory at the kernel's own time", EACCES), Never, [];
    313 finit_module/3:        OUTSIDE, Never, [Text(1)];
    318 getrandom/3:           OUTSIDE, Never, [Out(0, Ret(Size(1)))];
    320 kexec_file_load/5:     OUTSIDE, Never, [In(3, Arg(Size(2)))];
    321 bpf/3:                 refused("programs in the kernel and maps shared with them are not recorded", EPERM), Never, [];
    335 uretprobe/0:           refused("it belongs to the kernel's own return probes", ENOSYS), Never, [];
    336 uprobe/0:              refused("it belongs to the kernel's own probes", ENOSYS), Never, [];
    443 quotactl_fd/4:         Rule::Commands(&QUOTACTL_FD), Never, [];
    459 lsm_get_self_attr/4:   OUTSIDE, Never, [By(lsm_get_self_attr)];
    460 lsm_set_self_attr/4:   OUTSIDE, Never, [In(1, Arg(Int(2)))];
    461 lsm_list_modules/3:    OUTSIDE, Never, [By(lsm_list_modules)];
}

/// Both security module calls tell the room they need even when they fail with `E2BIG`.
fn lsm_get_self_attr(draft: &mut Draft<'_>) {
    let (buffer, size) = (draft.arg(1), draft.arg(2));
    let room = draft.u32(size).unwrap_or(0);
    draft.read(size, INT.into());
    draft.write(Always, size, INT.into());
    draft.write_up_to(
        Success,
        buffer,
        room.into(),
        Limit::Told { at: size, width: 4 },
    );
}

fn lsm_list_modules(draft: &mut Draft<'_>) {
    let (ids, size) = (draft.arg(0), draft.arg(1));
    let room = draft.u32(size).unwrap_or(0);
    draft.read(size, INT.into());
    draft.write(Always, size, INT.into());
    draft.write_up_to(
        Success,
        ids,
        room.into(),
        Limit::Told { at: size, width: 4 },
    );
}
