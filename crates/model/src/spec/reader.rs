//! Reading typed values out of a YAML tree, noting every mistake with its place.
//!
//! An object of the spec is read through [`Object`]: the reader asks for each key it knows, and
//! `finish` refuses the rest with the nearest known key as a hint. A value that cannot be read is
//! noted and skipped, so that one typo does not hide the next.

use std::collections::HashMap;
use std::net::IpAddr;

use ipnet::IpNet;

use super::yaml::{Value, Yaml};
use crate::diagnostic::{Diagnostics, Mark, Spanned, hint_one_of, nearest, shown};
use crate::units::{BitsPerSecond, Bytes, CpuList, Nanos};

pub struct Object<'y> {
    /// Its name in messages: ``node `server` ``.
    pub what: String,
    pub at: Mark,
    is_mapping: bool,
    missing: Vec<&'static str>,
    entries: Vec<(&'y Yaml, &'y Yaml)>,
    known: Vec<&'static str>,
}

impl<'y> Object<'y> {
    /// Begins to read `yaml` as a mapping; duplicate keys are mistakes. An empty value counts as an
    /// empty mapping, because `defaults:` with nothing below is common.
    pub fn new(yaml: &'y Yaml, what: impl Into<String>, errors: &mut Diagnostics) -> Self {
        let what = what.into();
        let mut entries: Vec<(&Yaml, &Yaml)> = Vec::new();
        match &yaml.value {
            Value::Map(all) => {
                let mut first: HashMap<&str, Mark> = HashMap::new();
                for (key, value) in all {
                    let Some(name) = key.scalar() else {
                        let message = format!("{what} has a key that is {}", key.kind());
                        errors.add(key.at, message, "use a plain name");
                        continue;
                    };
                    match first.get(name) {
                        Some(first) => {
                            let name = shown(name);
                            let message = format!(
                                "{what} has `{name}` twice; the first is on line {}",
                                first.line
                            );
                            errors.add(key.at, message, "rename or remove one");
                        }
                        None => {
                            first.insert(name, key.at);
                            entries.push((key, value));
                        }
                    }
                }
            }
            _ if yaml.is_null() => {}
            _ => errors.add(
                yaml.at,
                format!("{what} must be a mapping, not {}", yaml.kind()),
                "write it as `key: value` lines",
            ),
        }
        Object {
            what,
            at: yaml.at,
            is_mapping: matches!(yaml.value, Value::Map(_)) || yaml.is_null(),
            missing: Vec::new(),
            entries,
            known: Vec::new(),
        }
    }

