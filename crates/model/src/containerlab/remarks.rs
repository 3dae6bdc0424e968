//! The difference that a conversion makes.

use crate::diagnostic::{Diagnostic, Diagnostics, Mark, plain_line};

#[derive(Debug, Clone, Default)]
pub struct Remarks {
    all: Diagnostics,
    /// Nodes that the result lacks.
    pub nodes_left_out: usize,
    /// Links that the result lacks, those of such nodes included.
    pub links_left_out: usize,
}

impl Remarks {
    pub(super) fn add(&mut self, at: Mark, message: impl Into<String>, hint: impl Into<String>) {
        self.all.add(at, message, hint);
    }

    pub(super) fn node_left_out(&mut self, at: Mark, why: &str, hint: impl Into<String>) {
        self.nodes_left_out += 1;
        self.add(at, format!("{why}: it is left out, with its links"), hint);
    }

    pub(super) fn link_left_out(&mut self, at: Mark, why: &str, hint: impl Into<String>) {
        self.links_left_out += 1;
        self.add(at, format!("{why}: it is left out"), hint);
    }

    /// Whether all nodes and links are in the result.
    pub fn is_whole(&self) -> bool {
        self.nodes_left_out == 0 && self.links_left_out == 0
    }

    /// The first lines of a file that was made, which say of what, and what differs.
    pub(super) fn header(&self, origin: &str) -> String {
        let mut text = format!("# {}\n", plain_line(origin));
        let remarks = self.sorted();
        if !remarks.is_empty() {
            text += "# What differs, by line and column there:\n";
        }
        for remark in remarks {
            let Mark { line, column, .. } = remark.at;
            text += &format!("#   {line}:{column}: {}\n", plain_line(&remark.message));
        }
        text
    }

    /// In the order of the text.
    pub fn sorted(&self) -> Vec<&Diagnostic> {
        let mut all: Vec<&Diagnostic> = self.all.iter().collect();
        all.sort_by_key(|remark| remark.at);
        all
    }

    /// All of them with their places in `file`, as mistakes are rendered.
    pub fn render(&self, file: &str) -> String {
        let sorted = self.all.clone().into_result(());
        sorted.map_or_else(|all| all.render(file), |()| String::new())
    }
}
