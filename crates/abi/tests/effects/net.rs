//! Sockets, on the loopback interface and in pairs.

use crate::kernel::{Kernel, Suite};

fn socket(k: &mut Kernel, domain: i32, kind: i32) -> u64 {
    // SAFETY: takes no memory.
    k.keep(unsafe { libc::socket(domain, kind, 0) })
}

fn pair(k: &mut Kernel, kind: i32) -> (u64, u64) {
    let mut ends = [0; 2];
    // SAFETY: the array has room for two descriptors.
    unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) };
    (k.keep(ends[0]), k.keep(ends[1]))
}

fn send(fd: u64, bytes: &[u8]) {
    // SAFETY: the slice is readable.
    unsafe { libc::send(fd as i32, bytes.as_ptr().cast(), bytes.len(), 0) };
}

/// 127.0.0.1 with a port of the kernel's choice.
fn loopback() -> [u8; 16] {
    let mut address = [0; 16];
    address[0] = libc::AF_INET as u8;
    address[4..8].copy_from_slice(&[127, 0, 0, 1]);
    address
}

/// A bound datagram socket and its address.
fn datagrams(k: &mut Kernel) -> (u64, [u8; 16]) {
    let fd = socket(k, libc::AF_INET, libc::SOCK_DGRAM);
    let mut address = loopback();
    let mut len = 16u32;
    // SAFETY: the address has the size that is given for it.
    unsafe {
        libc::bind(fd as i32, address.as_ptr().cast(), len);
        libc::getsockname(fd as i32, address.as_mut_ptr().cast(), &mut len);
    }
    (fd, address)
}

fn send_to(fd: u64, bytes: &[u8], to: &[u8; 16]) {
    // SAFETY: both slices are readable.
    unsafe {
        libc::sendto(
            fd as i32,
            bytes.as_ptr().cast(),
            bytes.len(),
            0,
            to.as_ptr().cast(),
            16,
        );
    }
}

pub(crate) fn run(suite: &mut Suite) {
    names(suite);
    receiving(suite);
    messages(suite);
    options(suite);
    interfaces(suite);
}

fn names(suite: &mut Suite) {
    suite.case("socketpair", |k| {
        let ends = k.buf(8);
        k.ok(
            "socketpair",
            &[libc::AF_UNIX as u64, libc::SOCK_STREAM as u64, 0, ends],
        );
        let (a, b) = (k.int_at(ends), k.int_at(ends + 4));
        k.keep(a);
        k.keep(b);
    });
    suite.case("accept and names", |k| {
        for accept in ["accept", "accept4"] {
            let server = socket(k, libc::AF_INET, libc::SOCK_STREAM);
            let address = k.bytes(&loopback());
            k.ok("bind", &[server, address, 16]);
            k.ok("listen", &[server, 4]);
            let (name, len) = (k.buf(40), k.ints(&[40]));
            k.ok("getsockname", &[server, name, len]);
            let client = socket(k, libc::AF_INET, libc::SOCK_STREAM);
            k.ok("connect", &[client, name, 16]);
            let (peer, len) = (k.buf(40), k.ints(&[40]));
            let fd = k.ok(accept, &[server, peer, len, 0]);
            k.keep(fd as i32);
            let (peer, len) = (k.buf(40), k.ints(&[40]));
            k.ok("getpeername", &[client, peer, len]);
            // Too little room: the address is cut, the length is the true one.
            let (peer, len) = (k.buf(5), k.ints(&[5]));
            k.ok("getpeername", &[client, peer, len]);
        }
    });
    suite.case("accept without an address", |k| {
        let server = socket(k, libc::AF_UNIX, libc::SOCK_STREAM);
        let address = k.bytes(&[1, 0]);
        k.ok("bind", &[server, address, 2]);
        k.ok("listen", &[server, 4]);
        let (name, len) = (k.buf(110), k.ints(&[110]));
        k.ok("getsockname", &[server, name, len]);
        let client = socket(k, libc::AF_UNIX, libc::SOCK_STREAM);
        let size = k.int_at(len) as u64;
        k.ok("connect", &[client, name, size]);
        let fd = k.ok("accept", &[server, 0, 0]);
        k.keep(fd as i32);
        // A client without a name has an address of two bytes.
        let other = socket(k, libc::AF_UNIX, libc::SOCK_STREAM);
        k.ok("connect", &[other, name, size]);
        let (peer, len) = (k.buf(110), k.ints(&[110]));
        let fd = k.ok("accept", &[server, peer, len]);
        k.keep(fd as i32);
    });
}