    /// All entries, for mappings whose keys are names.
    pub fn entries(&self) -> impl Iterator<Item = (Spanned<&'y str>, &'y Yaml)> + '_ {
        self.entries
            .iter()
            .map(|(k, v)| (Spanned::new(k.scalar().unwrap_or(""), k.at), *v))
    }

    /// The value under `key`; null counts as absent.
    pub fn take(&mut self, key: &'static str) -> Option<&'y Yaml> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        self.entry(key).map(|(_, v)| v).filter(|v| !v.is_null())
    }

    /// Whether there is a mapping to read; that there is none was noted.
    pub fn is_mapping(&self) -> bool {
        self.is_mapping
    }

    /// Where `key` stands, with or without a value.
    pub fn key_at(&self, key: &str) -> Option<Mark> {
        self.entry(key).map(|(k, _)| k.at)
    }

    fn entry(&self, key: &str) -> Option<(&'y Yaml, &'y Yaml)> {
        self.entries
            .iter()
            .find(|(k, _)| k.scalar() == Some(key))
            .copied()
    }

    /// The value under `key`, which must be there. That it is not is noted by [`Object::finish`].
    pub fn require(&mut self, key: &'static str, errors: &mut Diagnostics) -> Option<&'y Yaml> {
        let found = self.take(key);
        match (found, self.key_at(key)) {
            (Some(_), _) => {}
            (None, Some(at)) => {
                let message = format!("`{key}` of {} has no value", self.what);
                errors.add(at, message, format!("write it after `{key}:`"));
            }
            (None, None) => self.missing.push(key),
        }
        found
    }

    pub fn get<T: FromYaml>(
        &mut self,
        key: &'static str,
        errors: &mut Diagnostics,
    ) -> Option<Spanned<T>> {
        let yaml = self.take(key)?;
        read(yaml, &format!("`{key}` of {}", self.what), errors)
    }

    /// Begins to read the mapping under `key`.
    pub fn object(&mut self, key: &'static str, errors: &mut Diagnostics) -> Option<Object<'y>> {
        let yaml = self.take(key)?;
        Some(Object::new(
            yaml,
            format!("`{key}` of {}", self.what),
            errors,
        ))
    }

    /// As [`Object::get`], where its place does not matter.
    pub fn value<T: FromYaml>(&mut self, key: &'static str, errors: &mut Diagnostics) -> Option<T> {
        self.get(key, errors).map(|found| found.value)
    }

    /// As [`Object::get`], where it must be there.
    pub fn need<T: FromYaml>(
        &mut self,
        key: &'static str,
        errors: &mut Diagnostics,
    ) -> Option<Spanned<T>> {
        self.require(key, errors)?;
        self.get(key, errors)
    }

    /// Reads a list under `key`; a single value counts as a list of one.
    pub fn list<T: FromYaml>(
        &mut self,
        key: &'static str,
        errors: &mut Diagnostics,
    ) -> Vec<Spanned<T>> {
        let Some(yaml) = self.take(key) else {
            return Vec::new();
        };
        let what = format!("`{key}` of {}", self.what);
        match &yaml.value {
            Value::Seq(items) => items
                .iter()
                .filter_map(|i| read(i, &what, errors))
                .collect(),
            Value::Map(_) => {
                let message = format!("{what} must be a list, not a mapping");
                errors.add(yaml.at, message, "begin each item with `- `");
                Vec::new()
            }
            Value::Scalar { .. } => read(yaml, &what, errors).into_iter().collect(),
        }
    }

    /// Refuses every key that was not asked for, and notes those that are missing; one that is only
    /// misspelt is one mistake.
    pub fn finish(mut self, errors: &mut Diagnostics) {
        for (key, _) in &self.entries {
            let name = key.scalar().unwrap_or("");
            if self.known.contains(&name) || errors.is_full() {
                continue;
            }
            let meant = nearest(name, self.missing.iter().copied());
            self.missing.retain(|m| Some(*m) != meant);
            let message = format!("unknown key `{}` in {}", shown(name), self.what);
            let hint = match name {
                "<<" => "YAML's merge keys are not read; `topology.defaults` and `topology.kinds` share settings".into(),
                _ => hint_one_of(name, &self.known),
            };
            errors.add(key.at, message, hint);
        }
        // A value that is no mapping was noted as such.
        for key in self.missing.iter().filter(|_| self.is_mapping) {
            let message = format!("{} has no `{key}`", self.what);
            errors.add(self.at, message, format!("add `{key}:`"));
        }
    }
}

/// Reads `yaml` as a `T`, noting a mistake about `what` when it is not one.
pub fn read<T: FromYaml>(yaml: &Yaml, what: &str, errors: &mut Diagnostics) -> Option<Spanned<T>> {
    let Some(text) = yaml.scalar() else {
        let message = format!("{what} must be {}, not {}", T::EXPECTED, yaml.kind());
        let hint = match T::EXAMPLE {
            "" => "write a single value".to_string(),
            example => format!("write a single value, for example {example}"),
        };
        errors.add(yaml.at, message, hint);
        return None;
    };
    match T::from_text(text) {
        Some(value) => Some(Spanned::new(value, yaml.at)),
        None => {
            if !errors.is_full() {
                let message = format!("{what} must be {}, not `{}`", T::EXPECTED, shown(text));
                errors.add(yaml.at, message, T::hint(text));
            }
            None
        }
    }
}

/// The items of `yaml`; that `what` is no list is noted.
pub fn items<'y>(
    yaml: &'y Yaml,
    what: &str,
    hint: &str,
    errors: &mut Diagnostics,
) -> Option<&'y [Yaml]> {
    let Value::Seq(items) = &yaml.value else {
        errors.add(yaml.at, format!("{what} must be a list"), hint);
        return None;
    };
    Some(items)
}

/// A type that one scalar holds.
pub trait FromYaml: Sized {
    /// The expected form, for messages: `a duration`.
    const EXPECTED: &'static str;
    const EXAMPLE: &'static str;
    fn from_text(text: &str) -> Option<Self>;
    fn hint(_text: &str) -> String {
        format!("for example {}", Self::EXAMPLE)
    }
}

/// Implements [`FromYaml`] by an expression.
macro_rules! scalar {
    ($type:ty, $expected:literal, $example:literal, $parse:expr) => {
        impl FromYaml for $type {
            const EXPECTED: &'static str = $expected;
            const EXAMPLE: &'static str = $example;
            fn from_text(text: &str) -> Option<Self> {
                let parse: fn(&str) -> Option<Self> = $parse;
                parse(text)
            }
        }
    };
}

