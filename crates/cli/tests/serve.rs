//! `wherefore serve`, spoken to in bytes: what a debugger may send when no real one can be made to.

mod harness;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};

use harness::Place;

const CTRL_C: &[u8] = &[3];
/// Two stop replies: for SIGINT and for SIGTRAP.
const INTERRUPTED: &str = "T02";
const BREAKPOINT: &str = "T05";

/// A debugger that says what it is told to say.
struct Debugger {
    server: Child,
    line: UnixStream,
}

impl Debugger {
    fn connect(p: &Place) -> Self {
        let socket = p.path("socket");
        let server = p
            .wherefore(&["serve", "--once", "--listen"])
            .arg(&socket)
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let line = harness::until("the server", || UnixStream::connect(&socket).ok());
        line.set_read_timeout(Some(harness::DEADLINE)).unwrap();
        let mut debugger = Debugger { server, line };
        debugger.asks("QStartNoAckMode", "OK");
        debugger
    }

    fn sends(&mut self, bytes: &[u8]) {
        self.line.write_all(bytes).expect("the server reads");
    }

    fn says(&mut self, body: &str) {
        let sum = body.bytes().fold(0, u8::wrapping_add);
        self.sends(format!("${body}#{sum:02x}").as_bytes());
    }

    /// The next packet; what the server has printed meanwhile is passed over.
    #[track_caller]
    fn hears(&mut self) -> String {
        loop {
            let mut body = Vec::new();
            let mut next = || {
                let mut byte = [0];
                self.line.read_exact(&mut byte).expect("an answer");
                byte[0]
            };
            while next() != b'$' {}
            loop {
                match next() {
                    b'#' => break,
                    byte => body.push(byte),
                }
            }
            next();
            next();
            let body = String::from_utf8(body).expect("text");
            if !body.starts_with('O') || body == "OK" {
                return body;
            }
        }
    }

    #[track_caller]
    fn asks(&mut self, body: &str, answer: &str) {
        self.says(body);
        let heard = self.hears();
        assert!(heard.starts_with(answer), "{body}: {heard}");
    }
}

