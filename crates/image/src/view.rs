//! A frame seen through its debug information: what expressions in it may ask for.

use std::cell::OnceCell;

use gimli::UnitRef;

use crate::debug::{Debug, Die};
use crate::effects::RegRange;
use crate::elf::Bytes;
use crate::evaluate::{self, DEEPEST, Piece, Surroundings, Unavailable, bits};
use crate::expression::ValuePlace;
use crate::module::Module;
use crate::program::{Memory, Program};
use crate::registers::{FS_BASE, KnownRegisters, name_of};
use crate::render::Object;
use crate::unit::{Offset, Value};
use crate::unwind::{How, RawFrame};

/// A larger object than this is read only in part.
const LARGEST_OBJECT: u64 = 64 * 1024;

pub(crate) struct View<'a> {
    pub(crate) program: &'a Program,
    pub(crate) module: &'a Module,
    pub(crate) debug: &'a Debug,
    pub(crate) unit: UnitRef<'a, Bytes>,
    pub(crate) function: Offset,
    pub(crate) frame: RawFrame,
    pub(crate) memory: &'a dyn Memory,
    frame_base: OnceCell<Result<u64, Unavailable>>,
    vouches: OnceCell<bool>,
}

impl<'a> View<'a> {
    /// The view of a frame whose code has debug information.
    pub(crate) fn new(
        program: &'a Program,
        frame: &RawFrame,
        memory: &'a dyn Memory,
    ) -> Option<View<'a>> {
        let module = program.module_at(frame.lookup_pc())?;
        let contents = &module.contents;
        let (elf, debug) = (contents.elf()?, contents.debug()?);
        let vaddr = module.vaddr(frame.lookup_pc());
        let (unit, range) = debug.function_at(vaddr, elf, &contents.warnings)?;
        let mut frame = frame.clone();
        if frame.cfa.is_none() {
            program.caller_of(&mut frame, memory);
        }
        Some(View {
            program,
            module,
            debug,
            unit: unit.entries(elf, &contents.warnings),
            function: range.die,
            frame,
            memory,
            frame_base: OnceCell::new(),
            vouches: OnceCell::new(),
        })
    }

    /// The view from a unit outside any function, for global variables.
    pub(crate) fn of_unit(
        program: &'a Program,
        module: &'a Module,
        debug: &'a Debug,
        unit: UnitRef<'a, Bytes>,
        memory: &'a dyn Memory,
    ) -> View<'a> {
        View {
            program,
            module,
            debug,
            unit,
            function: unit.unit.header.root_offset(),
            frame: RawFrame {
                pc: 0,
                cfa: None,
                registers: KnownRegisters::default(),
                is_signal_frame: false,
                is_exact: true,
                how: How::Registers,
            },
            memory,
            frame_base: OnceCell::new(),
            vouches: OnceCell::new(),
        }
    }

    /// Whether a register named during a call is one that the callee leaves alone.
    ///
    /// gcc knows which registers a local callee uses, keeps variables in the others across the
    /// call, and ends the location of a variable one byte before a call that destroys it. Other
    /// compilers end it after the call, which would show the callee's leavings as a variable.
    fn vouches_for_registers(&self) -> bool {
        *self.vouches.get_or_init(|| {
            let root = Die {
                unit: self.unit,
                offset: self.unit.unit.header.root_offset(),
            };
            let producer = self.debug.string(root, gimli::DW_AT_producer);
            producer.is_some_and(|p| p.starts_with("GNU "))
        })
    }

    fn vaddr(&self) -> u64 {
        self.module.vaddr(self.frame.lookup_pc())
    }

    /// The expression that holds at this address: the only one, or the one of a list.
    pub(crate) fn expression(
        &self,
        value: &Value,
    ) -> Result<gimli::Expression<Bytes>, Unavailable> {
        if let Some(expression) = value.exprloc_value() {
            return Ok(expression);
        }
        let Some(mut list) = self.unit.attr_locations(value.clone())? else {
            return Err(Unavailable::Invalid("an unknown kind of location".into()));
        };
        let vaddr = self.vaddr();
        while let Some(entry) = list.next()? {
            if (entry.range.begin..entry.range.end).contains(&vaddr) {
                return Ok(entry.data);
            }
        }
        Err(Unavailable::OptimizedOut)
    }

    /// The bytes of a variable of `size` bytes at a location.
    pub(crate) fn object(&self, location: &Value, size: u64) -> Result<Object, Unavailable> {
        let expression = self.expression(location)?;
        let pieces = evaluate::pieces(expression, self.unit.unit.encoding(), None, self, 0)?;
        let size = size.min(LARGEST_OBJECT);
        if pieces.is_empty() {
            return Err(Unavailable::OptimizedOut);
        }
        let mut object = Object {
            bytes: Vec::new(),
            address: None,
        };
        for piece in &pieces {
            let left = size.saturating_sub(object.bytes.len() as u64);
            let length = piece.size_in_bits.map_or(left, |b| b / 8).min(left);
            self.piece(piece, length as usize, &mut object, pieces.len() == 1)?;
        }
        object.bytes.resize(size as usize, None);
        Ok(object)
    }

    /// Where the bytes of a variable are.
    pub(crate) fn places_of(&self, location: &Value, size: u64) -> Vec<ValuePlace> {
        let encoding = self.unit.unit.encoding();
        let pieces = self
            .expression(location)
            .and_then(|e| evaluate::pieces(e, encoding, None, self, 0));
        let mut left = size;
        let mut out = Vec::new();
        for piece in pieces.unwrap_or_default() {
            let len = piece.size_in_bits.map_or(left, |b| b / 8).min(left);
            left -= len;
            let skip = piece.bit_offset.unwrap_or(0) / 8;
            out.push(match piece.location {
                gimli::Location::Address { address } => ValuePlace::Memory { address, len },
                gimli::Location::Register { register } => {
                    let range = register_range(register.0).filter(|r| {
                        skip.checked_add(len)
                            .is_some_and(|end| end <= u64::from(r.len))
                    });
                    match range {
                        Some(r) => ValuePlace::Register(r.part(skip as u16, len as u16)),
                        None => ValuePlace::Nowhere { len },
                    }
                }
                _ => ValuePlace::Nowhere { len },
            });
        }
        out
    }

    fn piece(
        &self,
        piece: &Piece,
        length: usize,
        object: &mut Object,
        only: bool,
    ) -> Result<(), Unavailable> {
        let shift = piece.bit_offset.unwrap_or(0);
        let from_number = |number: u128| -> Vec<Option<u8>> {
            let number = number.checked_shr(shift as u32).unwrap_or(0).to_le_bytes();
            (0..length).map(|at| number.get(at).copied()).collect()
        };
        match &piece.location {
            gimli::Location::ImplicitPointer { .. } if only => return Err(Unavailable::Synthetic),
            gimli::Location::Empty if only => return Err(Unavailable::OptimizedOut),
            gimli::Location::Empty | gimli::Location::ImplicitPointer { .. } => {
                let filled = object.bytes.len() + length;
                object.bytes.resize(filled, None);
            }
            gimli::Location::Register { register } => {
                let number = register.0;
                let value = self
                    .register(number)
                    .map(u128::from)
                    .or_else(|| self.vector(number));
                match value {
                    Some(value) => object.bytes.extend(from_number(value)),
                    None if only => return Err(Unavailable::NotSaved(name_of(number))),
                    None => object.bytes.resize(object.bytes.len() + length, None),
                }
            }
            gimli::Location::Address { address } => {
                let mut bytes = vec![0; length];
                let read = self.memory.read(*address, &mut bytes);
                if only {
                    object.address = Some(*address);
                    if !read {
                        return Err(Unavailable::Unreadable(*address));
                    }
                }
                object
                    .bytes
                    .extend(bytes.into_iter().map(|b| read.then_some(b)));
            }
            gimli::Location::Value { value } => {
                object.bytes.extend(from_number(u128::from(bits(*value))));
            }
            gimli::Location::Bytes { value } => {
                let value = value.bytes();
                object
                    .bytes
                    .extend((0..length).map(|at| value.get(at).copied()));
            }
        }
        Ok(())
    }
}

