//! Figures about a run.

use case::{Cost, Figures};

use super::{bytes, number};

pub(crate) fn stats(f: &Figures, c: &Cost) -> String {
    let mut out = String::new();
    let mut line = |name: &str, value: String| {
        out += &format!("wherefore: {name:<20} {value}\n");
    };
    line("instructions", number(f.steps));
    line("blocks translated", number(f.blocks));
    line(
        "system calls",
        format!(
            "{}, of them {} stopped",
            number(f.syscalls),
            number(f.syscall_stops)
        ),
    );
    line("stops", number(f.stops));
    line("signals", number(f.signals));
    line("code changes", number(f.code_changes));
    if f.event_bytes > 0 {
        line("events", bytes(f.event_bytes));
    }
    line("wall time", seconds(c.wall));
    line("  starting", seconds(c.starting));
    if c.reporting > 0 {
        line("  crash report", seconds(c.reporting));
    }
    line("guest CPU", user_and_system(c.guest_user, c.guest_system));
    line("tool CPU", user_and_system(c.tool_user, c.tool_system));
    out
}

pub(crate) fn seconds(micros: u64) -> String {
    format!("{:.3} s", micros as f64 / 1e6)
}

fn user_and_system(user: u64, system: u64) -> String {
    format!(
        "{} (user {}, system {})",
        seconds(user + system),
        seconds(user),
        seconds(system)
    )
}
