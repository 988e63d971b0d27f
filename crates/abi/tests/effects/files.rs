//! Files, directories, pipes, attributes.

use crate::kernel::{Kernel, Suite};

const CWD: u64 = libc::AT_FDCWD as u64;

/// A file without a name that holds some bytes.
fn memory_file(k: &mut Kernel, contents: &[u8]) -> u64 {
    // SAFETY: the name is a C string.
    let fd = k.keep(unsafe { libc::memfd_create(c"case".as_ptr(), 0) });
    // SAFETY: the slice is readable.
    unsafe { libc::pwrite(fd as i32, contents.as_ptr().cast(), contents.len(), 0) };
    fd
}

/// The two ends of a pipe that holds some bytes.
pub(crate) fn pipe(k: &mut Kernel, contents: &[u8]) -> (u64, u64) {
    let mut ends = [0; 2];
    // SAFETY: the array has room for two descriptors.
    unsafe { libc::pipe(ends.as_mut_ptr()) };
    let ends = (k.keep(ends[0]), k.keep(ends[1]));
    // SAFETY: the slice is readable.
    unsafe { libc::write(ends.1 as i32, contents.as_ptr().cast(), contents.len()) };
    ends
}

fn open(k: &mut Kernel, path: &std::ffi::CStr, flags: i32) -> u64 {
    // SAFETY: the path is a C string.
    let fd = unsafe { libc::open(path.as_ptr(), flags) };
    k.keep(fd)
}

/// A temporary file with a name, on a file system that knows attributes.
fn named_file(k: &mut Kernel) -> (u64, String) {
    let mut name = *b"/tmp/abi-effects-XXXXXX\0";
    // SAFETY: the template is a C string with six X at its end.
    let fd = k.keep(unsafe { libc::mkstemp(name.as_mut_ptr().cast()) });
    (
        fd,
        String::from_utf8_lossy(&name[..name.len() - 1]).into_owned(),
    )
}

pub(crate) fn run(suite: &mut Suite) {
    reading(suite);
    moving(suite);
    status(suite);
    names(suite);
    attributes(suite);
    descriptors(suite);
}

fn reading(suite: &mut Suite) {
    suite.case("read", |k| {
        let (out, _) = pipe(k, b"hello");
        let buf = k.buf(64);
        k.ok("read", &[out, buf, 64]);
    });
    suite.case("read at the end", |k| {
        let file = memory_file(k, b"");
        let buf = k.buf(64);
        k.ok("read", &[file, buf, 64]);
        k.fails("read", &[u64::from(u32::MAX), buf, 64], libc::EBADF);
    });
    suite.case("read into memory that ends", |k| {
        let file = memory_file(k, b"0123456789");
        k.fails("read", &[file, 8, 10], libc::EFAULT);
        k.fails("fstat", &[file, 8], libc::EFAULT);
    });
    suite.case("pread64", |k| {
        let file = memory_file(k, b"0123456789");
        let buf = k.buf(64);
        k.ok("pread64", &[file, buf, 64, 4]);
    });
    suite.case("readv and its kin", |k| {
        let file = memory_file(k, b"0123456789");
        let (a, b, c) = (k.buf(3), k.buf(4), k.buf(100));
        let iov = k.words(&[a, 3, b, 4, c, 100]);
        k.ok("readv", &[file, iov, 3]);
        k.ok("preadv", &[file, iov, 2, 1, 0]);
        k.ok("preadv2", &[file, iov, 3, 2, 0, 0]);
        k.ok("preadv", &[file, iov, 3, 10, 0]);
    });
    suite.case("writing writes nothing", |k| {
        let file = memory_file(k, b"");
        let buf = k.bytes(b"some bytes");
        let iov = k.words(&[buf, 4, buf + 2, 4]);
        k.ok("write", &[file, buf, 10]);
        k.ok("pwrite64", &[file, buf, 10, 3]);
        k.ok("writev", &[file, iov, 2]);
        k.ok("pwritev", &[file, iov, 2, 0, 0]);
        k.ok("pwritev2", &[file, iov, 2, 0, 0, 0]);
        k.ok("lseek", &[file, 0, 0]);
        k.ok("ftruncate", &[file, 5]);
        k.ok("fsync", &[file]);
        k.ok("fallocate", &[file, 0, 0, 100]);
    });
    suite.case("getdents", |k| {
        for name in ["getdents", "getdents64"] {
            let dir = open(k, c"/proc/self", libc::O_RDONLY | libc::O_DIRECTORY);
            let buf = k.buf(600);
            k.ok(name, &[dir, buf, 600]);
        }
    });
    suite.case("process_vm_readv", |k| {
        let source = k.bytes(b"abcdefgh");
        let (a, b) = (k.buf(3), k.buf(30));
        let local = k.words(&[a, 3, b, 30]);
        let remote = k.words(&[source, 8]);
        k.ok(
            "process_vm_readv",
            &[u64::from(std::process::id()), local, 2, remote, 1, 0],
        );
    });
    suite.case("getrandom", |k| {
        let buf = k.buf(77);
        k.ok("getrandom", &[buf, 77, 0]);
    });
    suite.case("cachestat", |k| {
        let file = memory_file(k, &[7; 9000]);
        let (range, stat) = (k.words(&[0, 9000]), k.buf(40));
        k.maybe("cachestat", &[file, range, stat, 0]);
    });
}

