//! Calls on sockets.
//!
//! Addresses come back through a pointer to their room, which the kernel replaces by their true size even
//! when that is larger. `struct msghdr` does the same for three fields at once.

use crate::Blocking::{ByFd, Never};
use crate::errno::{EINVAL, ENOPROTOOPT};
use crate::layout::{INT, MMSGHDR, MSGHDR, TIMESPEC};
use crate::plan::{Draft, Flow, Limit, Pointer};
use crate::table::Effect::{By, In, Late, Out, Part, Reads, Told};
use crate::table::Len::{Arg, Fixed, Ret, RetAtMost};
use crate::table::Num::{Int, Size};
use crate::table::When::{self, Above, Always, Success};
use crate::table::{OUTSIDE, Rule, calls};
use crate::{Call, Class};

calls! {
    41  socket/3:      OUTSIDE, Never,   [];
    42  connect/3:     OUTSIDE, ByFd(0), [In(1, Arg(Int(2)))];
    43  accept/3:      OUTSIDE, ByFd(0), [Told(1, 2)];
    44  sendto/6:      OUTSIDE, ByFd(0), [In(1, Ret(Size(2))), In(4, Arg(Int(5)))];
    // With MSG_TRUNC the result is the size of the packet, not of what fitted.
    45  recvfrom/6:    OUTSIDE, ByFd(0), [Out(1, RetAtMost(Size(2))), Told(4, 5)];
    46  sendmsg/3:     OUTSIDE, ByFd(0), [In(1, Fixed(MSGHDR)), Reads(sendmsg)];
    47  recvmsg/3:     OUTSIDE, ByFd(0), [In(1, Fixed(MSGHDR)), By(recvmsg)];
    48  shutdown/2:    OUTSIDE, Never,   [];
    49  bind/3:        OUTSIDE, Never,   [In(1, Arg(Int(2)))];
    50  listen/2:      OUTSIDE, Never,   [];
    51  getsockname/3: OUTSIDE, Never,   [Told(1, 2)];
    52  getpeername/3: OUTSIDE, Never,   [Told(1, 2)];
    53  socketpair/4:  OUTSIDE, Never,   [Out(3, Fixed(2 * INT))];
    // Many options are an int, and only that much is read.
    54  setsockopt/5:  Rule::By(setsockopt), Never, [Part(3, Arg(Int(4)), 1)];
    55  getsockopt/5:  Rule::By(getsockopt), Never, [By(option)];
    288 accept4/4:     OUTSIDE, ByFd(0), [Told(1, 2)];
    299 recvmmsg/5:    OUTSIDE, ByFd(0), [By(recvmmsg), In(4, Fixed(TIMESPEC)), Late(4, Fixed(TIMESPEC), Always)];
    307 sendmmsg/4:    OUTSIDE, ByFd(0), [By(sendmmsg)];
}

const SOL_IP: u32 = 0;
const SOL_TCP: u32 = 6;
const SOL_IPV6: u32 = 41;
const SOL_PACKET: u32 = 263;
const SOL_XDP: u32 = 283;

fn setsockopt(call: &Call) -> Class {
    const PACKET_RX_RING: u32 = 5;
    const PACKET_TX_RING: u32 = 13;
    const XT_SO_SET_REPLACE: u32 = 64;
    match (call.args[1] as u32, call.args[2] as u32) {
        (SOL_PACKET, PACKET_RX_RING | PACKET_TX_RING) | (SOL_XDP, _) => Class::Refused {
            why: "the kernel would write a ring in guest memory at its own time",
            errno: EINVAL,
        },
        (SOL_IP | SOL_IPV6, XT_SO_SET_REPLACE) => Class::Refused {
            why: "it writes counters through a pointer inside its argument",
            errno: ENOPROTOOPT,
        },
        _ => Class::Outside,
    }
}

fn getsockopt(call: &Call) -> Class {
    const TCP_ZEROCOPY_RECEIVE: u32 = 35;
    match (call.args[1] as u32, call.args[2] as u32) {
        (SOL_TCP, TCP_ZEROCOPY_RECEIVE) => Class::Refused {
            why: "it maps received pages into the guest",
            errno: ENOPROTOOPT,
        },
        _ => Class::Outside,
    }
}

