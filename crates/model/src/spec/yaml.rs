//! A YAML text as a tree that remembers where everything stood.
//!
//! The usual deserialisers lose positions once a value is typed, and mappings lose duplicate keys;
//! latlab must point at both. So the parser's events become this small tree, and the spec is read
//! from it. Factors of a study are applied to the tree too, which is why any field of a lab can be
//! one. Depth, size and alias expansion are bounded: the text may be hostile.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Span};

use crate::diagnostic::{Diagnostics, Mark, Spanned, shown};

/// Deepest nesting that is read; a real lab needs about six.
const MAX_DEPTH: usize = 64;
/// Longest text that is read. A node and its link take about a hundred bytes; the parser may hold a
/// line of brackets whole, at two hundred bytes of memory each byte of text.
const MAX_BYTES: usize = 2 << 20;
/// Largest [`Yaml::weight`] of a tree, aliases expanded, so that they cannot explode. A node and its
/// link weigh about ten.
pub(crate) const MAX_WEIGHT: usize = 250_000;

#[derive(Debug, Clone, PartialEq)]
pub struct Yaml {
    pub at: Mark,
    pub value: Value,
}

/// The content of a [`Yaml`] node. Scalars stay text: their type is the reader's business, which knows
/// what it expects (`name: 1e3` is a string where a name is expected).
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Scalar {
        text: String,
        /// Quoted or a block scalar, therefore never null.
        quoted: bool,
    },
    Seq(Vec<Yaml>),
    /// A mapping, in the order of the text, duplicates kept.
    Map(Vec<(Yaml, Yaml)>),
}

/// The steps of a path; `links[0].type` and `links.0.type` mean the same.
pub(super) fn steps(path: &str) -> Vec<&str> {
    path.split(['.', '[', ']'])
        .filter(|s| !s.is_empty())
        .collect()
}

impl Yaml {
    /// Reads the first document of `text`. Fails when it is not YAML, is empty, holds several documents, or is large
    /// or nested beyond reason.
    pub fn parse(text: &str) -> Result<Yaml, Diagnostics> {
        Yaml::parse_file(text, 0)
    }

    /// As [`Yaml::parse`]; every place carries `file` (see [`Mark::file`]).
    pub fn parse_file(text: &str, file: u8) -> Result<Yaml, Diagnostics> {
        let mut builder = Builder {
            file,
            ..Builder::default()
        };
        let top = Mark {
            file,
            ..Mark::new(1, 1)
        };
        if text.len() > MAX_BYTES {
            let message = format!("the document has {} bytes", text.len());
            let hint = format!("at most {} MiB are read; split it", MAX_BYTES >> 20);
            return Err(Diagnostics::one(top, message, hint));
        }
        for step in Parser::new_from_str(text) {
            let (event, span) = step.map_err(|e| {
                let at = Mark {
                    file,
                    line: e.marker().line(),
                    column: e.marker().col() + 1,
                };
                let message = format!("not valid YAML: {}", e.info());
                Diagnostics::one(at, message, syntax_hint(text, at, e.info()))
            })?;
            builder.take(event, span)?;
        }
        builder
            .root
            .ok_or_else(|| Diagnostics::one(top, "the document is empty", "see labs/ for examples"))
    }

    /// A text that is no null.
    pub(crate) fn text(at: Mark, text: impl Into<String>) -> Yaml {
        let text = text.into();
        let value = Value::Scalar { text, quoted: true };
        Yaml { at, value }
    }

    /// A value as a text at its place.
    pub(crate) fn of<T: ToString>(value: &Spanned<T>) -> Yaml {
        Yaml::text(value.at, value.value.to_string())
    }

    /// A list that stands where its first item does.
    pub(crate) fn list(items: Vec<Yaml>) -> Yaml {
        let at = items.first().map_or(Mark::default(), |item| item.at);
        let value = Value::Seq(items);
        Yaml { at, value }
    }

    /// A mapping of names to values, each name at the place of its value.
    pub(crate) fn map(at: Mark, entries: Vec<(&str, Yaml)>) -> Yaml {
        let entry = |(key, value): (&str, Yaml)| (Yaml::text(value.at, key), value);
        let value = Value::Map(entries.into_iter().map(entry).collect());
        Yaml { at, value }
    }