fn receiving(suite: &mut Suite) {
    suite.case("recvfrom", |k| {
        let (fd, address) = datagrams(k);
        send_to(fd, b"datagram", &address);
        let (buf, from, len) = (k.buf(64), k.buf(30), k.ints(&[30]));
        k.ok("recvfrom", &[fd, buf, 64, 0, from, len]);
        // With MSG_TRUNC the result is larger than the buffer.
        send_to(fd, b"a longer datagram", &address);
        let buf = k.buf(4);
        k.ok("recvfrom", &[fd, buf, 4, libc::MSG_TRUNC as u64, 0, 0]);
        let dontwait = libc::MSG_DONTWAIT as u64;
        let (buf, from, len) = (k.buf(4), k.buf(30), k.ints(&[30]));
        k.fails("recvfrom", &[fd, buf, 4, dontwait, from, len], libc::EAGAIN);
    });
    suite.case("sendto", |k| {
        let (fd, address) = datagrams(k);
        let (to, data) = (k.bytes(&address), k.bytes(b"data"));
        k.ok("sendto", &[fd, data, 4, 0, to, 16]);
        let (one, _) = pair(k, libc::SOCK_STREAM);
        k.ok("shutdown", &[one, 1]);
    });
}

/// A `struct msghdr`.
fn header(name: u64, name_len: u64, iov: u64, vectors: u64, control: u64, room: u64) -> [u64; 7] {
    [name, name_len, iov, vectors, control, room, 0]
}

fn messages(suite: &mut Suite) {
    suite.case("recvmsg with a name", |k| {
        let (fd, address) = datagrams(k);
        send_to(fd, b"datagram", &address);
        let (a, b, name) = (k.buf(3), k.buf(30), k.buf(40));
        let iov = k.words(&[a, 3, b, 30]);
        let message = k.words(&header(name, 40, iov, 2, 0, 0));
        k.ok("recvmsg", &[fd, message, 0]);
    });
    suite.case("recvmsg with credentials and descriptors", |k| {
        let (a, b) = pair(k, libc::SOCK_DGRAM);
        let on = k.ints(&[1]);
        k.ok(
            "setsockopt",
            &[b, libc::SOL_SOCKET as u64, libc::SO_PASSCRED as u64, on, 4],
        );
        let data = k.bytes(b"with a descriptor");
        let iov = k.words(&[data, 17]);
        // One control message: length, level and type, descriptor.
        let rights = u64::from(libc::SCM_RIGHTS as u32) << 32 | libc::SOL_SOCKET as u64;
        let control = k.words(&[20, rights, 1]);
        let message = k.words(&header(0, 0, iov, 1, control, 20));
        k.ok("sendmsg", &[a, message, 0]);
        let (buf, control) = (k.buf(8), k.buf(256));
        let iov = k.words(&[buf, 8]);
        let message = k.words(&header(0, 0, iov, 1, control, 256));
        k.ok("recvmsg", &[b, message, libc::MSG_CMSG_CLOEXEC as u64]);
    });
    suite.case("recvmsg with too little room for control data", |k| {
        let (a, b) = pair(k, libc::SOCK_DGRAM);
        let on = k.ints(&[1]);
        k.ok(
            "setsockopt",
            &[b, libc::SOL_SOCKET as u64, libc::SO_PASSCRED as u64, on, 4],
        );
        send(a, b"data");
        let (buf, control) = (k.buf(8), k.buf(20));
        let iov = k.words(&[buf, 8]);
        let message = k.words(&header(0, 0, iov, 1, control, 20));
        k.ok("recvmsg", &[b, message, 0]);
    });
    suite.case("recvmmsg", |k| {
        let (fd, address) = datagrams(k);
        send_to(fd, b"one", &address);
        send_to(fd, b"and two", &address);
        let mut headers = Vec::new();
        for _ in 0..3 {
            let (buf, name) = (k.buf(20), k.buf(40));
            let iov = k.words(&[buf, 20]);
            headers.extend(header(name, 40, iov, 1, 0, 0));
            headers.push(0xdead_beef_dead_beef);
        }
        let messages = k.words(&headers);
        let timeout = k.words(&[1, 0]);
        let dontwait = libc::MSG_DONTWAIT as u64;
        k.ok("recvmmsg", &[fd, messages, 3, dontwait, timeout]);
        k.fails(
            "recvmmsg",
            &[fd, messages, 3, dontwait, timeout],
            libc::EAGAIN,
        );
    });
    suite.case("sendmmsg", |k| {
        let (a, _b) = pair(k, libc::SOCK_DGRAM);
        let data = k.bytes(b"0123456789");
        let iov = k.words(&[data, 10]);
        let mut headers = Vec::new();
        for _ in 0..2 {
            headers.extend(header(0, 0, iov, 1, 0, 0));
            headers.push(0xdead_beef_dead_beef);
        }
        let messages = k.words(&headers);
        k.ok("sendmmsg", &[a, messages, 2, 0]);
    });
}