impl Drop for Debugger {
    fn drop(&mut self) {
        let _ = self.line.shutdown(std::net::Shutdown::Both);
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// A guest that comes to `tick` many times, and its address.
fn ticking(p: &Place) -> String {
    let source = "volatile long n;\n__attribute__((noipa)) void tick(void) { n++; }\n\
                  int main(void) { for (int i = 0; i < 100000; i++) tick(); return 0; }";
    let guest = p.build("ticking", source, &["-O1", "-no-pie"]);
    p.run(&guest, &[]).exits(0);
    let listed = std::process::Command::new("nm")
        .arg(&guest)
        .output()
        .expect("nm");
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let line = listed.lines().find(|l| l.ends_with(" tick"));
    let address = line.and_then(|l| l.split(' ').next()).expect("a symbol");
    address.trim_start_matches('0').to_owned()
}

/// The debugger may go on by itself after a stop, so a Ctrl-C that came while nothing ran is for the
/// next run.
#[test]
fn ctrl_c_that_comes_before_a_run_stops_it() {
    let p = Place::new();
    ticking(&p);
    let mut d = Debugger::connect(&p);
    d.sends(CTRL_C);
    d.asks("vCont;c", INTERRUPTED);
    // It is used up: the next run goes to the end, which says that nothing is left to be replayed.
    d.says("vCont;c");
    let end = d.hears();
    assert!(end.contains("replaylog:end"), "{end}");
}

/// A Ctrl-C while the guest runs, and stops at a breakpoint before it is noticed: whichever comes first, the
/// run after that breakpoint is stopped at the latest.
#[test]
fn ctrl_c_that_meets_another_stop_is_not_lost() {
    let p = Place::new();
    let tick = ticking(&p);
    let mut d = Debugger::connect(&p);
    d.asks(&format!("Z0,{tick},1"), "OK");
    d.asks("vCont;c", BREAKPOINT);
    for round in 0..50 {
        d.says("vCont;c");
        d.sends(CTRL_C);
        let mut heard = d.hears();
        if heard.starts_with(BREAKPOINT) {
            d.says("vCont;c");
            heard = d.hears();
        }
        assert!(heard.starts_with(INTERRUPTED), "round {round}: {heard}");
    }
    d.asks("vCont;c", BREAKPOINT);
}

/// What lldb shows, by command.
fn lldb(p: &Place, guest: &std::path::Path, commands: &[&str]) -> Vec<(String, String)> {
    let socket = p.path("socket");
    let server = p
        .wherefore(&["serve", "--once", "--listen"])
        .arg(&socket)
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    harness::until("the server", || socket.exists().then_some(()));
    let mut lldb = std::process::Command::new("lldb");
    lldb.arg("--batch").arg("--no-lldbinit").arg(guest);
    lldb.args(["-o", "settings set stop-line-count-before 0"]);
    lldb.args(["-o", "settings set stop-line-count-after 0", "-o"]);
    lldb.arg(format!(
        "process connect --plugin gdb-remote unix-connect://{}",
        socket.display()
    ));
    for command in commands {
        lldb.args(["-o", command]);
    }
    let ran = harness::finish(lldb);
    let ended = harness::finish_child(server);
    assert!(ended.signal.is_none(), "{}", ended.err);
    let mut parts: Vec<&str> = ran.out.split("(lldb) ").collect();
    let told = parts.split_off(parts.len() - commands.len());
    let both = commands.iter().zip(told);
    both.map(|(c, t)| {
        let text = t
            .strip_prefix(c)
            .unwrap_or_else(|| panic!("{c}: {}{}", ran.out, ran.err));
        (c.to_string(), text.to_owned())
    })
    .collect()
}

/// lldb sees what gdb sees: stops, stacks, variables, registers and memory of the recorded run.
#[test]
fn lldb_connects() {
    let p = Place::new();
    let guest = p.guest("debug/tour.c", &["-O0"]);
    p.run(&guest, &["one", "two"]).exits(0);
    let line = harness::gdb::mark("debug/tour.c", "total");
    let stop = format!("breakpoint set --file tour.c --line {line}");
    let commands = [
        "breakpoint set --name push",
        "continue",
        "frame variable",
        "bt",
        "expression fibonacci(7)",
        "expression total = 40",
        "breakpoint delete 1",
        &stop,
        "continue",
        "thread step-over",
        "target variable total",
        "register read rip",
        "memory read --format s --count 1 name",
        "watchpoint set variable total",
        "breakpoint delete 2",
        "continue",
        "target variable total",
        "thread step-inst",
        "finish",
        "frame variable i",
        "watchpoint delete 1",
        "process status",
        "process plugin packet monitor when",
    ];
    let all = lldb(&p, &guest, &commands);
    let told = |command: &str, nth: usize| harness::gdb::answer(&all, command, nth);
    let contains = harness::gdb::contains;
    contains(told("continue", 0), &["stop reason = breakpoint 1.1"]);
    contains(
        told("frame variable", 0),
        &["number = 1", "\"apple\"", "weight = 0"],
    );
    contains(told("bt", 0), &["`push(", "`main(argc=3"]);
    contains(told("expression fib", 0), &["= 13"]);
    // What is set is set, on a timeline of its own; what was called for is forgotten.
    contains(told("continue", 1), &["stop reason = breakpoint 2.1"]);
    contains(told("target variable", 0), &["total = 41"]);
    contains(told("register read", 0), &["`push"]);
    contains(told("memory read", 0), &["\"apple\""]);
    contains(told("continue", 2), &["stop reason = watchpoint 1"]);
    contains(told("target variable", 1), &["total = 43"]);
    contains(told("thread step-inst", 0), &["instruction step into"]);
    contains(told("finish", 0), &["stop reason = step out", "`main("]);
    contains(told("frame variable i", 0), &["i = 1"]);
    contains(told("process status", 0), &["stopped"]);
    contains(told("process plugin", 0), &["step ", "timeline 1"]);
}

/// Nobody else's machine can connect unless that is asked for, and a second debugger after the first.
#[test]
fn it_listens_on_this_machine_only() {
    let p = Place::new();
    ticking(&p);
    let mut server = p
        .wherefore(&["serve"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut said = std::io::BufReader::new(server.stderr.take().expect("a pipe"));
    let mut line = String::new();
    std::io::BufRead::read_line(&mut said, &mut line).expect("a line");
    let address = line.split(" at ").nth(1).and_then(|r| r.split(';').next());
    let address: std::net::SocketAddr = address.expect("an address").parse().expect("an address");
    assert!(address.ip().is_loopback(), "{line}");
    for _ in 0..2 {
        let mut debugger = std::net::TcpStream::connect(address).expect("it listens");
        debugger
            .set_read_timeout(Some(harness::DEADLINE))
            .expect("a limit");
        debugger.write_all(b"$qC#b4").expect("it reads");
        let mut answer = [0; 4];
        debugger.read_exact(&mut answer).expect("an answer");
        assert_eq!(&answer, b"+$QC");
    }
    let pid = nix::unistd::Pid::from_raw(server.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).expect("it is there");
    harness::finish_child(server).exits(0);
}
