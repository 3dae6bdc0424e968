//! Plain text tables: aligned columns, two spaces between, no lines.

use std::fmt::Write;

use anstyle::Style;
use latlab_model::diagnostic::plain_line;

use crate::style::{Look, WIDTH};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// The first column is never narrower when the whole is too wide: `container !`.
const NAME_WIDTH: usize = 11;

pub(crate) struct Table {
    titles: Vec<(String, Align)>,
    rows: Vec<(Vec<String>, Option<Style>)>,
}

const INDENT: &str = "  ";
const GAP: &str = "  ";

impl Table {
    pub fn new(titles: &[(&str, Align)]) -> Self {
        let titles = titles
            .iter()
            .map(|(title, align)| ((*title).to_owned(), *align))
            .collect();
        Self {
            titles,
            rows: Vec::new(),
        }
    }

    /// Adds a row; the style, if any, is that of its last text.
    pub fn row(&mut self, texts: Vec<String>, style: Option<Style>) {
        let texts = texts.into_iter().map(|text| plain_line(&text)).collect();
        self.rows.push((texts, style));
    }

    pub fn render(&self, look: Look) -> String {
        let widths = self.widths();
        let titles: Vec<String> = self.titles.iter().map(|(title, _)| title.clone()).collect();
        let mut out = self.line(&titles, &widths, look, Some(Style::new().dimmed()), true);
        for (texts, style) in &self.rows {
            let mut texts = texts.clone();
            // A name that is too long stands on a separate line: shortened, two could look alike.
            if let Some(name) = texts.first_mut().filter(|name| length(name) > widths[0]) {
                let _ = writeln!(out, "{INDENT}{}", std::mem::take(name));
            }
            out.push_str(&self.line(&texts, &widths, look, *style, false));
        }
        out
    }

    /// As a part of a report, below an empty line; nothing without rows.
    pub fn section(&self, look: Look) -> String {
        match self.rows.is_empty() {
            true => String::new(),
            false => format!("\n{}", self.render(look)),
        }
    }

    /// Each column has the width of its widest text; the first gives way when the whole is too wide.
    fn widths(&self) -> Vec<usize> {
        let widest = |column: usize| {
            let texts = self.rows.iter().filter_map(|(texts, _)| texts.get(column));
            texts
                .map(|text| length(text))
                .max()
                .unwrap_or(0)
                .max(length(&self.titles[column].0))
        };
        let mut widths: Vec<usize> = (0..self.titles.len()).map(widest).collect();
        let total = INDENT.len() + widths.iter().sum::<usize>() + GAP.len() * (widths.len() - 1);
        if let Some(first) = widths.first_mut() {
            let shrunk = first.saturating_sub(total.saturating_sub(WIDTH));
            *first = shrunk.max(NAME_WIDTH).min(*first);
        }
        widths
    }

    fn line(
        &self,
        texts: &[String],
        widths: &[usize],
        look: Look,
        style: Option<Style>,
        everywhere: bool,
    ) -> String {
        let last = texts.iter().rposition(|text| !text.is_empty()).unwrap_or(0);
        let mut out = INDENT.to_owned();
        for (column, text) in texts.iter().enumerate().take(last + 1) {
            let text = shorten(text, widths[column]);
            let pad = " ".repeat(widths[column].saturating_sub(length(&text)));
            let painted = match style {
                Some(style) if everywhere || column == last => look.paint(style, &text),
                _ => text,
            };
            match self.titles[column].1 {
                Align::Right => out.extend([pad, painted]),
                Align::Left if column == last => out.push_str(&painted),
                Align::Left => out.extend([painted, pad]),
            }
            if column < last {
                out.push_str(GAP);
            }
        }
        out.push('\n');
        out
    }
}

fn shorten(text: &str, width: usize) -> String {
    if length(text) <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{kept}…")
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// Breaks a text at spaces; a word longer than a line stands alone.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is always a line");
        if line.is_empty() {
            line.push_str(word);
        } else if length(line) + 1 + length(word) <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// A line of CSV (RFC 4180), quoted where needed. A text that a spreadsheet would take for a formula begins
/// with an apostrophe (OWASP, CSV injection); numbers stay as they are.
pub fn csv_row<S: AsRef<str>>(fields: &[S]) -> String {
    let quote = |field: &str| {
        let formula = field.starts_with(['=', '+', '-', '@', '\t', '\r']);
        let text = if formula && field.parse::<f64>().is_err() {
            format!("'{field}")
        } else {
            field.to_owned()
        };
        let field = text.as_str();
        if field.contains([',', '"', '\n', '\r']) {
            format!("\"{}\"", field.replace('"', "\"\""))
        } else {
            field.to_owned()
        }
    };
    let fields: Vec<String> = fields.iter().map(|field| quote(field.as_ref())).collect();
    format!("{}\n", fields.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_a_formula_is_a_text_in_a_spreadsheet_and_numbers_are_numbers() {
        let fields = [
            "=cmd|'/c calc'!A0",
            "@x",
            "+1+2",
            "-2+3",
            "-5",
            "+1.5e3",
            "-",
            "a=b",
            "x,\"y\"",
        ];
        assert_eq!(
            csv_row(&fields),
            "'=cmd|'/c calc'!A0,'@x,'+1+2,'-2+3,-5,+1.5e3,'-,a=b,\"x,\"\"y\"\"\"\n"
        );
    }

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&[
            ("name", Align::Left),
            ("n", Align::Right),
            ("x", Align::Left),
        ]);
        table.row(vec!["a".into(), "1".into(), "µs".into()], None);
        table.row(vec!["container".into(), "100".into(), String::new()], None);
        let out = table.render(Look::default());
        assert_eq!(
            out,
            "  name         n  x\n  a            1  µs\n  container  100\n"
        );
    }

    #[test]
    fn a_wide_name_gives_way() {
        let mut table = Table::new(&[("name", Align::Left), ("value", Align::Left)]);
        let name = "container with a very long name, "
            .repeat(2)
            .trim()
            .to_owned();
        table.row(vec![name, "v".repeat(80)], None);
        let out = table.render(Look::default());
        assert!(out.lines().all(|line| length(line) <= WIDTH));
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(
            lines[1].trim(),
            "container with a very long name, ".repeat(2).trim()
        );
        assert!(lines[2].trim().starts_with("vv"));
    }

    #[test]
    fn wrapping_keeps_every_word() {
        let text = "one two three four five";
        let lines = wrap(text, 9);
        assert_eq!(lines, ["one two", "three", "four five"]);
        assert_eq!(wrap("", 9), [""]);
    }

    #[test]
    fn csv_quotes_only_where_it_must() {
        assert_eq!(
            csv_row(&["a", "b,c", "say \"x\""]),
            "a,\"b,c\",\"say \"\"x\"\"\"\n"
        );
    }
}
