//! Texts that the C library gives to the kernel without a look: names of files, and commands.
//!
//! Such a function is looked into like any other: what the kernel writes for it is judged, and what it reads itself of its
//! other parameters. Only the text is read by nobody whose reads are seen, so it is judged where the function is called.
//! Programs have functions of such names too, for something else, so this is about those of the library alone.

use tape::{Measure, Most};

use super::models::{Extent, Model, NOTHING, Touch, reads, text};

/// The kernel reads no more of a name.
const LONGEST: u32 = 4096;

const fn name(n: u8) -> Option<Measure> {
    Some(Measure {
        most: Most::Characters(LONGEST),
        ..text(n)
    })
}

const fn given(
    touches: &'static [Touch],
    first: Option<Measure>,
    second: Option<Measure>,
) -> Model {
    Model {
        touches,
        measures: [first, second],
        whole: false,
        ..NOTHING
    }
}

const FIRST: Model = given(&[reads(0, Extent::Measured(0))], name(0), None);
const SECOND: Model = given(&[reads(1, Extent::Measured(0))], name(1), None);
const THIRD: Model = given(&[reads(2, Extent::Measured(0))], name(2), None);
const FIRST_AND_SECOND: Model = {
    const TOUCHES: &[Touch] = &[reads(0, Extent::Measured(0)), reads(1, Extent::Measured(1))];
    given(TOUCHES, name(0), name(1))
};
const FIRST_AND_THIRD: Model = {
    const TOUCHES: &[Touch] = &[reads(0, Extent::Measured(0)), reads(2, Extent::Measured(1))];
    given(TOUCHES, name(0), name(2))
};
const COMMAND: Model = given(&[reads(0, Extent::Measured(0))], Some(text(0)), None);

/// Parameters behind the third are not measured, such as the second name of `renameat`.
const NAMES: &[(Model, &str)] = &[
    (
        FIRST,
        "open open64 __open_2 __open64_2 creat creat64 fopen fopen64 freopen freopen64 opendir \
         stat stat64 lstat lstat64 statfs statfs64 statvfs statvfs64 access euidaccess eaccess \
         readlink __readlink_chk unlink rmdir remove mkdir mkfifo mknod chdir chroot chmod lchmod \
         chown lchown truncate truncate64 utime utimes lutimes pathconf execv execve execvp \
         execvpe execl execle execlp listxattr llistxattr umount umount2 acct mq_open mq_unlink",
    ),
    (
        SECOND,
        "openat openat64 __openat_2 __openat64_2 fstatat fstatat64 statx __xstat __xstat64 \
         __lxstat __lxstat64 __xmknod faccessat readlinkat __readlinkat_chk unlinkat mkdirat \
         mkfifoat mknodat fchmodat fchownat futimesat utimensat renameat renameat2 linkat \
         name_to_handle_at inotify_add_watch execveat posix_spawn posix_spawnp fgetxattr \
         fsetxattr fremovexattr",
    ),
    (THIRD, "__fxstatat __fxstatat64"),
    (
        FIRST_AND_SECOND,
        "rename link symlink getxattr lgetxattr setxattr lsetxattr removexattr lremovexattr",
    ),
    (FIRST_AND_THIRD, "symlinkat"),
    (COMMAND, "system popen"),
];

/// The functions, each with what it gives away.
pub(super) fn functions() -> impl Iterator<Item = (&'static str, Model)> {
    NAMES
        .iter()
        .flat_map(|(model, names)| names.split_whitespace().map(|name| (name, *model)))
}
