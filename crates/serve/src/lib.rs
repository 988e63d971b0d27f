//! The gdb remote protocol over a recording.
//!
//! gdb, or anything else that speaks its remote protocol, is the front end: it knows the language,
//! the types and the user's habits. What it asks of a target (registers, memory, breakpoints, go on, go
//! back) is answered from a [`case::Session`]. `target.rs` answers it in the terms of crate `gdbstub`,
//! `registers.rs` has the layout of the registers, `files.rs` the files that gdb reads, `packets.rs` what
//! the crate has no word for, `agent.rs` conditions of breakpoints, `monitor.rs` the commands that gdb
//! does not have, and `wherefore.py` gives those names inside gdb.

#![forbid(unsafe_code)]

mod agent;
mod connection;
mod files;
mod monitor;
mod packets;
mod registers;
mod slices;
mod target;

use std::io::Write;

use gdbstub::common::Signal;
use gdbstub::stub::state_machine::GdbStubStateMachine;
use gdbstub::stub::{DisconnectReason, GdbStubBuilder, MultiThreadStopReason};

pub use connection::Source;
use connection::{Incoming, Outgoing};
use packets::Packets;
use target::Served;

/// Commands for gdb, in its Python.
pub const COMMANDS: &str = include_str!("wherefore.py");

/// Bytes of a packet: large enough for files to be read in few of them. The stub looks through all of its
/// buffer for each packet, so that a larger one would cost more than it saves.
const PACKET: usize = 0x2000;

/// Serves one debugger over a connection, until it goes away or it is `over`.
pub fn serve(
    session: case::Session,
    reader: Box<dyn Source>,
    writer: impl Write + 'static,
    over: &dyn Fn() -> bool,
) -> Result<(), String> {
    let incoming = Incoming::new(reader, session.interrupter());
    let mut incoming = incoming.map_err(|e| e.to_string())?;
    let mut target = Served::new(session)?;
    let stub = GdbStubBuilder::new(Outgoing::new(Box::new(writer)))
        .packet_buffer_size(PACKET)
        .build()
        .map_err(|e| e.to_string())?;
    let mut packets = Packets::new();
    let wrong = |e: &dyn std::fmt::Display| e.to_string();
    let mut state = stub.run_state_machine(&mut target).map_err(|e| wrong(&e))?;
    loop {
        state = match state {
            GdbStubStateMachine::Idle(mut gdb) => {
                let Some(packet) = incoming.next(over) else {
                    return Ok(());
                };
                let ours = packets.take(&packet, &mut target, gdb.borrow_conn());
                let ours = ours.map_err(|e| wrong(&e))?;
                let mut next = GdbStubStateMachine::Idle(gdb);
                for byte in packet.into_iter().filter(|_| !ours) {
                    next = match next {
                        GdbStubStateMachine::Idle(gdb) => gdb
                            .incoming_data(&mut target, byte)
                            .map_err(|e| wrong(&e))?,
                        other => other,
                    };
                }
                next
            }
            GdbStubStateMachine::Running(mut gdb) => {
                incoming.running();
                let reason = target.run();
                incoming.stopped(reason.as_ref().map_or(true, answers));
                if incoming.closed() {
                    return Ok(());
                }
                let reason = match reason {
                    Ok(reason) => reason,
                    Err(why) => {
                        let told = gdb.borrow_conn().tell(&format!("wherefore: {why}\n"));
                        told.map_err(|e| wrong(&e))?;
                        target.recover()?
                    }
                };
                gdb.borrow_conn().add("T", target.expedited());
                gdb.report_stop(&mut target, reason)
                    .map_err(|e| wrong(&e))?
            }
            GdbStubStateMachine::CtrlCInterrupt(gdb) => {
                incoming.keep_interrupt();
                let none: Option<MultiThreadStopReason<u64>> = None;
                gdb.interrupt_handled(&mut target, none)
                    .map_err(|e| wrong(&e))?
            }
            GdbStubStateMachine::Disconnected(gdb) => match gdb.get_reason() {
                // The guest has ended; the debugger may want to run it again.
                DisconnectReason::TargetExited(_) | DisconnectReason::TargetTerminated(_) => {
                    gdb.return_to_idle()
                }
                DisconnectReason::Disconnect | DisconnectReason::Kill => return Ok(()),
            },
        };
    }
}

/// Whoever asked for a stop has got it with this one.
fn answers(reason: &MultiThreadStopReason<u64>) -> bool {
    use MultiThreadStopReason as R;
    match reason {
        R::SignalWithThread { signal, .. } => *signal == Signal::SIGINT,
        R::Exited(_) | R::Terminated(_) | R::ReplayLog { .. } => true,
        _ => false,
    }
}

/// A signal under the number that gdb has for it.
fn gdb_signal(linux: i32) -> Signal {
    let number = match linux {
        1..=6 | 8 | 9 | 11 | 13..=15 => linux as u8,
        7 => 10,
        10 => 30,
        12 => 31,
        16 => 143,
        17 => 20,
        18 => 19,
        19 => 17,
        20 => 18,
        21 => 21,
        22 => 22,
        23 => 16,
        24 => 24,
        25 => 25,
        26 => 26,
        27 => 27,
        28 => 28,
        29 => 23,
        30 => 32,
        31 => 12,
        32 => 77,
        33 => 45,
        34..=63 => (linux - 34 + 46) as u8,
        64 => 78,
        _ => 143,
    };
    Signal(number)
}
