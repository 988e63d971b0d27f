//! Character devices whose commands the encoding does not describe.

use crate::errno::ENOTTY;
use crate::layout::INT;
use crate::plan::Draft;
use crate::table::Effect::{By, In, Late};
use crate::table::Len::Fixed;
use crate::table::When::Always;
use crate::table::{OUTSIDE, commands, refused};

commands! { KNOWN;
    0x80045200 RNDGETENTCNT:   OUTSIDE, [Late(2, Fixed(INT), Always)];
    0x40045201 RNDADDTOENTCNT: OUTSIDE, [In(2, Fixed(INT))];
    0x80085202 RNDGETPOOL:     refused("it was removed from the kernel", ENOTTY), [];
    0x40085203 RNDADDENTROPY:  OUTSIDE, [By(add_entropy)];
    0x5204 RNDZAPENTCNT:       OUTSIDE, [];
    0x5206 RNDCLEARPOOL:       OUTSIDE, [];
    0x5207 RNDRESEEDCRNG:      OUTSIDE, [];
    // The identity of an effect comes back although the number encodes the other direction.
    0x40304580 EVIOCSFF:       OUTSIDE, [In(2, Fixed(48)), Late(2, Fixed(48), Always)];
    0x80104592 EVIOCGMASK:     refused("it writes through a pointer inside its argument", ENOTTY), [];
    0x40044590 EVIOCGRAB:      OUTSIDE, [];
    0x40044591 EVIOCREVOKE:    OUTSIDE, [];
    0x7001 RTC_AIE_ON:         OUTSIDE, [];
    0x7002 RTC_AIE_OFF:        OUTSIDE, [];
    0x7003 RTC_UIE_ON:         OUTSIDE, [];
    0x7004 RTC_UIE_OFF:        OUTSIDE, [];
    0x7005 RTC_PIE_ON:         OUTSIDE, [];
    0x7006 RTC_PIE_OFF:        OUTSIDE, [];
}

/// `struct rand_pool_info` has the amount of entropy and the size of what follows.
fn add_entropy(draft: &mut Draft<'_>) {
    let info = draft.arg(2);
    let size = draft.u32(info.wrapping_add(4)).unwrap_or(0);
    draft.read(info, 8 + u64::from(size));
}
