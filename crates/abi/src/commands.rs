//! The commands of the multiplexed calls, a table per call. A line means the same as a line of `calls`; the
//! argument numbers are those of the whole call.

pub(crate) mod fcntl;
pub(crate) mod futex;
pub(crate) mod ioctl;
pub(crate) mod keyctl;
pub(crate) mod madvise;
pub(crate) mod prctl;
pub(crate) mod quotactl;
pub(crate) mod syslog;
pub(crate) mod sysv;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use crate::table::{self, Rule};

    #[test]
    fn no_command_has_two_lines() {
        let mut tables = 0;
        for entry in table::entries() {
            let Rule::Commands(commands) = entry.rule else {
                continue;
            };
            tables += 1;
            let mut seen = HashSet::new();
            for command in commands.known.iter().copied().flatten() {
                let fresh = seen.insert(command.id);
                assert!(fresh, "{} {} has two lines", entry.name, command.name);
            }
        }
        assert!(tables >= 15, "only {tables} calls have commands");
    }
}
