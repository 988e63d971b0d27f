//! Vector, bit-manipulation, floating-point and string instructions, and what fits nowhere else.

use super::*;

impl Body<'_> {
    pub(super) fn sse(&mut self) {
        let (a, b) = (self.chance.below(16), self.chance.below(16));
        const INTEGER: &[&str] = &[
            "paddb",
            "paddw",
            "paddd",
            "paddq",
            "psubb",
            "psubd",
            "psubusw",
            "pmullw",
            "pmulhuw",
            "pmuludq",
            "pmaddwd",
            "pand",
            "pandn",
            "por",
            "pxor",
            "pcmpeqb",
            "pcmpgtd",
            "pminub",
            "pmaxsw",
            "pavgb",
            "psadbw",
            "punpcklbw",
            "punpckhdq",
            "packuswb",
            "packssdw",
            "pshufb",
            "phaddw",
            "psignd",
            "pmulld",
            "pcmpgtq",
            "aesenc",
            "aesdeclast",
        ];
        const FLOAT: &[&str] = &[
            "addps",
            "mulpd",
            "subsd",
            "divss",
            "minps",
            "maxpd",
            "sqrtps",
            "andnps",
            "xorpd",
            "unpcklps",
            "cvtdq2ps",
            "cvttps2dq",
            "haddps",
            "addsubpd",
            "cvtps2pd",
        ];
        match self.chance.below(9) {
            0..3 => put!(self, "{} xmm{a}, xmm{b}", self.chance.pick(INTEGER)),
            3 => {
                let m = self.memory(16, true);
                put!(self, "{} xmm{a}, {m}", self.chance.pick(INTEGER));
            }
            4 => put!(self, "{} xmm{a}, xmm{b}", self.chance.pick(FLOAT)),
            5 => {
                let op = self.chance.pick(&["comiss", "ucomisd", "ptest"]);
                put!(self, "{op} xmm{a}, xmm{b}");
            }
            6 => {
                let m = self.memory(16, false);
                if self.chance.one_in(2) {
                    put!(self, "movdqu {m}, xmm{a}");
                } else {
                    put!(self, "movups xmm{a}, {m}");
                }
            }
            7 => {
                let r = self.reg(8);
                let op = self.chance.below(5);
                match op {
                    0 => put!(self, "movq xmm{a}, {r}"),
                    1 => put!(self, "movq {r}, xmm{a}"),
                    2 => put!(self, "cvtsi2sd xmm{a}, {r}"),
                    3 => put!(self, "cvttsd2si {r}, xmm{a}"),
                    _ => put!(self, "pextrq {r}, xmm{a}, 1"),
                }
                let r = self.reg(4);
                put!(self, "pmovmskb {r}, xmm{b}");
            }
            _ => {
                let i = self.chance.below(256);
                let op = self.chance.pick(&[
                    "pshufd",
                    "shufps",
                    "palignr",
                    "pclmulqdq",
                    "roundps",
                    "pblendw",
                ]);
                let i = if op == "roundps" { i % 8 } else { i };
                put!(self, "{op} xmm{a}, xmm{b}, {i}");
                put!(
                    self,
                    "{} xmm{b}, {}",
                    self.chance.pick(&["psllq", "psrad", "pslldq"]),
                    i % 70
                );
            }
        }
    }

    pub(super) fn avx(&mut self) {
        let (a, b, c) = (
            self.chance.below(16),
            self.chance.below(16),
            self.chance.below(16),
        );
        let r = self.chance.pick(&["xmm", "ymm"]);
        let size = if r == "xmm" { 16 } else { 32 };
        const THREE: &[&str] = &[
            "vpaddb",
            "vpaddd",
            "vpsubq",
            "vpmulld",
            "vpxor",
            "vpand",
            "vpcmpeqd",
            "vpminsb",
            "vpshufb",
            "vpunpckhwd",
            "vpackusdw",
            "vaddps",
            "vmulpd",
            "vsubps",
            "vminpd",
            "vandps",
            "vhaddpd",
            "vpsllvd",
            "vpsrlvq",
            "vfmadd213ps",
            "vfnmadd231pd",
            "vfmsub132ps",
            "vpermilps",
            "vpavgw",
        ];
        match self.chance.below(8) {
            0..3 => put!(self, "{} {r}{a}, {r}{b}, {r}{c}", self.chance.pick(THREE)),
            3 => {
                let m = self.memory(size, false);
                put!(self, "{} {r}{a}, {r}{b}, {m}", self.chance.pick(THREE));
            }
            4 => {
                let m = self.memory(size, false);
                put!(self, "vmovdqu {m}, {r}{a}");
            }
            5 => {
                let i = self.chance.below(256);
                match self.chance.below(5) {
                    0 => put!(self, "vpermq ymm{a}, ymm{b}, {i}"),
                    1 => put!(self, "vperm2i128 ymm{a}, ymm{b}, ymm{c}, {i}"),
                    2 => put!(self, "vextracti128 xmm{a}, ymm{b}, {}", i % 2),
                    3 => put!(self, "vinserti128 ymm{a}, ymm{b}, xmm{c}, {}", i % 2),
                    _ => put!(self, "vpalignr {r}{a}, {r}{b}, {r}{c}, {i}"),
                }
            }
            6 => {
                let g = self.reg(4);
                put!(self, "vpmovmskb {g}, {r}{a}");
                put!(self, "vptest {r}{b}, {r}{c}");
                put!(self, "vpbroadcastd {r}{a}, xmm{b}");
            }
            _ if a != b && b != c && a != c => {
                // Indices bounded by a shift of what was there.
                put!(self, "vpsrld {r}{b}, {r}{b}, 24");
                put!(self, "vpgatherdd {r}{a}, [r15 + {r}{b} * 4], {r}{c}");
            }
            _ => put!(self, "vzeroupper"),
        }
    }

    pub(super) fn bmi(&mut self) {
        let w = 4 << self.chance.below(2);
        let (a, b, c) = (self.reg(w), self.reg(w), self.either(w));
        match self.chance.below(7) {
            0 => put!(self, "andn {a}, {b}, {c}"),
            1 => put!(
                self,
                "{} {a}, {c}, {b}",
                self.chance.pick(&["bextr", "bzhi"])
            ),
            2 => put!(
                self,
                "{} {a}, {c}",
                self.chance.pick(&["blsi", "blsr", "blsmsk"])
            ),
            3 => put!(
                self,
                "{} {a}, {b}, {c}",
                self.chance.pick(&["pdep", "pext"])
            ),
            4 => put!(self, "rorx {a}, {c}, {}", self.chance.below(64)),
            5 => put!(
                self,
                "{} {a}, {c}, {b}",
                self.chance.pick(&["sarx", "shlx", "shrx"])
            ),
            _ => {
                put!(self, "{} {a}, {c}", self.chance.pick(&["adcx", "adox"]));
                let d = self.reg(w);
                if d != a {
                    put!(self, "mulx {a}, {d}, {b}");
                }
            }
        }
    }

    pub(super) fn x87(&mut self) {
        let (m, n) = (self.chance.below(AREA - 640), self.chance.below(AREA - 640));
        put!(self, "fninit");
        put!(
            self,
            "{} [r15 + {m}]",
            self.chance
                .pick(&["fld qword ptr", "fild qword ptr", "fld dword ptr"])
        );
        put!(
            self,
            "{} [rip + area + {n}]",
            self.chance
                .pick(&["fld qword ptr", "fild dword ptr", "fld tbyte ptr"])
        );
        for _ in 0..self.chance.below(4) {
            let op = self.chance.pick(&[
                "fadd st, st(1)",
                "fmul st(1), st",
                "fsubr st, st(1)",
                "fdiv st, st(1)",
                "fxch",
                "fsqrt",
                "fchs",
                "fabs",
                "frndint",
                "fcomi st, st(1)",
                "fucomi st, st(1)",
                "fcmovb st, st(1)",
                "fcmovnu st, st(1)",
                "fscale",
                "fprem",
            ]);
            put!(self, "{op}");
        }
        if self.chance.one_in(3) {
            put!(self, "fcom st(1)");
            put!(self, "fnstsw ax");
        }
        put!(
            self,
            "fstp {} [r15 + {n}]",
            self.chance.pick(&["qword ptr", "dword ptr", "tbyte ptr"])
        );
        put!(
            self,
            "{} [rip + area + {m}]",
            self.chance
                .pick(&["fstp qword ptr", "fistp qword ptr", "fisttp dword ptr"])
        );
    }

    pub(super) fn red_zone(&mut self) {
        let w = self.width();
        let at = 8 + self.chance.below(110);
        let a = self.reg(w);
        put!(self, "mov [rsp - {}], {a}", at + 8);
        let over = self.label();
        if self.chance.one_in(2) {
            let cc = self.condition();
            put!(self, "j{cc} {over}");
        } else {
            let r = self.reg(8);
            put!(self, "lea {r}, [rip + {over}]");
            put!(self, "jmp {r}");
        }
        self.plain(2);
        let _ = writeln!(self.out, "{over}:");
        let b = self.reg(w);
        put!(
            self,
            "{} {b}, [rsp - {}]",
            self.chance.pick(&["mov", "add", "xor"]),
            at + 8
        );
    }

    pub(super) fn oddities(&mut self) {
        match self.chance.below(8) {
            0 => put!(
                self,
                "{}",
                self.chance
                    .pick(&["nop", "pause", "mfence", "endbr64", "fwait"])
            ),
            1 => put!(self, "nop word ptr [rax + rax + 0x12345678]"),
            2 => {
                put!(self, "mov rbx, r15");
                put!(self, "xlatb");
            }
            3 => {
                put!(self, "stmxcsr [r15 + 64]");
                put!(self, "ldmxcsr [rip + area + 64]");
            }
            4 => {
                let m = self.memory(4, true);
                let r = self.reg(4);
                put!(self, "movnti {m}, {r}");
                put!(self, "prefetcht0 [r15]");
            }
            5 => {
                // Prefixes that mean nothing must go on meaning nothing.
                let (a, b) = (self.reg(4), self.reg(4));
                put!(self, ".byte 0x2e");
                put!(self, "add {a}, {b}");
                put!(self, ".byte 0x3e");
                put!(self, "mov {b}, [r15 + 16]");
            }
            6 => {
                let r = self.reg(8);
                put!(self, "rdfsbase {r}");
                let r = self.reg(4);
                put!(self, "wrfsbase {r}");
                put!(self, "mov {}, fs", SINGLE[self.index()]);
            }
            _ => {
                let over = self.label();
                put!(self, "call {over}");
                let _ = writeln!(self.out, "{over}:");
                let r = self.reg(8);
                put!(self, "pop {r}");
            }
        }
    }

    pub(super) fn strings(&mut self) {
        if self.spare_rcx {
            return self.moves();
        }
        let (from, to) = (256 + self.chance.below(1000), 256 + self.chance.below(1000));
        let n = self.chance.below(20);
        let back = self.chance.one_in(4);
        put!(self, "lea rsi, [r15 + {from}]");
        put!(self, "lea rdi, [r15 + {to}]");
        put!(self, "mov ecx, {n}");
        if back {
            put!(self, "std");
        }
        let w = self.chance.pick(&["b", "w", "d", "q"]);
        let short = if self.low && self.chance.one_in(5) {
            "addr32 "
        } else {
            ""
        };
        match self.chance.below(7) {
            0 => put!(self, "{short}rep movs{w}"),
            1 => put!(self, "{short}rep stos{w}"),
            2 => put!(self, "{short}rep lods{w}"),
            3 => put!(
                self,
                "{short}{} scas{w}",
                self.chance.pick(&["repe", "repne"])
            ),
            4 => put!(
                self,
                "{short}{} cmps{w}",
                self.chance.pick(&["repe", "repne"])
            ),
            5 => put!(
                self,
                "{short}{}{w}",
                self.chance.pick(&["movs", "stos", "lods"])
            ),
            _ => put!(self, "{short}{}{w}", self.chance.pick(&["scas", "cmps"])),
        }
        if back {
            put!(self, "cld");
        }
    }
}