fn moving(suite: &mut Suite) {
    suite.case("sendfile", |k| {
        let file = memory_file(k, b"0123456789");
        let (_out, end) = pipe(k, b"");
        let offset = k.words(&[2]);
        k.ok("sendfile", &[end, file, offset, 4]);
        k.ok("sendfile", &[end, file, 0, 4]);
    });
    suite.case("splice and tee", |k| {
        let file = memory_file(k, b"0123456789");
        let (out, end) = pipe(k, b"");
        let (other_out, other_end) = pipe(k, b"");
        let offset = k.words(&[3]);
        k.ok("splice", &[file, offset, end, 0, 5, 0]);
        k.ok("tee", &[out, other_end, 3, 0]);
        let target = k.words(&[100]);
        k.ok("splice", &[other_out, 0, file, target, 3, 0]);
    });
    suite.case("vmsplice", |k| {
        let (out, _end) = pipe(k, b"0123456789");
        let (a, b) = (k.buf(4), k.buf(40));
        let iov = k.words(&[a, 4, b, 40]);
        k.ok("vmsplice", &[out, iov, 2, 0]);
    });
    suite.case("copy_file_range", |k| {
        let (from, to) = (memory_file(k, b"0123456789"), memory_file(k, b""));
        let (at, onto) = (k.words(&[1]), k.words(&[50]));
        k.ok("copy_file_range", &[from, at, to, onto, 4, 0]);
    });
    suite.case("pipes and pairs", |k| {
        let ends = k.buf(8);
        k.ok("pipe", &[ends]);
        let (a, b) = (k.int_at(ends), k.int_at(ends + 4));
        k.keep(a);
        k.keep(b);
        let ends = k.buf(8);
        k.ok("pipe2", &[ends, libc::O_CLOEXEC as u64]);
        let (a, b) = (k.int_at(ends), k.int_at(ends + 4));
        k.keep(a);
        k.keep(b);
    });
}

fn status(suite: &mut Suite) {
    suite.case("stat", |k| {
        let path = k.text("/proc/self/exe");
        let missing = k.text("/nonexistent");
        let (a, b, c, d, e) = (k.buf(144), k.buf(144), k.buf(144), k.buf(144), k.buf(256));
        k.ok("stat", &[path, a]);
        k.ok("lstat", &[path, b]);
        k.ok("fstat", &[0, c]);
        k.ok("newfstatat", &[CWD, path, d, 0]);
        k.ok("statx", &[CWD, path, 0, 0xfff, e]);
        k.fails("stat", &[missing, a], libc::ENOENT);
        k.fails("statx", &[CWD, missing, 0, 0xfff, e], libc::ENOENT);
        k.ok("access", &[path, 0]);
    });
    suite.case("statfs", |k| {
        let path = k.text("/");
        let (a, b) = (k.buf(120), k.buf(120));
        k.ok("statfs", &[path, a]);
        let root = open(k, c"/", libc::O_RDONLY);
        k.ok("fstatfs", &[root, b]);
        let mut stat = [0u64; 18];
        // SAFETY: the array has the size of a stat structure.
        unsafe { libc::stat(c"/".as_ptr(), stat.as_mut_ptr().cast()) };
        let buf = k.buf(32);
        k.maybe("ustat", &[stat[0], buf]);
    });
    suite.case("sysfs", |k| {
        let buf = k.buf(256);
        k.maybe("sysfs", &[2, 0, buf]);
    });
    suite.case("statmount and listmount", |k| {
        const LISTMOUNT_ROOT: u64 = u64::MAX;
        const EVERYTHING: u64 = 0x7f;
        let request = k.words(&[24, LISTMOUNT_ROOT, 0]);
        let ids = k.buf(8 * 40);
        if let Some(count) = k.maybe("listmount", &[request, ids, 40, 0])
            && count > 0
        {
            let mut id = [0; 8];
            abi::Memory::read(&crate::kernel::Own, ids, &mut id);
            let request = k.words(&[24, u64::from_le_bytes(id), EVERYTHING]);
            let buf = k.buf(4096);
            k.maybe("statmount", &[request, buf, 4096, 0]);
            k.fails("statmount", &[request, buf, 600, 4096], libc::EINVAL);
        }
    });
    suite.case("file_getattr", |k| {
        let path = k.text("/");
        let buf = k.buf(64);
        k.maybe("file_getattr", &[CWD, path, buf, 64, 0]);
    });
}

