//! Answers that calls take without a stop, against the same replay with a stop at each call.

use std::sync::{Arc, Mutex};

use crate::scene::{DYNAMIC, Output, Program, same, state, to_step};
use guest::{Halt, Replay, Syscalls, Until};
use tape::{Event, Listener, Part, Shape};

/// Calls of which the answer can be given in advance, among others of which it cannot: they show output, change
/// descriptors or mappings, or are interrupted.
const CALLS: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int alarms;
static void alarmed(int n) { alarms += n; }

int main(void)
{
    struct sigaction act = {.sa_handler = alarmed};
    sigaction(SIGALRM, &act, 0);
    struct itimerval often = {{0, 300}, {0, 300}};
    setitimer(ITIMER_REAL, &often, 0);
    int fd = open("/proc/self/exe", O_RDONLY), null = open("/dev/null", O_WRONLY);
    unsigned long sum = 0;
    char path[64];
    for (int i = 0; i < 3000; i++) {
        char bytes[100] = {0};
        struct stat s;
        struct timespec now;
        lseek(fd, i % 500, SEEK_SET);
        sum += (unsigned long)read(fd, bytes, (unsigned long)(i % 100));
        strcpy(path, i % 2 ? "/proc/self/exe" : "/nowhere");
        sum += stat(path, &s) == 0 ? (unsigned long)s.st_size : 1;
        memset(path, 'x', sizeof path);
        syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
        sum += (unsigned long)now.tv_nsec + (unsigned long)bytes[i % 100] + (unsigned long)getppid();
        write(null, bytes, sizeof bytes);
        if (i % 100 == 0) {
            dprintf(1, "%d %lx\n", i, sum);
            int other = dup(fd);
            close(fd);
            fd = other;
        }
        if (i % 150 == 0) {
            int kept = fcntl(1, F_DUPFD, 20), flags = fcntl(kept, F_GETFD);
            fcntl(kept, F_SETFD, flags | FD_CLOEXEC);
            write(kept, "kept\n", 5);
            close(kept);
            write(kept, "gone\n", 5);
            sum += (unsigned long)fcntl(fd, F_GETFL);
        }
        if (i % 333 == 0) {
            char *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            pread(fd, page, 4096, 0);
            sum += (unsigned long)page[99];
            munmap(page, 4096);
        }
        if (i == 1500)
            dup2(1, null);
        if (i == 1510)
            dup2(open("/dev/null", O_WRONLY), null);
    }
    often = (struct itimerval){0};
    setitimer(ITIMER_REAL, &often, 0);
    printf("%lx %d\n", sum, alarms > 0);
    return 0;
}
"#;

/// The events of a tape with their steps, but for where the guest stood when it was stopped.
#[derive(Default)]
struct Calls {
    shapes: Vec<Shape>,
    step: u64,
    heard: Arc<Mutex<Vec<(u64, Event)>>>,
}

impl Listener for Calls {
    fn shapes_heard(&self) -> usize {
        self.shapes.len()
    }

    fn hear(&mut self, part: Part<'_>) {
        self.shapes.extend_from_slice(part.shapes);
        let mut at = 0;
        let end = (part.records.len() as u32, None);
        let events = part.events.iter().map(|(n, e)| (*n, Some(e)));
        for (n, event) in events.chain([end]) {
            while at < n as usize {
                let id = part.records[at..at + 4].try_into().expect("four bytes");
                let shape = &self.shapes[u32::from_le_bytes(id) as usize];
                self.step += u64::from(shape.executed);
                at += shape.record_len();
            }
            assert_eq!(at, n as usize, "events are between records");
            let Some(event) = event else { break };
            self.step += event.steps();
            if !matches!(event, Event::State { .. }) {
                let mut heard = self.heard.lock().expect("a lock");
                heard.push((self.step, event.clone()));
            }
        }
    }

    fn into_any(self: Box<Self>) -> Box<dyn std::any::Any> {
        self
    }
}

/// Runs to the end; the calls that it stopped at.
fn run(replay: &mut Replay, until: &Until) -> u64 {
    let mut stops = 0;
    loop {
        match replay.run(until).expect("the replay runs") {
            Halt::Ended(_) => return stops,
            Halt::Syscall { .. } => stops += 1,
            other => panic!("{other:?}"),
        }
    }
}

fn each_call() -> Until {
    Until {
        syscalls: Syscalls::Any,
        ..Until::default()
    }
}

#[test]
fn the_tape_tells_the_same() {
    let recorded = Program::c(CALLS, DYNAMIC).record();
    let hear = |until: Until| {
        let output = Output::default();
        let mut replay = recorded.replay_to(&output);
        let calls = Calls::default();
        let heard = calls.heard.clone();
        replay.tape(Box::new(calls)).expect("a tape");
        let stops = run(&mut replay, &until);
        drop(replay.end_tape().expect("the listener"));
        assert_eq!(output.take(), recorded.stdout);
        let heard = std::mem::take(&mut *heard.lock().expect("a lock"));
        (heard, stops)
    };
    let (plain, stops) = hear(each_call());
    let (offered, _) = hear(Until::end());
    assert!(stops > 18_000, "all calls stop when that is asked for");
    assert_eq!(plain.len(), offered.len(), "events");
    for (n, (a, b)) in plain.iter().zip(&offered).enumerate() {
        assert_eq!(a, b, "event {n}");
    }
}

#[test]
fn the_guest_is_in_the_same_state() {
    let recorded = Program::c(CALLS, DYNAMIC).record();
    let (mut offered, mut plain) = (recorded.replay(), recorded.replay());
    for n in 1..12 {
        let step = recorded.steps * n / 12;
        to_step(&mut offered, step);
        let until = Until {
            step: Some(step),
            ..each_call()
        };
        while plain.run(&until).expect("it runs") != Halt::Step {}
        same(
            &state(&mut offered),
            &state(&mut plain),
            &format!("step {step}"),
        );
    }
}
