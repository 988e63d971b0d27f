//! Instructions that the tracer carries out, and other things the hardware does in a native run.
//!
//! Time stamps, random numbers and CPU identification come from outside: they are recorded. The
//! rest either raises the fault that it would raise natively or touches GS, which is the engine's.

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, Register};

use crate::Error;
use crate::engine::{Engine, Pending, register_mut};
use crate::ptrace::{Tracee, UserRegs};
use crate::recording::{Decoder as Payload, Encoder};
use crate::start::{regs_from_words, regs_to_words};

/// Where the results of an instruction come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Tsc,
    Tscp,
    Cpuid,
    Random,
    Pid,
}

pub(crate) fn decode(engine: &Engine) -> Result<Instruction, Error> {
    let mut bytes = [0; 15];
    let n = engine.memory.read(engine.regs.rip, &mut bytes);
    Ok(Decoder::with_ip(64, &bytes[..n], engine.regs.rip, DecoderOptions::NONE).decode())
}

pub(crate) fn outside(i: &Instruction) -> Option<Source> {
    match i.mnemonic() {
        Mnemonic::Rdtsc => Some(Source::Tsc),
        Mnemonic::Rdtscp => Some(Source::Tscp),
        Mnemonic::Cpuid => Some(Source::Cpuid),
        Mnemonic::Rdrand | Mnemonic::Rdseed => Some(Source::Random),
        Mnemonic::Rdpid => Some(Source::Pid),
        _ => None,
    }
}

/// Asks the machine.
pub(crate) fn ask(source: Source, regs: &UserRegs) -> [u64; 4] {
    use std::arch::x86_64::{__cpuid_count, __rdtscp, _rdtsc};
    match source {
        // SAFETY: every x86-64 has a time-stamp counter; the kernel does not forbid reading it.
        Source::Tsc => [unsafe { _rdtsc() }, 0, 0, 0],
        Source::Tscp | Source::Pid => {
            let mut aux = 0;
            // SAFETY: the guest is about to use the same instruction on this machine.
            let tsc = unsafe { __rdtscp(&raw mut aux) };
            [tsc, u64::from(aux), 0, 0]
        }
        Source::Cpuid => {
            let r = __cpuid_count(regs.rax as u32, regs.rcx as u32);
            [
                u64::from(r.eax),
                u64::from(r.ebx),
                u64::from(r.ecx),
                u64::from(r.edx),
            ]
        }
        Source::Random => {
            let mut b = [0u8; 8];
            // SAFETY: `b` is live and of the size given.
            unsafe { libc::getrandom(b.as_mut_ptr().cast(), 8, 0) };
            [u64::from_le_bytes(b), 0, 0, 0]
        }
    }
}

/// Gives the guest the results and steps over the instruction.
pub(crate) fn apply(
    engine: &mut Engine,
    i: &Instruction,
    source: Source,
    w: [u64; 4],
) -> Result<(), Error> {
    let regs = &mut engine.regs;
    match source {
        Source::Tsc | Source::Tscp => {
            regs.rax = w[0] & 0xffff_ffff;
            regs.rdx = w[0] >> 32;
            if source == Source::Tscp {
                regs.rcx = w[1];
            }
        }
        Source::Cpuid => (regs.rax, regs.rbx, regs.rcx, regs.rdx) = (w[0], w[1], w[2], w[3]),
        Source::Random => {
            set_register(regs, i.op0_register(), w[0]);
            // CF says that the number is good; the other five are cleared.
            regs.eflags = regs.eflags & !0x8d5 | 1;
        }
        Source::Pid => set_register(regs, i.op0_register(), w[1]),
    }
    regs.rip = i.next_ip();
    engine.add_steps(1)
}

fn set_register(regs: &mut UserRegs, reg: Register, value: u64) {
    let full = register_mut(regs, reg.full_register().number() as u8);
    *full = match reg.size() {
        2 => *full & !0xffff | value & 0xffff,
        4 => value & 0xffff_ffff,
        _ => value,
    };
}

/// Carries out an instruction that concerns the engine alone; a fault if it has none to offer.
pub(crate) fn carry_out(engine: &mut Engine, i: &Instruction) -> Result<Option<Pending>, Error> {
    let pc = engine.regs.rip;
    match i.mnemonic() {
        Mnemonic::Int3 => {
            engine.regs.rip = i.next_ip();
            engine.add_steps(1)?;
            return Ok(Some(signal_at(libc::SIGTRAP, 0x80, 0)));
        }
        Mnemonic::Int1 => {
            engine.regs.rip = i.next_ip();
            engine.add_steps(1)?;
            return Ok(Some(signal_at(libc::SIGTRAP, 1, pc)));
        }
        // The guest's own GS base is zero, as on a fresh process.
        Mnemonic::Rdgsbase => {
            let reg = i.op0_register();
            set_register(&mut engine.regs, reg, 0);
            engine.regs.rip = i.next_ip();
            engine.add_steps(1)?;
            return Ok(None);
        }
        Mnemonic::Wrgsbase | Mnemonic::Lgs => {
            return Err(Error::Unsupported("a program that uses the GS segment"));
        }
        _ => {}
    }
    if let Some(addr) = cut_off(engine, pc)? {
        let code = if engine.maps.find(addr).is_some() {
            2
        } else {
            1
        };
        return Ok(Some(signal_at(libc::SIGSEGV, code, addr)));
    }
    if i.is_invalid() {
        return Ok(Some(signal_at(libc::SIGILL, 2, pc)));
    }
    if i.segment_prefix() == Register::GS {
        // Relative to base zero this is an access to low memory.
        let addr = i.memory_displacement64();
        return Ok(Some(signal_at(libc::SIGSEGV, 1, addr)));
    }
    match i.mnemonic() {
        Mnemonic::Int if i.immediate8() == 0x80 => {
            Err(Error::Unsupported("32-bit system calls (int 0x80)"))
        }
        _ => Ok(Some(signal_at(libc::SIGSEGV, 0x80, 0))),
    }
}

