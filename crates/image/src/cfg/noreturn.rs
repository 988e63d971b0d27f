//! Calls that do not come back.

use std::collections::HashMap;

use gimli::DW_AT_noreturn;

use crate::debug::Die;
use crate::program::{Memory, Program};

const NAMES: [&str; 59] = [
    "_Exit",
    "_Unwind_Resume",
    "_ZSt10terminatev",
    "_ZSt16__throw_bad_castv",
    "_ZSt17__throw_bad_allocv",
    "_ZSt19__throw_logic_errorPKc",
    "_ZSt19__throw_range_errorPKc",
    "_ZSt20__throw_domain_errorPKc",
    "_ZSt20__throw_length_errorPKc",
    "_ZSt20__throw_out_of_rangePKc",
    "_ZSt20__throw_system_errori",
    "_ZSt21__throw_runtime_errorPKc",
    "_ZSt24__throw_invalid_argumentPKc",
    "_ZSt24__throw_out_of_range_fmtPKcz",
    "_ZSt25__throw_bad_function_callv",
    "_ZSt28__throw_bad_array_new_lengthv",
    "_ZSt9terminatev",
    "__GI___assert_fail",
    "__GI_abort",
    "__GI_exit",
    "___longjmp_chk",
    "__assert",
    "__assert_fail",
    "__assert_perror_fail",
    "__assert_rtn",
    "__chk_fail",
    "__cxa_bad_cast",
    "__cxa_bad_typeid",
    "__cxa_call_terminate",
    "__cxa_call_unexpected",
    "__cxa_deleted_virtual",
    "__cxa_pure_virtual",
    "__cxa_rethrow",
    "__cxa_throw",
    "__cxa_throw_bad_array_new_length",
    "__fortify_fail",
    "__libc_fatal",
    "__libc_longjmp",
    "__libc_siglongjmp",
    "__longjmp",
    "__longjmp_chk",
    "__pthread_unwind_next",
    "__stack_chk_fail",
    "__stack_chk_fail_local",
    "__ubsan_handle_builtin_unreachable",
    "_dl_signal_error",
    "_exit",
    "_longjmp",
    "abort",
    "err",
    "errx",
    "exit",
    "longjmp",
    "pthread_exit",
    "quick_exit",
    "rust_panic",
    "siglongjmp",
    "thrd_exit",
    "verr",
];

#[derive(Default)]
pub(super) struct Cache(HashMap<u64, bool>);

impl Cache {
    /// Whether a call of the function at this address never returns.
    pub(super) fn never_returns(&mut self, program: &Program, target: u64) -> bool {
        if let Some(known) = self.0.get(&target) {
            return *known;
        }
        let answer = by_name(program, target) || by_debug(program, target);
        self.0.insert(target, answer);
        answer
    }

    /// The same for a call through a pointer in memory.
    pub(super) fn never_returns_through(
        &mut self,
        program: &Program,
        memory: &dyn Memory,
        slot: u64,
    ) -> bool {
        let mut word = [0; 8];
        memory.read(slot, &mut word) && self.never_returns(program, u64::from_le_bytes(word))
    }
}

fn by_name(program: &Program, target: u64) -> bool {
    let Some(symbol) = program.symbol(target) else {
        return false;
    };
    let name = symbol.raw_name;
    let name = name.strip_suffix("@plt").unwrap_or(&name);
    symbol.offset == 0 && NAMES.binary_search(&name).is_ok()
}

fn by_debug(program: &Program, target: u64) -> bool {
    let look = || {
        let module = program.module_at(target)?;
        let contents = &module.contents;
        let (elf, debug) = (contents.elf()?, contents.debug()?);
        let vaddr = module.vaddr(target);
        let (unit, range) = debug.function_at(vaddr, elf, &contents.warnings)?;
        let die = Die {
            unit: unit.entries(elf, &contents.warnings),
            offset: range.die,
        };
        (range.entry == vaddr).then(|| debug.inherited(die, DW_AT_noreturn).is_some())
    };
    look().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_sorted() {
        assert!(super::NAMES.is_sorted());
    }
}
