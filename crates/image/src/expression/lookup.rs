//! What names mean at a place: variables, members, types, constants, functions.

use std::rc::Rc;

use gimli::UnitRef;

use crate::debug::{Debug, Die};
use crate::demangle::matches;
use crate::effects::RegRange;
use crate::elf::Bytes;
use crate::evaluate::Unavailable;
use crate::program::{Memory, Program};
use crate::render::{Object, Renderer};
use crate::types::{size_of, type_of};
use crate::unit::Entry;
use crate::unwind::RawFrame;
use crate::view::View;

use super::parse::TypeName;
use super::value::{Class, Origin, Type, Val};
use super::{Evaluated, ExpressionError, ValuePlace};

/// How deep anonymous members and base classes are searched.
const DEEPEST: u32 = 16;
/// Namespaces in namespaces.
const DEEPEST_NAMESPACE: u32 = 8;
/// An object larger than this is read in part.
const LARGEST_OBJECT: u64 = 64 * 1024;

pub(super) struct Scene<'a> {
    pub(super) program: &'a Program,
    pub(super) frame: &'a RawFrame,
    pub(super) memory: &'a dyn Memory,
    view: Option<View<'a>>,
}

type Result<T> = std::result::Result<T, ExpressionError>;

pub(super) fn fail<T>(at: usize, reason: impl Into<String>) -> Result<T> {
    Err(ExpressionError {
        at,
        reason: reason.into(),
    })
}

