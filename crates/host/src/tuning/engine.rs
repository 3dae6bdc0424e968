//! Writing one item: shared by apply and revert.

use serde::Serialize;

use super::items::{Item, Value};
use super::journal::Entry;
use super::root::Root;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    pub item: String,
    pub reason: String,
}

impl Problem {
    pub(super) fn of(item: &Item, reason: String) -> Problem {
        let item = item.to_string();
        Problem { item, reason }
    }
}

/// The result of a write, with the value read back after it.
pub(super) enum Outcome {
    Applied,
    Unchanged,
    Gone,
    /// The kernel owns the value.
    Fixed(String, Option<Value>),
    Refused(String, Value),
    /// The kernel or the driver took it, and made another value of it.
    Rounded(String, Value),
    /// An item of another program, which changed it again.
    Strayed(String),
}

pub(super) fn apply_one(item: &Item, wanted: &Value, root: &Root) -> Outcome {
    if let Ok(Some(now)) = item.read(root) {
        if now.same(wanted) {
            return Outcome::Unchanged;
        }
    }
    let written = item.write(root, wanted);
    match (written, item.read(root).ok().flatten()) {
        (Err(error), now) if item.is_fixed(&error) => Outcome::Fixed(error.to_string(), now),
        (_, None) => Outcome::Gone,
        (Ok(()), Some(now)) if now.same(wanted) => Outcome::Applied,
        (Ok(()), Some(now)) if item.is_free() => {
            Outcome::Strayed(format!("`{wanted}` was written, and it is `{now}` again"))
        }
        (Ok(()), Some(now)) => Outcome::Rounded(
            format!("`{wanted}` was written, and `{now}` is read back"),
            now,
        ),
        // A thread that the kernel keeps where it is would run on isolated CPUs: that is an error.
        (Err(error), Some(now)) if item.is_free() && !matches!(item, Item::Task { .. }) => {
            Outcome::Strayed(format!("`{wanted}` was not taken: {error}; it is `{now}`"))
        }
        (Err(error), Some(now)) => {
            Outcome::Refused(format!("`{wanted}` was not taken: {error}"), now)
        }
    }
}

/// Writes the new value of an entry after the CPU split changed.
pub(super) fn reapply(entry: &mut Entry, root: &Root) -> Option<Problem> {
    match apply_one(&entry.item, &entry.wanted, root) {
        Outcome::Refused(reason, _) => Some(Problem::of(&entry.item, reason)),
        Outcome::Rounded(reason, now) => {
            entry.earlier = None;
            entry.rounded = Some(now);
            Some(Problem::of(&entry.item, reason))
        }
        _ => {
            entry.earlier = None;
            None
        }
    }
}
