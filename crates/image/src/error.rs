//! What can be wrong with a file, and who is at fault.
//!
//! The callers of this crate never see a `Result`: a broken file is an incomplete answer plus a
//! warning. These values become the warnings.

use std::fmt;
use std::path::PathBuf;

/// Why a file, or a part of it, could not be used.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be opened or read: moved, deleted, or not readable by this user.
    Unreadable { file: PathBuf, reason: String },
    /// The file is not a 64-bit little-endian x86-64 ELF file, or its header is damaged.
    NotElf { file: PathBuf, reason: String },
    /// One part of the file contradicts itself or ends early.
    Damaged {
        file: PathBuf,
        part: &'static str,
        reason: String,
    },
    /// The file refers to another one, with the debug information, that is not to be found.
    Missing {
        file: PathBuf,
        wanted: String,
        advice: &'static str,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unreadable { file, reason } => {
                write!(f, "{}: cannot be read: {reason}", file.display())
            }
            Error::NotElf { file, reason } => {
                write!(f, "{}: not a usable ELF file: {reason}", file.display())
            }
            Error::Damaged { file, part, reason } => {
                write!(f, "{}: {part} is damaged: {reason}", file.display())
            }
            Error::Missing {
                file,
                wanted,
                advice,
            } => {
                write!(f, "{}: {wanted} was not found; {advice}", file.display())
            }
        }
    }
}

impl std::error::Error for Error {}
