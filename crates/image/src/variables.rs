//! The variables of a frame.

use crate::backtrace::Argument;
use crate::program::{Memory, Program};
use crate::unwind::RawFrame;

/// A variable in scope, as printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    pub name: String,
    pub type_name: String,
    pub value: String,
}

impl Program {
    pub(crate) fn arguments(&self, _frame: &RawFrame, _memory: &dyn Memory) -> Vec<Vec<Argument>> {
        Vec::new()
    }
}