    /// Adds a list that has items to the entries of a mapping.
    pub(crate) fn push_list<'k>(
        key: &'k str,
        items: Vec<Yaml>,
        entries: &mut Vec<(&'k str, Yaml)>,
    ) {
        if !items.is_empty() {
            entries.push((key, Yaml::list(items)));
        }
    }

    pub fn scalar(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }

    /// True for an empty or `null` plain scalar.
    pub fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar { text, quoted: false }
            if matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL"))
    }

    /// `a mapping`, `a list` or `a value`, for messages.
    pub fn kind(&self) -> &'static str {
        match self.value {
            Value::Scalar { .. } => "a single value",
            Value::Seq(_) => "a list",
            Value::Map(_) => "a mapping",
        }
    }

    pub fn get(&self, key: &str) -> Option<&Yaml> {
        match &self.value {
            Value::Map(entries) => entries
                .iter()
                .find(|(k, _)| k.scalar() == Some(key))
                .map(|(_, v)| v),
            _ => None,
        }
    }

    /// Takes a key and its value out of a mapping.
    pub(super) fn remove(&mut self, key: &str) {
        if let Value::Map(entries) = &mut self.value {
            entries.retain(|(k, _)| k.scalar() != Some(key));
        }
    }

    /// One-line rendering, for labels: `{a: 1, b: [x, y]}`.
    pub fn compact(&self) -> String {
        match &self.value {
            Value::Scalar { text, .. } => text.clone(),
            Value::Seq(items) => {
                let items: Vec<_> = items.iter().map(Yaml::compact).collect();
                format!("[{}]", items.join(", "))
            }
            Value::Map(entries) => {
                let entries: Vec<_> = entries
                    .iter()
                    .map(|(k, v)| format!("{}: {}", k.compact(), v.compact()))
                    .collect();
                format!("{{{}}}", entries.join(", "))
            }
        }
    }

    /// Sets the field at `path`, making missing mappings on the way; list items are named by their index. Keys that
    /// are made stand at `made_at`. Errors: a sentence saying which step of the path does not exist.
    pub fn set(&mut self, path: &[&str], new: &Yaml, made_at: Mark) -> Result<(), String> {
        if path.len() > MAX_DEPTH {
            return Err(format!("it has more than {MAX_DEPTH} steps"));
        }
        let Some((step, rest)) = path.split_first() else {
            *self = new.clone();
            return Ok(());
        };
        if self.is_null() {
            self.value = Value::Map(Vec::new());
        }
        match &mut self.value {
            Value::Seq(items) => {
                let count = items.len();
                match step.parse::<usize>().ok().and_then(|i| items.get_mut(i)) {
                    Some(item) => item.set(rest, new, made_at),
                    None => {
                        let step = shown(step);
                        Err(format!("`{step}` is not an index of a list of {count}"))
                    }
                }
            }
            Value::Map(entries) => {
                if let Some((_, v)) = entries.iter_mut().find(|(k, _)| k.scalar() == Some(*step)) {
                    return v.set(rest, new, made_at);
                }
                let mut child = Yaml::map(made_at, Vec::new());
                child.set(rest, new, made_at)?;
                let value = Value::Scalar {
                    text: (*step).to_string(),
                    quoted: false,
                };
                entries.push((Yaml { at: made_at, value }, child));
                Ok(())
            }
            Value::Scalar { text, .. } => {
                let (text, step) = (shown(text), shown(step));
                Err(format!("`{text}` has no field `{step}`"))
            }
        }
    }

    /// How much work and memory the tree is, about one a value; a long text counts as several.
    pub fn weight(&self) -> usize {
        match &self.value {
            Value::Scalar { text, .. } => 1 + text.len() / 64,
            Value::Seq(items) => 1 + items.iter().map(Yaml::weight).sum::<usize>(),
            Value::Map(entries) => {
                let each = entries.iter().map(|(k, v)| k.weight() + v.weight());
                1 + each.sum::<usize>()
            }
        }
    }

    fn depth(&self) -> usize {
        match &self.value {
            Value::Scalar { .. } => 0,
            Value::Seq(items) => 1 + items.iter().map(Yaml::depth).max().unwrap_or(0),
            Value::Map(entries) => {
                let each = entries.iter().map(|(k, v)| k.depth().max(v.depth()));
                1 + each.max().unwrap_or(0)
            }
        }
    }
}

