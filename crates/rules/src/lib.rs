//! Rules: memory debuggers generated from declarations.

#![forbid(unsafe_code)]

mod check;
mod diagnostic;
pub mod eval;
pub mod fold;
pub mod heap;
mod lex;
pub mod machine;
mod mapped;
mod parse;
pub mod print;
mod shipped;
pub mod syntax;
pub mod term;

pub use check::{Rules, compile};
pub use diagnostic::{Diagnostic, Severity};
pub use parse::parse;
pub use shipped::{SHIPPED, Shipped};
