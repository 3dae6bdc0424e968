//! Width and colours of terminal output.

use anstyle::{AnsiColor, Style};
use latlab_model::results::Verdict;

pub const WIDTH: usize = 100;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Look {
    /// Colours: for a terminal, unless the user asked for none.
    pub colour: bool,
}

impl Look {
    pub(crate) fn paint(self, style: Style, text: &str) -> String {
        if self.colour && !text.is_empty() {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.paint(Style::new().dimmed(), text)
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.paint(Style::new().bold(), text)
    }
}

pub(crate) fn style_of(verdict: Verdict) -> Option<Style> {
    match verdict {
        Verdict::Better => Some(AnsiColor::Green.on_default()),
        Verdict::Worse => Some(AnsiColor::Red.on_default()),
        Verdict::NotProven
        | Verdict::NoDifference
        | Verdict::Inconclusive
        | Verdict::TooFewReplicates => None,
    }
}