/// A register by DWARF's number.
fn register_range(number: u16) -> Option<RegRange> {
    const HARDWARE: [u16; 16] = [0, 2, 1, 3, 6, 7, 5, 4, 8, 9, 10, 11, 12, 13, 14, 15];
    match number {
        0..=15 => Some(RegRange::general(HARDWARE[usize::from(number)])),
        17..=32 => Some(RegRange::vector(number - 17).part(0, 16)),
        _ => None,
    }
}

impl Surroundings for View<'_> {
    fn register(&self, number: u16) -> Option<u64> {
        let registers = &self.frame.registers;
        registers.get(number).or_else(|| {
            let left = registers.left(number)?;
            self.vouches_for_registers().then_some(left)
        })
    }

    fn memory(&self) -> &dyn Memory {
        self.memory
    }

    fn vector(&self, number: u16) -> Option<u128> {
        let registers = &self.frame.registers;
        registers.get_vector(number).or_else(|| {
            let left = registers.left_vector(number)?;
            self.vouches_for_registers().then_some(left)
        })
    }

    fn cfa(&self) -> Option<u64> {
        self.frame.cfa
    }

    fn frame_base(&self, depth: u32) -> Result<u64, Unavailable> {
        // The frame base must not be defined by itself.
        if depth > DEEPEST {
            return Err(Unavailable::Invalid("expressions nest too deeply".into()));
        }
        if let Some(known) = self.frame_base.get() {
            return known.clone();
        }
        let die = Die {
            unit: self.unit,
            offset: self.function,
        };
        let result = match self.debug.inherited(die, gimli::DW_AT_frame_base) {
            Some((_, value)) => self.expression(&value).and_then(|expression| {
                let encoding = self.unit.unit.encoding();
                evaluate::number(expression, encoding, None, self, depth)
            }),
            None => Err(Unavailable::Invalid("no frame base".into())),
        };
        self.frame_base.get_or_init(|| result).clone()
    }

    fn relocate(&self, vaddr: u64) -> u64 {
        self.module.pc(vaddr)
    }

    fn indexed(&self, index: gimli::DebugAddrIndex) -> Option<u64> {
        self.unit.address(index).ok()
    }

    fn thread_local(&self, offset: u64) -> Option<u64> {
        let base = self.frame.registers.get(FS_BASE)?;
        self.program
            .thread_local(self.module, base, offset, self.memory)
    }

    fn entry_value(&self, of: &gimli::Expression<Bytes>, depth: u32) -> Result<u64, Unavailable> {
        self.value_at_entry(of, depth)
    }

    fn parameter(&self, die: gimli::UnitOffset, depth: u32) -> Result<u64, Unavailable> {
        self.removed_parameter(die, depth)
    }

    fn base_type(&self, offset: gimli::UnitOffset) -> Option<gimli::ValueType> {
        if offset.0 == 0 {
            return Some(gimli::ValueType::Generic);
        }
        let entry = self.unit.unit.entry(offset).ok()?;
        gimli::ValueType::from_entry(&entry).ok().flatten()
    }

    fn called(&self, die: gimli::DieReference) -> Option<Bytes> {
        let value = match die {
            gimli::DieReference::UnitRef(offset) => Value::UnitRef(offset),
            gimli::DieReference::DebugInfoRef(offset) => Value::DebugInfoRef(offset),
        };
        let die = self.debug.resolve(self.unit, &value)?;
        let (_, location) = self.debug.inherited(die, gimli::DW_AT_location)?;
        Some(self.expression(&location).ok()?.0)
    }
}
