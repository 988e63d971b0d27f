//! Observed runs against stepping and looking; branches against runs that were never branched.

use guest::{Halt, Until};
use iced_x86::{Decoder, DecoderOptions, Mnemonic, OpKind, Register};

use crate::scene::{DYNAMIC, Output, Program, STATIC, visible};

const TEXT: &str = r#"
#include "guest.h"
static unsigned char table[64];
static short half = 7;
static double ratio = 0.5;
__attribute__((noinline)) int work(int n)
{
    int sum = 0;
    for (int i = 0; i < n; i++) {
        table[i & 63] += (unsigned char)(i * 3);
        half -= 1;
        ratio = ratio * 1.5 + table[(i + 1) & 63];
        if (sum > 40)
            sum -= table[i & 7];
        sum += (int)ratio & 15;
    }
    return sum;
}
int main(void)
{
    printf("%d\n", work(12));
    printf("%d\n", work(5));
    return 0;
}
"#;

#[track_caller]
fn check(flags: &[&str]) {
    let program = Program::c(TEXT, flags);
    let recorded = program.record();
    let mut replay = recorded.replay();
    let maps = replay.mappings().expect("mappings");
    // A program that is moved has its symbols relative to its first page.
    let base = maps.iter().map(|m| m.start).min().unwrap_or(0);
    let low = match program.at("work") {
        at if at < base => base + at,
        at => at,
    };
    let code = [(low, low + 0x400)];
    let mut seen = Vec::new();
    let halt = replay
        .observe(&code, None, &mut |s| seen.push(*s))
        .expect("an observed run");
    assert_eq!(halt, Halt::Ended(recorded.end));
    assert!(seen.len() > 300, "{} instructions", seen.len());
    let mut slow = recorded.replay();
    let mut loaded = 0;
    for (s, next) in seen.iter().zip(seen.iter().skip(1)) {
        assert_eq!(slow.run(&Until::step(s.step)).expect("a step"), Halt::Step);
        let regs = slow.regs();
        assert_eq!(regs.rip, s.pc, "at step {}", s.step);
        let r = &regs;
        let here = [
            r.rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi, r.r8, r.r9, r.r10, r.r11,
            r.r12, r.r13, r.r14, r.r15,
        ];
        assert_eq!(here, s.regs, "at step {}", s.step);
        let mut bytes = [0; 15];
        slow.read(s.pc, &mut bytes);
        let i = Decoder::with_ip(64, &bytes, s.pc, DecoderOptions::NONE).decode();
        let operand = (0..i.op_count()).any(|n| i.op_kind(n) == OpKind::Memory);
        let size = i.memory_size().size();
        if !operand || !matches!(size, 1 | 2 | 4 | 8) {
            continue;
        }
        // Thread-local memory is found through a base that is not among the registers here.
        if matches!(i.mnemonic(), Mnemonic::Lea | Mnemonic::Nop) || i.has_segment_prefix() {
            continue;
        }
        let register = |r: Register| match r {
            Register::None | Register::RIP => 0,
            r => here[r.full_register().number()],
        };
        let index = register(i.memory_index()).wrapping_mul(u64::from(i.memory_index_scale()));
        let address = register(i.memory_base())
            .wrapping_add(index)
            .wrapping_add(i.memory_displacement64());
        let mut value = [0; 8];
        slow.read(address, &mut value[..size]);
        assert_eq!(u64::from_le_bytes(value), s.memory, "at step {}", s.step);
        loaded += 1;
        // What it has written is there when the next one comes, unless that is far away.
        if i.op0_kind() == OpKind::Memory
            && i.mnemonic() == Mnemonic::Mov
            && next.step == s.step + 1
        {
            slow.run(&Until::step(next.step)).expect("a step");
            slow.read(address, &mut value[..size]);
            assert_eq!(u64::from_le_bytes(value), s.after, "after step {}", s.step);
        }
    }
    assert!(loaded > 30, "{loaded} memory operands");
}

#[test]
fn observing_is_stepping() {
    check(STATIC);
    check(DYNAMIC);
    check(&["-O0", "-g"]);
}

#[test]
fn a_branch_leaves_the_guest_where_it_is() {
    let program = Program::c(TEXT, DYNAMIC);
    let recorded = program.record();
    let output = Output::default();
    let mut replay = recorded.replay_to(&output);
    let steps = recorded.steps;
    for at in [steps / 2, steps - 2000, steps - 1500, steps - 900] {
        replay.run(&Until::step(at)).expect("a step");
        let before = (replay.step().expect("a step"), visible(&replay.regs()));
        let printed = output.borrow().len();
        for change in [1, 2, 3] {
            let halt = replay.branch(|r| {
                let mut regs = r.regs();
                regs.rax ^= change;
                regs.rdx ^= change << 3;
                r.set_regs(&regs)?;
                r.run(&Until::end())
            });
            assert!(matches!(halt, Ok(Halt::Ended(_))), "{halt:?}");
            output.borrow_mut().truncate(printed);
        }
        let after = (replay.step().expect("a step"), visible(&replay.regs()));
        assert_eq!(before, after);
        assert!(replay.departure().is_none());
    }
    assert_eq!(
        replay.run(&Until::end()).expect("the rest"),
        Halt::Ended(recorded.end)
    );
    assert_eq!(*output.borrow(), recorded.stdout);
}

#[test]
fn an_edited_run_may_die() {
    let program = Program::c(TEXT, DYNAMIC);
    let recorded = program.record();
    let mut replay = recorded.replay();
    replay
        .run(&Until::step(recorded.steps - 2000))
        .expect("a step");
    let halt = replay.branch(|r| {
        let mut regs = r.regs();
        regs.rip = 0x10;
        r.set_regs(&regs)?;
        r.run(&Until::end())
    });
    let died = Halt::Ended(guest::End::Killed(libc::SIGSEGV));
    assert_eq!(halt.expect("a dead run is a result"), died);
    assert_eq!(
        replay.run(&Until::end()).expect("the rest"),
        Halt::Ended(recorded.end)
    );
}
