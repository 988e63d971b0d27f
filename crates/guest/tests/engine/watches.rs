//! Watched memory: the guest stops before each access, as reckoned from a single-stepped run.

use crate::chance::{Chance, amount};
use crate::oracle::{Seen, trace};
use crate::scene::{Program, to_step};
use guest::{Halt, Replay, Until, UserRegs, Watch};
use iced_x86::{
    Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, Register,
};

/// Memory that an instruction touches: address, length, whether it reads, whether it writes.
type Access = (u64, u64, bool, bool);

fn register(r: &UserRegs, reg: Register) -> u64 {
    let full = [
        r.rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi, r.r8, r.r9, r.r10, r.r11, r.r12,
        r.r13, r.r14, r.r15,
    ];
    match reg {
        _ if reg.is_gpr64() => full[reg.number()],
        _ if reg.is_gpr32() => full[reg.number()] & 0xffff_ffff,
        // Segment bases of the guests here.
        _ => 0,
    }
}

fn accesses(i: &Instruction, regs: &UserRegs, after: Option<&UserRegs>) -> Vec<Access> {
    if i.mnemonic() == Mnemonic::Syscall {
        let done = after.map_or(0, |a| a.rax);
        return match regs.rax {
            0 => vec![(regs.rsi, done, false, true)],
            1 => vec![(regs.rsi, done, true, false)],
            _ => Vec::new(),
        };
    }
    let repeated = i.is_string_instruction() && (i.has_rep_prefix() || i.has_repne_prefix());
    let mut out = Vec::new();
    let mut factory = InstructionInfoFactory::new();
    for m in factory.info(i).used_memory() {
        if m.access() == OpAccess::NoMemAccess || i.mnemonic() == Mnemonic::Lea {
            continue;
        }
        let value = |reg, _, _| Some(register(regs, reg));
        let at = m.virtual_address(0, value).expect("an address");
        let read = !matches!(m.access(), OpAccess::Write | OpAccess::CondWrite);
        let write = !matches!(m.access(), OpAccess::Read | OpAccess::CondRead);
        let size = i.memory_size().size() as u64;
        let size = match m.memory_size().size() as u64 {
            0 => size,
            n => n,
        };
        if !repeated {
            out.push((at, size, read, write));
        } else if regs.rcx > 0 {
            let all = size * regs.rcx;
            let start = if regs.eflags & 0x400 == 0 {
                at
            } else {
                at + size - all
            };
            out.push((start, all, read, write));
        }
    }
    out
}

fn touches(list: &[Access], w: &Watch) -> bool {
    list.iter().any(|&(at, len, read, write)| {
        at < w.addr + w.len && w.addr < at + len && (read && w.read || write && w.write)
    })
}

const ACCESSES: &str = "
.globl _start
_start:
    lea rsp, [rip + stack]
    xor eax, eax
    xor edi, edi
    lea rsi, [rip + small + 5]
    mov edx, 20
    syscall
    mov ebx, 12
round:
    mov [rip + small], rbx
    mov eax, [rip + small + 2]
    mov [rsp - 40], rbx
    mov byte ptr [rip + small + 7], bl
    add word ptr [rip + small + 9], 3
    push rbx
    call leaf
    pop rcx
    xchg rcx, [rip + small + 16]
    movups xmm0, [rip + small + 3]
    movups [rip + large + 4090], xmm0
    lea rsi, [rip + small]
    lea rdi, [rip + large + 100]
    mov ecx, 30
    rep movsb
    lea rdi, [rip + large + 8000]
    mov ecx, 9
    std
    rep stosq
    cld
    mov rax, [rip + large + 4000]
    cmp rax, [rip + pointer]
    jne on
    nop
on:
    jmp [rip + pointer]
there:
    mov [rip + small], rbx
    mov eax, 1
    mov edi, 1
    lea rsi, [rip + small + 12]
    mov edx, 3
    syscall
    dec ebx
    jnz round
    mov edi, ebx
    mov eax, 231
    syscall
