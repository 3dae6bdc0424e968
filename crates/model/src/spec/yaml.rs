//! A YAML text as a tree that remembers where everything stood.
//!
//! The usual deserialisers lose positions once a value is typed, and mappings lose duplicate keys;
//! latlab must point at both. So the parser's events become this small tree, and the spec is read
//! from it. Factors of a study are applied to the tree too, which is why any field of a lab can be
//! one. Depth, size and alias expansion are bounded: the text may be hostile.

use saphyr_parser::{Event, Parser, ScalarStyle, Span};

use crate::diagnostic::{Diagnostics, Mark};

/// Deepest nesting that is read; a real lab needs about six.
const MAX_DEPTH: usize = 64;
/// Most nodes that aliases may expand to, so that nested aliases cannot explode.
const MAX_NODES: usize = 1_000_000;

/// A node of the tree.
#[derive(Debug, Clone, PartialEq)]
pub struct Yaml {
    /// Where it begins.
    pub at: Mark,
    /// What it is.
    pub value: Value,
}

/// What a [`Yaml`] node is. Scalars stay text: their type is the reader's business, which knows
/// what it expects (`name: 1e3` is a string where a name is expected).
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A plain or quoted scalar.
    Scalar {
        /// Its text.
        text: String,
        /// Quoted or a block scalar, therefore never null.
        quoted: bool,
    },
    /// A sequence.
    Seq(Vec<Yaml>),
    /// A mapping, in the order of the text, duplicates kept.
    Map(Vec<(Yaml, Yaml)>),
}

impl Yaml {
    /// Reads the first document of `text`.
    ///
    /// # Errors
    /// When it is not YAML, is empty, holds several documents, or is nested beyond reason.
    pub fn parse(text: &str) -> Result<Yaml, Diagnostics> {
        let mut builder = Builder::default();
        for step in Parser::new_from_str(text) {
            let (event, span) = step.map_err(|e| {
                let at = Mark {
                    line: e.marker().line(),
                    column: e.marker().col() + 1,
                };
                one(at, format!("not valid YAML: {}", e.info()), SYNTAX_HINT)
            })?;
            builder.take(event, span)?;
        }
        builder.root.ok_or_else(|| {
            one(
                Mark { line: 1, column: 1 },
                "the document is empty".into(),
                "see labs/ for examples",
            )
        })
    }

    /// The text of a scalar.
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

    /// The value under `key` in a mapping.
    pub fn get(&self, key: &str) -> Option<&Yaml> {
        match &self.value {
            Value::Map(entries) => entries
                .iter()
                .find(|(k, _)| k.scalar() == Some(key))
                .map(|(_, v)| v),
            _ => None,
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

    /// Sets the field at `path`, making missing mappings on the way; list items are named by their
    /// index.
    ///
    /// # Errors
    /// A sentence saying which step of the path does not exist.
    pub fn set(&mut self, path: &[&str], new: &Yaml) -> Result<(), String> {
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
                    Some(item) => item.set(rest, new),
                    None => Err(format!("`{step}` is not an index of a list of {count}")),
                }
            }
            Value::Map(entries) => {
                if let Some((_, v)) = entries.iter_mut().find(|(k, _)| k.scalar() == Some(*step)) {
                    return v.set(rest, new);
                }
                let mut child = Yaml {
                    at: new.at,
                    value: Value::Map(Vec::new()),
                };
                child.set(rest, new)?;
                let value = Value::Scalar {
                    text: (*step).to_string(),
                    quoted: false,
                };
                entries.push((Yaml { at: new.at, value }, child));
                Ok(())
            }
            Value::Scalar { text, .. } => Err(format!("`{text}` has no field `{step}`")),
        }
    }

    fn count(&self) -> usize {
        match &self.value {
            Value::Scalar { .. } => 1,
            Value::Seq(items) => 1 + items.iter().map(Yaml::count).sum::<usize>(),
            Value::Map(entries) => {
                1 + entries
                    .iter()
                    .map(|(k, v)| k.count() + v.count())
                    .sum::<usize>()
            }
        }
    }
}

const SYNTAX_HINT: &str = "check indentation, colons and quotes around this place";

