//! `keyctl` by operation. Operations that copy something out return its full size and copy what fits.

use crate::Call;
use crate::errno::EOPNOTSUPP;
use crate::layout::{KEYCTL_PKEY_PARAMS, KEYCTL_PKEY_QUERY};
use crate::plan::{Draft, Flow, Limit};
use crate::table::Effect::{By, In, Out, Reads, Text};
use crate::table::Len::{Arg, Fixed, RetAtMost};
use crate::table::Num::Size;
use crate::table::When::{Always, Success};
use crate::table::{Behaviour, Commands, OUTSIDE, commands};

pub(crate) const KEYCTL: Commands = Commands {
    arg: 0,
    select: operation,
    known: &[KNOWN],
    otherwise: unknown,
};

fn operation(call: &Call) -> u64 {
    call.args[0] & 0xffff_ffff
}

fn unknown(_: &Call) -> Behaviour {
    Behaviour::refused("this operation is unknown", EOPNOTSUPP)
}

commands! { KNOWN;
    0  KEYCTL_GET_KEYRING_ID:       OUTSIDE, [];
    1  KEYCTL_JOIN_SESSION_KEYRING: OUTSIDE, [Text(1)];
    2  KEYCTL_UPDATE:               OUTSIDE, [In(2, Arg(Size(3)))];
    3  KEYCTL_REVOKE:               OUTSIDE, [];
    4  KEYCTL_CHOWN:                OUTSIDE, [];
    5  KEYCTL_SETPERM:              OUTSIDE, [];
    6  KEYCTL_DESCRIBE:             OUTSIDE, [Out(2, RetAtMost(Size(3)))];
    7  KEYCTL_CLEAR:                OUTSIDE, [];
    8  KEYCTL_LINK:                 OUTSIDE, [];
    9  KEYCTL_UNLINK:               OUTSIDE, [];
    10 KEYCTL_SEARCH:               OUTSIDE, [Text(2), Text(3)];
    11 KEYCTL_READ:                 OUTSIDE, [Out(2, RetAtMost(Size(3)))];
    12 KEYCTL_INSTANTIATE:          OUTSIDE, [In(2, Arg(Size(3)))];
    13 KEYCTL_NEGATE:               OUTSIDE, [];
    14 KEYCTL_SET_REQKEY_KEYRING:   OUTSIDE, [];
    15 KEYCTL_SET_TIMEOUT:          OUTSIDE, [];
    16 KEYCTL_ASSUME_AUTHORITY:     OUTSIDE, [];
    17 KEYCTL_GET_SECURITY:         OUTSIDE, [Out(2, RetAtMost(Size(3)))];
    18 KEYCTL_SESSION_TO_PARENT:    OUTSIDE, [];
    19 KEYCTL_REJECT:               OUTSIDE, [];
    20 KEYCTL_INSTANTIATE_IOV:      OUTSIDE, [Reads(instantiate_iov)];
    21 KEYCTL_INVALIDATE:           OUTSIDE, [];
    22 KEYCTL_GET_PERSISTENT:       OUTSIDE, [];
    23 KEYCTL_DH_COMPUTE:           OUTSIDE, [In(1, Fixed(12)), Out(2, RetAtMost(Size(3)))];
    24 KEYCTL_PKEY_QUERY:           OUTSIDE, [Text(3), Out(4, Fixed(KEYCTL_PKEY_QUERY))];
    25 KEYCTL_PKEY_ENCRYPT:         OUTSIDE, [Text(2), By(public_key)];
    26 KEYCTL_PKEY_DECRYPT:         OUTSIDE, [Text(2), By(public_key)];
    27 KEYCTL_PKEY_SIGN:            OUTSIDE, [Text(2), By(public_key)];
    28 KEYCTL_PKEY_VERIFY:          OUTSIDE, [Text(2), Reads(public_key_verify)];
    29 KEYCTL_RESTRICT_KEYRING:     OUTSIDE, [Text(2), Text(3)];
    30 KEYCTL_MOVE:                 OUTSIDE, [];
    // What the kernel has nothing to say about, it clears.
    31 KEYCTL_CAPABILITIES:         OUTSIDE, [Out(1, Arg(Size(2)))];
    32 KEYCTL_WATCH_KEY:            OUTSIDE, [];
}

fn instantiate_iov(draft: &mut Draft<'_>) {
    let (vectors, count) = (draft.arg(2), draft.arg(3));
    draft.vectors(Flow::Read, Always, Limit::Whole, vectors, count);
}

/// `struct keyctl_pkey_params` has the size of the input at 4 and the room for the output at 8.
fn public_key(draft: &mut Draft<'_>) {
    let params = draft.arg(1);
    draft.read(params, KEYCTL_PKEY_PARAMS.into());
    let size = |offset| draft.u32(params.wrapping_add(offset)).unwrap_or(0).into();
    let (input, room) = (size(4), size(8));
    draft.read(draft.arg(3), input);
    draft.write_up_to(Success, draft.arg(4), room, Limit::Returned { unit: 1 });
}

/// Verifying takes the signature as a second input.
fn public_key_verify(draft: &mut Draft<'_>) {
    let params = draft.arg(1);
    draft.read(params, KEYCTL_PKEY_PARAMS.into());
    let size = |offset| draft.u32(params.wrapping_add(offset)).unwrap_or(0).into();
    let (input, signature) = (size(4), size(8));
    draft.read(draft.arg(3), input);
    draft.read(draft.arg(4), signature);
}