scalar!(String, "text", "", |t| Some(t.to_string()));
scalar!(bool, "true or false", "`true`", |t| match t {
    "true" | "True" | "yes" => Some(true),
    "false" | "False" | "no" => Some(false),
    _ => None,
});
scalar!(u16, "a whole number from 0 to 65535", "`4789`", |t| t
    .parse()
    .ok());
scalar!(u32, "a whole number", "`42`", |t| t.parse().ok());
scalar!(u64, "a whole number", "`42`", |t| t
    .replace('_', "")
    .parse()
    .ok());
scalar!(f64, "a number above 0", "`1.5`", |t| t
    .parse()
    .ok()
    .filter(|x: &f64| x.is_finite() && *x > 0.0));
scalar!(
    Nanos,
    "a duration with its unit",
    "`10ms` (units: ns, us, ms, s, min)",
    Nanos::parse
);
scalar!(
    Bytes,
    "a size with its unit",
    "`256MiB` (units: B, KiB, MiB, GiB, kB, MB, GB)",
    Bytes::parse
);
scalar!(
    BitsPerSecond,
    "a rate with its unit",
    "`1Gbit` (units: bit, kbit, Mbit, Gbit)",
    BitsPerSecond::parse
);
scalar!(CpuList, "a list of CPUs", "`0-3,8`", CpuList::parse);
scalar!(
    IpNet,
    "an address with its prefix length",
    "`10.1.0.1/24` or `fd00::1/64`",
    |t| t.parse().ok()
);
scalar!(IpAddr, "an IP address", "`10.1.0.1`", |t| t.parse().ok());

/// A probability, written as a fraction or in percent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fraction(pub f64);
scalar!(
    Fraction,
    "a share between 0 and 1, or in percent",
    "`0.1%`",
    |t| {
        let value = match t.strip_suffix('%') {
            Some(percent) => percent.trim().parse::<f64>().ok()? / 100.0,
            None => t.parse().ok()?,
        };
        (0.0..=1.0).contains(&value).then_some(Fraction(value))
    }
);

/// Implements [`FromYaml`] for a type that has its words.
macro_rules! read_words {
    ($type:ident, $expected:literal, $example:literal) => {
        impl $crate::spec::reader::FromYaml for $type {
            const EXPECTED: &'static str = $expected;
            const EXAMPLE: &'static str = concat!("`", $example, "`");
            fn from_text(text: &str) -> Option<Self> {
                Self::of_word(text)
            }
            fn hint(text: &str) -> String {
                $crate::diagnostic::hint_one_of(text, Self::WORDS)
            }
        }
    };
}
pub(crate) use read_words;

/// Gives a field-less enum its words, and reads them.
macro_rules! words {
    ($type:ident, $expected:literal, {
        $first:literal => $first_variant:ident $(, $word:literal => $variant:ident)* $(,)?
    }) => {
        $crate::words::vocabulary!($type, {
            $first => $first_variant $(, $word => $variant)*
        });
        $crate::spec::reader::read_words!($type, $expected, $first);
    };
}
pub(crate) use words;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_and_duplicate_keys_are_refused_with_a_hint() {
        let y = Yaml::parse("cpu: 1\nmemory: 2GiB\nmemory: 3GiB\n").unwrap();
        let mut errors = Diagnostics::default();
        let mut o = Object::new(&y, "node `a`", &mut errors);
        assert_eq!(
            o.get::<Bytes>("memory", &mut errors).unwrap().value,
            Bytes(2 << 30)
        );
        assert!(o.get::<f64>("cpus", &mut errors).is_none());
        o.finish(&mut errors);
        let text = errors.into_result(()).unwrap_err().render("x");
        assert!(
            text.contains("x:1:1: unknown key `cpu` in node `a`\n  hint: did you mean `cpus`?"),
            "{text}"
        );
        assert!(
            text.contains("x:3:1: node `a` has `memory` twice; the first is on line 2"),
            "{text}"
        );
    }

    #[test]
    fn shares_are_read_as_fraction_or_percent() {
        assert_eq!(Fraction::from_text("0.1%"), Some(Fraction(0.001)));
        assert_eq!(Fraction::from_text("0.5"), Some(Fraction(0.5)));
        assert_eq!(Fraction::from_text("101%"), None);
    }
}
