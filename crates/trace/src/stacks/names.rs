//! Names of functions.

use std::collections::HashMap;

use blazesym::MaybeDefault;
use blazesym::symbolize::source::{Elf, Kernel, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};

use super::files::{FileId, Files};
use super::unwind::Process;

/// Characters of a name at most: those of generic functions have thousands.
const MAX_NAME: usize = 200;

pub struct Names {
    symbolizer: Symbolizer,
    user: HashMap<(FileId, u64), Option<String>>,
    kernel: HashMap<u64, String>,
}

impl Names {
    pub fn new() -> Names {
        let builder = Symbolizer::builder().enable_code_info(false);
        Names {
            symbolizer: builder.enable_inlined_fns(false).build(),
            user: HashMap::new(),
            kernel: HashMap::new(),
        }
    }

    /// The function at an address of a process; without a symbol, the file's name in brackets.
    pub fn of_user(&mut self, process: &Process, files: &Files, address: u64) -> String {
        let Some((mapping, file)) = process.find(address) else {
            return "[unknown]".into();
        };
        let named = file.and_then(|(id, bias)| {
            let address = address.checked_sub(bias)?;
            let known = self.user.entry((id, address)).or_insert_with(|| {
                let source = Source::from(Elf::new(files.get(id).path()));
                name(&self.symbolizer, &source, Input::VirtOffset(address))
            });
            known.clone()
        });
        named.unwrap_or_else(|| printable(&mapping.name()))
    }

    /// The kernel's function at an address, marked as flamegraph.pl expects it.
    pub fn of_kernel(&mut self, address: u64) -> String {
        let known = self.kernel.entry(address).or_insert_with(|| {
            let kernel = Kernel {
                vmlinux: MaybeDefault::None,
                ..Kernel::default()
            };
            let named = name(&self.symbolizer, &kernel.into(), Input::AbsAddr(address));
            named.unwrap_or_else(|| "[kernel]".into()) + "_[k]"
        });
        known.clone()
    }
}

fn name(symbolizer: &Symbolizer, source: &Source<'_>, input: Input<u64>) -> Option<String> {
    match symbolizer.symbolize_single(source, input) {
        Ok(Symbolized::Sym(symbol)) => Some(printable(&symbol.name)),
        _ => None,
    }
}

/// A name for the folded form and for terminals: without the separator, without control characters, and cut.
pub fn printable(name: &str) -> String {
    let plain = |c: char| match c {
        ';' => ':',
        c if c.is_control() => '?',
        c => c,
    };
    name.chars().take(MAX_NAME).map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_break_the_folded_form_or_a_terminal() {
        assert_eq!(printable("a;b\n\u{1b}[2J"), "a:b??[2J");
        assert_eq!(printable(&"x".repeat(1000)).len(), MAX_NAME);
    }
}
