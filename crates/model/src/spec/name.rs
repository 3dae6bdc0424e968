//! Names of labs, nodes and what else a document gives one.

use super::reader::Object;
use crate::diagnostic::{Diagnostics, Spanned, shown};

/// Longest name of a lab or node: it becomes a directory, a hostname and part of messages.
const MAX_NAME: usize = 32;

/// The document's own name; an empty one stands for one that was missing or wrong.
pub(super) fn read_name(
    o: &mut Object<'_>,
    what: &str,
    errors: &mut Diagnostics,
) -> Spanned<String> {
    let found = o.require("name", errors).is_some();
    let name = found.then(|| o.get::<String>("name", errors)).flatten();
    if let Some(name) = &name {
        check_name(what, name, errors);
    }
    name.unwrap_or(Spanned::new(String::new(), o.at))
}

/// Names are DNS labels in small letters: they become hostnames and file names.
pub(crate) fn check_name(what: &str, name: &Spanned<String>, errors: &mut Diagnostics) {
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let edge = |c: Option<char>| c.is_some_and(|c| good(c) && c != '-');
    if name.len() <= MAX_NAME
        && name.chars().all(good)
        && edge(name.chars().next())
        && edge(name.chars().last())
    {
        return;
    }
    let fixed: String = name
        .chars()
        .take(MAX_NAME)
        .flat_map(char::to_lowercase)
        .map(|c| if good(c) { c } else { '-' })
        .collect();
    let hint = match fixed.trim_matches('-') {
        "" => "for example `client`".to_string(),
        fixed => format!("for example `{fixed}`"),
    };
    let message = format!(
        "{what} name `{}` is not 1 to {MAX_NAME} small letters and digits, with hyphens between",
        shown(name)
    );
    errors.add(name.at, message, hint);
}
