//! The commands of the multiplexed calls, a table per call. A line means the same as a line of `calls`; the
//! argument numbers are those of the whole call.

pub(crate) mod fcntl;
pub(crate) mod ioctl;
pub(crate) mod keyctl;
pub(crate) mod prctl;
pub(crate) mod quotactl;
pub(crate) mod small;
