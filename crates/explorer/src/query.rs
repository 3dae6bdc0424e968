//! The language of the search box.
//!
//! ```text
//! word "two words"     all must occur, each as the begin of a word
//! study:quick          the field contains it;  study machine version kernel state tag path measurement
//! study=quick          the field is it;  also a factor: kind=vm
//! after:2026-11-01     started then or later;  before: started earlier
//! -kind=vm             not
//! ```

use jiff::Timestamp;
use jiff::civil::Date;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    pub is_excluded: bool,
    pub condition: Condition,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// A phrase whose last word may go on.
    Text(String),
    Contains(Field, String),
    /// A field, or a factor with this level.
    Is(String, String),
    /// RFC 3339, or the begin of one.
    After(String),
    Before(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    Study,
    Machine,
    Version,
    Kernel,
    State,
    Path,
    Tag,
    Measurement,
}

impl Field {
    const ALL: [Self; 8] = [
        Self::Study,
        Self::Machine,
        Self::Version,
        Self::Kernel,
        Self::State,
        Self::Path,
        Self::Tag,
        Self::Measurement,
    ];

    /// Also that of its column or table in the index.
    pub fn name(self) -> &'static str {
        match self {
            Self::Study => "study",
            Self::Machine => "machine",
            Self::Version => "version",
            Self::Kernel => "kernel",
            Self::State => "state",
            Self::Path => "path",
            Self::Tag => "tag",
            Self::Measurement => "measurement",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|field| field.name() == name)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryError {
    pub message: String,
    pub hint: String,
}

/// Terms at most: each is a part of an SQL statement.
const MAX_TERMS: usize = 50;

pub fn parse(text: &str) -> Result<Vec<Term>, QueryError> {
    let terms: Vec<Term> = split(text)?
        .into_iter()
        .map(term)
        .collect::<Result<_, _>>()?;
    if terms.len() > MAX_TERMS {
        return Err(QueryError {
            message: format!("the query has {} terms", terms.len()),
            hint: format!("{MAX_TERMS} are possible"),
        });
    }
    Ok(terms)
}

/// A term as written: what stands before the first `:` or `=` outside quotes, that sign, and the rest without quotes.
#[derive(Debug, Default)]
struct Raw {
    is_excluded: bool,
    key: Option<(String, char)>,
    value: String,
}

fn split(text: &str) -> Result<Vec<Raw>, QueryError> {
    let mut terms = Vec::new();
    let mut current: Option<Raw> = None;
    let mut is_quoted = false;
    for c in text.chars() {
        if c.is_whitespace() && !is_quoted {
            terms.extend(current.take());
            continue;
        }
        let is_first = current.is_none();
        let raw = current.get_or_insert_with(Raw::default);
        match c {
            '"' => is_quoted = !is_quoted,
            '-' if is_first => raw.is_excluded = true,
            ':' | '=' if !is_quoted && raw.key.is_none() && !raw.value.is_empty() => {
                raw.key = Some((std::mem::take(&mut raw.value), c));
            }
            c => raw.value.push(c),
        }
    }
    terms.extend(current);
    match is_quoted {
        true => Err(QueryError {
            message: "a quotation mark has no end".to_owned(),
            hint: "write \"two words\"".to_owned(),
        }),
        false => Ok(terms),
    }
}

fn term(raw: Raw) -> Result<Term, QueryError> {
    let condition = match raw.key {
        None => text(raw.value)?,
        Some((key, sign)) => {
            if raw.value.is_empty() {
                return Err(QueryError {
                    message: format!("`{key}{sign}` has no value"),
                    hint: format!("write {key}{sign}VALUE without a space"),
                });
            }
            match (key.as_str(), sign) {
                ("after", ':') => Condition::After(moment(&raw.value)?),
                ("before", ':') => Condition::Before(moment(&raw.value)?),
                (_, '=') => Condition::Is(key, raw.value),
                _ => Condition::Contains(field(&key, &raw.value)?, raw.value),
            }
        }
    };
    Ok(Term {
        is_excluded: raw.is_excluded,
        condition,
    })
}

fn text(value: String) -> Result<Condition, QueryError> {
    match value.chars().any(char::is_alphanumeric) {
        true => Ok(Condition::Text(value)),
        false => Err(QueryError {
            message: format!("`{value}` has neither letter nor digit"),
            hint: "search for words, or for a field, as in study:quick".to_owned(),
        }),
    }
}

fn field(key: &str, value: &str) -> Result<Field, QueryError> {
    Field::named(key).ok_or_else(|| {
        let names = Field::ALL.map(Field::name);
        QueryError {
            message: format!("`{key}:` is no field"),
            hint: format!(
                "fields are {}, after and before; a factor is written {key}={value}, a text with a colon in quotation marks",
                names.join(", ")
            ),
        }
    })
}

/// Times of runs are RFC 3339 in UTC, so their begin orders them as text.
fn moment(value: &str) -> Result<String, QueryError> {
    if let Ok(moment) = value.parse::<Timestamp>() {
        return Ok(moment.to_string());
    }
    // A date is also read from what has a time behind it, or no hyphens; neither orders times as text.
    let date = value.parse::<Date>();
    match date.is_ok_and(|date| date.to_string() == value) {
        true => Ok(value.to_owned()),
        false => Err(QueryError {
            message: format!("`{value}` is no date, and no time with an offset"),
            hint: "write 2026-11-01, 2026-11-01T10:00:00Z or 2026-11-01T10:00:00+01:00".to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conditions(text: &str) -> Vec<(bool, Condition)> {
        let terms = parse(text).unwrap().into_iter();
        terms
            .map(|term| (term.is_excluded, term.condition))
            .collect()
    }

    #[test]
    fn words_phrases_fields_factors_and_times() {
        let text = |s: &str| Condition::Text(s.to_owned());
        let is = |a: &str, b: &str| Condition::Is(a.to_owned(), b.to_owned());
        let contains = |field, s: &str| Condition::Contains(field, s.to_owned());
        assert_eq!(
            conditions(
                r#"  night "two words" -kind=vm study:qu machine="AMD EPYC" after:2026-11-01 rr-udp"#
            ),
            [
                (false, text("night")),
                (false, text("two words")),
                (true, is("kind", "vm")),
                (false, contains(Field::Study, "qu")),
                (false, is("machine", "AMD EPYC")),
                (false, Condition::After("2026-11-01".to_owned())),
                (false, text("rr-udp")),
            ]
        );
        assert_eq!(conditions(""), []);
        assert_eq!(conditions("\"a:b=c\""), [(false, text("a:b=c"))]);
        assert_eq!(conditions("link=a=b:c"), [(false, is("link", "a=b:c"))]);
    }

    #[test]
    fn moments_are_ordered_in_utc() {
        for (query, moment) in [
            ("after:2026-11-01", "2026-11-01"),
            ("after:2026-11-01T10:00:00Z", "2026-11-01T10:00:00Z"),
            ("after:2026-11-01T00:30:00+01:00", "2026-10-31T23:30:00Z"),
            ("after:2026-11-01T22:00:00-05:00", "2026-11-02T03:00:00Z"),
            ("after:20261101T100000Z", "2026-11-01T10:00:00Z"),
        ] {
            let expected = Condition::After(moment.to_owned());
            assert_eq!(conditions(query), [(false, expected)], "{query}");
        }
    }

    #[test]
    fn mistakes_are_told_with_a_hint() {
        for (query, message) in [
            ("\"open", "a quotation mark has no end"),
            ("nosuch:x", "`nosuch:` is no field"),
            ("study:", "`study:` has no value"),
            (
                "after:yesterday",
                "`yesterday` is no date, and no time with an offset",
            ),
            (
                "before:20261101",
                "`20261101` is no date, and no time with an offset",
            ),
            (
                "after:2026-11-01T10:00:00",
                "`2026-11-01T10:00:00` is no date, and no time with an offset",
            ),
            ("--", "`-` has neither letter nor digit"),
        ] {
            let error = parse(query).unwrap_err();
            assert_eq!(error.message, message);
            assert!(!error.hint.is_empty());
        }
        assert!(parse(&"a ".repeat(51)).is_err());
    }
}