/// The remedy for a syntax error: the parser's own words name its state, not the mistake.
fn syntax_hint(text: &str, at: Mark, info: &str) -> String {
    let line = |number: usize| text.lines().nth(number.wrapping_sub(1)).unwrap_or("");
    let indented_by_tab = |line: &str| {
        let indent = line.len() - line.trim_start_matches([' ', '\t']).len();
        line[..indent].contains('\t')
    };
    // The parser often notices only on the line after the mistake.
    if indented_by_tab(line(at.line)) || indented_by_tab(line(at.line.wrapping_sub(1))) {
        "indent with spaces; YAML does not allow tabs there".into()
    } else if info.contains("anchor") || info.contains("alias") {
        "write `&name` before the value, above the line that uses `*name`; quote a text that begins with `*`".into()
    } else if info.contains("quoted scalar") {
        "look for a quote that is not closed".into()
    } else if let Some((bracket, line)) = open_bracket(text, at) {
        format!("the `{bracket}` on line {line} is not closed")
    } else {
        SYNTAX_HINT.into()
    }
}

/// The innermost bracket before `at` that is still open, and its line. A guess for a hint: it knows
/// quotes and comments, not all of YAML.
fn open_bracket(text: &str, at: Mark) -> Option<(char, usize)> {
    let mut open: Vec<(char, usize)> = Vec::new();
    for (number, line) in text.lines().enumerate().take(at.line) {
        let mut quote = None;
        // Where a value may begin; elsewhere, brackets and quotes are part of a text.
        let mut fresh = true;
        for (column, c) in line.chars().enumerate() {
            if number + 1 == at.line && column + 1 >= at.column {
                break;
            }
            match c {
                _ if quote.is_some() => quote = quote.filter(|q| *q != c),
                '"' | '\'' if fresh => quote = Some(c),
                '#' if fresh => break,
                '[' | '{' if fresh => open.push((c, number + 1)),
                ']' | '}' => drop(open.pop()),
                _ => {}
            }
            fresh = matches!(c, ' ' | '[' | '{' | ',');
        }
    }
    open.pop()
}

const SYNTAX_HINT: &str = "check indentation, colons and quotes at this place and just before it";

fn too_deep(at: Mark) -> Diagnostics {
    let message = format!("nested deeper than {MAX_DEPTH} levels");
    Diagnostics::one(at, message, "a lab needs about six levels")
}

#[derive(Default)]
struct Builder {
    file: u8,
    root: Option<Yaml>,
    open: Vec<(Yaml, usize)>,
    anchors: HashMap<usize, Yaml>,
    weight: usize,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Diagnostics> {
        let at = Mark {
            file: self.file,
            line: span.start.line(),
            column: span.start.col() + 1,
        };
        match event {
            Event::Scalar(text, style, anchor, _) => {
                let value = Value::Scalar {
                    text: text.into_owned(),
                    quoted: style != ScalarStyle::Plain,
                };
                let scalar = Yaml { at, value };
                self.weigh(at, scalar.weight())?;
                self.close(scalar, anchor)
            }
            Event::SequenceStart(anchor, _) => self.open(at, Value::Seq(Vec::new()), anchor),
            Event::MappingStart(anchor, _) => self.open(at, Value::Map(Vec::new()), anchor),
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some((done, anchor)) => self.close(done, anchor),
                None => Ok(()),
            },
            Event::Alias(id) => {
                let Some(original) = self.anchors.get(&id) else {
                    let message = "alias of an unknown anchor";
                    return Err(Diagnostics::one(at, message, SYNTAX_HINT));
                };
                if self.open.len() + original.depth() > MAX_DEPTH {
                    return Err(too_deep(at));
                }
                let weight = original.weight();
                let copy = Yaml {
                    at,
                    value: original.value.clone(),
                };
                self.weigh(at, weight)?;
                self.close(copy, 0)
            }
            Event::DocumentStart(_) if self.root.is_some() => Err(Diagnostics::one(
                at,
                "a second document in one file",
                "keep one lab or study a file, and remove the `---` between them",
            )),
            _ => Ok(()),
        }
    }

    fn open(&mut self, at: Mark, value: Value, anchor: usize) -> Result<(), Diagnostics> {
        if self.open.len() >= MAX_DEPTH {
            return Err(too_deep(at));
        }
        self.weigh(at, 1)?;
        self.open.push((Yaml { at, value }, anchor));
        Ok(())
    }

    fn weigh(&mut self, at: Mark, more: usize) -> Result<(), Diagnostics> {
        self.weight += more;
        if self.weight > MAX_WEIGHT {
            let message = format!("more than {MAX_WEIGHT} values, those of aliases included");
            let hint = "split the lab, or use fewer aliases";
            return Err(Diagnostics::one(at, message, hint));
        }
        Ok(())
    }

    fn close(&mut self, done: Yaml, anchor: usize) -> Result<(), Diagnostics> {
        if anchor != 0 {
            // The copy is paid for, or anchors around anchors would multiply the document.
            self.weigh(done.at, done.weight())?;
            self.anchors.insert(anchor, done.clone());
        }
        match self.open.last_mut().map(|(parent, _)| &mut parent.value) {
            None => self.root = Some(done),
            Some(Value::Seq(items)) => items.push(done),
            // A mapping's keys and values come in turn; a key waits with a null until its value.
            Some(Value::Map(entries)) => match entries.last_mut() {
                Some((_, value)) if value.at.line == 0 => *value = done,
                _ => entries.push((done, waiting())),
            },
            Some(Value::Scalar { .. }) => {}
        }
        Ok(())
    }
}

