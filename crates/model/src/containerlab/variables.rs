//! Variables of the environment, which containerlab replaces anywhere in the text of a topology.
//!
//! Here the tree has them replaced, so that places stay those of the file. A value that is YAML itself becomes text.

use crate::diagnostic::{Diagnostics, Mark, shown};
use crate::spec::yaml::{Value, Yaml};

/// Looks up a variable of the environment.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Longest text of all variables' values together. A short text may name a long one many times.
const MAX_BYTES: usize = 4 << 20;

/// Replaces variables in every text of `yaml`.
pub(super) fn expand(yaml: &mut Yaml, environment: Environment<'_>, errors: &mut Diagnostics) {
    let mut left = MAX_BYTES;
    each_text(yaml, &mut |text, at| {
        if !text.contains('$') {
            return;
        }
        let expanded = expanded(text, environment, left);
        left = left.saturating_sub(expanded.as_ref().map_or(left, String::len));
        if let Some(expanded) = expanded {
            *text = expanded;
        } else if errors.is_empty() {
            let message = format!(
                "values of variables are longer than {MAX_BYTES} bytes, up to `{}`",
                shown(text)
            );
            errors.add(
                at,
                message,
                "shorten the variables, or write `$$` for a dollar sign",
            );
        }
    });
}

/// Doubles the dollar signs in every text of `yaml`, so that containerlab reads them as they are.
pub(super) fn escape(yaml: &mut Yaml) {
    each_text(yaml, &mut |text, _| *text = text.replace('$', "$$"));
}

fn each_text(yaml: &mut Yaml, change: &mut dyn FnMut(&mut String, Mark)) {
    match &mut yaml.value {
        Value::Scalar { text, .. } => change(text, yaml.at),
        Value::Seq(items) => items.iter_mut().for_each(|item| each_text(item, change)),
        Value::Map(entries) => entries.iter_mut().for_each(|(key, value)| {
            each_text(key, change);
            each_text(value, change);
        }),
    }
}

/// None if it became longer than `most`.
fn expanded(text: &str, environment: Environment<'_>, most: usize) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('$') {
        out += before;
        rest = behind;
        if let Some(behind) = rest.strip_prefix('$') {
            // The name behind belongs to the text.
            out.push('$');
            rest = behind;
        } else if let Some((expression, behind)) = braced(rest) {
            out += &value(expression, environment);
            rest = behind;
        } else {
            let name = name_of(rest);
            out += &variable(name, environment);
            rest = &rest[name.len()..];
        }
        if out.len() > most {
            return None;
        }
    }
    out += rest;
    Some(out)
}

/// `{expression}` and what is behind it. The expression begins with a name.
fn braced(text: &str) -> Option<(&str, &str)> {
    let (expression, behind) = text.strip_prefix('{')?.split_once('}')?;
    (!name_of(expression).is_empty()).then_some((expression, behind))
}

/// The name at the beginning; empty if there is none.
fn name_of(text: &str) -> &str {
    let inside = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let end = text.find(|c| !inside(c)).unwrap_or(text.len());
    let is_name = !text.starts_with(|c: char| c.is_ascii_digit());
    if is_name { &text[..end] } else { "" }
}

/// The variable's value; its own name where it has none.
fn variable(name: &str, environment: Environment<'_>) -> String {
    let value = environment(name).filter(|value| !name.is_empty() && !value.is_empty());
    value.unwrap_or_else(|| format!("${name}"))
}

/// The value of `name`, `name:=default` and the other forms.
fn value(expression: &str, environment: Environment<'_>) -> String {
    let name = name_of(expression);
    let operator = &expression[name.len()..];
    let found = environment(name);
    let other = |text: &str| match text.strip_prefix('$').map(|rest| (rest, name_of(rest))) {
        Some((rest, name)) if !name.is_empty() && rest == name => variable(name, environment),
        _ => text.to_string(),
    };
    let is_given = found.is_some();
    let is_full = found.as_ref().is_some_and(|value| !value.is_empty());
    let forms: [(&str, bool); 6] = [
        (":-", is_full),
        (":=", is_full),
        ("-", is_given),
        ("=", is_given),
        (":+", !is_given),
        ("+", !is_given),
    ];
    let form = forms.iter().find(|(form, _)| operator.starts_with(form));
    match form {
        Some((form, false)) => other(&operator[form.len()..]),
        Some((":+" | "+", true)) => String::new(),
        None if !operator.is_empty() => format!("${{{expression}}}"),
        _ => variable(name, environment),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(name: &str) -> Option<String> {
        match name {
            "SET" => Some("value".into()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    #[test]
    fn variables_are_replaced_as_containerlab_does() {
        for (text, expected) in [
            ("alpine:${VERSION:=3}", "alpine:3"),
            ("$SET/${SET}", "value/value"),
            ("$UNSET ${UNSET}", "$UNSET $UNSET"),
            ("${SET:-x} ${EMPTY:-x} ${UNSET:-x}", "value x x"),
            ("${SET-x} ${EMPTY-x} ${UNSET-x}", "value $EMPTY x"),
            ("${UNSET:-$SET} ${UNSET=$UNSET}", "value $UNSET"),
            ("${SET+x} ${SET:+$SET} ${UNSET+x}|", "x value |"),
            ("$$SET $$$SET", "$SET $value"),
            ("P4s$ $1 ${1} ${} ${SET", "P4s$ $1 ${1} ${} ${SET"),
            ("${a.b} ${SET?}", "${a.b} ${SET?}"),
        ] {
            assert_eq!(
                expanded(text, &environment, 100).unwrap(),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn a_value_that_is_named_often_does_not_fill_memory() {
        let long = |_: &str| Some("x".repeat(100_000));
        let mut yaml = Yaml::parse(&format!("a: \"{}\"\n", "$A".repeat(100_000))).unwrap();
        let mut errors = Diagnostics::default();
        expand(&mut yaml, &long, &mut errors);
        let said = errors.into_result(()).unwrap_err().render("x");
        assert!(said.contains("longer than 4194304 bytes"), "{said}");
    }

    #[test]
    fn an_escaped_text_is_the_same_after_it_is_read() {
        let mut yaml = Yaml::parse("$a: [\"$$ ${SET:-x} $SET\"]\n").unwrap();
        let before = yaml.compact();
        escape(&mut yaml);
        let mut errors = Diagnostics::default();
        expand(&mut yaml, &environment, &mut errors);
        assert_eq!(yaml.compact(), before);
    }
}
