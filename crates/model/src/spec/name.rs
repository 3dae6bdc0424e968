//! Names of labs, nodes and what else a document gives one.

use super::reader::Object;
use crate::diagnostic::{Diagnostics, Spanned, shown};

/// Longest name of a lab or node: it becomes a directory, a hostname and part of messages.
pub(crate) const MAX_NAME: usize = 32;

/// A text as a part of a name, which has small letters, digits and hyphens: `0.5s` is `0-5s` there.
pub(crate) fn dashed(text: &str) -> String {
    let allowed = |c: char| match c.is_ascii_alphanumeric() {
        true => c.to_ascii_lowercase(),
        false => '-',
    };
    let name: String = text.chars().map(allowed).collect();
    name.trim_matches('-').to_owned()
}

/// The document's own name; an empty one stands for one that was missing or wrong.
pub(super) fn read_name(
    o: &mut Object<'_>,
    what: &str,
    errors: &mut Diagnostics,
) -> Spanned<String> {
    let name = o.need::<String>("name", errors);
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

/// Names that every hosts file has already.
const LOCAL: [&str; 3] = ["localhost", "ip6-localhost", "ip6-loopback"];

/// Nodes find each other by name, so a node's name must not lead elsewhere.
pub(super) fn check_host_name(name: &Spanned<String>, errors: &mut Diagnostics) {
    if LOCAL.contains(&name.as_str()) {
        let message = format!("node name `{}` is what every node calls itself", **name);
        let hint = "nodes find each other by name; choose another, for example `client`";
        errors.add(name.at, message, hint);
    } else if is_number(name) {
        let message = format!(
            "node name `{}` is a number, which programs take for an address",
            **name
        );
        let hint = format!("nodes find each other by name; for example `n{}`", **name);
        errors.add(name.at, message, hint);
    }
}

/// Whether inet_aton(3) would take it for an address of one part, or might.
fn is_number(name: &str) -> bool {
    let hexadecimal = name.strip_prefix("0x").map(str::as_bytes);
    let decimal = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    hexadecimal.map_or_else(
        || decimal(name),
        |digits| digits.iter().all(u8::is_ascii_hexdigit),
    )
}
