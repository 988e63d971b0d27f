//! Packets that crate `gdbstub` has no word for: thread-local variables, what came with a signal, and
//! conditions of breakpoints.
//!
//! Each packet is looked at before the stub gets it. One that is ours is answered here; of others it is
//! only noticed what the stub leaves out of them.

use crate::connection::Outgoing;
use crate::target::{Served, part};

/// What is said besides, when the debugger asks what is supported.
const SUPPORTED: &str = "ConditionalBreakpoints+;qXfer:siginfo:read+";

/// The packets of one connection.
pub(crate) struct Packets {
    /// Each packet is acknowledged until the debugger says otherwise.
    acknowledged: bool,
}

/// What is between `$` and the checksum.
fn body(packet: &[u8]) -> Option<&str> {
    let body = packet.strip_prefix(b"$")?;
    let body = body.get(..body.len().checked_sub(3)?)?;
    std::str::from_utf8(body).ok()
}

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

impl Packets {
    pub(crate) fn new() -> Self {
        Packets { acknowledged: true }
    }

    /// Answers a packet; false if it is the stub's.
    pub(crate) fn take(
        &mut self,
        packet: &[u8],
        target: &mut Served,
        to: &mut Outgoing,
    ) -> std::io::Result<bool> {
        let Some(body) = body(packet) else {
            return Ok(false);
        };
        let answer = if let Some(rest) = body.strip_prefix("qGetTLSAddr:") {
            match thread_local(rest, target) {
                Some(address) => format!("{address:x}").into_bytes(),
                None => b"E01".to_vec(),
            }
        } else if let Some(rest) = body.strip_prefix("qXfer:siginfo:read::") {
            signal_info(rest, target).unwrap_or(b"E01".to_vec())
        } else if body.starts_with("qCRC:") {
            // Not supported, and the debugger compares by itself. The stub would take it for a broken `qC`.
            Vec::new()
        } else {
            self.notice(body, target, to);
            return Ok(false);
        };
        if self.acknowledged {
            to.acknowledge();
        }
        to.answer(&answer)?;
        Ok(true)
    }

    fn notice(&mut self, body: &str, target: &mut Served, to: &mut Outgoing) {
        if body.starts_with("QStartNoAckMode") {
            self.acknowledged = false;
        } else if body.starts_with("qSupported") {
            to.add("PacketSize=", SUPPORTED.to_owned());
        } else if let Some(rest) = body.strip_prefix("Z0,").or(body.strip_prefix("Z1,")) {
            let mut parts = rest.split(';');
            let address = parts.next().and_then(|p| p.split(',').next());
            if let Some(address) = address.and_then(hex) {
                target.set_conditions(address, parts.next().map_or(Vec::new(), conditions));
            }
        }
    }
}

/// `X5,2700260022...`, one behind the other.
fn conditions(text: &str) -> Vec<Vec<u8>> {
    let each = text.split('X').skip(1);
    let codes = each.filter_map(|one| one.split_once(',').map(|(_, code)| bytes(code)));
    codes.collect()
}

fn bytes(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    let pairs = digits.chunks_exact(2);
    pairs.map(|p| (p[0] << 4 | p[1]) as u8).collect()
}

/// `THREAD,OFFSET,LINKMAP`, where a thread is `pPROCESS.THREAD` or alone.
fn thread_local(text: &str, target: &mut Served) -> Option<u64> {
    let mut parts = text.split(',');
    let thread = parts.next()?.rsplit(['.', 'p']).next()?;
    let tid = i32::try_from(hex(thread)?).ok()?;
    let (offset, map) = (hex(parts.next()?)?, hex(parts.next()?)?);
    target.session.thread_local(tid, map, offset)
}

/// `OFFSET,LENGTH`.
fn signal_info(text: &str, target: &Served) -> Option<Vec<u8>> {
    let (offset, length) = text.split_once(',')?;
    let info = target.session.signal_info()?;
    let mut buf = vec![0; (hex(length)? as usize).min(info.len())];
    let n = part(info, hex(offset)?, &mut buf);
    let mut out = vec![b'l'];
    for &b in &buf[..n] {
        match b {
            b'#' | b'$' | b'}' | b'*' => out.extend([b'}', b ^ 0x20]),
            _ => out.push(b),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_taken_apart() {
        assert_eq!(
            conditions("X2,2227X3,260010"),
            [vec![0x22, 0x27], vec![0x26, 0, 0x10]]
        );
        assert!(conditions("").is_empty());
    }

    #[test]
    fn bodies_have_no_frame() {
        assert_eq!(body(b"$qC#b4"), Some("qC"));
        assert_eq!(body(b"+"), None);
        assert_eq!(body(b"$#"), None);
    }
}