leaf:
    mov rax, [rsp + 8]
    ret
.data
.p2align 12
before: .skip 4096
small: .skip 64
pointer: .quad there
.skip 4096 - 72
large: .skip 12288
.skip 8192
stack:
.skip 64
";

#[track_caller]
fn check(tries: u64, seed: u64, watch: impl Fn(&mut Chance, &Program) -> Watch) {
    let mut program = Program::asm(ACCESSES);
    program.input = b"some input, long enough".to_vec();
    let recorded = program.record();
    let mut replay = recorded.replay();
    let seen = trace(&program, &replay);
    let touched: Vec<Vec<Access>> = (0..seen.len())
        .map(|n| {
            let after = seen.get(n + 1).map(|s| &s.regs);
            accesses(&decode(&replay, &seen[n]), &seen[n].regs, after)
        })
        .collect();
    let start = replay.checkpoint().expect("a checkpoint");
    let mut chance = Chance::new(seed);
    let mut hits = 0;
    for round in 0..tries {
        replay.restore(start).expect("going back");
        let mut from = chance.below(seen.len() as u64 / 2) as usize;
        to_step(&mut replay, seen[from].step);
        let watches: Vec<Watch> = (0..1 + chance.below(2))
            .map(|_| watch(&mut chance, &program))
            .collect();
        let until = Until {
            watches: watches.clone(),
            ..Until::default()
        };
        // From one access to the next.
        for link in 0..5 {
            let begun = seen[from].step;
            let what = || format!("round {round}.{link} from {begun} with {watches:x?}");
            let expected =
                (from + 1..seen.len()).find(|&n| watches.iter().any(|w| touches(&touched[n], w)));
            let halt = replay
                .run(&until)
                .unwrap_or_else(|e| panic!("{}: {e}", what()));
            match expected {
                None => {
                    assert_eq!(halt, Halt::Ended(recorded.end), "{}", what());
                    break;
                }
                Some(n) => {
                    let step = replay.step().expect("a step");
                    assert_eq!((halt, step), (Halt::Access, seen[n].step), "{}", what());
                    let (here, there) = (replay.regs(), seen[n].regs);
                    assert_eq!((here.rip, here.rbx), (there.rip, there.rbx), "{}", what());
                    (from, hits) = (n, hits + 1);
                }
            }
        }
    }
    assert!(hits > tries, "hardly anything was touched");
}

/// A slot of the offset table is read by each call through it, whether or not the engine has need of that.
#[test]
fn reads_of_a_settled_slot() {
    let flags = ["-O2", "-no-pie", "-Wl,-z,now", "-Wl,-z,relro"];
    let program = Program::guest("code/settled_slots.c", &flags);
    let recorded = program.record();
    let mut replay = recorded.replay();
    let (jump, call) = (program.at("by_jump"), program.at("by_call") + 4);
    let stop = guest::StopAt { pc: jump, nth: 1 };
    let until = Until {
        stops: vec![stop],
        ..Until::default()
    };
    assert_eq!(replay.run(&until).expect("the replay runs"), Halt::Stop(0));
    let mut code = [0; 15];
    replay.read(jump, &mut code);
    let insn = Decoder::with_ip(64, &code, jump, DecoderOptions::NONE).decode();
    let start = replay.checkpoint().expect("a checkpoint");
    replay.run(&Until::end()).expect("the replay runs");
    replay.restore(start).expect("going back");
    let watch = Watch {
        addr: insn.ip_rel_memory_address(),
        len: 8,
        read: true,
        write: false,
    };
    let until = Until {
        watches: vec![watch],
        ..Until::default()
    };
    // In the order in which the program calls them.
    for pc in [call, jump, call, jump, call, jump] {
        assert_eq!(replay.run(&until).expect("the replay runs"), Halt::Access);
        assert_eq!(replay.regs().rip, pc);
    }
}

