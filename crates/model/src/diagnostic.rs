//! A mistake in a document, with its place and what to do about it.
//!
//! Checks collect all mistakes of a document instead of stopping at the first, because people fix
//! files in one go. Texts may be hostile: the number and the length of messages are bounded, and a
//! message stays one line whatever the document says.

use std::fmt;

/// A place in a text: both count from 1, columns in characters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// Which of the texts that were read together, from 0: a study, then the lab that it names.
    pub file: u8,
    /// Line, from 1.
    pub line: usize,
    pub column: usize,
}

impl Mark {
    /// A place in the first text.
    pub const fn new(line: usize, column: usize) -> Mark {
        Mark {
            file: 0,
            line,
            column,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spanned<T> {
    pub value: T,
    pub at: Mark,
}

impl<T> Spanned<T> {
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

#[derive(Debug, Clone, PartialEq)]
pub struct Diagnostic {
    pub at: Mark,
    pub message: String,
    pub hint: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Diagnostics {
    found: Vec<Diagnostic>,
    omitted: usize,
    limit: usize,
}

/// Most mistakes that are kept: more are not read, and a hostile text could cause millions.
const MAX_MISTAKES: usize = 200;

impl Default for Diagnostics {
    fn default() -> Self {
        Diagnostics::up_to(MAX_MISTAKES)
    }
}

impl Diagnostics {
    /// With room for this number of them.
    pub(crate) fn up_to(limit: usize) -> Self {
        Diagnostics {
            found: Vec::new(),
            omitted: 0,
            limit,
        }
    }

    /// A mistake alone.
    pub fn one(at: Mark, message: impl Into<String>, hint: impl Into<String>) -> Self {
        let mut all = Diagnostics::default();
        all.add(at, message, hint);
        all
    }

    /// Notes a mistake; the same one is noted once.
    pub fn add(&mut self, at: Mark, message: impl Into<String>, hint: impl Into<String>) {
        if self.is_full() {
            self.omitted += 1;
            return;
        }
        let found = Diagnostic {
            at,
            message: one_line(message.into()),
            hint: one_line(hint.into()),
        };
        if !self.found.contains(&found) {
            self.found.push(found);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// True when further mistakes are only counted, so that looking for hints is wasted.
    pub fn is_full(&self) -> bool {
        self.found.len() >= self.limit
    }

    /// The mistakes, in the order of the text.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.found.iter()
    }

    /// `value` if nothing is wrong, else the mistakes, sorted.
    pub fn into_result<T>(mut self, value: T) -> Result<T, Diagnostics> {
        if self.found.is_empty() {
            return Ok(value);
        }
        self.found.sort_by_key(|d| d.at);
        Err(self)
    }

    /// Renders every mistake as compilers do: `file:line:column: message`, then the hint.
    pub fn render(&self, file: &str) -> String {
        self.render_files(&[file])
    }

    /// As [`Diagnostics::render`] for texts that were read together; the index into `files` is [`Mark::file`].
    pub fn render_files(&self, files: &[&str]) -> String {
        let mut out = String::new();
        for Diagnostic { at, message, hint } in &self.found {
            let file = files.get(usize::from(at.file)).unwrap_or(&"document");
            out += &format!("{file}:{}:{}: {message}\n", at.line, at.column);
            out += &format!("  hint: {hint}\n");
        }
        if self.omitted > 0 {
            out += &format!("and {} more mistakes\n", self.omitted);
        }
        out
    }
}

/// Longest message in characters.
const MAX_MESSAGE: usize = 400;

/// Makes `text` one line that a terminal shows as it is: control characters are written out, and what is too long
/// loses its middle, because a message names its object first and what was expected last.
fn one_line(text: String) -> String {
    let long = text.chars().nth(MAX_MESSAGE).is_some();
    if !long && !text.contains(char::is_control) {
        return text;
    }
    let mut all: Vec<char> = text.chars().collect();
    if long {
        let half = MAX_MESSAGE / 2 - 1;
        all.splice(half..all.len() - half, ['…']);
    }
    all.iter().fold(String::new(), |mut out, c| {
        if c.is_control() {
            out.extend(c.escape_default());
        } else {
            out.push(*c);
        }
        out
    })
}

/// `name` for use inside a message: its first characters when it is long.
pub fn shown(name: &str) -> String {
    match name.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_string(),
    }
}

/// `text` for a terminal, which obeys characters that it does not show (ECMA-48), or shows what follows in
/// another order (CVE-2021-42574): they become `\u001b`, as in JSON. Lines and tabs stay.
pub fn plain(text: &str) -> String {
    escaped(text, |c| !matches!(c, '\n' | '\t'))
}

/// The same for one line.
pub fn plain_line(text: &str) -> String {
    escaped(text, |_| true)
}

fn escaped(text: &str, also: impl Fn(char) -> bool) -> String {
    let turns = |c| matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let mut all = String::with_capacity(text.len());
    for c in text.chars() {
        if (c.is_control() || turns(c)) && also(c) {
            all += &format!("\\u{:04x}", u32::from(c));
        } else {
            all.push(c);
        }
    }
    all
}

/// Longest name in characters that [`shown`] leaves whole.
const MAX_SHOWN: usize = 64;

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.render("document").trim_end())
    }
}

impl std::error::Error for Diagnostics {}

/// The candidate most like `word`, if one is near enough to be what was meant.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Comparing costs the product of the lengths: what is longer than any name is not compared.
    let comparable = |text: &str| text.len() <= MAX_SHOWN;
    if !comparable(word) {
        return None;
    }
    candidates
        .into_iter()
        .filter(|c| comparable(c) && c.len().abs_diff(word.len()) <= 1 + c.len() / 4)
        .map(|c| {
            (
                strsim::damerau_levenshtein(&word.to_lowercase(), &c.to_lowercase()),
                c,
            )
        })
        // A word that shares nothing with a short candidate is as near as a typo is.
        .filter(|(distance, c)| *distance <= 1 + c.len() / 4 && *distance < c.len())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, c)| c)
}

