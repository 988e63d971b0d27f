//! Edits: the output is that of a program in which the same was changed in the source.

use crate::scene::{Output, Program};
use guest::{Edit, Halt, Operand, Place, Reference, StopAt, Until};

/// Ten rounds that each print a line; `$1` and `$2` are what the edits change.
const TEXT: &str = "
.globl _start
_start:
    xor ebx, ebx
round:
    lea rax, [rbx + rbx * 4]
    inc dword ptr [rip + total]
place:
    $1
    cmp eax, 20
branch:
    $2
    or byte ptr [rip + line], 0x20
    add eax, 1
small:
    and eax, 63
    add al, 48
    mov [rip + line + 1], al
    mov al, [rip + total]
    add al, 48
    mov [rip + line + 2], al
    mov eax, 1
    mov edi, 1
    lea rsi, [rip + line]
    mov edx, 4
    syscall
    mov byte ptr [rip + line], 0x41
    inc ebx
    cmp ebx, 10
    jb round
    mov eax, 231
    xor edi, edi
    syscall
.data
total: .long 0
line: .ascii \"A__\\n\"
";
const PLAIN: [&str; 2] = ["add eax, 3", "jb small"];

fn program(places: [&str; 2]) -> Program {
    Program::asm(&TEXT.replace("$1", places[0]).replace("$2", places[1]))
}

/// Executes `this` in the round numbered `nth` from 1, in the others `that`; the flags are left.
fn once(nth: u64, this: &str, that: &str) -> String {
    let round = nth - 1;
    format!("pushfq\ncmp ebx, {round}\njne 1f\npopfq\n{this}\njmp 2f\n1: popfq\n{that}\n2:")
}

/// With `edits` of the plain program the output is that of one with `places`, however the run is
/// cut into pieces.
#[track_caller]
fn check(edits: impl Fn(&Program) -> Vec<Edit>, places: [&str; 2]) {
    let plain = program(PLAIN);
    let recorded = plain.record();
    let expected = program(places).native().stdout;
    assert_ne!(
        expected, recorded.stdout,
        "an edit that changes nothing proves nothing"
    );
    // Steps of a piece; some of the cuts are right before the edit.
    for piece in [1000, 20, 3, 2, 1] {
        let output = Output::default();
        let mut replay = recorded.replay_to(&output);
        for e in edits(&plain) {
            replay.edit(e).expect("an edit");
        }
        for step in (0..170).step_by(piece) {
            let halt = replay.run(&Until::step(step)).expect("the replay runs");
            assert_eq!(halt, Halt::Step);
        }
        let halt = replay.run(&Until::end()).expect("the replay runs");
        assert_eq!(halt, Halt::Ended(recorded.end));
        let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        assert_eq!(
            text(&output.borrow()),
            text(&expected),
            "in pieces of {piece}"
        );
    }
}

#[test]
fn a_register() {
    for nth in [1, 4, 10] {
        let edit = |p: &Program| Edit::Register {
            at: Place {
                pc: p.at("branch"),
                nth,
            },
            register: 0,
            value: 41,
        };
        let branch = once(nth, "mov eax, 41", "") + "\njb small";
        check(|p| vec![edit(p)], [PLAIN[0], &branch]);
    }
}

#[test]
fn memory() {
    for nth in [1, 5, 10] {
        let edit = |p: &Program| Edit::Memory {
            at: Place {
                pc: p.at("branch"),
                nth,
            },
            addr: p.at("total"),
            bytes: vec![7, 0],
        };
        let branch = once(nth, "mov word ptr [rip + total], 7", "") + "\njb small";
        check(|p| vec![edit(p)], [PLAIN[0], &branch]);
    }
}

#[test]
fn a_skipped_instruction() {
    for nth in [1, 3, 10] {
        let edit = |p: &Program| Edit::Skip {
            at: Place {
                pc: p.at("place"),
                nth,
            },
        };
        check(|p| vec![edit(p)], [&once(nth, "", PLAIN[0]), PLAIN[1]]);
    }
}

