//! The difference that a conversion makes.

use crate::diagnostic::{Diagnostic, Diagnostics, Mark, plain_line};

/// Most differences that are kept, of which a large lab has some for each node; a hostile text could cause millions.
const MAX_REMARKS: usize = 2_000;

#[derive(Debug, Clone)]
pub struct Remarks {
    all: Diagnostics,
    /// Those beyond the room.
    omitted: usize,
    /// Nodes that the result lacks.
    pub nodes_left_out: usize,
    /// Links that the result lacks, those of such nodes included.
    pub links_left_out: usize,
}

impl Default for Remarks {
    fn default() -> Self {
        Remarks {
            all: Diagnostics::up_to(MAX_REMARKS),
            omitted: 0,
            nodes_left_out: 0,
            links_left_out: 0,
        }
    }
}

impl Remarks {
    pub(super) fn add(&mut self, at: Mark, message: impl Into<String>, hint: impl Into<String>) {
        match self.all.is_full() {
            true => self.omitted += 1,
            false => self.all.add(at, message, hint),
        }
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
        if self.omitted > 0 {
            text += &format!("#   and {} more differences\n", self.omitted);
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
        let mut text = sorted.map_or_else(|all| all.render(file), |()| String::new());
        if self.omitted > 0 {
            text += &format!("and {} more differences\n", self.omitted);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_beyond_the_room_are_counted_where_the_others_are_told() {
        let mut remarks = Remarks::default();
        for line in 1..=MAX_REMARKS + 3 {
            remarks.add(Mark::new(line, 1), "it differs", "look at it");
        }
        let header = remarks.header("of x");
        assert!(header.contains(&format!("#   {MAX_REMARKS}:1: it differs\n")));
        assert!(header.ends_with("#   and 3 more differences\n"));
        let told = remarks.render("x");
        assert!(told.ends_with("  hint: look at it\nand 3 more differences\n"));
    }
}
