//! Sockets and network interfaces.

use crate::errno::EOPNOTSUPP;
use crate::layout::{ARPREQ, IFREQ, INT, RTENTRY, TIMESPEC, TIMEVAL};
use crate::plan::{Draft, Limit};
use crate::table::Effect::{By, In, Late};
use crate::table::Len::Fixed;
use crate::table::When::Always;
use crate::table::{Effect, OUTSIDE, Rule, commands, refused};

const fn gets(size: u32) -> Effect {
    Late(2, Fixed(size), Always)
}

const fn sets(size: u32) -> Effect {
    In(2, Fixed(size))
}

const HIDDEN: Rule = refused(
    "it writes through a pointer inside its argument",
    EOPNOTSUPP,
);

commands! { KNOWN;
    0x8901 FIOSETOWN:      OUTSIDE, [sets(INT)];
    0x8902 SIOCSPGRP:      OUTSIDE, [sets(INT)];
    0x8903 FIOGETOWN:      OUTSIDE, [gets(INT)];
    0x8904 SIOCGPGRP:      OUTSIDE, [gets(INT)];
    0x8905 SIOCATMARK:     OUTSIDE, [gets(INT)];
    0x8906 SIOCGSTAMP: OUTSIDE, [gets(TIMEVAL)];
    0x8907 SIOCGSTAMPNS: OUTSIDE, [gets(TIMESPEC)];
    0x80108906 SIOCGSTAMP_NEW: OUTSIDE, [gets(TIMEVAL)];
    0x80108907 SIOCGSTAMPNS_NEW: OUTSIDE, [gets(TIMESPEC)];
    0x894b SIOCOUTQNSD:    OUTSIDE, [gets(INT)];
    0x894c SIOCGSKNS:      OUTSIDE, [];
    0x890b SIOCADDRT:      OUTSIDE, [sets(RTENTRY)];
    0x890c SIOCDELRT:      OUTSIDE, [sets(RTENTRY)];
    0x8910 SIOCGIFNAME:    OUTSIDE, [sets(IFREQ), gets(IFREQ)];
    0x8911 SIOCSIFLINK:    OUTSIDE, [sets(IFREQ)];
    0x8912 SIOCGIFCONF:    OUTSIDE, [By(interfaces)];
    0x8913 SIOCGIFFLAGS:   OUTSIDE, [sets(IFREQ), gets(IFREQ)];
    0x8914 SIOCSIFFLAGS:   OUTSIDE, [sets(IFREQ)];
    0x8915 SIOCGIFADDR:    OUTSIDE, [sets(IFREQ), gets(IFREQ)];
    0x8916 SIOCSIFADDR:    OUTSIDE, [sets(IFREQ)];
    0x8917 SIOCGIFDSTADDR: OUTSIDE, [sets(IFREQ), gets(IFREQ)];
    0x8918 SIOCSIFDSTADDR: OUTSIDE, [sets(IFREQ)];
    0x8919 SIOCGIFBRDADDR: OUTSIDE, [sets(IFREQ), gets(IFREQ)];
    0x891a SIOCSIFBRDADDR: OUTSIDE, [sets(IFREQ)];
    0x891b SIOCGIFNETMASK: OUTSIDE, [sets(IFREQ), gets(IFREQ)];
    0x891c SIOCSIFNETMASK: OUTSIDE, [sets(IFREQ)];
    0x891d SIOCGIFMETRIC:  OUTSIDE, [sets(IFREQ), gets(IFREQ)];
    0x891e SIOCSIFMETRIC:  OUTSIDE, [sets(IFREQ)];
    0x8921 SIOCGIFMTU:     OUTSIDE, [sets(IFREQ), gets(IFREQ)];
    0x8922 SIOCSIFMTU:     OUTSIDE, [sets(IFREQ)];
    0x8923 SIOCSIFNAME:    OUTSIDE, [sets(IFREQ)];
    0x8924 SIOCSIFHWADDR:  OUTSIDE, [sets(IFREQ)];
    0x8927 SIOCGIFHWADDR:  OUTSIDE, [sets(IFREQ), gets(IFREQ)];
    0x8931 SIOCADDMULTI:   OUTSIDE, [sets(IFREQ)];
    0x8932 SIOCDELMULTI:   OUTSIDE, [sets(IFREQ)];
    0x8933 SIOCGIFINDEX:   OUTSIDE, [sets(IFREQ), gets(IFREQ)];
    0x8942 SIOCGIFTXQLEN:  OUTSIDE, [sets(IFREQ), gets(IFREQ)];
    0x8943 SIOCSIFTXQLEN:  OUTSIDE, [sets(IFREQ)];
    // What the pointer in these leads to depends on a subcommand with a structure each.
    0x8946 SIOCETHTOOL:    HIDDEN,  [];
    0x8947 SIOCGMIIPHY:    OUTSIDE, [sets(IFREQ), gets(IFREQ)];
    0x8948 SIOCGMIIREG:    OUTSIDE, [sets(IFREQ), gets(IFREQ)];
    0x8953 SIOCDARP:       OUTSIDE, [sets(ARPREQ)];
    0x8954 SIOCGARP:       OUTSIDE, [sets(ARPREQ), gets(ARPREQ)];
    0x8955 SIOCSARP:       OUTSIDE, [sets(ARPREQ)];
    0x8970 SIOCGIFMAP:     OUTSIDE, [sets(IFREQ), gets(IFREQ)];
    0x8971 SIOCSIFMAP:     OUTSIDE, [sets(IFREQ)];
    0x8982 SIOCGIFVLAN:    HIDDEN,  [];
    0x89a0 SIOCBRADDBR:    OUTSIDE, [sets(16)];
    0x89a1 SIOCBRDELBR:    OUTSIDE, [sets(16)];
    0x89a2 SIOCBRADDIF:    OUTSIDE, [sets(IFREQ)];
    0x89a3 SIOCBRDELIF:    OUTSIDE, [sets(IFREQ)];
    0x89b0 SIOCSHWTSTAMP:  HIDDEN,  [];
    0x89b1 SIOCGHWTSTAMP:  HIDDEN,  [];
    // Tunnels; their numbers encode an `int` for a larger structure.
    0x400454ca TUNSETIFF:  OUTSIDE, [sets(IFREQ), gets(IFREQ)];
    0x400454cb TUNSETPERSIST: OUTSIDE, [];
    0x400454cc TUNSETOWNER: OUTSIDE, [];
    0x400454cd TUNSETLINK: OUTSIDE, [];
    0x400454ce TUNSETGROUP: OUTSIDE, [];
    0x800454cf TUNGETFEATURES: OUTSIDE, [gets(INT)];
    0x400454d0 TUNSETOFFLOAD: OUTSIDE, [];
    0x800454d2 TUNGETIFF:  OUTSIDE, [gets(IFREQ)];
    0x800454d3 TUNGETSNDBUF: OUTSIDE, [gets(INT)];
    0x400454d4 TUNSETSNDBUF: OUTSIDE, [sets(INT)];
    0x800454d7 TUNGETVNETHDRSZ: OUTSIDE, [gets(INT)];
    0x400454d8 TUNSETVNETHDRSZ: OUTSIDE, [sets(INT)];
    0x400454d9 TUNSETQUEUE: OUTSIDE, [sets(IFREQ)];
    0x400454da TUNSETIFINDEX: OUTSIDE, [sets(INT)];
}

/// `struct ifconf` has the room as an `int` and, at 8, the address of an array. Without an array only the
/// size comes back.
fn interfaces(draft: &mut Draft<'_>) {
    let config = draft.arg(2);
    draft.read(config, 16);
    draft.write(Always, config, 4);
    let room = draft.u32(config).unwrap_or(0) as i32;
    let array = draft.u64(config.wrapping_add(8)).unwrap_or(0);
    let limit = Limit::Told {
        at: config,
        width: 4,
    };
    draft.write_up_to(Always, array, u64::try_from(room).unwrap_or(0), limit);
}
