//! Files below /proc/sys, /proc/irq, /sys and the control groups.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use latlab_model::units::CpuList;
use serde::{Deserialize, Serialize};

use super::Item;
use crate::tuning::root::Root;

/// How a file's text is to be understood; the value is always without the form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// As it is.
    Text,
    /// All choices, the one in force in brackets: `always [madvise] never`.
    Choice,
    /// A mask of processors in hexadecimal; the value is the list.
    Mask,
    /// A list of processors.
    List,
    /// A number of things that the kernel may give only some of.
    Count,
    /// Names, of which the value says whether this controller is one: `+cpuset` or `-cpuset`.
    Cpuset,
}

/// No processor, in lists and masks.
pub const NONE: &str = "none";

pub(super) fn read(root: &Root, path: &Path, form: Form) -> io::Result<Option<String>> {
    let text = root.read(path)?;
    let text = text.trim();
    let value = match form {
        Form::Text | Form::Count => Some(text.to_string()),
        Form::Choice => text
            .split_whitespace()
            .find_map(|word| word.strip_prefix('[')?.strip_suffix(']'))
            .map(str::to_string),
        Form::Mask => from_mask(text),
        Form::List if text.is_empty() => Some(NONE.to_string()),
        Form::List => CpuList::parse(text).map(|list| list.to_string()),
        Form::Cpuset => {
            let on = text.split_whitespace().any(|word| word == "cpuset");
            Some(if on { "+cpuset" } else { "-cpuset" }.to_string())
        }
    };
    match value {
        Some(value) => Ok(Some(value)),
        None => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("`{text}` is not of the form that is expected"),
        )),
    }
}

pub(super) fn write(root: &Root, path: &Path, form: Form, value: &str) -> io::Result<()> {
    let text = match form {
        Form::Mask => to_mask(value)?,
        // Some files take an empty write for an empty set; a line with nothing is one.
        Form::List if value == NONE => "\n".to_string(),
        _ => value.to_string(),
    };
    // One write, because the kernel takes each for a whole value; not created, since what is not
    // there is not to be turned. Truncating means nothing to the kernel's files, and makes a made
    // tree behave like them.
    OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(root.path(path))
        .and_then(|mut file| file.write_all(text.as_bytes()))
}

/// Opening for writing changes nothing and fails where the mode, the mount or the caller forbids.
pub(super) fn writable(root: &Root, path: &Path) -> io::Result<()> {
    // Root may open anything; the kernel means its modes.
    if only_read(root, path) {
        return Err(io::Error::from_raw_os_error(libc::EACCES));
    }
    let file = OpenOptions::new().write(true).open(root.path(path));
    file.map(|_| ())
}

/// Whether the kernel lets nobody write it.
pub(in crate::tuning) fn only_read(root: &Root, path: &Path) -> bool {
    fs::metadata(root.path(path)).is_ok_and(|m| m.permissions().mode() & 0o222 == 0)
}

/// `00000001,00000003` as a list: groups of 32 processors, the highest first.
fn from_mask(text: &str) -> Option<String> {
    let mut cpus = Vec::new();
    for (group, digits) in text.rsplit(',').enumerate() {
        let bits = u32::from_str_radix(digits, 16).ok()?;
        let first = u32::try_from(group).ok()? * 32;
        cpus.extend((0..32).filter(|b| bits >> b & 1 == 1).map(|b| first + b));
    }
    Some(match cpus.is_empty() {
        true => NONE.to_string(),
        false => CpuList::new(cpus).to_string(),
    })
}

fn to_mask(list: &str) -> io::Result<String> {
    if list == NONE {
        return Ok("0".into());
    }
    let cpus = CpuList::parse(list).ok_or(io::ErrorKind::InvalidInput)?;
    let last = cpus.iter().last().unwrap_or(0);
    let mut groups = vec![0_u32; last as usize / 32 + 1];
    for cpu in cpus.iter() {
        groups[cpu as usize / 32] |= 1 << (cpu % 32);
    }
    let groups: Vec<String> = groups.iter().rev().map(|g| format!("{g:08x}")).collect();
    Ok(groups.join(","))
}

/// A list as a value of [`Form::Mask`] or [`Form::List`].
pub fn list(cpus: &CpuList) -> String {
    match cpus.is_empty() {
        true => NONE.to_string(),
        false => cpus.to_string(),
    }
}

/// The one file, or why this machine has none.
///
/// # Errors
/// The reason.
pub fn one(root: &Root, path: &str, form: Form, without: &str) -> Result<Vec<Item>, String> {
    match root.has(path) {
        true => Ok(vec![Item::file(path, form)]),
        false => Err(format!("no {path}: {without}")),
    }
}

/// As [`one`], of a file that some kernels let nobody write: on such a machine it is not to be turned, and `fixed`
/// says why.
///
/// # Errors
/// The reason.
pub fn one_unless_fixed(
    root: &Root,
    path: &str,
    form: Form,
    without: &str,
    fixed: &str,
) -> Result<Vec<Item>, String> {
    match only_read(root, path.as_ref()) {
        true => Err(format!("{path} cannot be written: {fixed}")),
        false => one(root, path, form, without),
    }
}

/// All files that fit a pattern, or why this machine has none.
///
/// # Errors
/// The reason.
pub fn each(root: &Root, pattern: &str, form: Form, without: &str) -> Result<Vec<Item>, String> {
    let found = root.glob(pattern);
    match found.is_empty() {
        false => Ok(found.into_iter().map(|p| Item::file(p, form)).collect()),
        true => Err(format!("no {pattern}: {without}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read_and_written_back() {
        let dir = std::env::temp_dir().join(format!("latlab-form-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let root = Root::at(&dir);
        let path = Path::new("/f");
        let check = |form: Form, text: &str, value: &str, back: &str| {
            fs::write(dir.join("f"), text).unwrap();
            assert_eq!(read(&root, path, form).unwrap().as_deref(), Some(value));
            write(&root, path, form, value).unwrap();
            assert_eq!(fs::read_to_string(dir.join("f")).unwrap(), back);
        };
        check(Form::Text, "60\n", "60", "60");
        check(
            Form::Choice,
            "always [madvise] never\n",
            "madvise",
            "madvise",
        );
        check(Form::Mask, "3\n", "0-1", "00000003");
        check(
            Form::Mask,
            "00000001,80000000\n",
            "31-32",
            "00000001,80000000",
        );
        check(Form::Mask, "0\n", "none", "0");
        check(Form::List, "0-1,4\n", "0-1,4", "0-1,4");
        check(Form::List, "\n", "none", "\n");
        check(Form::Cpuset, "cpu memory\n", "-cpuset", "-cpuset");
        fs::write(dir.join("f"), "always madvise\n").unwrap();
        assert!(read(&root, path, Form::Choice).is_err());
        fs::remove_dir_all(&dir).unwrap();
    }
}