#[test]
fn two_edits_at_one_place() {
    let at = |p: &Program, nth| Place {
        pc: p.at("place"),
        nth,
    };
    let edits = |p: &Program| {
        vec![
            Edit::Skip { at: at(p, 6) },
            Edit::Register {
                at: at(p, 2),
                register: 0,
                value: 33,
            },
            Edit::Skip { at: at(p, 3) },
        ]
    };
    let place = "pushfq
        cmp ebx, 1
        jne 1f
        mov eax, 33
    1:  cmp ebx, 2
        je 2f
        cmp ebx, 5
        je 2f
        add eax, 3
    2:  popfq";
    check(edits, [place, PLAIN[1]]);
}

#[test]
fn a_branch_once() {
    for nth in [1, 4, 5, 10] {
        let edit = |p: &Program| Edit::Branch {
            at: Place {
                pc: p.at("branch"),
                nth,
            },
        };
        check(
            |p| vec![edit(p)],
            [PLAIN[0], &once(nth, "jae small", "jb small")],
        );
    }
}

#[test]
fn a_branch_always() {
    let edit = |p: &Program| Edit::BranchAlways { pc: p.at("branch") };
    check(|p| vec![edit(p)], [PLAIN[0], "jae small"]);
}

#[test]
fn an_instruction_that_is_always_passed_over() {
    let edit = |p: &Program| Edit::JumpAlways {
        pc: p.at("place"),
        to: p.at("place") + 3,
    };
    check(|p| vec![edit(p)], ["", PLAIN[1]]);
}

#[test]
fn exits_that_are_always_exchanged() {
    let edit = |p: &Program| Edit::SwitchAlways {
        pc: p.at("branch"),
        exits: [p.at("small"), p.at("branch") + 2],
    };
    check(|p| vec![edit(p)], [PLAIN[0], "jae small"]);
}

/// Checkpoints that a run takes by itself have none of its stops.
#[test]
fn stops_are_of_one_run() {
    let plain = program(PLAIN);
    let recorded = plain.record();
    let mut replay = recorded.replay();
    let often = guest::Spacing {
        time: std::time::Duration::ZERO,
        most: 100,
    };
    replay.keep_checkpoints(often).expect("checkpoints");
    let stop = Until {
        stops: vec![StopAt {
            pc: plain.at("place"),
            nth: 2,
        }],
        ..Until::default()
    };
    for _ in 0..4 {
        let halt = replay.run(&stop).expect("the replay runs");
        assert_eq!(halt, Halt::Stop(0));
    }
    let end = replay.step().expect("a step");
    for step in (0..end).rev() {
        assert_eq!(replay.goto(step).expect("going there"), Halt::Step);
        assert_eq!(replay.step().expect("a step"), step);
    }
}

/// Made where the guest stands, an edit is of the instruction that it is about to do, whatever
/// brought it there.
#[test]
fn here() {
    let plain = program(PLAIN);
    let recorded = plain.record();
    let expected = program([&once(2, "", PLAIN[0]), PLAIN[1]]).native().stdout;
    let pc = plain.at("place");
    let stop = Until {
        stops: vec![StopAt { pc, nth: 2 }],
        ..Until::default()
    };
    let mut replay = recorded.replay();
    replay.run(&stop).expect("the replay runs");
    let step = replay.step().expect("a step");
    for until in [Until::step(step), stop.clone()] {
        for early in [None, Some(2), Some(3)] {
            let output = Output::default();
            let mut replay = recorded.replay_to(&output);
            if early == Some(2) {
                replay
                    .edit(Edit::Skip {
                        at: Place { pc, nth: 2 },
                    })
                    .expect("an edit");
            }
            replay.run(&until).expect("the replay runs");
            assert_eq!(replay.regs().rip, pc);
            match early {
                None => {
                    replay
                        .edit(Edit::Skip {
                            at: Place { pc, nth: 1 },
                        })
                        .expect("an edit");
                }
                Some(3) => {
                    // A later one is not this one.
                    let at = Place { pc, nth: 2 };
                    let id = replay.edit(Edit::Skip { at }).expect("an edit");
                    replay.run(&Until::step(step + 1)).expect("the replay runs");
                    assert_eq!(replay.regs().rip, pc + 3);
                    assert_eq!(replay.regs().rax, 8);
                    replay.remove_edit(id).expect("taking it back");
                    continue;
                }
                _ => {}
            }
            replay.run(&Until::end()).expect("the replay runs");
            assert_eq!(*output.borrow(), expected, "{until:?}, {early:?}");
        }
    }
}

