//! Names and control files of groups.

use std::fs;
use std::path::Path;

use super::error::Error;

/// First component of every group latlab makes.
pub(crate) const TOP: &str = "latlab";

/// The part of a group's path that all groups of a lab have.
pub fn lab_group(lab: &str) -> String {
    format!("/{TOP}/{lab}/")
}

/// The group of CPUs that a tuning keeps quiet: the scheduler gives them to no other group.
pub const PARTITION: &str = "latlab.isolated";

/// Whether `name` is one ordinary path component that cannot hide or leave a directory.
pub(super) fn is_component(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0', '\n'])
}

/// The unified tree has this file in every group, a version 1 hierarchy in none.
pub(super) fn is_unified(dir: &Path) -> bool {
    dir.join("cgroup.controllers").exists()
}

/// The groups from the root of a hierarchy down to `dir`, both included.
pub(super) fn levels<'d>(root: &Path, dir: &'d Path) -> Vec<&'d Path> {
    let mut levels: Vec<&Path> = dir
        .ancestors()
        .take_while(|d| d.starts_with(root))
        .collect();
    levels.reverse();
    levels
}

/// Writes a control file in one `write(2)`, as the kernel expects.
pub(super) fn write(file: &Path, value: &str) -> Result<(), Error> {
    use std::io::Write as _;
    fs::OpenOptions::new()
        .write(true)
        .open(file)
        .and_then(|mut f| f.write_all(value.as_bytes()))
        .map_err(Error::io(format!("write `{value}` to"), file))
}