fn decode(replay: &Replay, seen: &Seen) -> Instruction {
    let mut code = [0; 15];
    let n = replay.read(seen.regs.rip, &mut code);
    Decoder::with_ip(64, &code[..n], seen.regs.rip, DecoderOptions::NONE).decode()
}

fn kind(chance: &mut Chance) -> (bool, bool) {
    [(true, true), (false, true), (true, false)][chance.below(3) as usize]
}

#[test]
fn few_bytes() {
    check(amount("ENGINE_WATCHES", 60), 1, |c, p| {
        let (read, write) = kind(c);
        let addr = match c.below(4) {
            0 => p.at("small") + c.below(32),
            1 => p.at("stack") - c.below(64),
            2 => p.at("large") + 4080 + c.below(30),
            _ => p.at("large") + [100, 126, 7936, 8000][c.below(4) as usize],
        };
        let len = 1 + c.below(8);
        Watch {
            addr,
            len,
            read,
            write,
        }
    });
}

#[test]
fn many_bytes() {
    check(amount("ENGINE_WATCHES", 40), 2, |c, p| {
        let (read, write) = kind(c);
        let addr = match c.below(3) {
            0 => p.at("small") - c.below(40),
            1 => p.at("large") + c.below(8000),
            _ => p.at("stack") - 200 + c.below(100),
        };
        let len = 33 + c.below(6000);
        Watch {
            addr,
            len,
            read,
            write,
        }
    });
}

/// What changes memory is stopped at: stepping one by one and looking finds the same places.
#[test]
fn writes_found_by_looking() {
    let mut program = Program::asm(ACCESSES);
    program.input = b"some input, long enough".to_vec();
    let recorded = program.record();
    let addr = program.at("small") + 5;
    let mut replay = recorded.replay();
    let mut looked = Vec::new();
    let mut old = [0; 8];
    assert_eq!(replay.read(addr, &mut old), 8);
    for step in 1..400 {
        to_step(&mut replay, step);
        let mut new = [0; 8];
        assert_eq!(replay.read(addr, &mut new), 8);
        if new != old {
            looked.push(step - 1);
            old = new;
        }
    }
    let mut replay = recorded.replay();
    let watch = Watch {
        addr,
        len: 8,
        read: false,
        write: true,
    };
    let until = Until {
        watches: vec![watch],
        step: Some(399),
        ..Until::default()
    };
    let mut stopped = Vec::new();
    while replay.run(&until).expect("the replay runs") == Halt::Access {
        stopped.push(replay.step().expect("a step"));
    }
    assert!(looked.len() > 20);
    let missed: Vec<_> = looked.iter().filter(|s| !stopped.contains(s)).collect();
    assert!(
        missed.is_empty(),
        "changed at {missed:?}, stopped at {stopped:?}"
    );
}

/// An instruction that saves the processor's state touches more than its operand says.
#[test]
fn saved_state() {
    let program = Program::asm(
        "
.globl _start
_start:
    vpcmpeqb ymm0, ymm0, ymm0
    mov eax, 7
    xor edx, edx
save:
    xsave [rip + area]
    vpxor ymm0, ymm0, ymm0
    mov eax, 7
load:
    xrstor [rip + area]
    xor edi, edi
    mov eax, 231
    syscall
.data
.p2align 6
area: .fill 1024
",
    );
    let recorded = program.record();
    // The upper half of ymm0.
    for (len, addr) in [(8, 576), (64, 560)] {
        let watch = Watch {
            addr: program.at("area") + addr,
            len,
            read: true,
            write: true,
        };
        let until = Until {
            watches: vec![watch],
            ..Until::default()
        };
        let mut replay = recorded.replay();
        for place in ["save", "load"] {
            assert_eq!(replay.run(&until).expect("the replay runs"), Halt::Access);
            assert_eq!(replay.regs().rip, program.at(place), "{place}, {len} bytes");
        }
        assert!(matches!(
            replay.run(&until).expect("the replay runs"),
            Halt::Ended(_)
        ));
    }
}