fn options(suite: &mut Suite) {
    suite.case("getsockopt", |k| {
        let (a, _b) = pair(k, libc::SOCK_STREAM);
        let level = libc::SOL_SOCKET as u64;
        for option in [
            libc::SO_TYPE,
            libc::SO_RCVBUF,
            libc::SO_LINGER,
            libc::SO_PEERCRED,
        ] {
            let (value, len) = (k.buf(40), k.ints(&[40]));
            k.ok("getsockopt", &[a, level, option as u64, value, len]);
        }
        let (value, len) = (k.buf(2), k.ints(&[2]));
        k.ok("getsockopt", &[a, level, libc::SO_TYPE as u64, value, len]);
        let (value, len) = (k.buf(2), k.ints(&[2]));
        k.fails(
            "getsockopt",
            &[a, level, 9999, value, len],
            libc::ENOPROTOOPT,
        );
    });
    suite.case("getsockopt of tcp", |k| {
        let fd = socket(k, libc::AF_INET, libc::SOCK_STREAM);
        let (value, len) = (k.buf(400), k.ints(&[400]));
        k.ok(
            "getsockopt",
            &[fd, libc::SOL_TCP as u64, libc::TCP_INFO as u64, value, len],
        );
        let (value, len) = (k.buf(16), k.ints(&[16]));
        k.ok(
            "getsockopt",
            &[
                fd,
                libc::SOL_TCP as u64,
                libc::TCP_CONGESTION as u64,
                value,
                len,
            ],
        );
    });
}

fn interfaces(suite: &mut Suite) {
    suite.case("interfaces", |k| {
        let fd = socket(k, libc::AF_INET, libc::SOCK_DGRAM);
        for command in [
            0x8913, 0x8915, 0x891b, 0x8921, 0x8927, 0x8933, 0x8942, 0x8970,
        ] {
            // The whole structure goes in and comes back, most of it as it was.
            let mut name = [1; 40];
            name[..16].fill(0);
            name[..2].copy_from_slice(b"lo");
            let request = k.bytes(&name);
            k.maybe("ioctl", &[fd, command, request]);
        }
        let mut first = [0; 40];
        first[16] = 1;
        let request = k.bytes(&first);
        k.ok("ioctl", &[fd, 0x8910, request]);
    });
    suite.case("the list of interfaces", |k| {
        let fd = socket(k, libc::AF_INET, libc::SOCK_DGRAM);
        let array = k.buf(400);
        let config = k.words(&[400, array]);
        k.ok("ioctl", &[fd, 0x8912, config]);
        let config = k.words(&[0, 0]);
        k.ok("ioctl", &[fd, 0x8912, config]);
    });
    suite.case("ioctl on sockets", |k| {
        let (a, b) = pair(k, libc::SOCK_STREAM);
        send(a, b"pending");
        for command in [0x541b, 0x5411] {
            let value = k.buf(4);
            k.ok("ioctl", &[b, command, value]);
        }
        let value = k.buf(4);
        k.ok("ioctl", &[b, 0x8904, value]);
        let (fd, address) = datagrams(k);
        // The first question switches time stamps on.
        let stamp = k.buf(16);
        k.fails("ioctl", &[fd, 0x8906, stamp], libc::ENOENT);
        send_to(fd, b"stamped", &address);
        let buf = k.buf(10);
        k.ok("recvfrom", &[fd, buf, 10, 0, 0, 0]);
        let stamp = k.buf(16);
        k.ok("ioctl", &[fd, 0x8906, stamp]);
        let stamp = k.buf(16);
        k.ok("ioctl", &[fd, 0x8907, stamp]);
    });
}