/// Where fetching the instruction at `pc` faults because it goes on in a page without code.
fn cut_off(engine: &mut Engine, pc: u64) -> Result<Option<u64>, Error> {
    let next_page = (pc | 0xfff) + 1;
    engine.refresh_maps()?;
    if engine
        .maps
        .find(next_page)
        .is_some_and(|m| m.protection.execute)
    {
        return Ok(None);
    }
    let mut bytes = [0; 15];
    let n = engine
        .memory
        .read(pc, &mut bytes)
        .min((next_page - pc) as usize);
    let mut decoder = Decoder::with_ip(64, &bytes[..n], pc, DecoderOptions::NONE);
    let _ = decoder.decode();
    Ok((decoder.last_error() == iced_x86::DecoderError::NoMoreBytes).then_some(next_page))
}

/// A `siginfo_t` for a fault.
fn signal_at(signal: i32, code: i32, addr: u64) -> Pending {
    let mut info = [0; 128];
    info[0..4].copy_from_slice(&signal.to_le_bytes());
    info[8..12].copy_from_slice(&code.to_le_bytes());
    info[16..24].copy_from_slice(&addr.to_le_bytes());
    Pending { signal, info }
}

/// What the kernel says of a jump to where there is no code.
pub(crate) fn no_code_info(engine: &Engine) -> [u8; 128] {
    let pc = engine.regs.rip;
    if pc >> 47 != 0 {
        // Not an address at all: a general-protection fault, which names no address.
        return signal_at(libc::SIGSEGV, 0x80, 0).info;
    }
    let code = if engine.maps.find(pc).is_some() { 2 } else { 1 };
    signal_at(libc::SIGSEGV, code, pc).info
}

/// The address that a fault names.
pub(crate) fn address(info: &[u8; 128]) -> u64 {
    u64::from_le_bytes(info[16..24].try_into().expect("eight bytes"))
}

/// Faults that name the instruction name the guest's, not the code cache's.
pub(crate) fn fix_fault_address(p: &mut Pending, regs: &UserRegs) {
    let code = i32::from_le_bytes(p.info[8..12].try_into().expect("four bytes"));
    if matches!(p.signal, libc::SIGILL | libc::SIGFPE) && code > 0 && code != 0x80 {
        p.info[16..24].copy_from_slice(&regs.rip.to_le_bytes());
    }
}

/// The thread's (blocked, to be restored) signal masks; they differ inside sigsuspend and its like.
pub(crate) fn masks(tracee: Tracee) -> Result<(u64, u64), Error> {
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", tracee.0)).map_err(|_| Error::Lost)?;
    let field = status.lines().find_map(|l| l.strip_prefix("SigBlk:"));
    let blocked = field
        .and_then(|v| u64::from_str_radix(v.trim(), 16).ok())
        .ok_or(Error::Lost)?;
    Ok((blocked, tracee.sigmask()?))
}

/// A signal as it stands in the recording.
pub(crate) struct SignalEvent {
    pub(crate) pending: Pending,
    pub(crate) regs: UserRegs,
    pub(crate) masks: Option<(u64, u64)>,
}

pub(crate) fn encode_signal(p: &Pending, regs: &UserRegs, masks: Option<(u64, u64)>) -> Vec<u8> {
    let mut e = Encoder::default();
    e.bytes(&p.info);
    for w in regs_to_words(regs) {
        e.u64(w);
    }
    e.u32(u32::from(masks.is_some()));
    let (blocked, saved) = masks.unwrap_or_default();
    e.u64(blocked);
    e.u64(saved);
    e.0
}

pub(crate) fn decode_signal(signal: i32, payload: &[u8]) -> Result<SignalEvent, Error> {
    let mut d = Payload(payload);
    let info: [u8; 128] = d
        .bytes()?
        .try_into()
        .map_err(|_| Error::damaged("a signal has no information with it"))?;
    let mut words = [0; 27];
    for w in &mut words {
        *w = d.u64()?;
    }
    let given = d.u32()? != 0;
    let masks = (d.u64()?, d.u64()?);
    Ok(SignalEvent {
        pending: Pending { signal, info },
        regs: regs_from_words(&words),
        masks: given.then_some(masks),
    })
}