fn names(suite: &mut Suite) {
    suite.case("readlink and getcwd", |k| {
        let path = k.text("/proc/self/exe");
        let (a, b, c, d) = (k.buf(300), k.buf(300), k.buf(7), k.buf(300));
        k.ok("readlink", &[path, a, 300]);
        k.ok("readlinkat", &[CWD, path, b, 300]);
        k.ok("readlink", &[path, c, 7]);
        k.ok("getcwd", &[d, 300]);
        let short = k.buf(1);
        k.fails("getcwd", &[short, 1], libc::ERANGE);
    });
    suite.case("open, close and links", |k| {
        let (fd, name) = named_file(k);
        let (path, other) = (k.text(&name), k.text(&format!("{name}.link")));
        let again = k.ok("openat", &[CWD, path, 0]);
        k.ok("close", &[again as u64]);
        let copy = k.ok("dup", &[fd]);
        k.ok("close", &[copy as u64]);
        k.ok("link", &[path, other]);
        k.ok("rename", &[other, path]);
        let times = k.words(&[1, 0, 2, 0]);
        k.ok("utimensat", &[CWD, path, times, 0]);
        k.ok("chmod", &[path, 0o600]);
        k.ok("truncate", &[path, 3]);
        let how = k.words(&[0, 0, 0]);
        let opened = k.ok("openat2", &[CWD, path, how, 24]);
        k.ok("close", &[opened as u64]);
        k.ok("unlink", &[path]);
        // The second name was the same file, so the rename left both.
        k.ok("unlink", &[other]);
    });
    suite.case("name_to_handle_at", |k| {
        let path = k.text("/tmp");
        let (handle, mount) = (k.with(8 + 128, &128u32.to_le_bytes()), k.buf(4));
        k.maybe("name_to_handle_at", &[CWD, path, handle, mount, 0]);
        let (handle, mount) = (k.with(8, &0u32.to_le_bytes()), k.buf(4));
        k.fails(
            "name_to_handle_at",
            &[CWD, path, handle, mount, 0],
            libc::EOVERFLOW,
        );
        let (handle, mount) = (k.with(8 + 128, &128u32.to_le_bytes()), k.buf(8));
        k.maybe("name_to_handle_at", &[CWD, path, handle, mount, 1]);
    });
}