const MAX_LISTED: usize = 33;

/// A hint for a word that is not one of `candidates`: the nearest, or all of them.
pub fn hint_one_of(word: &str, candidates: &[&str]) -> String {
    if let Some(near) = nearest(word, candidates.iter().copied()) {
        return format!("did you mean `{near}`?");
    }
    let listed: Vec<String> = candidates
        .iter()
        .take(MAX_LISTED)
        .map(|c| shown(c))
        .collect();
    let more = match candidates.len().saturating_sub(MAX_LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    if listed.is_empty() {
        "there are none".to_string()
    } else {
        format!("one of: {}{more}", listed.join(", "))
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
        all.add(Mark::new(3, 1), "later", "b");
        all.add(Mark::new(1, 9), "first", "a");
        let text = all.into_result(()).unwrap_err().render("x.yaml");
        assert_eq!(
            text,
            "x.yaml:1:9: first\n  hint: a\nx.yaml:3:1: later\n  hint: b\n"
        );
    }

    #[test]
    fn messages_stay_short_lines_and_few() {
        let mut all = Diagnostics::default();
        all.add(Mark::new(1, 1), "a\nb\u{1b}[31m", "x".repeat(100_000));
        let text = all.clone().into_result(()).unwrap_err().render("f");
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.contains("a\\nb\\u{1b}[31m"), "{text}");
        assert!(text.len() < 1000, "{}", text.len());
        for line in 1..=1000 {
            all.add(Mark::new(line, 1), "m", "h");
        }
        let text = all.into_result(()).unwrap_err().render("f");
        assert!(text.ends_with("and 801 more mistakes\n"), "{text}");
    }

    #[test]
    fn a_lab_and_its_study_are_told_apart() {
        let mut all = Diagnostics::default();
        all.add(
            Mark {
                file: 1,
                ..Mark::new(1, 1)
            },
            "in the lab",
            "h",
        );
        all.add(Mark::new(2, 1), "in the study", "h");
        let text = all.into_result(()).unwrap_err();
        assert_eq!(
            text.render_files(&["s.yaml", "l.yaml"]),
            "s.yaml:2:1: in the study\n  hint: h\nl.yaml:1:1: in the lab\n  hint: h\n"
        );
    }
}