/// Some options take input through the buffer, and some tell the room they need on `ERANGE`.
fn option(draft: &mut Draft<'_>) {
    let (value, len) = (draft.arg(3), draft.arg(4));
    if let Some(room) = draft.u32(len) {
        draft.read(value, u64::try_from(room as i32).unwrap_or(0));
    }
    draft.told(Always, value, len);
}

/// The fields of `struct msghdr`, captured before the kernel replaces some of them.
struct Message {
    name: Pointer,
    name_len: u64,
    vectors: Pointer,
    vector_count: u64,
    control: Pointer,
    control_len: u64,
}

const NAME_LEN: u64 = 8;
/// The kernel takes a longer name for one of this size.
const LONGEST_NAME: u64 = 128;
const CONTROL_LEN: u64 = 40;
/// Follows `CONTROL_LEN`, of 8 bytes.
const FLAGS: u64 = 48;

fn message(draft: &mut Draft<'_>, header: u64) -> Option<Message> {
    if header == 0 {
        return None;
    }
    let field = |offset: u64| draft.u64(header.wrapping_add(offset));
    let pointer = |offset: u64| draft.pointer(header.wrapping_add(offset));
    let name_len = draft.u32(header.wrapping_add(NAME_LEN))? as i32;
    Some(Message {
        name: pointer(0)?,
        name_len: u64::try_from(name_len).unwrap_or(0),
        vectors: pointer(16)?,
        vector_count: field(24)?,
        control: pointer(32)?,
        control_len: field(CONTROL_LEN)?,
    })
}

fn send_one(draft: &mut Draft<'_>, header: u64, sent: Limit) {
    if let Some(message) = message(draft, header) {
        draft.read(message.name, message.name_len.min(LONGEST_NAME));
        draft.read(message.control, message.control_len);
        draft.vectors(
            Flow::Read,
            Always,
            sent,
            message.vectors,
            message.vector_count,
        );
    }
}

/// The name's room, the control data's room and the flags are replaced; the rest of the header stays.
fn receive_one(draft: &mut Draft<'_>, header: u64, when: When, received: Limit) {
    let Some(message) = message(draft, header) else {
        return;
    };
    draft.vectors(
        Flow::Write,
        when,
        received,
        message.vectors,
        message.vector_count,
    );
    let told = |offset: u64, width: u8| Limit::Told {
        at: header.wrapping_add(offset),
        width,
    };
    if !message.name.is_null() {
        draft.write(when, header.wrapping_add(NAME_LEN), 4);
        draft.write_up_to(when, message.name, message.name_len, told(NAME_LEN, 4));
    }
    draft.write(
        when,
        header.wrapping_add(CONTROL_LEN),
        FLAGS + 4 - CONTROL_LEN,
    );
    draft.write_up_to(
        when,
        message.control,
        message.control_len,
        told(CONTROL_LEN, 8),
    );
}

fn sendmsg(draft: &mut Draft<'_>) {
    send_one(draft, draft.arg(1), Limit::Returned { unit: 1 });
}

fn recvmsg(draft: &mut Draft<'_>) {
    receive_one(draft, draft.arg(1), Success, Limit::Returned { unit: 1 });
}

/// `struct mmsghdr` is a `struct msghdr` and the size of what was moved.
const MOVED: u64 = MSGHDR as u64;
/// The kernel looks at no more messages than this.
const UIO_MAXIOV: u32 = 1024;

fn many(draft: &mut Draft<'_>, each: fn(&mut Draft<'_>, u64, When, Limit)) {
    let headers = draft.arg(1);
    for index in 0..u64::from(draft.int(2).min(UIO_MAXIOV)) {
        let header = headers.wrapping_add(index * MMSGHDR);
        let when = Above(index as i64);
        let moved = header.wrapping_add(MOVED);
        draft.sure(when);
        draft.read(header, MSGHDR.into());
        each(
            draft,
            header,
            when,
            Limit::Told {
                at: moved,
                width: 4,
            },
        );
        draft.write(when, moved, 4);
    }
}

fn recvmmsg(draft: &mut Draft<'_>) {
    many(draft, receive_one);
}

fn sendmmsg(draft: &mut Draft<'_>) {
    many(draft, |draft, header, _, sent| {
        send_one(draft, header, sent)
    });
}
