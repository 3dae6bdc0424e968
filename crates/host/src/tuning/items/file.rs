//! Files below /proc/sys, /proc/irq, /sys and the cgroups.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use latlab_model::units::CpuList;
use serde::{Deserialize, Serialize};

use crate::tuning::root::Root;

/// The syntax of a file's text; the value is always free of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    Text,
    /// All choices, the current one in brackets: `always [madvise] never`.
    Choice,
    /// A hexadecimal CPU mask; the value is the list.
    Mask,
    List,
    /// A number that the kernel may satisfy only in part.
    Count,
    /// A list of controllers; the value says whether `cpuset` is one of them: `+cpuset` or `-cpuset`.
    Cpuset,
}

/// The empty set, in lists and masks.
pub(in crate::tuning) const NONE: &str = "none";

pub(super) fn read(root: &Root, path: &Path, form: Form) -> io::Result<String> {
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
    value.ok_or_else(|| {
        let message = format!("`{text}` is not of the expected form");
        io::Error::new(io::ErrorKind::InvalidData, message)
    })
}

pub(super) fn write(root: &Root, path: &Path, form: Form, value: &str) -> io::Result<()> {
    let text = match form {
        Form::Mask => to_mask(value)?,
        // Some files ignore an empty write; an empty line means the empty set.
        Form::List if value == NONE => "\n".to_string(),
        _ => value.to_string(),
    };
    // One write, because the kernel takes each for a whole value; never created, since a missing file is a
    // missing knob. The kernel's files ignore truncation; the files of a test's tree need it.
    OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(root.path(path))
        .and_then(|mut file| file.write_all(text.as_bytes()))
}

/// Opening for writing changes nothing and fails where the mode, the mount or the caller's rights forbid it.
pub(super) fn writable(root: &Root, path: &Path) -> io::Result<()> {
    // Root may open any file; the kernel refuses a write against the mode.
    if only_read(root, path) {
        return Err(io::Error::from_raw_os_error(libc::EACCES));
    }
    let file = OpenOptions::new().write(true).open(root.path(path));
    file.map(|_| ())
}

pub(in crate::tuning) fn only_read(root: &Root, path: &Path) -> bool {
    fs::metadata(root.path(path)).is_ok_and(|m| m.permissions().mode() & 0o222 == 0)
}

/// `00000001,00000003` as a list: groups of 32 CPUs, the highest first.
fn from_mask(text: &str) -> Option<String> {
    let mut cpus = Vec::new();
    for (group, digits) in text.rsplit(',').enumerate() {
        let bits = u32::from_str_radix(digits, 16).ok()?;
        let first = u32::try_from(group).ok()? * 32;
        cpus.extend((0..32).filter(|b| bits >> b & 1 == 1).map(|b| first + b));
    }
    if cpus.is_empty() {
        return Some(NONE.to_string());
    }
    Some(CpuList::new(cpus).to_string())
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
            assert_eq!(read(&root, path, form).unwrap(), value);
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
