//! Running DWARF expressions.
//!
//! Where a variable lives and where a register was saved are both given as programs for a stack
//! machine. The machine itself is gimli's; what it asks for on the way (registers, memory, the
//! caller's values) is answered here through [`Surroundings`], so that unwinding, which has only
//! registers and memory, and variables, which have a whole frame, share one evaluator.

use gimli::{EvaluationResult, Value};

use crate::elf::Bytes;
use crate::program::Memory;
use crate::registers::name_of;

/// More steps than any compiler emits; a damaged expression can loop.
const LONGEST_RUN: u32 = 10_000;

/// Expressions may call other expressions; a damaged one can call itself.
pub(crate) const DEEPEST: u32 = 8;

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unavailable {
    /// The compiler kept no record.
    OptimizedOut,
    /// The variable points to something that exists only in the debug information.
    Synthetic,
    /// The variable is one per thread and the thread's base is unknown.
    ThreadLocal,
    /// Memory at this address could not be read.
    Unreadable(u64),
    /// A register that the callee did not preserve.
    NotSaved(String),
    /// The debug information is damaged or uses something unknown.
    Invalid(String),
}

impl std::fmt::Display for Unavailable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unavailable::OptimizedOut => write!(f, "<optimized out>"),
            Unavailable::Synthetic => write!(f, "<synthetic pointer>"),
            Unavailable::ThreadLocal => write!(f, "<thread-local>"),
            Unavailable::Unreadable(at) => write!(f, "<cannot read memory at {at:#x}>"),
            Unavailable::NotSaved(_) => write!(f, "<not saved>"),
            Unavailable::Invalid(why) => write!(f, "<invalid debug information: {why}>"),
        }
    }
}

impl From<gimli::Error> for Unavailable {
    fn from(error: gimli::Error) -> Self {
        Unavailable::Invalid(error.to_string())
    }
}

/// What an expression may ask about the place it is evaluated in.
pub(crate) trait Surroundings {
    fn register(&self, number: u16) -> Option<u64>;
    fn memory(&self) -> &dyn Memory;

    fn vector(&self, _number: u16) -> Option<u128> {
        None
    }
    fn cfa(&self) -> Option<u64> {
        None
    }
    fn frame_base(&self, _depth: u32) -> Result<u64, Unavailable> {
        Err(Unavailable::Invalid("no frame base".into()))
    }
    fn relocate(&self, vaddr: u64) -> u64 {
        vaddr
    }
    fn indexed(&self, _index: gimli::DebugAddrIndex) -> Option<u64> {
        None
    }
    fn thread_local(&self, _offset: u64) -> Option<u64> {
        None
    }
    fn entry_value(&self, _of: &gimli::Expression<Bytes>, _depth: u32) -> Result<u64, Unavailable> {
        Err(Unavailable::OptimizedOut)
    }
    fn parameter(&self, _die: gimli::UnitOffset, _depth: u32) -> Result<u64, Unavailable> {
        Err(Unavailable::OptimizedOut)
    }
    fn base_type(&self, _offset: gimli::UnitOffset) -> Option<gimli::ValueType> {
        None
    }
    fn called(&self, _die: gimli::DieReference) -> Option<Bytes> {
        None
    }
}

pub(crate) type Piece = gimli::Piece<Bytes>;

