//! A line, cut into words that know their columns.

use std::collections::BTreeMap;

use super::mistake::Mistake;
use crate::diagnostic::{nearest, shown};

/// A word and its column, from 1, in characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    pub text: String,
    pub column: usize,
}

/// Longest line in bytes; a hostile client could send more.
pub(super) const MAX_LINE: usize = 4096;

/// The words of a line: separated by blanks, `"with blanks inside"` where needed, up to a `#`.
pub(super) fn split(line: &str) -> Result<Vec<Word>, Mistake> {
    if line.len() > MAX_LINE {
        let hint = format!("a line has at most {MAX_LINE} bytes");
        return Err(Mistake::new(1, "the line is too long", hint));
    }
    let mut words = Vec::new();
    let mut chars = line.chars().enumerate().peekable();
    while let Some((at, c)) = chars.next() {
        let column = at + 1;
        match c {
            '#' => break,
            c if c.is_whitespace() => {}
            '"' => {
                let mut text = String::new();
                loop {
                    match chars.next() {
                        Some((_, '"')) => break,
                        Some((_, c)) => text.push(c),
                        None => {
                            return Err(Mistake::new(
                                column,
                                "a quoted word does not end",
                                "close it with \"",
                            ));
                        }
                    }
                }
                words.push(Word { text, column });
            }
            c => {
                let mut text = String::from(c);
                while let Some((_, c)) = chars.next_if(|(_, c)| !c.is_whitespace() && *c != '#') {
                    text.push(c);
                }
                words.push(Word { text, column });
            }
        }
    }
    Ok(words)
}

pub(super) struct Words {
    words: std::vec::IntoIter<Word>,
    end: usize,
}

impl Words {
    pub fn new(words: Vec<Word>) -> Words {
        let end = words
            .last()
            .map_or(1, |word| word.column + word.text.chars().count() + 1);
        Words {
            words: words.into_iter(),
            end,
        }
    }

    /// The next word; `what` says what it should be.
    pub fn next(&mut self, what: &str, hint: &str) -> Result<Word, Mistake> {
        let end = self.end;
        self.words
            .next()
            .ok_or_else(|| Mistake::new(end, format!("{what} is missing"), hint))
    }

    pub fn peek(&self) -> Option<&Word> {
        self.words.as_slice().first()
    }

    pub fn end(&self) -> Result<(), Mistake> {
        match self.peek() {
            None => Ok(()),
            Some(word) => Err(Mistake::new(
                word.column,
                format!("`{}` is too much", shown(&word.text)),
                "end the line before it",
            )),
        }
    }

    /// The rest as `key value` pairs, of the keys in `known`.
    pub fn options(mut self, known: &[&str]) -> Result<Options, Mistake> {
        let mut given = BTreeMap::new();
        while let Some(key) = self.words.next() {
            if !known.contains(&key.text.as_str()) {
                return Err(unknown("option", &key, known));
            }
            let what = format!("the value of `{}`", key.text);
            let value = self.next(&what, &format!("write `{} VALUE`", key.text))?;
            if given.insert(key.text.clone(), value).is_some() {
                let message = format!("`{}` is given twice", key.text);
                return Err(Mistake::new(key.column, message, "give it once"));
            }
        }
        Ok(Options {
            given,
            end: self.end,
        })
    }
}

pub(super) struct Options {
    given: BTreeMap<String, Word>,
    end: usize,
}

impl Options {
    /// The value of `key`, read by `read`; `wanted` says what it accepts.
    pub fn get<T>(
        &mut self,
        key: &str,
        wanted: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Mistake> {
        let Some(word) = self.given.remove(key) else {
            return Ok(None);
        };
        match read(&word.text) {
            Some(value) => Ok(Some(value)),
            None => Err(Mistake::new(
                word.column,
                format!("`{}` cannot be the {key}", shown(&word.text)),
                format!("write {wanted}"),
            )),
        }
    }

    /// As [`Options::get`], when it must be there.
    pub fn need<T>(
        &mut self,
        key: &str,
        wanted: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, Mistake> {
        let end = self.end;
        self.get(key, wanted, read)?.ok_or_else(|| {
            Mistake::new(
                end,
                format!("`{key}` is missing"),
                format!("add `{key}` and {wanted}"),
            )
        })
    }

    /// The first of `keys` that is given, with its value.
    pub fn one_of(&mut self, keys: &[&str]) -> Option<(String, Word)> {
        keys.iter().find_map(|key| self.given.remove_entry(*key))
    }

    /// Where the line ends, for what is missing.
    pub const fn end(&self) -> usize {
        self.end
    }

    /// That nothing is given that this kind of thing has no use for.
    pub fn done(self, kind: &str) -> Result<(), Mistake> {
        match self.given.into_iter().next() {
            None => Ok(()),
            Some((key, value)) => Err(Mistake::new(
                value.column,
                format!("{kind} has no `{key}`"),
                "leave it out",
            )),
        }
    }
}

/// That a word is none of those that may stand there.
pub(super) fn unknown(what: &str, word: &Word, known: &[&str]) -> Mistake {
    let hint = match nearest(&word.text, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("one of {}", known.join(", ")),
    };
    let message = format!("unknown {what} `{}`", shown(&word.text));
    Mistake::new(word.column, message, hint)
}
