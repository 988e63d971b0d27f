//! Terminals, pseudo-terminals, serial lines and the console. Their numbers are older than the encoding.

use crate::errno::ENOTTY;
use crate::layout::{
    INT, SERIAL_ICOUNTER_STRUCT, SERIAL_ISO7816, SERIAL_RS485, SERIAL_STRUCT, TERMIO, TERMIOS,
    TERMIOS2, TERMIOX, WINSIZE,
};
use crate::plan::Draft;
use crate::table::Effect::{By, In, Late};
use crate::table::Len::Fixed;
use crate::table::When::Always;
use crate::table::{Effect, OUTSIDE, commands, refused};

const fn gets(size: u32) -> Effect {
    Late(2, Fixed(size), Always)
}

const fn sets(size: u32) -> Effect {
    In(2, Fixed(size))
}

commands! { KNOWN;
    0x5401 TCGETS:           OUTSIDE, [gets(TERMIOS)];
    0x5402 TCSETS:           OUTSIDE, [sets(TERMIOS)];
    0x5403 TCSETSW:          OUTSIDE, [sets(TERMIOS)];
    0x5404 TCSETSF:          OUTSIDE, [sets(TERMIOS)];
    0x5405 TCGETA:           OUTSIDE, [gets(TERMIO)];
    0x5406 TCSETA:           OUTSIDE, [sets(TERMIO)];
    0x5407 TCSETAW:          OUTSIDE, [sets(TERMIO)];
    0x5408 TCSETAF:          OUTSIDE, [sets(TERMIO)];
    0x5409 TCSBRK:           OUTSIDE, [];
    0x540a TCXONC:           OUTSIDE, [];
    0x540b TCFLSH:           OUTSIDE, [];
    0x540c TIOCEXCL:         OUTSIDE, [];
    0x540d TIOCNXCL:         OUTSIDE, [];
    0x540e TIOCSCTTY:        OUTSIDE, [];
    0x540f TIOCGPGRP:        OUTSIDE, [gets(INT)];
    0x5410 TIOCSPGRP:        OUTSIDE, [sets(INT)];
    0x5411 TIOCOUTQ:         OUTSIDE, [gets(INT)];
    0x5412 TIOCSTI:          OUTSIDE, [sets(1)];
    0x5413 TIOCGWINSZ:       OUTSIDE, [gets(WINSIZE)];
    0x5414 TIOCSWINSZ:       OUTSIDE, [sets(WINSIZE)];
    0x5415 TIOCMGET:         OUTSIDE, [gets(INT)];
    0x5416 TIOCMBIS:         OUTSIDE, [sets(INT)];
    0x5417 TIOCMBIC:         OUTSIDE, [sets(INT)];
    0x5418 TIOCMSET:         OUTSIDE, [sets(INT)];
    0x5419 TIOCGSOFTCAR:     OUTSIDE, [gets(INT)];
    0x541a TIOCSSOFTCAR:     OUTSIDE, [sets(INT)];
    // The same number is TIOCINQ.
    0x541b FIONREAD:         OUTSIDE, [gets(INT)];
    0x541c TIOCLINUX:        OUTSIDE, [By(console)];
    0x541d TIOCCONS:         OUTSIDE, [];
    0x541e TIOCGSERIAL:      OUTSIDE, [gets(SERIAL_STRUCT)];
    0x541f TIOCSSERIAL:      OUTSIDE, [sets(SERIAL_STRUCT)];
    0x5420 TIOCPKT:          OUTSIDE, [sets(INT)];
    0x5421 FIONBIO:          OUTSIDE, [sets(INT)];
    0x5422 TIOCNOTTY:        OUTSIDE, [];
    0x5423 TIOCSETD:         OUTSIDE, [sets(INT)];
    0x5424 TIOCGETD:         OUTSIDE, [gets(INT)];
    0x5425 TCSBRKP:          OUTSIDE, [];
    0x5427 TIOCSBRK:         OUTSIDE, [];
    0x5428 TIOCCBRK:         OUTSIDE, [];
    0x5429 TIOCGSID:         OUTSIDE, [gets(INT)];
    0x802c542a TCGETS2:      OUTSIDE, [gets(TERMIOS2)];
    0x402c542b TCSETS2:      OUTSIDE, [sets(TERMIOS2)];
    0x402c542c TCSETSW2:     OUTSIDE, [sets(TERMIOS2)];
    0x402c542d TCSETSF2:     OUTSIDE, [sets(TERMIOS2)];
    0x542e TIOCGRS485:       OUTSIDE, [gets(SERIAL_RS485)];
    0x542f TIOCSRS485:       OUTSIDE, [sets(SERIAL_RS485), gets(SERIAL_RS485)];
    0x80045430 TIOCGPTN:     OUTSIDE, [gets(INT)];
    0x40045431 TIOCSPTLCK:   OUTSIDE, [sets(INT)];
    0x80045432 TIOCGDEV:     OUTSIDE, [gets(INT)];
    0x5432 TCGETX:           OUTSIDE, [gets(TERMIOX)];
    0x5433 TCSETX:           OUTSIDE, [sets(TERMIOX)];
    0x5434 TCSETXF:          OUTSIDE, [sets(TERMIOX)];
    0x5435 TCSETXW:          OUTSIDE, [sets(TERMIOX)];
    0x40045436 TIOCSIG:      OUTSIDE, [];
    0x5437 TIOCVHANGUP:      OUTSIDE, [];
    0x80045438 TIOCGPKT:     OUTSIDE, [gets(INT)];
    0x80045439 TIOCGPTLCK:   OUTSIDE, [gets(INT)];
    0x80045440 TIOCGEXCL:    OUTSIDE, [gets(INT)];
    0x5441 TIOCGPTPEER:      OUTSIDE, [];
    0x80285442 TIOCGISO7816: OUTSIDE, [gets(SERIAL_ISO7816)];
    0xc0285443 TIOCSISO7816: OUTSIDE, [sets(SERIAL_ISO7816), gets(SERIAL_ISO7816)];
    0x5450 FIONCLEX:         OUTSIDE, [];
    0x5451 FIOCLEX:          OUTSIDE, [];
    0x5452 FIOASYNC:         OUTSIDE, [sets(INT)];
    0x5453 TIOCSERCONFIG:    OUTSIDE, [];
    0x5456 TIOCGLCKTRMIOS:   OUTSIDE, [gets(TERMIOS)];
    0x5457 TIOCSLCKTRMIOS:   OUTSIDE, [sets(TERMIOS)];
    0x5459 TIOCSERGETLSR:    OUTSIDE, [gets(INT)];
    0x545c TIOCMIWAIT:       OUTSIDE, [];
    0x545d TIOCGICOUNT:      OUTSIDE, [gets(SERIAL_ICOUNTER_STRUCT)];
    0x5460 FIOQSIZE:         OUTSIDE, [gets(8)];
    0x4b2f KIOCSOUND:        OUTSIDE, [];
    0x4b30 KDMKTONE:         OUTSIDE, [];
    0x4b31 KDGETLED:         OUTSIDE, [gets(1)];
    0x4b32 KDSETLED:         OUTSIDE, [];
    0x4b33 KDGKBTYPE:        OUTSIDE, [gets(1)];
    0x4b3a KDSETMODE:        OUTSIDE, [];
    0x4b3b KDGETMODE:        OUTSIDE, [gets(INT)];
    0x4b44 KDGKBMODE:        OUTSIDE, [gets(INT)];
    0x4b45 KDSKBMODE:        OUTSIDE, [];
    0x4b46 KDGKBENT:         OUTSIDE, [sets(4), gets(4)];
    0x4b62 KDGKBMETA:        OUTSIDE, [gets(INT)];
    0x4b63 KDSKBMETA:        OUTSIDE, [];
    0x4b64 KDGKBLED:         OUTSIDE, [gets(1)];
    0x4b65 KDSKBLED:         OUTSIDE, [];
    0x4b72 KDFONTOP:         refused("it writes through a pointer inside its argument", ENOTTY), [];
    0x5600 VT_OPENQRY:       OUTSIDE, [gets(INT)];
    0x5601 VT_GETMODE:       OUTSIDE, [gets(8)];
    0x5602 VT_SETMODE:       OUTSIDE, [sets(8)];
    0x5603 VT_GETSTATE:      OUTSIDE, [gets(6)];
    0x5605 VT_RELDISP:       OUTSIDE, [];
    0x5606 VT_ACTIVATE:      OUTSIDE, [];
    0x5607 VT_WAITACTIVE:    OUTSIDE, [];
    0x5608 VT_DISALLOCATE:   OUTSIDE, [];
}

/// `TIOCLINUX` has subcommands in the first byte of its argument; the ones that answer in memory overwrite
/// that byte.
fn console(draft: &mut Draft<'_>) {
    draft.read(draft.arg(2), 1);
    draft.write(Always, draft.arg(2), 1);
}
