//! Cpusets of version 1: filled level by level, beside and below the partition.

use std::fs;
use std::path::Path;

use latlab_model::units::CpuList;

use super::error::Error;
use super::files::{PARTITION, levels, write};

/// A new version 1 cpuset is empty and takes no process; fills it and the shared levels above. Those below
/// the partition have the CPUs of the nodes below them and no others, because the partition may
/// not lose a CPU that a group in it has.
pub(super) fn fill_cpuset(root: &Path, dir: &Path, cpus: Option<&CpuList>) -> Result<(), Error> {
    let partition = root.join(PARTITION);
    for pair in levels(root, dir).windows(2) {
        for name in ["cpuset.cpus", "cpuset.mems"] {
            let file = pair[1].join(name);
            let current = fs::read_to_string(&file).map_err(Error::io("read", &file))?;
            let shared = pair[0].starts_with(&partition) && name == "cpuset.cpus";
            if let Some(cpus) = cpus.filter(|_| shared) {
                let known = CpuList::parse(current.trim()).unwrap_or_default();
                let all = CpuList::new(known.iter().chain(cpus.iter()).collect());
                write(&file, &all.to_string())?;
                continue;
            }
            if current.trim().is_empty() {
                let above = pair[0].join(name);
                let value = fs::read_to_string(&above).map_err(Error::io("read", &above))?;
                write(&file, &beside_partition(pair[1], name, value.trim()))?;
            }
        }
    }
    Ok(())
}

/// The part of `value` for a group beside a partition, which has its CPUs exclusively.
fn beside_partition(group: &Path, name: &str, value: &str) -> String {
    let taken = group.with_file_name(PARTITION).join(name);
    let taken = fs::read_to_string(taken).unwrap_or_default();
    let taken = CpuList::parse(taken.trim()).unwrap_or_default();
    match CpuList::parse(value) {
        Some(all) if name == "cpuset.cpus" => {
            let rest: Vec<u32> = all.iter().filter(|cpu| !taken.contains(*cpu)).collect();
            CpuList::new(rest).to_string()
        }
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_beside_a_partition_leave_it_its_cpus() {
        let root = std::env::temp_dir().join(format!("latlab-beside-{}", std::process::id()));
        let group = root.join("latlab");
        let files = [
            ("cpuset.cpus", "0-3\n"),
            ("cpuset.mems", "0\n"),
            ("latlab.isolated/cpuset.cpus", "2-3\n"),
            ("latlab/cpuset.cpus", "\n"),
            ("latlab/cpuset.mems", "\n"),
        ];
        for (file, text) in files {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        fill_cpuset(&root, &group, None).unwrap();
        assert_eq!(
            fs::read_to_string(group.join("cpuset.cpus"))
                .unwrap()
                .trim(),
            "0-1"
        );
        assert_eq!(
            fs::read_to_string(group.join("cpuset.mems"))
                .unwrap()
                .trim(),
            "0"
        );
        fs::remove_dir_all(&root).unwrap();
    }
}