fn attributes(suite: &mut Suite) {
    suite.case("extended attributes", |k| {
        let (fd, name) = named_file(k);
        let (path, key) = (k.text(&name), k.text("user.colour"));
        let value = k.bytes(b"chartreuse");
        if k.maybe("fsetxattr", &[fd, key, value, 10, 0]).is_some() {
            let (a, b, c, d) = (k.buf(40), k.buf(40), k.buf(40), k.buf(40));
            k.ok("fgetxattr", &[fd, key, a, 40]);
            k.ok("getxattr", &[path, key, b, 40]);
            k.ok("lgetxattr", &[path, key, c, 40]);
            k.ok("getxattr", &[path, key, d, 0]);
            let short = k.buf(3);
            k.fails("getxattr", &[path, key, short, 3], libc::ERANGE);
            let (a, b, c) = (k.buf(80), k.buf(80), k.buf(80));
            k.ok("listxattr", &[path, a, 80]);
            k.ok("llistxattr", &[path, b, 80]);
            k.ok("flistxattr", &[fd, c, 80]);
            let out = k.buf(40);
            let args = k.words(&[out, 40]);
            k.maybe("getxattrat", &[CWD, path, 0, key, args, 16]);
            let out = k.buf(80);
            k.maybe("listxattrat", &[CWD, path, 0, out, 80]);
            k.ok("removexattr", &[path, key]);
        }
        k.ok("unlink", &[path]);
    });
    suite.case("flags and extents", |k| {
        let (fd, name) = named_file(k);
        let path = k.text(&name);
        let data = k.bytes(&[1; 5000]);
        k.ok("write", &[fd, data, 5000]);
        let flags = k.buf(8);
        // What is encoded as 8 bytes is written as 4; the other 4 are the test's proof.
        k.maybe("ioctl", &[fd, 0x8008_6601, flags]);
        let version = k.buf(8);
        k.maybe("ioctl", &[fd, 0x8008_7601, version]);
        let attributes = k.buf(28);
        k.maybe("ioctl", &[fd, 0x801c_581f, attributes]);
        let block = k.buf(4);
        k.maybe("ioctl", &[fd, 2, block]);
        let mut map = [0u8; 32];
        map[8..16].fill(0xff);
        map[16] = 1; // FIEMAP_FLAG_SYNC
        map[24] = 3;
        let extents = k.with(32 + 3 * 56, &map);
        k.maybe("ioctl", &[fd, 0xc020_660b, extents]);
        let size = k.buf(8);
        k.maybe("ioctl", &[fd, 0x5460, size]);
        k.ok("unlink", &[path]);
    });
}

fn descriptors(suite: &mut Suite) {
    suite.case("fcntl", |k| {
        let file = memory_file(k, b"0123456789");
        for command in [
            libc::F_GETFD,
            libc::F_GETFL,
            libc::F_GETOWN,
            libc::F_GET_SEALS,
        ] {
            k.ok("fcntl", &[file, command as u64, 0]);
        }
        let copy = k.ok("fcntl", &[file, libc::F_DUPFD_CLOEXEC as u64, 10]);
        k.ok("close", &[copy as u64]);
        // A write lock on the whole file that nobody else holds: the type becomes F_UNLCK.
        let lock = k.words(&[1, 0, 0, 0]);
        k.ok("fcntl", &[file, libc::F_GETLK as u64, lock]);
        let lock = k.words(&[1, 0, 0, 0]);
        k.ok("fcntl", &[file, libc::F_OFD_GETLK as u64, lock]);
        let owner = k.buf(8);
        k.ok("fcntl", &[file, 16, owner]);
        let hint = k.buf(8);
        k.maybe("fcntl", &[file, 1035, hint]);
        let uids = k.buf(8);
        k.maybe("fcntl", &[file, 17, uids]);
    });
    suite.case("a lock held by another description", |k| {
        let file = memory_file(k, b"0123456789");
        let path = format!("/proc/self/fd/{file}\0");
        let path = std::ffi::CStr::from_bytes_with_nul(path.as_bytes()).expect("a C string");
        let other = open(k, path, libc::O_RDWR);
        let lock = k.words(&[1, 2, 5, 0]);
        k.ok("fcntl", &[file, libc::F_OFD_SETLK as u64, lock]);
        let probe = k.words(&[1, 0, 0, 0]);
        k.ok("fcntl", &[other, libc::F_OFD_GETLK as u64, probe]);
        k.ok("flock", &[file, libc::LOCK_EX as u64]);
    });
    suite.case("ioctl on pipes", |k| {
        let (out, _end) = pipe(k, b"hello");
        let ready = k.buf(4);
        k.ok("ioctl", &[out, libc::FIONREAD, ready]);
        let on = k.ints(&[1]);
        k.ok("ioctl", &[out, libc::FIONBIO, on]);
        k.ok("ioctl", &[out, libc::FIOCLEX, 0]);
    });
    suite.case("ioctl on the random device", |k| {
        let random = open(k, c"/dev/urandom", libc::O_RDONLY);
        let bits = k.buf(4);
        k.ok("ioctl", &[random, 0x8004_5200, bits]);
    });
    suite.case("ioctl on namespaces", |k| {
        let namespace = open(k, c"/proc/self/ns/user", libc::O_RDONLY);
        let owner = k.buf(4);
        k.maybe("ioctl", &[namespace, 0xb704, owner]);
    });
}
