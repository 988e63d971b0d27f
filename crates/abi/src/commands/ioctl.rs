//! `ioctl` has no end of commands, and most drivers' are not worth a line each.
//!
//! Three rules, in order. A command in the tables does what its line says. A command whose number encodes
//! direction and size (the `_IOC` scheme), and whose type byte belongs to drivers whose structures hold
//! no pointers, writes that many bytes when its direction says so. Everything else is refused with `ENOTTY`,
//! which programs expect from a device that does not know a command: guessing wrong would corrupt
//! a recording without a sign.
//!
//! Drivers may fill their structure even when they fail, so the writes are planned for every result.

mod devices;
mod files;
mod net;
mod tty;

use std::ops::RangeInclusive;

use crate::errno::ENOTTY;
use crate::plan::Draft;
use crate::table::When::Always;
use crate::table::{Behaviour, Commands, Effect};
use crate::{Call, Class};

pub(crate) const IOCTL: Commands = Commands {
    arg: 1,
    select: command,
    known: &[tty::KNOWN, files::KNOWN, net::KNOWN, devices::KNOWN],
    otherwise: encoded,
};

/// The kernel looks at the lower half only.
fn command(call: &Call) -> u64 {
    call.args[1] & 0xffff_ffff
}

/// Type bytes, and the command numbers under each, whose encoded commands are plain: the structure is all
/// there is. Types that several drivers share are cut down to the numbers of the plain one.
const PLAIN: &[(u8, RangeInclusive<u8>)] = &[
    (0x12, 0x00..=0xff), // block devices
    (b'E', 0x00..=0xff), // input events
    (b'R', 0x00..=0x07), // random numbers, radio switches
    (b'W', 0x00..=0x0a), // watchdogs
    (b'f', 0x00..=0xff), // file systems
    (b'j', 0x00..=0xff), // joysticks
    (b'p', 0x00..=0x1f), // real-time clocks
    (0xb7, 0x00..=0xff), // namespaces
    (0xff, 0x00..=0xff), // pidfd
];

fn encoded(call: &Call) -> Behaviour {
    let (kind, number) = ((command(call) >> 8) as u8, command(call) as u8);
    let plain = PLAIN
        .iter()
        .any(|(known, numbers)| *known == kind && numbers.contains(&number));
    if size(call) > 0 && plain {
        return Behaviour {
            class: Class::Outside,
            effects: &[Effect::By(by_encoding)],
        };
    }
    Behaviour::refused("what this command does to guest memory is unknown", ENOTTY)
}

/// Bits 16 to 29 of an encoded command.
fn size(call: &Call) -> u64 {
    (command(call) >> 16) & 0x3fff
}

fn by_encoding(draft: &mut Draft<'_>) {
    /// The directions are named from the program's point of view.
    const PROGRAM_WRITES: u64 = 1 << 30;
    const PROGRAM_READS: u64 = 1 << 31;
    let (command, size) = (command(draft.call()), size(draft.call()));
    if command & PROGRAM_WRITES != 0 {
        draft.read(draft.arg(2), size);
    }
    if command & PROGRAM_READS != 0 {
        draft.write(Always, draft.arg(2), size);
    }
}
