//! A mistake in a document, with its place and what to do about it.
//!
//! Checks collect all mistakes of a document instead of stopping at the first, because people fix
//! files in one go.

use std::fmt;

/// A place in a text: both count from 1, columns in characters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1.
    pub column: usize,
}

/// A value and where it stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spanned<T> {
    /// The value.
    pub value: T,
    /// Its place.
    pub at: Mark,
}

impl<T> Spanned<T> {
    /// Pairs a value with its place.
    pub fn new(value: T, at: Mark) -> Self {
        Spanned { value, at }
    }
}

impl<T> std::ops::Deref for Spanned<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

/// One mistake.
#[derive(Debug, Clone, PartialEq)]
pub struct Diagnostic {
    /// Where.
    pub at: Mark,
    /// What is wrong, naming the object.
    pub message: String,
    /// What to do.
    pub hint: String,
}

/// The mistakes of one document, in the order of the text.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Diagnostics(Vec<Diagnostic>);

impl Diagnostics {
    /// Notes a mistake.
    pub fn add(&mut self, at: Mark, message: impl Into<String>, hint: impl Into<String>) {
        let found = Diagnostic {
            at,
            message: message.into(),
            hint: hint.into(),
        };
        if !self.0.contains(&found) {
            self.0.push(found);
        }
    }

    /// True when nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The mistakes, in the order of the text.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.0.iter()
    }

    /// `value` if nothing is wrong, else the mistakes, sorted.
    ///
    /// # Errors
    /// When any mistake was noted.
    pub fn into_result<T>(mut self, value: T) -> Result<T, Diagnostics> {
        if self.0.is_empty() {
            return Ok(value);
        }
        self.0.sort_by_key(|d| d.at);
        Err(self)
    }

    /// Renders every mistake as compilers do: `file:line:column: message`, then the hint.
    pub fn render(&self, file: &str) -> String {
        let mut out = String::new();
        for d in &self.0 {
            out += &format!("{file}:{}:{}: {}\n", d.at.line, d.at.column, d.message);
            out += &format!("  hint: {}\n", d.hint);
        }
        out
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.render("document").trim_end())
    }
}

impl std::error::Error for Diagnostics {}

/// The candidate most like `word`, if one is near enough to be what was meant.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|c| {
            (
                strsim::damerau_levenshtein(&word.to_lowercase(), &c.to_lowercase()),
                c,
            )
        })
        .filter(|(distance, c)| *distance <= 1 + c.len() / 4)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, c)| c)
}

/// A hint for a word that is not one of `candidates`: the nearest, or all of them.
pub fn hint_one_of(word: &str, candidates: &[&str]) -> String {
    match nearest(word, candidates.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("one of: {}", candidates.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_offered_and_a_far_one_is_not() {
        assert_eq!(nearest("cpu", ["cpus", "memory"]), Some("cpus"));
        assert_eq!(nearest("bridg", ["veth", "bridge"]), Some("bridge"));
        assert_eq!(nearest("zzz", ["veth", "bridge"]), None);
    }

    #[test]
    fn mistakes_come_in_the_order_of_the_text() {
        let mut all = Diagnostics::default();
        all.add(Mark { line: 3, column: 1 }, "later", "b");
        all.add(Mark { line: 1, column: 9 }, "first", "a");
        let text = all.into_result(()).unwrap_err().render("x.yaml");
        assert_eq!(
            text,
            "x.yaml:1:9: first\n  hint: a\nx.yaml:3:1: later\n  hint: b\n"
        );
    }
}