impl<'a> Scene<'a> {
    pub(super) fn new(
        program: &'a Program,
        frame: &'a RawFrame,
        memory: &'a dyn Memory,
    ) -> Scene<'a> {
        Scene {
            program,
            frame,
            memory,
            view: View::new(program, frame, memory),
        }
    }

    /// Every unit with debug information, that of the frame first.
    fn units(&self) -> impl Iterator<Item = (Origin<'a>, UnitRef<'a, Bytes>)> + '_ {
        let own = self.view.as_ref().map(|v| {
            let origin = Origin {
                module: v.module,
                debug: v.debug,
            };
            (origin, v.unit)
        });
        let all = self.program.all_modules().iter().flat_map(|module| {
            let contents = &module.contents;
            let parts = contents.elf().zip(contents.debug());
            parts.into_iter().flat_map(move |(elf, debug)| {
                let units = debug.units().iter();
                let origin = Origin { module, debug };
                units.map(move |unit| (origin, unit.entries(elf, &contents.warnings)))
            })
        });
        own.into_iter().chain(all)
    }

    /// The first entry of a unit, in whatever namespace, that fits. `path` is its qualified name.
    fn find_in(
        debug: &'a Debug,
        under: Die<'a>,
        path: &[String],
        fits: &dyn Fn(&Entry) -> bool,
        depth: u32,
    ) -> Option<Die<'a>> {
        let (last, qualifiers) = path.split_last()?;
        for entry in debug.children(under) {
            let die = Die {
                unit: under.unit,
                offset: entry.offset(),
            };
            let named = |name: &str| {
                let own = debug.string(die, gimli::DW_AT_name);
                own.as_deref() == Some(name)
            };
            let is_space = matches!(
                entry.tag(),
                gimli::DW_TAG_namespace | gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type
            );
            if qualifiers.is_empty() && fits(&entry) && named(last) {
                return Some(die);
            }
            if !is_space || depth == 0 {
                continue;
            }
            // A qualifier may be left out, as far as namespaces go.
            let rest = match qualifiers.first() {
                Some(first) if named(first) => &path[1..],
                _ if entry.tag() == gimli::DW_TAG_namespace => path,
                _ => continue,
            };
            if let Some(found) = Scene::find_in(debug, die, rest, fits, depth - 1) {
                return Some(found);
            }
        }
        None
    }

    fn find(
        &self,
        path: &[String],
        fits: &dyn Fn(&Entry) -> bool,
    ) -> Option<(Origin<'a>, Die<'a>)> {
        self.units().find_map(|(origin, unit)| {
            let root = Die {
                unit,
                offset: unit.unit.header.root_offset(),
            };
            let found = Scene::find_in(origin.debug, root, path, fits, DEEPEST_NAMESPACE)?;
            Some((origin, found))
        })
    }

    pub(super) fn is_type(&self, name: &str) -> bool {
        if self.local(name).is_some() {
            return false;
        }
        let path: Vec<String> = name.split("::").map(str::to_owned).collect();
        self.find(&path, &is_type_entry).is_some()
    }

    /// The type that a name in a cast means.
    pub(super) fn named_type(&self, name: &TypeName) -> Result<Type<'a>> {
        let mut of = match self.base(name) {
            Some(of) => of,
            None => {
                let written = name.words.join(" ");
                let path: Vec<String> = written.split("::").map(str::to_owned).collect();
                let tag = match name.tag.as_deref() {
                    Some("union") => Some(gimli::DW_TAG_union_type),
                    Some("enum") => Some(gimli::DW_TAG_enumeration_type),
                    _ => None,
                };
                let fits = |entry: &Entry| {
                    let tagged =
                        !matches!(entry.tag(), gimli::DW_TAG_typedef | gimli::DW_TAG_base_type);
                    is_type_entry(entry)
                        && tag.is_none_or(|t| t == entry.tag())
                        && (name.tag.is_none() || tagged)
                };
                match self.find(&path, &fits) {
                    Some((origin, die)) => Type::Known(origin, Some(die)),
                    None => return fail(name.at, format!("no type `{written}` is known")),
                }
            }
        };
        for _ in 0..name.stars {
            of = Type::Pointer(Rc::new(of));
        }
        Ok(of)
    }

    fn base(&self, name: &TypeName) -> Option<Type<'a>> {
        if name.tag.is_some() {
            return None;
        }
        let has = |word: &str| name.words.iter().filter(|w| *w == word).count();
        let known = [
            "int", "char", "short", "long", "unsigned", "signed", "float", "double", "void",
            "_Bool", "bool",
        ];
        if name.words.iter().any(|w| !known.contains(&w.as_str())) {
            return None;
        }
        // The program's own type of that name, if there is one, prints as the program would.
        let path = [name.words.join(" ")];
        let is_base = |entry: &Entry| entry.tag() == gimli::DW_TAG_base_type;
        if let Some((origin, die)) = self.find(&path, &is_base) {
            return Some(Type::Known(origin, Some(die)));
        }
        if has("void") > 0 {
            let (origin, _) = self.units().next()?;
            return Some(Type::Known(origin, None));
        }
        let signed = has("unsigned") == 0;
        Some(if has("float") > 0 {
            Type::Float(4)
        } else if has("double") > 0 {
            Type::Float(if has("long") > 0 { 16 } else { 8 })
        } else {
            let size = match () {
                () if has("char") + has("_Bool") + has("bool") > 0 => 1,
                () if has("short") > 0 => 2,
                () if has("long") > 0 => 8,
                () => 4,
            };
            Type::Integer { size, signed }
        })
    }

    /// A variable of the function, from the innermost scope outwards.
    fn local(&self, name: &str) -> Option<Die<'a>> {
        let view = self.view.as_ref()?;
        let located = view
            .module
            .located(view.module.vaddr(self.frame.lookup_pc()));
        let function = located.first()?;
        for scope in function.scopes.iter().rev() {
            let mut found = None;
            for entry in view.debug.children(view.die(scope.die)) {
                let die = view.die(entry.offset());
                if entry.tag() == gimli::DW_TAG_variable
                    && view.debug.string(die, gimli::DW_AT_name).as_deref() == Some(name)
                {
                    found = Some(die);
                }
            }
            if found.is_some() {
                return found;
            }
        }
        view.parameters(function)
            .into_iter()
            .find(|die| view.debug.string(*die, gimli::DW_AT_name).as_deref() == Some(name))
    }

    pub(super) fn name(&self, at: usize, path: &[String]) -> Result<Val<'a>> {
        if let [name] = path {
            if let (Some(view), Some(die)) = (&self.view, self.local(name)) {
                return self.variable(view, die, at, name);
            }
            if name != "this"
                && let Some(this) = self.local("this")
                && let Some(view) = &self.view
            {
                let this = self.variable(view, this, at, "this")?;
                let object = self.dereference(at, &this)?;
                if let Some(member) = self.member_of(&object, name) {
                    return Ok(member);
                }
            }
        }
        let is_variable = |entry: &Entry| {
            entry.tag() == gimli::DW_TAG_variable
                && (entry.has_attr(gimli::DW_AT_location)
                    || entry.has_attr(gimli::DW_AT_const_value)
                    || entry.has_attr(gimli::DW_AT_declaration))
        };
        let found = self.find(path, &is_variable);
        if let Some((origin, die)) = found.and_then(|(o, d)| Some((o, self.definition(o, d)?))) {
            let view = self.outside(origin, die.unit);
            return self.variable(&view, die, at, &path.join("::"));
        }
        if let Some(value) = self.enumerator(path) {
            return Ok(value);
        }
        if let [function, name] = path
            && let Some(value) = self.static_of(at, function, name)
        {
            return value;
        }
        self.function(path)
            .map_or_else(|| fail(at, self.unknown(path)), Ok)
    }

    /// A variable of a namespace is declared there and defined elsewhere in the unit.
    fn definition(&self, origin: Origin<'a>, die: Die<'a>) -> Option<Die<'a>> {
        let entry = die.entry()?;
        if !entry.has_attr(gimli::DW_AT_declaration) {
            return Some(die);
        }
        let root = Die {
            unit: die.unit,
            offset: die.unit.unit.header.root_offset(),
        };
        let of = |entry: &Entry| {
            let declaration = entry.attr_value(gimli::DW_AT_specification)?;
            Some(origin.debug.resolve(die.unit, &declaration)?.offset)
        };
        let children = origin.debug.children(root);
        let found = children.iter().find(|e| of(e) == Some(die.offset))?;
        Some(Die {
            unit: die.unit,
            offset: found.offset(),
        })
    }

    /// `file.c::name`
    pub(super) fn in_file(&self, at: usize, file: &str, name: &str) -> Result<Val<'a>> {
        let mut seen = false;
        for (origin, unit) in self.units() {
            let root = Die {
                unit,
                offset: unit.unit.header.root_offset(),
            };
            let unit_name = origin.debug.string(root, gimli::DW_AT_name);
            let ends = unit_name
                .as_deref()
                .is_some_and(|n| std::path::Path::new(n).ends_with(file));
            if !ends {
                continue;
            }
            seen = true;
            let fits = |entry: &Entry| {
                entry.tag() == gimli::DW_TAG_variable && entry.has_attr(gimli::DW_AT_location)
            };
            let path = [name.to_owned()];
            if let Some(die) = Scene::find_in(origin.debug, root, &path, &fits, 1) {
                let view = self.outside(origin, die.unit);
                return self.variable(&view, die, at, name);
            }
        }
        match seen {
            true => fail(at, format!("no variable `{name}` in {file}")),
            false => fail(at, format!("no source file {file} is known")),
        }
    }

    /// A static variable of a function, wherever the guest stands.
    fn static_of(&self, at: usize, function: &str, name: &str) -> Option<Result<Val<'a>>> {
        let is_function = |entry: &Entry| entry.tag() == gimli::DW_TAG_subprogram;
        let (origin, die) = self.find(&[function.to_owned()], &is_function)?;
        let mut work = vec![(die, DEEPEST)];
        while let Some((scope, depth)) = work.pop() {
            for entry in origin.debug.children(scope) {
                let die = Die {
                    unit: scope.unit,
                    offset: entry.offset(),
                };
                match entry.tag() {
                    gimli::DW_TAG_lexical_block if depth > 0 => work.push((die, depth - 1)),
                    gimli::DW_TAG_variable
                        if origin.debug.string(die, gimli::DW_AT_name).as_deref() == Some(name) =>
                    {
                        let view = self.outside(origin, die.unit);
                        return Some(self.variable(&view, die, at, name));
                    }
                    _ => {}
                }
            }
        }
        None
    }

    fn enumerator(&self, path: &[String]) -> Option<Val<'a>> {
        let name = path.last()?;
        for (origin, unit) in self.units() {
            let root = Die {
                unit,
                offset: unit.unit.header.root_offset(),
            };
            for entry in origin.debug.children(root) {
                if entry.tag() != gimli::DW_TAG_enumeration_type {
                    continue;
                }
                let of = Die {
                    unit,
                    offset: entry.offset(),
                };
                for child in origin.debug.children(of) {
                    let die = Die {
                        unit,
                        offset: child.offset(),
                    };
                    if origin.debug.string(die, gimli::DW_AT_name).as_deref() != Some(name) {
                        continue;
                    }
                    let value = child.attr(gimli::DW_AT_const_value)?;
                    let value = value
                        .sdata_value()
                        .or_else(|| value.udata_value().map(|v| v as i64))?;
                    let size = size_of(origin.debug, Some(of)).unwrap_or(4).clamp(1, 8);
                    let bytes = value.to_le_bytes();
                    let of = Type::Known(origin, Some(of));
                    return Some(Val::computed(of, &bytes[..size as usize]));
                }
            }
        }
        None
    }

    fn function(&self, path: &[String]) -> Option<Val<'a>> {
        let name = path.join("::");
        let found = self.program.addresses_of_function(&name);
        let function = found.iter().find(|f| f.name == name).or(found.first())?;
        if !matches(&function.name, &name) && function.name != name {
            return None;
        }
        let (origin, _) = self.units().next()?;
        let of = Type::Pointer(Rc::new(Type::Known(origin, None)));
        Some(Val::computed(of, &function.entry.to_le_bytes()))
    }

    /// Why a name is not known, and what may have been meant.
    fn unknown(&self, path: &[String]) -> String {
        let name = path.join("::");
        let mut known: Vec<String> = self
            .program
            .locals(self.frame, self.memory)
            .into_iter()
            .map(|v| v.name)
            .collect();
        if let Some(view) = &self.view {
            let root = Die {
                unit: view.unit,
                offset: view.unit.unit.header.root_offset(),
            };
            for entry in view.debug.children(root) {
                if entry.tag() == gimli::DW_TAG_variable {
                    let die = view.die(entry.offset());
                    known.extend(view.debug.string(die, gimli::DW_AT_name));
                }
            }
        }
        let close = known
            .iter()
            .map(|k| (distance(k, &name), k))
            .filter(|(d, k)| *d <= 2 && *d < k.len())
            .min();
        match (close, &self.view) {
            // It is declared, and nothing says where it is.
            (Some((0, _)), _) => format!("`{name}` is optimised out"),
            (Some((_, meant)), _) => {
                format!("no variable `{name}` here; did you mean `{meant}`?")
            }
            (None, None) => format!("no variable `{name}`: there is no debug information here"),
            (None, Some(_)) => format!("no variable `{name}` here"),
        }
    }

    /// A view of another unit. Variables of threads need the thread's registers there too.
    fn outside(&self, origin: Origin<'a>, unit: UnitRef<'a, Bytes>) -> View<'a> {
        let mut view = View::of_unit(self.program, origin.module, origin.debug, unit, self.memory);
        view.frame.registers = self.frame.registers;
        view
    }

    fn variable(&self, view: &View<'a>, die: Die<'a>, at: usize, name: &str) -> Result<Val<'a>> {
        let origin = Origin {
            module: view.module,
            debug: view.debug,
        };
        let of = Type::Known(origin, type_of(view.debug, die));
        let size = of.size().unwrap_or(0);
        let object = match view.contents(die, size) {
            Ok(object) => object,
            Err(why) => {
                let reason = match why {
                    Unavailable::OptimizedOut => format!("`{name}` is optimised out here"),
                    Unavailable::Synthetic => {
                        format!("`{name}` points to something that was optimised out")
                    }
                    Unavailable::ThreadLocal => format!(
                        "`{name}` is one per thread, and where this thread's is cannot be told"
                    ),
                    Unavailable::Unreadable(address) => {
                        format!("`{name}` is at {address:#x}, where memory cannot be read")
                    }
                    Unavailable::NotSaved(register) => {
                        format!("`{name}` was in {register}, which has been overwritten since")
                    }
                    Unavailable::Invalid(why) => format!("where `{name}` is cannot be told: {why}"),
                };
                return fail(at, reason);
            }
        };
        let places = view.places(die, size);
        let value = Val {
            of,
            object,
            places,
            bits: None,
        };
        // A reference means what it refers to.
        match value.of.class() {
            Class::Reference(_) => self.dereference(at, &value),
            _ => Ok(value),
        }
    }

    /// An object in memory.
    pub(super) fn at_address(&self, at: usize, address: u64, of: Type<'a>) -> Result<Val<'a>> {
        let size = of.size().unwrap_or(0);
        let read = size.min(LARGEST_OBJECT);
        let mut bytes = vec![0; read as usize];
        let whole = self.memory.read(address, &mut bytes);
        let mut first = [0];
        if !whole && read > 0 && !self.memory.read(address, &mut first) {
            return fail(at, format!("memory at {address:#x} cannot be read"));
        }
        let known = |n: usize| {
            let mut byte = [0];
            let address = address.checked_add(n as u64)?;
            self.memory.read(address, &mut byte).then_some(byte[0])
        };
        let bytes = match whole {
            true => bytes.into_iter().map(Some).collect(),
            false => (0..read as usize).map(known).collect(),
        };
        Ok(Val {
            of,
            object: Object {
                bytes,
                address: Some(address),
            },
            places: vec![ValuePlace::Memory { address, len: size }],
            bits: None,
        })
    }

    pub(super) fn dereference(&self, at: usize, pointer: &Val<'a>) -> Result<Val<'a>> {
        let to = match pointer.of.class() {
            Class::Pointer(to) | Class::Reference(to) => to,
            Class::Array(..) => return self.element(at, pointer, 0),
            _ => {
                let name = pointer.of.name();
                return fail(at, format!("this is no pointer: its type is `{name}`"));
            }
        };
        if matches!(to.class(), Class::Void) {
            return fail(
                at,
                "this is a pointer to void; cast it to a pointer to something",
            );
        }
        let Some(address) = pointer.object.number(8) else {
            return fail(at, "the pointer's value is not known: it is optimised out");
        };
        let to = self.complete(to);
        self.at_address(at, address as u64, to)
    }

    /// A structure that is only declared here may be defined in another unit.
    fn complete(&self, of: Type<'a>) -> Type<'a> {
        let (Class::Unknown, Type::Known(origin, Some(die))) = (of.class(), &of) else {
            return of;
        };
        let Some(name) = origin.debug.string(*die, gimli::DW_AT_name) else {
            return of;
        };
        let fits = |entry: &Entry| is_type_entry(entry) && entry.has_attr(gimli::DW_AT_byte_size);
        match self.find(&[name], &fits) {
            Some((origin, die)) => Type::Known(origin, Some(die)),
            None => of,
        }
    }

    pub(super) fn element(&self, at: usize, array: &Val<'a>, index: i128) -> Result<Val<'a>> {
        let Class::Array(origin, element, lengths) = array.of.class() else {
            return fail(at, "this is no array");
        };
        let rest = lengths.get(1..).unwrap_or(&[]).to_vec();
        let of = match rest.is_empty() {
            true => Type::Known(origin, Some(element)),
            false => Type::Array(origin, element, rest),
        };
        let Some(size) = of.size().filter(|s| *s > 0) else {
            return fail(at, "the size of the array's elements is not known");
        };
        let offset = index.checked_mul(i128::from(size)).unwrap_or(i128::MAX);
        if let Some(address) = array.object.address {
            let Ok(offset) = i64::try_from(offset) else {
                return fail(at, format!("there is no element {index}"));
            };
            return self.at_address(at, address.wrapping_add_signed(offset), of);
        }
        let part = u64::try_from(offset).ok();
        match part.and_then(|offset| array.part(of, offset, size)) {
            Some(part) => Ok(part),
            None => fail(at, format!("there is no element {index}")),
        }
    }

    /// A member by its name, also of unnamed members and of base classes.
    pub(super) fn member_of(&self, value: &Val<'a>, name: &str) -> Option<Val<'a>> {
        self.member_within(value, name, DEEPEST)
    }

    fn member_within(&self, value: &Val<'a>, name: &str, depth: u32) -> Option<Val<'a>> {
        let depth = depth.checked_sub(1)?;
        let Class::Structure(origin, die) = value.of.class() else {
            return None;
        };
        let debug = origin.debug;
        for entry in debug.children(die) {
            let is_base = entry.tag() == gimli::DW_TAG_inheritance;
            if !is_base && entry.tag() != gimli::DW_TAG_member {
                continue;
            }
            let member = Die {
                unit: die.unit,
                offset: entry.offset(),
            };
            let own = debug.string(member, gimli::DW_AT_name);
            let named = own.as_deref() == Some(name);
            if !named && (own.is_some() && !is_base) {
                continue;
            }
            let of = type_of(debug, member);
            let of_type = Type::Known(origin, of);
            let part = match crate::render::place_of_member(debug, &entry, of) {
                Some((start, None)) => self.slice(value, of_type, start / 8),
                Some((start, Some(bits))) => self.bit_field(value, &entry, of, start, bits, origin),
                None => None,
            };
            if named {
                return part;
            }
            if let Some(found) = part.and_then(|p| self.member_within(&p, name, depth)) {
                return Some(found);
            }
        }
        None
    }

    fn slice(&self, value: &Val<'a>, of: Type<'a>, offset: u64) -> Option<Val<'a>> {
        let size = of.size().unwrap_or(0);
        match value.object.address {
            Some(address) => self.at_address(0, address.wrapping_add(offset), of).ok(),
            None => value.part(of, offset, size),
        }
    }

    fn bit_field(
        &self,
        value: &Val<'a>,
        entry: &Entry,
        of: Option<Die<'a>>,
        start: u64,
        bits: u64,
        origin: Origin<'a>,
    ) -> Option<Val<'a>> {
        let renderer = self.renderer(origin);
        let object = renderer.member(entry, of, &value.object)?;
        let bytes = (start % 8 + bits).div_ceil(8);
        let around = value.part(Type::Known(origin, of), start / 8, bytes)?;
        Some(Val {
            of: Type::Known(origin, of),
            object,
            places: around.places,
            bits: Some((start % 8, bits)),
        })
    }

    pub(super) fn register(&self, at: usize, name: &str) -> Result<Val<'a>> {
        let registers = &self.frame.registers;
        let name = match name {
            "pc" => "rip",
            "sp" => "rsp",
            "fp" => "rbp",
            other => other,
        };
        let unsigned = |size| Type::Integer {
            size,
            signed: false,
        };
        if name == "rip" {
            let value = self.frame.pc.to_le_bytes();
            return Ok(Val::computed(unsigned(8), &value));
        }
        let Some(range) = RegRange::parse(name) else {
            return fail(at, format!("there is no register `{name}`"));
        };
        let missing = || fail(at, format!("{name} is not known in this frame"));
        let (bytes, of): (Vec<u8>, Type<'a>) = if let Some(number) = range.general_number() {
            let whole = RegRange::general(number).name();
            let Some(value) = registers.by_name(&whole) else {
                return missing();
            };
            let from = usize::from(range.at % 8);
            let bytes = value.to_le_bytes()[from..from + usize::from(range.len)].to_vec();
            // As gdb has it, general registers are signed.
            let of = Type::Integer {
                size: u64::from(range.len),
                signed: true,
            };
            (bytes, of)
        } else if let Some(number) = range.vector_number()
            && range.len == 16
        {
            let Some(value) = registers.get_vector(17 + number) else {
                return missing();
            };
            (value.to_le_bytes().to_vec(), unsigned(16))
        } else if range.len == 8 && name == "fs_base" {
            let Some(value) = registers.get(58) else {
                return missing();
            };
            (value.to_le_bytes().to_vec(), unsigned(8))
        } else {
            return missing();
        };
        let mut value = Val::computed(of, &bytes);
        value.places.push(ValuePlace::Register(range));
        Ok(value)
    }

    pub(super) fn renderer(&self, origin: Origin<'a>) -> Renderer<'a> {
        Renderer {
            program: self.program,
            debug: origin.debug,
            memory: self.memory,
        }
    }

    pub(super) fn finish(&self, value: Val<'a>) -> Evaluated {
        let text = match &value.of {
            Type::Known(origin, die) => self.renderer(*origin).value(*die, &value.object),
            Type::Array(origin, element, lengths) => {
                self.renderer(*origin)
                    .array_text(*element, lengths, &value.object)
            }
            Type::Pointer(to) => match (value.object.number(8), &**to) {
                (Some(n), Type::Known(origin, die)) => {
                    self.renderer(*origin).pointer(n as u64, *die)
                }
                (Some(n), Type::Array(origin, ..)) => {
                    self.renderer(*origin).pointer(n as u64, None)
                }
                (Some(n), _) => format!("{:#x}", n as u64),
                (None, _) => "<optimized out>".to_owned(),
            },
            Type::Integer { size, signed } => match value.object.number(*size) {
                Some(n) => crate::render::integer(n, *size, *signed),
                None => "<optimized out>".to_owned(),
            },
            Type::Float(size) => match value.object.number(*size) {
                Some(n) => crate::render::float(n, *size),
                None => "<optimized out>".to_owned(),
            },
        };
        Evaluated {
            type_name: value.of.name(),
            value: text,
            bytes: value.object.bytes,
            places: value.places,
            bits: value.bits,
        }
    }

    pub(super) fn members(&self, value: &Val<'a>) -> Vec<String> {
        let Class::Structure(origin, die) = value.of.class() else {
            return Vec::new();
        };
        let children = origin.debug.children(die);
        let names = children.iter().filter(|e| e.tag() == gimli::DW_TAG_member);
        names
            .filter_map(|e| {
                let die = Die {
                    unit: die.unit,
                    offset: e.offset(),
                };
                origin.debug.string(die, gimli::DW_AT_name)
            })
            .collect()
    }
}

fn is_type_entry(entry: &Entry) -> bool {
    let named = matches!(
        entry.tag(),
        gimli::DW_TAG_structure_type
            | gimli::DW_TAG_class_type
            | gimli::DW_TAG_union_type
            | gimli::DW_TAG_enumeration_type
            | gimli::DW_TAG_typedef
            | gimli::DW_TAG_base_type
    );
    named && !entry.has_attr(gimli::DW_AT_declaration)
}

/// How many letters differ.
pub(super) fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