/// Runs an expression to its pieces. `depth` counts expressions that run inside one another.
pub(crate) fn pieces(
    expression: gimli::Expression<Bytes>,
    encoding: gimli::Encoding,
    initial: Option<u64>,
    around: &dyn Surroundings,
    depth: u32,
) -> Result<Vec<Piece>, Unavailable> {
    if depth > DEEPEST {
        return Err(Unavailable::Invalid("expressions nest too deeply".into()));
    }
    let mut evaluation = expression.evaluation(encoding);
    evaluation.set_max_iterations(LONGEST_RUN);
    if let Some(initial) = initial {
        evaluation.set_initial_value(initial);
    }
    let mut result = evaluation.evaluate()?;
    loop {
        result = match result {
            EvaluationResult::Complete => return Ok(evaluation.result()),
            EvaluationResult::RequiresMemory {
                address,
                size,
                base_type,
                ..
            } => {
                let mut word = [0u8; 8];
                let size = usize::from(size).min(8);
                if !around.memory().read(address, &mut word[..size]) {
                    return Err(Unavailable::Unreadable(address));
                }
                evaluation.resume_with_memory(typed(around, base_type, &word)?)?
            }
            EvaluationResult::RequiresRegister {
                register,
                base_type,
            } => {
                let number = register.0;
                let word = match (around.register(number), around.vector(number)) {
                    (Some(value), _) => value,
                    (None, Some(vector)) => vector as u64,
                    (None, None) => return Err(Unavailable::NotSaved(name_of(number))),
                };
                let value = typed(around, base_type, &word.to_le_bytes())?;
                evaluation.resume_with_register(value)?
            }
            EvaluationResult::RequiresFrameBase => {
                evaluation.resume_with_frame_base(around.frame_base(depth + 1)?)?
            }
            EvaluationResult::RequiresTls(offset) => match around.thread_local(offset) {
                Some(address) => evaluation.resume_with_tls(address)?,
                None => return Err(Unavailable::ThreadLocal),
            },
            EvaluationResult::RequiresCallFrameCfa => match around.cfa() {
                Some(cfa) => evaluation.resume_with_call_frame_cfa(cfa)?,
                None => return Err(Unavailable::Invalid("no frame address".into())),
            },
            EvaluationResult::RequiresAtLocation(die) => match around.called(die) {
                Some(bytes) => evaluation.resume_with_at_location(bytes)?,
                None => return Err(Unavailable::OptimizedOut),
            },
            EvaluationResult::RequiresEntryValue(of) => {
                let value = around.entry_value(&of, depth + 1)?;
                evaluation.resume_with_entry_value(Value::Generic(value))?
            }
            EvaluationResult::RequiresRelocatedAddress(vaddr) => {
                evaluation.resume_with_relocated_address(around.relocate(vaddr))?
            }
            EvaluationResult::RequiresIndexedAddress { index, relocate } => {
                let Some(vaddr) = around.indexed(index) else {
                    return Err(Unavailable::Invalid(
                        "an address index is out of range".into(),
                    ));
                };
                let address = if relocate {
                    around.relocate(vaddr)
                } else {
                    vaddr
                };
                evaluation.resume_with_indexed_address(address)?
            }
            EvaluationResult::RequiresBaseType(offset) => {
                let Some(kind) = around.base_type(offset) else {
                    return Err(Unavailable::Invalid("an unknown base type".into()));
                };
                evaluation.resume_with_base_type(kind)?
            }
            EvaluationResult::RequiresParameterRef(die) => {
                evaluation.resume_with_parameter_ref(around.parameter(die, depth + 1)?)?
            }
            EvaluationResult::RequiresWasmLocal { .. }
            | EvaluationResult::RequiresWasmGlobal { .. }
            | EvaluationResult::RequiresWasmStack { .. } => {
                return Err(Unavailable::OptimizedOut);
            }
        };
    }
}

/// Runs an expression whose result is one number: an address or a value.
pub(crate) fn number(
    expression: gimli::Expression<Bytes>,
    encoding: gimli::Encoding,
    initial: Option<u64>,
    around: &dyn Surroundings,
    depth: u32,
) -> Result<u64, Unavailable> {
    let pieces = pieces(expression, encoding, initial, around, depth)?;
    let [piece] = pieces.as_slice() else {
        return Err(Unavailable::OptimizedOut);
    };
    match &piece.location {
        gimli::Location::Address { address } => Ok(*address),
        gimli::Location::Value { value } => Ok(bits(*value)),
        gimli::Location::Register { register } => around
            .register(register.0)
            .ok_or_else(|| Unavailable::NotSaved(name_of(register.0))),
        _ => Err(Unavailable::OptimizedOut),
    }
}

fn typed(
    around: &dyn Surroundings,
    base: gimli::UnitOffset,
    word: &[u8; 8],
) -> Result<Value, Unavailable> {
    let kind = if base.0 == 0 {
        gimli::ValueType::Generic
    } else {
        around
            .base_type(base)
            .ok_or_else(|| Unavailable::Invalid("an unknown base type".into()))?
    };
    Ok(match kind {
        gimli::ValueType::Generic => Value::Generic(u64::from_le_bytes(*word)),
        kind => Value::parse(kind, gimli::EndianSlice::new(word, gimli::LittleEndian))?,
    })
}

/// The bytes of a value, as a register would hold them.
pub(crate) fn bits(value: Value) -> u64 {
    match value {
        Value::Generic(v) | Value::U64(v) => v,
        Value::I8(v) => v as u64,
        Value::U8(v) => u64::from(v),
        Value::I16(v) => v as u64,
        Value::U16(v) => u64::from(v),
        Value::I32(v) => v as u64,
        Value::U32(v) => u64::from(v),
        Value::I64(v) => v as u64,
        Value::F32(v) => u64::from(v.to_bits()),
        Value::F64(v) => v.to_bits(),
    }
}
