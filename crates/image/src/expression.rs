//! C expressions at a place where the guest stands: `p->next->val`, `a[i].x`, `*q`, `$rax`.
//!
//! A person asks for a value in the words of the source. The answer needs more than the value:
//! a slice starts from the bytes that hold it, so an lvalue also says where it is, in memory or
//! in registers. Expressions are parsed to a tree and evaluated in a frame: names are looked up
//! from the innermost scope outwards, then among the members of `this`, then in the file, then
//! in the whole program.
//!
//! Nothing is changed and nothing is called: there are no assignments and no function calls.

mod lookup;
mod operate;
mod parse;
mod value;

use crate::effects::RegRange;
use crate::program::{Memory, Program};
use crate::unwind::RawFrame;
use lookup::Scene;

/// Where a part of an lvalue is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValuePlace {
    Memory {
        address: u64,
        len: u64,
    },
    /// A register as it is in the frame. Of an outer frame, one that its callees preserved: the
    /// register itself may hold something else by now.
    Register(RegRange),
    /// The compiler has computed it, or thrown it away.
    Nowhere {
        len: u64,
    },
}

/// What an expression comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluated {
    pub type_name: String,
    /// In the notation of gdb.
    pub value: String,
    /// The bytes, as far as they are known.
    pub bytes: Vec<Option<u8>>,
    /// Where it is, from its first byte on; empty for what is only computed.
    pub places: Vec<ValuePlace>,
    /// Of a bit field, the first bit in its places and how many there are.
    pub bits: Option<(u64, u64)>,
}

/// What is wrong with an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionError {
    /// The byte of the text where it goes wrong.
    pub at: usize,
    pub reason: String,
}

impl std::fmt::Display for ExpressionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (at character {})", self.reason, self.at + 1)
    }
}

impl std::error::Error for ExpressionError {}

impl Program {
    /// The value of a C expression in a frame.
    pub fn evaluate(
        &self,
        text: &str,
        frame: &RawFrame,
        memory: &dyn Memory,
    ) -> Result<Evaluated, ExpressionError> {
        let scene = Scene::new(self, frame, memory);
        let tree = parse::parse(text, &|name| scene.is_type(name))?;
        let value = scene.evaluate(&tree)?;
        Ok(scene.finish(value))
    }
}
