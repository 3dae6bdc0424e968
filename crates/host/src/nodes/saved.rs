//! The directory of a saved node.
//!
//! ```text
//! DIR                   mode 0700
//! DIR/snapshot.json     the description; written last, so a directory without it is none
//! DIR/...               the kind's own files, with the lengths and digests that snapshot.json says
//! ```
//!
//! Such a directory holds whatever the node's memory held, so only root may read it.

use std::fs::{self, File};
use std::io::{self, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use latlab_model::snapshot::{SavedFile, Snapshot};
use sha2::{Digest, Sha256};

use crate::hex;

pub(crate) const DESCRIPTION: &str = "snapshot.json";

/// The directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot use {}: {reason}", path.display())]
pub struct Unusable {
    pub path: PathBuf,
    pub reason: String,
}

impl Unusable {
    fn because(path: &Path, reason: impl Into<String>) -> Unusable {
        Unusable {
            path: path.to_owned(),
            reason: reason.into(),
        }
    }
}

/// Reads a description and compares all that it names with what is there.
pub(crate) fn read(from: &Path) -> Result<Snapshot, Unusable> {
    check_private(from)?;
    let text = fs::read(from.join(DESCRIPTION)).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => {
            Unusable::because(from, "it holds no saved node, or a part of one")
        }
        _ => Unusable::because(from, format!("{DESCRIPTION}: {source}")),
    })?;
    let damaged = || Unusable::because(from, format!("{DESCRIPTION} is damaged"));
    // Another version may have other fields.
    let json: serde_json::Value = serde_json::from_slice(&text).map_err(|_| damaged())?;
    match json.get("format").and_then(serde_json::Value::as_str) {
        Some(Snapshot::FORMAT | Snapshot::FORMER) => {}
        Some(other) => {
            return Err(Unusable::because(from, format!("its format is `{other}`")));
        }
        None => return Err(damaged()),
    }
    let saved: Snapshot = serde_json::from_value(json).map_err(|_| damaged())?;
    for file in &saved.files {
        // A name that leads elsewhere is not one of ours.
        let is_plain = Path::new(&file.name).file_name() == Some(file.name.as_ref());
        let is_there = is_plain && from.join(&file.name).exists();
        if !is_there || describe(from, &file.name)? != *file {
            let what = if is_there {
                "not what was saved"
            } else {
                "missing"
            };
            let reason = format!("its file `{}` is {what}", file.name);
            return Err(Unusable::because(from, reason));
        }
    }
    Ok(saved)
}

/// Length and digest of a file of the directory.
pub(crate) fn describe(dir: &Path, name: &str) -> Result<SavedFile, Unusable> {
    let read = || -> io::Result<SavedFile> {
        let file = File::open(dir.join(name))?;
        let mut digest = Sha256::new();
        let bytes = io::copy(&mut BufReader::with_capacity(1 << 20, file), &mut digest)?;
        Ok(SavedFile {
            name: name.to_owned(),
            bytes,
            sha256: hex::digits(&digest.finalize()),
        })
    };
    read().map_err(|source| Unusable::because(dir, format!("{name}: {source}")))
}

/// Memory of a node is to be seen by root only, and what is restored runs with the rights it says.
pub(crate) fn check_private(path: &Path) -> Result<(), Unusable> {
    let found = fs::symlink_metadata(path);
    let found = found.map_err(|source| Unusable::because(path, source.to_string()))?;
    if !found.is_dir() {
        return Err(Unusable::because(path, "it is not a directory"));
    }
    if found.uid() != 0 || found.mode() & 0o077 != 0 {
        let reason = "it is not root's alone (mode 0700)";
        return Err(Unusable::because(path, reason));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::DirBuilder;
    use std::os::unix::fs::DirBuilderExt;

    use latlab_model::kinds::NodeKind;
    use latlab_model::snapshot::SavedAs;

    use super::*;

    fn saved(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("latlab-saved-{name}-{}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&dir).unwrap();
        fs::write(dir.join("state"), "memory").unwrap();
        let snapshot = Snapshot {
            format: Snapshot::FORMAT.into(),
            lab: "l".into(),
            saved_as: SavedAs {
                node: "n".into(),
                macs: Vec::new(),
                network: None,
            },
            kind: NodeKind::Vm,
            saved: "2026-01-01T00:00:00Z".into(),
            machine: "m".into(),
            files: vec![describe(&dir, "state").unwrap()],
            stopped_ns: Some(1),
        };
        let text = serde_json::to_string(&snapshot).unwrap();
        fs::write(dir.join(DESCRIPTION), text).unwrap();
        dir
    }

    #[test]
    fn what_was_changed_since_is_refused() {
        let dir = saved("changed");
        assert_eq!(read(&dir).unwrap().saved_as.node, "n");
        fs::write(dir.join("state"), "memorz").unwrap();
        let error = read(&dir).unwrap_err().to_string();
        assert!(
            error.ends_with("its file `state` is not what was saved"),
            "{error}"
        );
        fs::write(dir.join("state"), "mem").unwrap();
        assert!(read(&dir).is_err());
        fs::remove_file(dir.join("state")).unwrap();
        assert!(read(&dir).is_err());
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn descriptions_of_others_are_refused() {
        let dir = saved("others");
        let text = fs::read_to_string(dir.join(DESCRIPTION)).unwrap();
        let former = text.replace(Snapshot::FORMAT, Snapshot::FORMER);
        fs::write(dir.join(DESCRIPTION), former).unwrap();
        assert_eq!(read(&dir).unwrap().saved_as.network, None);
        for (from, to) in [
            (Snapshot::FORMAT, "latlab.snapshot/9"),
            ("\"state\"", "\"../state\""),
            ("\"files\"", "\"file\""),
        ] {
            fs::write(dir.join(DESCRIPTION), text.replace(from, to)).unwrap();
            assert!(read(&dir).is_err(), "{to}");
        }
        fs::remove_file(dir.join(DESCRIPTION)).unwrap();
        let error = read(&dir).unwrap_err().to_string();
        assert!(error.contains("holds no saved node"), "{error}");
        fs::remove_dir_all(dir).unwrap();
    }
}
