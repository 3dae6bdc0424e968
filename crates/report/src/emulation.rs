//! Emulation beside verdicts: no comparison on emulated hardware is printed without saying so.

use latlab_model::results::{Cell, Verdict};

use crate::style::WIDTH;
use crate::table::wrap;
use crate::text::verdict;

/// A verdict, with the mark that [`legend`] explains where one of its sides was emulated.
pub(crate) fn marked(of: Verdict, is_emulated: bool) -> String {
    marked_words(verdict(of), is_emulated)
}

pub(crate) fn marked_words(words: &str, is_emulated: bool) -> String {
    match is_emulated {
        true => format!("{words} ~"),
        false => words.to_owned(),
    }
}

/// All that was emulated in any of the cells, in their order.
pub(crate) fn named<'c>(cells: impl IntoIterator<Item = &'c Cell>) -> Vec<String> {
    distinct(cells.into_iter().flat_map(|c| &c.environment.emulation))
}

/// Each of them once, in their order.
pub(crate) fn distinct<'n>(names: impl Iterator<Item = &'n String>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for one in names {
        if !all.contains(one) {
            all.push(one.clone());
        }
    }
    all
}

/// The meaning of the mark; runs of older versions do not name what was emulated.
pub(crate) fn legend(named: &[String]) -> String {
    match named {
        [] => "~ software emulation".to_owned(),
        named => format!("~ emulated: {}", named.join(", ")),
    }
}

/// The legend as lines of their own, below a table.
pub(crate) fn legend_lines(named: &[String]) -> String {
    let lines = wrap(&legend(named), WIDTH - 2);
    lines.iter().map(|line| format!("  {line}\n")).collect()
}