#[test]
fn an_edit_taken_back() {
    let plain = program(PLAIN);
    let recorded = plain.record();
    let output = Output::default();
    let mut replay = recorded.replay_to(&output);
    let at = Place {
        pc: plain.at("place"),
        nth: 2,
    };
    let skip = replay.edit(Edit::Skip { at }).expect("an edit");
    let always = Edit::BranchAlways {
        pc: plain.at("branch"),
    };
    let always = replay.edit(always).expect("an edit");
    replay.remove_edit(skip).expect("taking it back");
    replay.remove_edit(always).expect("taking it back");
    assert!(replay.edits().is_empty());
    assert!(replay.remove_edit(skip).is_err());
    let not_a_branch = Edit::BranchAlways {
        pc: plain.at("place"),
    };
    assert!(replay.edit(not_a_branch).is_err());
    let halt = replay.run(&Until::end()).expect("the replay runs");
    assert_eq!(halt, Halt::Ended(recorded.end));
    assert_eq!(*output.borrow(), recorded.stdout);
}

#[test]
fn an_instruction_that_refers_elsewhere() {
    let plain = program(PLAIN);
    let room = {
        let recorded = plain.record();
        let mut replay = recorded.replay_to(&Output::default());
        let near = replay.room_near(plain.at("place"), 4096);
        near.expect("a look at what is mapped").expect("room")
    };
    // `inc` counts in other memory: as if the count were taken back.
    let edits = |p: &Program| {
        let by = room.wrapping_sub(p.at("total")) as i64;
        let reference = Reference {
            pc: p.at("place") - 6,
            operand: Operand::Memory,
            by,
        };
        let refer = Edit::Refer {
            references: vec![reference],
        };
        vec![
            Edit::Map {
                addr: room,
                len: 4096,
            },
            refer,
        ]
    };
    check(
        edits,
        [
            &format!("dec dword ptr [rip + total]\n{}", PLAIN[0]),
            PLAIN[1],
        ],
    );
    // There and back.
    let recorded = plain.record();
    let output = Output::default();
    let mut replay = recorded.replay_to(&output);
    for e in edits(&plain) {
        replay.edit(e).expect("an edit");
    }
    let refer = replay.edits().last().expect("two edits").0;
    replay.run(&Until::step(30)).expect("the replay runs");
    let mut counted = [0; 4];
    assert_eq!(replay.read(room, &mut counted), 4);
    assert!(u32::from_le_bytes(counted) > 0);
    let base = replay.checkpoint().expect("a checkpoint");
    replay.remove_edit(refer).expect("taking it back");
    let step = replay.step().expect("a step") + 40;
    replay.run(&Until::step(step)).expect("the replay runs");
    let mut after = [0; 4];
    replay.read(room, &mut after);
    assert_eq!(after, counted, "nothing leads there any more");
    replay.restore(base).expect("going back");
    replay.run(&Until::step(step)).expect("the replay runs");
    replay.read(room, &mut after);
    assert!(u32::from_le_bytes(after) > u32::from_le_bytes(counted));
    // What there is no instruction for is refused, and so is memory that is there.
    let refer = |pc, operand, by| Edit::Refer {
        references: vec![Reference { pc, operand, by }],
    };
    let (place, inc) = (plain.at("place"), plain.at("place") - 6);
    for edit in [
        refer(place, Operand::Memory, 8),
        refer(inc, Operand::Memory, 1 << 40),
        refer(inc, Operand::Immediate, 8),
        refer(0x10, Operand::Memory, 8),
        Edit::Map {
            addr: plain.at("total") & !0xfff,
            len: 4096,
        },
    ] {
        assert!(replay.edit(edit.clone()).is_err(), "{edit:?}");
    }
}
