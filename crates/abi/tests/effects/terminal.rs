//! Pseudo-terminals.

use crate::kernel::{Kernel, Suite};

/// A master and its slave.
fn terminal(k: &mut Kernel) -> (u64, u64) {
    // SAFETY: the paths are C strings.
    unsafe {
        let master = libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY);
        libc::grantpt(master);
        libc::unlockpt(master);
        let slave = libc::open(libc::ptsname(master), libc::O_RDWR | libc::O_NOCTTY);
        (k.keep(master), k.keep(slave))
    }
}

pub(crate) fn run(suite: &mut Suite) {
    suite.case("questions to a terminal", |k| {
        let (master, slave) = terminal(k);
        let questions = [
            (0x5401, 36),      // TCGETS
            (0x5405, 18),      // TCGETA
            (0x802c_542a, 44), // TCGETS2
            (0x5411, 4),       // TIOCOUTQ
            (0x5413, 8),       // TIOCGWINSZ
            (0x5424, 4),       // TIOCGETD
            (0x541b, 4),       // FIONREAD
            (0x5456, 36),      // TIOCGLCKTRMIOS
            (0x8004_5432, 4),  // TIOCGDEV
            (0x8004_5440, 4),  // TIOCGEXCL
        ];
        for (command, size) in questions {
            let answer = k.buf(size);
            k.ok("ioctl", &[slave, command, answer]);
        }
        for command in [0x8004_5430, 0x8004_5438, 0x8004_5439] {
            let answer = k.buf(4);
            k.ok("ioctl", &[master, command, answer]);
        }
        // Nobody's controlling terminal has no group in front.
        let group = k.buf(4);
        k.fails("ioctl", &[slave, 0x540f, group], libc::ENOTTY);
        let group = k.buf(4);
        k.maybe("ioctl", &[master, 0x540f, group]);
        let session = k.buf(4);
        k.maybe("ioctl", &[master, 0x5429, session]);
    });
    suite.case("orders to a terminal", |k| {
        let (master, slave) = terminal(k);
        let modes = k.buf(36);
        k.ok("ioctl", &[slave, 0x5401, modes]);
        for command in [0x5402, 0x5403, 0x5404] {
            k.ok("ioctl", &[slave, command, modes]);
        }
        let size = k.words(&[0x0050_0018]);
        k.ok("ioctl", &[slave, 0x5414, size]);
        let off = k.ints(&[0]);
        k.ok("ioctl", &[master, 0x4004_5431, off]);
        k.ok("ioctl", &[slave, 0x540b, 2]);
        let peer = k.ok(
            "ioctl",
            &[master, 0x5441, libc::O_RDWR as u64 | libc::O_NOCTTY as u64],
        );
        k.keep(peer as i32);
    });
    suite.case("questions to something else", |k| {
        let (out, _) = crate::files::pipe(k, b"");
        let answer = k.buf(36);
        k.fails("ioctl", &[out, 0x5401, answer], libc::ENOTTY);
    });
}