/// Stands for a value not yet seen; no real node has line 0.
fn waiting() -> Yaml {
    let value = Value::Scalar {
        text: String::new(),
        quoted: false,
    };
    Yaml {
        at: Mark::default(),
        value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_and_duplicates_are_kept() {
        let y = Yaml::parse("a: 1\nb:\n  - x\n  - {c: 2, c: 3}\na: 4\n").unwrap();
        let Value::Map(entries) = &y.value else {
            panic!()
        };
        assert_eq!(entries.len(), 3);
        assert_eq!(entries[2].0.at, Mark::new(5, 1));
        assert_eq!(y.get("b").unwrap().compact(), "[x, {c: 2, c: 3}]");
    }

    #[test]
    fn any_field_can_be_set_by_path() {
        let mut y = Yaml::parse("t: {links: [{type: veth}]}\n").unwrap();
        let new = Yaml::parse("bridge").unwrap();
        y.set(&["t", "links", "0", "type"], &new, new.at).unwrap();
        y.set(&["t", "nodes", "a", "kind"], &new, new.at).unwrap();
        assert_eq!(
            y.compact(),
            "{t: {links: [{type: bridge}], nodes: {a: {kind: bridge}}}}"
        );
        assert!(
            y.set(&["t", "links", "7"], &new, new.at)
                .unwrap_err()
                .contains("list of 1")
        );
    }

    #[test]
    fn hostile_texts_are_refused() {
        assert!(Yaml::parse(&"[".repeat(10_000)).is_err());
        let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
        for i in 1..9 {
            let previous = format!("*a{},", i - 1).repeat(10);
            bomb += &format!("a{i}: &a{i} [{}]\n", previous.trim_end_matches(','));
        }
        assert!(Yaml::parse(&bomb).is_err());
        assert!(Yaml::parse("a: *nowhere").is_err());
        assert!(Yaml::parse("").is_err());
        assert!(Yaml::parse("a: 1\n---\nb: 2\n").is_err());
        // One long text, many times.
        let long = format!(
            "a: &a {}\nb: [{}]\n",
            "x".repeat(1 << 20),
            "*a,".repeat(100_000)
        );
        assert!(Yaml::parse(&long).is_err());
        // Deep through aliases, each line one level deeper than the one before.
        let mut deep = String::from("a0: &a0 [x]\n");
        for i in 1..1000 {
            deep += &format!("a{i}: &a{i} [*a{}]\n", i - 1);
        }
        assert!(Yaml::parse(&deep).is_err());
        let path = vec!["a"; 100_000];
        let mut tree = Yaml::parse("a: 1").unwrap();
        assert!(
            tree.set(&path, &Yaml::parse("1").unwrap(), Mark::new(1, 1))
                .is_err()
        );
    }

    #[test]
    fn syntax_errors_have_a_place() {
        let errors = Yaml::parse("a: [1, 2\nb: 3\n").unwrap_err();
        assert!(errors.iter().next().unwrap().at.line >= 1);
    }
}
