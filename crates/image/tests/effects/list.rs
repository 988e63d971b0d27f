//! The instructions that are tried. The assembler drops those that do not exist.
//!
//! Memory operands are around r15 with r14 as a small index, and on the stack. A setup string
//! prepares other registers; its letters are in `driver.c`.

pub(crate) type Line = (String, &'static str);

const WIDTHS: [(&str, [&str; 4], &str); 4] = [
    ("byte", ["al", "cl", "bh", "r9b"], "b"),
    ("word", ["ax", "cx", "bx", "r9w"], "w"),
    ("dword", ["eax", "ecx", "ebx", "r9d"], "d"),
    ("qword", ["rax", "rcx", "rbx", "r9"], "q"),
];

const CONDITIONS: [&str; 16] = [
    "o", "no", "b", "ae", "e", "ne", "be", "a", "s", "ns", "p", "np", "l", "ge", "le", "g",
];

pub(crate) fn all() -> Vec<Line> {
    let mut out = Vec::new();
    general(&mut out);
    stack_and_strings(&mut out);
    vectors(&mut out);
    moves(&mut out);
    x87(&mut out);
    out
}

fn general(out: &mut Vec<Line>) {
    for (kind, [a, c, b, r], suffix) in WIDTHS {
        // What has a high byte cannot have a numbered register beside it.
        let r = if kind == "byte" { "dl" } else { r };
        let m = format!("{kind} ptr [r15 + r14 * 2 + 8]");
        let p = format!("{kind} ptr [rsp + 16]");
        let mut put = |text: String| out.push((text, ""));
        for op in [
            "add", "sub", "adc", "sbb", "and", "or", "xor", "cmp", "test", "mov",
        ] {
            put(format!("{op} {a}, {c}"));
            put(format!("{op} {b}, {r}"));
            put(format!("{op} {c}, {c}"));
            put(format!("{op} {m}, {c}"));
            put(format!("{op} {c}, {m}"));
            put(format!("{op} {p}, 5"));
            put(format!("{op} {c}, -1"));
            put(format!("{op} {c}, 0"));
            put(format!("{op} {c}, 0x70"));
            if kind != "byte" {
                put(format!("{op} {c}, 0x1200"));
                put(format!("{op} {m}, 0xff"));
            }
            if kind == "qword" {
                put(format!("{op} {c}, 0xff0000"));
            }
        }
        put(format!("lock add {m}, {c}"));
        put(format!("lock xadd {m}, {c}"));
        for op in ["inc", "dec", "neg", "not", "mul", "imul", "div", "idiv"] {
            put(format!("{op} {b}"));
            put(format!("{op} {m}"));
        }
        for op in ["shl", "shr", "sar", "rol", "ror", "rcl", "rcr"] {
            for count in ["cl", "1", "3", "0", "33"] {
                put(format!("{op} {b}, {count}"));
                put(format!("{op} {m}, {count}"));
            }
        }
        for op in ["shld", "shrd"] {
            for count in ["cl", "1", "7", "0"] {
                put(format!("{op} {b}, {r}, {count}"));
                put(format!("{op} {m}, {r}, {count}"));
            }
        }
        for op in [
            "xchg", "xadd", "imul", "bsf", "bsr", "popcnt", "lzcnt", "tzcnt",
        ] {
            put(format!("{op} {b}, {r}"));
            put(format!("{op} {r}, {r}"));
            put(format!("{op} {r}, {m}"));
            put(format!("{op} {m}, {r}"));
        }
        put(format!("imul {b}, {r}, 77"));
        put(format!("imul {b}, {m}, 77"));
        put(format!("movbe {b}, {m}"));
        put(format!("movbe {m}, {b}"));
        put(format!("movnti {m}, {b}"));
        put(format!("bswap {b}"));
        for op in ["bt", "bts", "btr", "btc"] {
            put(format!("{op} {b}, {r}"));
            put(format!("{op} {b}, 3"));
            put(format!("{op} {m}, 5"));
        }
        for (small, ..) in &WIDTHS[..3] {
            for op in ["movzx", "movsx", "movsxd"] {
                put(format!("{op} {c}, {small} ptr [r15 + 24]"));
            }
        }
        for op in ["movzx", "movsx"] {
            put(format!("{op} {b}, ah"));
            put(format!("{op} {b}, cl"));
            put(format!("{op} {b}, cx"));
        }
        put(format!("movsxd {b}, ecx"));
        put(format!("lea {b}, [rcx + rdx * 4 + 7]"));
        put(format!("lea {b}, [ecx + edx * 4 + 7]"));
        put(format!("lea {b}, [rip + 7]"));
        for cc in CONDITIONS {
            put(format!("cmov{cc} {b}, {r}"));
            put(format!("cmov{cc} {b}, {m}"));
        }
        for op in [
            "andn", "bextr", "bzhi", "pdep", "pext", "sarx", "shlx", "shrx", "mulx",
        ] {
            put(format!("{op} {b}, {r}, {c}"));
            put(format!("{op} {b}, {r}, {m}"));
            put(format!("{op} {b}, {m}, {r}"));
        }
        for op in ["blsi", "blsr", "blsmsk", "adcx", "adox"] {
            put(format!("{op} {b}, {r}"));
            put(format!("{op} {b}, {m}"));
        }
        put(format!("rorx {b}, {m}, 13"));
        put(format!("crc32 ecx, {b}"));
        put(format!("crc32 rcx, {b}"));
        for cmpxchg in [
            format!("cmpxchg {kind} ptr [r15 + 16], {c}"),
            format!("cmpxchg {b}, {r}"),
            format!("cmpxchg {a}, {r}"),
        ] {
            out.push((cmpxchg, "z"));
        }
        for op in ["bt", "bts", "btr", "btc"] {
            let wide =
                ["", "r13w", "r13d", "r13"][WIDTHS.iter().position(|w| w.0 == kind).unwrap()];
            out.push((format!("{op} {kind} ptr [r15 + 128], {wide}"), "n"));
        }
        let _ = suffix;
    }
    for cc in CONDITIONS {
        out.push((format!("set{cc} bh"), ""));
        out.push((format!("set{cc} byte ptr [r15 + r14]"), ""));
    }
    for op in [
        "cbw", "cwde", "cdqe", "cwd", "cdq", "cqo", "lahf", "sahf", "clc", "stc", "cmc", "nop",
        "pause", "mfence", "endbr64", "cld", "std",
    ] {
        out.push((op.into(), ""));
    }
    out.push(("lock cmpxchg8b [r15 + 16]".into(), "z"));
    out.push(("lock cmpxchg16b [r15 + 16]".into(), "z"));
    for divide in [
        "div rcx",
        "idiv rcx",
        "div ecx",
        "div cx",
        "div qword ptr [r15 + 8]",
    ] {
        out.push((divide.into(), "q"));
    }
    out.push(("xlatb".into(), "b"));
}

fn stack_and_strings(out: &mut Vec<Line>) {
    for text in [
        "push rax",
        "push ax",
        "push rsp",
        "push 5",
        "push -1",
        "push qword ptr [r15 + r14]",
        "push qword ptr [rsp + 8]",
        "pop rax",
        "pop cx",
        "pop rsp",
        "pop qword ptr [r15 + 8]",
        "pop qword ptr [rsp + 8]",
        "pop qword ptr [rsp]",
        "pushfq",
        "pushfw",
        "popfw",
        "enter 32, 0",
    ] {
        out.push((text.into(), ""));
    }
    out.push(("leave".into(), "B"));
    out.push(("lodsb".into(), "sf"));
    for w in ["b", "w", "d", "q"] {
        for op in ["movs", "stos", "lods", "scas", "cmps"] {
            out.push((format!("{op}{w}"), "sdcf"));
            for rep in ["rep", "repe", "repne"] {
                if op == "scas" || op == "cmps" || rep == "rep" {
                    out.push((format!("{rep} {op}{w}"), "sdcf"));
                }
            }
        }
        out.push((format!("rep movs{w}"), "sDc"));
    }
    for text in [
        "maskmovdqu xmm1, xmm2",
        "vmaskmovdqu xmm1, xmm2",
        "maskmovq mm1, mm2",
    ] {
        out.push((text.into(), "d"));
    }
}

fn vectors(out: &mut Vec<Line>) {
    const LEGACY: &str = "paddb psubb paddsb paddusb psubsb psubusb pminub pminsb pmaxub pmaxsb \
        pavgb pcmpeqb pcmpgtb pabsb psignb pand pandn por pxor andps andpd andnps andnpd orps orpd \
        xorps xorpd paddw psubw paddsw paddusw psubsw psubusw pminuw pminsw pmaxuw pmaxsw pavgw \
        pcmpeqw pcmpgtw pabsw psignw pmullw pmulhw pmulhuw pmulhrsw pmaddubsw paddd psubd pminud \
        pminsd pmaxud pmaxsd pcmpeqd pcmpgtd pabsd psignd pmulld pmaddwd paddq psubq pcmpeqq \
        pcmpgtq pmuludq pmuldq psadbw pshufb phaddw phaddd phaddsw phsubw phsubd phsubsw packsswb \
        packssdw packuswb packusdw addps subps mulps divps minps maxps sqrtps rcpps rsqrtps \
        cvtdq2ps cvtps2dq cvttps2dq addsubps addpd subpd mulpd divpd minpd maxpd sqrtpd addsubpd \
        haddps haddpd hsubps hsubpd punpcklbw punpckhbw punpcklwd punpckhwd punpckldq punpckhdq \
        punpcklqdq punpckhqdq unpcklps unpckhps unpcklpd unpckhpd movddup movshdup movsldup \
        cvtps2pd cvtpd2ps cvtdq2pd cvtpd2dq cvttpd2dq ptest comiss comisd ucomiss ucomisd \
        addss subss mulss divss minss maxss sqrtss rcpss rsqrtss addsd subsd mulsd divsd minsd \
        maxsd sqrtsd cvtss2sd cvtsd2ss psllw pslld psllq psrlw psrld psrlq psraw psrad movaps \
        movups movdqa movdqu movapd movupd lddqu aesenc aesdec aesenclast aesimc sha1nexte sha256msg1 \
        sha256msg2 sha1msg1 gf2p8mulb phminposuw pmovsxbw pmovsxbd pmovsxbq pmovsxwd pmovsxwq \
        pmovsxdq pmovzxbw pmovzxbd pmovzxbq pmovzxwd pmovzxwq pmovzxdq pblendvb blendvps blendvpd \
        sha256rnds2 movhlps movlhps movss movsd movq";
    const IMMEDIATE: &str = "pshufd pshuflw pshufhw shufps shufpd palignr roundps roundpd roundss \
        roundsd cmpps cmppd cmpss cmpsd blendps blendpd pblendw insertps dpps dppd mpsadbw \
        pclmulqdq aeskeygenassist sha1rnds4 pcmpistri pcmpistrm pcmpestri pcmpestrm";
    const FMA: &str = "vfmadd132ps vfmadd213pd vfmsub231ps vfnmadd132pd vfmadd231ss vfmadd213sd \
        vfnmsub132ss vfmaddsub213ps";
    let legacy = LEGACY.split_whitespace();
    for op in legacy {
        out.push((format!("{op} xmm1, xmm2"), ""));
        out.push((format!("{op} xmm3, xmm3"), ""));
        out.push((format!("{op} xmm1, [r15 + 32]"), ""));
        out.push((format!("{op} mm1, mm2"), ""));
        out.push((format!("{op} mm1, [r15 + 32]"), ""));
        for r in ["xmm", "ymm"] {
            out.push((format!("v{op} {r}1, {r}2"), ""));
            out.push((format!("v{op} {r}1, {r}2, {r}3"), ""));
            out.push((format!("v{op} {r}1, {r}1, {r}3"), ""));
            out.push((format!("v{op} {r}4, {r}3, {r}3"), ""));
            out.push((format!("v{op} {r}1, {r}2, [r15 + r14 + 7]"), ""));
            out.push((format!("v{op} {r}1, [r15 + 32]"), ""));
            out.push((format!("v{op} {r}1, xmm2"), ""));
            out.push((format!("v{op} xmm1, {r}2"), ""));
            out.push((format!("v{op} {r}1, {r}2, xmm3"), ""));
            out.push((format!("v{op} {r}1, {r}2, {r}3, {r}4"), ""));
        }
    }
    for op in IMMEDIATE.split_whitespace() {
        for i in [0, 1, 3, 0x1b, 0x4e, 0x93, 0xd8, 0xff] {
            out.push((format!("{op} xmm1, xmm2, {i}"), ""));
            out.push((format!("{op} xmm1, [r15 + 32], {i}"), ""));
            out.push((format!("{op} mm1, mm2, {i}"), ""));
            for r in ["xmm", "ymm"] {
                out.push((format!("v{op} {r}1, {r}2, {i}"), ""));
                out.push((format!("v{op} {r}1, {r}2, {r}3, {i}"), ""));
                out.push((format!("v{op} {r}1, {r}1, {r}3, {i}"), ""));
                out.push((format!("v{op} {r}1, {r}2, [r15 + 3], {i}"), ""));
            }
        }
    }
    for op in FMA.split_whitespace() {
        for r in ["xmm", "ymm"] {
            out.push((format!("{op} {r}1, {r}2, {r}3"), ""));
            out.push((format!("{op} {r}1, {r}2, [r15 + 3]"), ""));
        }
    }
    for op in [
        "psllw", "pslld", "psllq", "psrlw", "psrld", "psrlq", "psraw", "psrad", "pslldq", "psrldq",
    ] {
        for i in [0, 1, 5, 11, 40] {
            out.push((format!("{op} xmm1, {i}"), ""));
            out.push((format!("{op} mm1, {i}"), ""));
            out.push((format!("v{op} xmm1, xmm2, {i}"), ""));
            out.push((format!("v{op} ymm1, ymm2, {i}"), ""));
        }
    }
    for op in [
        "vpsllvd",
        "vpsllvq",
        "vpsrlvd",
        "vpsrlvq",
        "vpsravd",
        "vpermilps",
        "vpermilpd",
        "vpermd",
        "vpermps",
    ] {
        out.push((format!("{op} xmm1, xmm2, xmm3"), ""));
        out.push((format!("{op} ymm1, ymm2, ymm3"), ""));
        out.push((format!("{op} ymm1, ymm2, [r15]"), ""));
    }
    for i in [0, 1, 2, 3, 0x31, 0x20, 0x88, 0xd8, 0x1b] {
        for op in [
            "vperm2f128",
            "vperm2i128",
            "vpblendd",
            "vinserti128",
            "vinsertf128",
        ] {
            let last = if op.contains("insert") {
                "xmm3"
            } else {
                "ymm3"
            };
            out.push((format!("{op} ymm1, ymm2, {last}, {i}"), ""));
        }
        for op in ["vpermq", "vpermpd", "vpermilps", "vpermilpd"] {
            out.push((format!("{op} ymm1, ymm2, {i}"), ""));
            out.push((format!("{op} ymm1, [r15], {i}"), ""));
        }
        for op in ["vextracti128", "vextractf128"] {
            out.push((format!("{op} xmm1, ymm2, {}", i % 2), ""));
            out.push((format!("{op} [r15], ymm2, {}", i % 2), ""));
        }
    }
}

fn moves(out: &mut Vec<Line>) {
    let mut put = |text: &str| {
        out.push((text.to_owned(), ""));
        out.push((format!("v{text}"), ""));
    };
    for op in [
        "movaps", "movups", "movdqa", "movdqu", "movapd", "movupd", "movntdq", "movntps", "movss",
        "movsd", "movq", "movd", "movlps", "movhps", "movlpd", "movhpd",
    ] {
        put(&format!("{op} [r15 + 32], xmm2"));
        put(&format!("{op} [r15 + 32], ymm2"));
        put(&format!("{op} xmm1, [r15 + 32]"));
        put(&format!("{op} xmm1, xmm2, [r15 + 32]"));
        put(&format!("{op} xmm1, rcx"));
        put(&format!("{op} xmm1, ecx"));
        put(&format!("{op} rcx, xmm1"));
        put(&format!("{op} ecx, xmm1"));
        put(&format!("{op} mm1, rcx"));
        put(&format!("{op} mm1, ecx"));
        put(&format!("{op} ecx, mm1"));
        put(&format!("{op} [r15 + 8], mm1"));
    }
    for i in [0, 1, 2, 3, 7] {
        for (op, r) in [("b", "ecx"), ("w", "ecx"), ("d", "ecx"), ("q", "rcx")] {
            put(&format!("pinsr{op} xmm1, {r}, {i}"));
            put(&format!("pinsr{op} xmm1, xmm2, {r}, {i}"));
            put(&format!("pinsr{op} xmm1, [r15], {i}"));
            put(&format!("pextr{op} {r}, xmm1, {i}"));
            put(&format!("pextr{op} [r15], xmm1, {i}"));
            put(&format!("pinsr{op} mm1, {r}, {i}"));
            put(&format!("pextr{op} {r}, mm1, {i}"));
        }
        put(&format!("extractps ecx, xmm1, {i}"));
        put(&format!("extractps [r15], xmm1, {i}"));
    }
    for op in ["pmovmskb", "movmskps", "movmskpd"] {
        put(&format!("{op} ecx, xmm1"));
        put(&format!("{op} ecx, ymm1"));
        put(&format!("{op} ecx, mm1"));
    }
    for op in ["cvtsi2ss", "cvtsi2sd"] {
        put(&format!("{op} xmm1, ecx"));
        put(&format!("{op} xmm1, rcx"));
        put(&format!("{op} xmm1, xmm2, rcx"));
        put(&format!("{op} xmm1, dword ptr [r15]"));
    }
    for op in ["cvtss2si", "cvtsd2si", "cvttss2si", "cvttsd2si"] {
        put(&format!("{op} ecx, xmm1"));
        put(&format!("{op} rcx, xmm1"));
        put(&format!("{op} rcx, [r15]"));
    }
    for w in ["b", "w", "d", "q"] {
        out.push((format!("vpbroadcast{w} ymm1, xmm2"), ""));
        out.push((format!("vpbroadcast{w} xmm1, [r15]"), ""));
    }
    for op in [
        "vbroadcastss",
        "vbroadcastsd",
        "vbroadcastf128",
        "vbroadcasti128",
    ] {
        out.push((format!("{op} ymm1, xmm2"), ""));
        out.push((format!("{op} ymm1, [r15 + 8]"), ""));
    }
    for op in ["vmaskmovps", "vmaskmovpd", "vpmaskmovd", "vpmaskmovq"] {
        for r in ["xmm", "ymm"] {
            out.push((format!("{op} {r}1, {r}2, [r15]"), ""));
            out.push((format!("{op} [r15], {r}2, {r}1"), ""));
        }
    }
    for (op, setup) in [
        ("vpgatherdd", "i"),
        ("vgatherdps", "i"),
        ("vpgatherdq", "i"),
        ("vpgatherqd", "I"),
        ("vpgatherqq", "I"),
        ("vgatherqpd", "I"),
    ] {
        for (a, b, c) in [
            ("xmm1", "xmm2", "xmm3"),
            ("ymm1", "ymm2", "ymm3"),
            ("ymm1", "xmm2", "ymm3"),
            ("xmm1", "ymm2", "xmm3"),
        ] {
            out.push((format!("{op} {a}, [r15 + {b} * 2], {c}"), setup));
        }
    }
    for text in [
        "vzeroupper",
        "vzeroall",
        "movq2dq xmm1, mm2",
        "movdq2q mm1, xmm2",
        "fxsave [r15]",
        "stmxcsr [r15 + 8]",
        "vstmxcsr [r15 + 8]",
    ] {
        out.push((text.into(), ""));
    }
}

fn x87(out: &mut Vec<Line>) {
    for text in [
        "fld dword ptr [r15]",
        "fld qword ptr [r15]",
        "fld tbyte ptr [r15]",
        "fild word ptr [r15]",
        "fild dword ptr [r15]",
        "fild qword ptr [r15]",
        "fld st(3)",
        "fld1",
        "fldz",
        "fldpi",
        "fst dword ptr [r15]",
        "fst qword ptr [r15]",
        "fstp dword ptr [r15]",
        "fstp qword ptr [r15]",
        "fstp tbyte ptr [r15]",
        "fst st(2)",
        "fstp st(2)",
        "fstp st(0)",
        "fist word ptr [r15]",
        "fistp dword ptr [r15]",
        "fistp qword ptr [r15]",
        "fisttp qword ptr [r15]",
        "fxch st(3)",
        "fchs",
        "fabs",
        "fsqrt",
        "frndint",
        "fscale",
        "fprem",
        "fprem1",
        "fyl2x",
        "fpatan",
        "f2xm1",
        "fsin",
        "fcos",
        "fsincos",
        "fptan",
        "fxtract",
        "fcomi st, st(1)",
        "fcomip st, st(1)",
        "fucomi st, st(2)",
        "fucomip st, st(2)",
        "fcom st(1)",
        "fcomp st(1)",
        "fcompp",
        "fucom st(1)",
        "fucompp",
        "ftst",
        "fxam",
        "fcom qword ptr [r15]",
        "ficom dword ptr [r15]",
        "fnstsw ax",
        "fnstsw [r15]",
        "fnstcw [r15]",
        "fldcw [r15 + 2]",
        "fnclex",
        "fincstp",
        "fdecstp",
        "ffree st(2)",
        "fcmovb st, st(1)",
        "fcmovne st, st(2)",
        "fcmovu st, st(1)",
    ] {
        out.push((text.into(), "T"));
    }
    for op in ["fadd", "fsub", "fsubr", "fmul", "fdiv", "fdivr"] {
        out.push((format!("{op} st, st(2)"), "T"));
        out.push((format!("{op} st(2), st"), "T"));
        out.push((format!("{op}p st(2), st"), "T"));
        out.push((format!("{op} dword ptr [r15]"), "T"));
        out.push((format!("{op} qword ptr [r15]"), "T"));
        out.push((format!("fi{} word ptr [r15]", &op[1..]), "T"));
    }
    // These move the top to 0.
    for text in ["emms", "fninit"] {
        out.push((text.into(), ""));
    }
}