fn one(at: Mark, message: String, hint: &str) -> Diagnostics {
    let mut all = Diagnostics::default();
    all.add(at, message, hint);
    all
}

fn mark(span: Span) -> Mark {
    Mark {
        line: span.start.line(),
        column: span.start.col() + 1,
    }
}

/// Collects events into a tree.
#[derive(Default)]
struct Builder {
    root: Option<Yaml>,
    open: Vec<(Yaml, usize)>,
    anchors: Vec<(usize, Yaml)>,
    nodes: usize,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Diagnostics> {
        let at = mark(span);
        match event {
            Event::Scalar(text, style, anchor, _) => {
                let quoted = style != ScalarStyle::Plain;
                self.close(
                    Yaml {
                        at,
                        value: Value::Scalar {
                            text: text.into_owned(),
                            quoted,
                        },
                    },
                    anchor,
                )
            }
            Event::SequenceStart(anchor, _) => self.open(at, Value::Seq(Vec::new()), anchor),
            Event::MappingStart(anchor, _) => self.open(at, Value::Map(Vec::new()), anchor),
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some((done, anchor)) => self.close(done, anchor),
                None => Ok(()),
            },
            Event::Alias(id) => {
                let found = self
                    .anchors
                    .iter()
                    .find(|(a, _)| *a == id)
                    .map(|(_, y)| y.clone());
                let Some(mut copy) = found else {
                    return Err(one(at, "alias of an unknown anchor".into(), SYNTAX_HINT));
                };
                self.nodes += copy.count();
                copy.at = at;
                self.close(copy, 0)
            }
            Event::DocumentStart(_) if self.root.is_some() => Err(one(
                at,
                "a second document in one file".into(),
                "keep one lab or study a file, and remove the `---` between them",
            )),
            _ => Ok(()),
        }
    }

    fn open(&mut self, at: Mark, value: Value, anchor: usize) -> Result<(), Diagnostics> {
        if self.open.len() >= MAX_DEPTH {
            let message = format!("nested deeper than {MAX_DEPTH} levels");
            return Err(one(at, message, "a lab needs about six levels"));
        }
        self.open.push((Yaml { at, value }, anchor));
        Ok(())
    }

    fn close(&mut self, done: Yaml, anchor: usize) -> Result<(), Diagnostics> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            let message = format!("more than {MAX_NODES} values");
            return Err(one(done.at, message, "split the lab, or use fewer aliases"));
        }
        if anchor != 0 {
            self.anchors.push((anchor, done.clone()));
        }
        match self.open.last_mut().map(|(parent, _)| &mut parent.value) {
            None => self.root = Some(done),
            Some(Value::Seq(items)) => items.push(done),
            // A mapping's keys and values come in turn; a key waits with a null until its value.
            Some(Value::Map(entries)) => match entries.last_mut() {
                Some((key, value)) if is_waiting(key, value) => *value = done,
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
        at: Mark { line: 0, column: 0 },
        value,
    }
}

fn is_waiting(_key: &Yaml, value: &Yaml) -> bool {
    value.at.line == 0
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
        assert_eq!(entries[2].0.at, Mark { line: 5, column: 1 });
        assert_eq!(y.get("b").unwrap().compact(), "[x, {c: 2, c: 3}]");
    }

    #[test]
    fn any_field_can_be_set_by_path() {
        let mut y = Yaml::parse("t: {links: [{type: veth}]}\n").unwrap();
        let new = Yaml::parse("bridge").unwrap();
        y.set(&["t", "links", "0", "type"], &new).unwrap();
        y.set(&["t", "nodes", "a", "kind"], &new).unwrap();
        assert_eq!(
            y.compact(),
            "{t: {links: [{type: bridge}], nodes: {a: {kind: bridge}}}}"
        );
        assert!(
            y.set(&["t", "links", "7"], &new)
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
    }

    #[test]
    fn syntax_errors_have_a_place() {
        let errors = Yaml::parse("a: [1, 2\nb: 3\n").unwrap_err();
        assert!(errors.iter().next().unwrap().at.line >= 1);
    }
}
