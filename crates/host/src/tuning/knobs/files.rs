//! Items that are files, and CPU lists as their values.

use latlab_model::units::CpuList;

use crate::tuning::items::{Form, Item, NONE, only_read};
use crate::tuning::root::Root;

/// The one file, or why this machine has none.
pub fn one(root: &Root, path: &str, form: Form, without: &str) -> Result<Vec<Item>, String> {
    if root.has(path) {
        Ok(vec![Item::file(path, form)])
    } else {
        Err(format!("no {path}: {without}"))
    }
}

/// As [`one`], of a file that is read-only on some kernels; `fixed` says why.
pub fn one_unless_fixed(
    root: &Root,
    path: &str,
    form: Form,
    without: &str,
    fixed: &str,
) -> Result<Vec<Item>, String> {
    if only_read(root, path.as_ref()) {
        return Err(format!("{path} cannot be written: {fixed}"));
    }
    one(root, path, form, without)
}

/// All files that match a pattern, or why this machine has none.
pub fn each(root: &Root, pattern: &str, form: Form, without: &str) -> Result<Vec<Item>, String> {
    let found = root.glob(pattern).into_iter();
    some(
        found.map(|path| Item::file(path, form)),
        format!("no {pattern}: {without}"),
    )
}

/// The items, or why this machine has none.
pub fn some(
    items: impl IntoIterator<Item = Item>,
    none: impl Into<String>,
) -> Result<Vec<Item>, String> {
    let items: Vec<Item> = items.into_iter().collect();
    if items.is_empty() {
        return Err(none.into());
    }
    Ok(items)
}

/// A list as a value of [`Form::Mask`] or [`Form::List`].
pub fn list(cpus: &CpuList) -> String {
    if cpus.is_empty() {
        return NONE.to_string();
    }
    cpus.to_string()
}
