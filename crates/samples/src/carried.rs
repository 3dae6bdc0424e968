//! A trial's files as an archive (tar), to carry them from the machine that measured to the run directory.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Component, Path};

use latlab_model::results::Trial;

use crate::run_dir::{RunDir, RunDirError, trial_name};

/// Writes all files of a trial.
pub fn pack(dir: &RunDir, trial: u32, to: impl Write) -> io::Result<()> {
    let mut archive = tar::Builder::new(to);
    for entry in fs::read_dir(dir.trial_dir(trial))? {
        let entry = entry?;
        archive.append_path_with_name(entry.path(), entry.file_name())?;
    }
    archive.into_inner()?.flush()
}

/// Makes the files of a trial from an archive. Errors: one that ends early or has no record of this trial, and names that
/// are not those of plain files; nothing is left of the trial then.
pub fn unpack(dir: &RunDir, trial: u32, from: impl Read) -> Result<Trial, RunDirError> {
    dir.create_trial(trial)?;
    let mut written = Vec::new();
    let taken = take(dir, trial, from, &mut written).and_then(|()| read(dir, trial));
    if taken.is_err() {
        for name in &written {
            // The error tells more than this could.
            dir.remove(name).ok();
        }
    }
    taken
}

fn take(
    dir: &RunDir,
    trial: u32,
    from: impl Read,
    written: &mut Vec<String>,
) -> Result<(), RunDirError> {
    let failed = |action| RunDirError::io(action, dir.trial_dir(trial));
    let mut archive = tar::Archive::new(from);
    for entry in archive.entries().map_err(failed("read"))? {
        let mut entry = entry.map_err(failed("read"))?;
        let path = entry.path().map_err(failed("read"))?.into_owned();
        let name = plain_name(&path).filter(|_| entry.header().entry_type().is_file());
        let Some(name) = name else {
            return Err(RunDirError::Outside {
                path: dir.trial_dir(trial),
                named: path.display().to_string(),
            });
        };
        let name = format!("{}/{name}", trial_name(trial));
        let mut file = dir.place(&name).create().map_err(failed("write"))?;
        written.push(name);
        io::copy(&mut entry, &mut file).map_err(failed("write"))?;
    }
    Ok(())
}

fn read(dir: &RunDir, trial: u32) -> Result<Trial, RunDirError> {
    let record = dir.read_trial(trial)?;
    let record = record.filter(|record| record.trial == trial);
    record.ok_or_else(|| RunDirError::Io {
        action: "read",
        path: dir.trial_path(trial),
        source: io::Error::new(
            io::ErrorKind::InvalidData,
            "the archive has no record of this trial",
        ),
    })
}

/// The name of a file in the trial's own directory.
fn plain_name(path: &Path) -> Option<&str> {
    let mut parts = path.components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(name)), None) => name.to_str(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    fn trial(number: u32) -> Trial {
        let text = format!(
            r#"{{"trial": {number}, "cell": "c", "replicate": 1, "started": "", "outcome": {{"outcome": "measured"}}}}"#
        );
        serde_json::from_str(&text).expect("a trial")
    }

    #[test]
    fn a_trial_arrives_as_it_was_measured() {
        let scratch = Scratch::new("carried");
        let there = RunDir::create(scratch.path().join("there")).unwrap();
        let here = RunDir::create(scratch.path().join("here")).unwrap();
        there.create_trial(7).unwrap();
        there.write("trials/0007/a.out", b"output").unwrap();
        there.write_trial(&trial(7)).unwrap();
        let mut archive = Vec::new();
        pack(&there, 7, &mut archive).unwrap();
        assert_eq!(unpack(&here, 7, &archive[..]).unwrap(), trial(7));
        assert_eq!(here.read("trials/0007/a.out").unwrap(), b"output");
    }

    #[test]
    fn an_archive_that_is_cut_off_or_of_another_trial_leaves_nothing() {
        let scratch = Scratch::new("cut-off");
        let there = RunDir::create(scratch.path().join("there")).unwrap();
        let here = RunDir::create(scratch.path().join("here")).unwrap();
        there.create_trial(1).unwrap();
        there.write_trial(&trial(1)).unwrap();
        let mut archive = Vec::new();
        pack(&there, 1, &mut archive).unwrap();
        for bytes in [&archive[..100], &archive[..600], &[]] {
            assert!(unpack(&here, 1, bytes).is_err());
        }
        assert!(unpack(&here, 2, &archive[..]).is_err());
        for number in [1, 2] {
            let left = fs::read_dir(here.trial_dir(number)).unwrap();
            assert_eq!(left.count(), 0);
        }
    }

    #[test]
    fn names_elsewhere_are_refused() {
        let scratch = Scratch::new("elsewhere");
        let here = RunDir::create(scratch.path().join("here")).unwrap();
        for name in ["../../manifest.json", "a/b", "/etc/passwd"] {
            let mut header = tar::Header::new_gnu();
            header.set_size(1);
            header.set_mode(0o644);
            let bytes = &mut header.as_old_mut().name;
            bytes[..name.len()].copy_from_slice(name.as_bytes());
            header.set_cksum();
            let mut archive = tar::Builder::new(Vec::new());
            archive.append(&header, &b"x"[..]).unwrap();
            let archive = archive.into_inner().unwrap();
            let error = unpack(&here, 1, &archive[..]).unwrap_err();
            assert!(matches!(error, RunDirError::Outside { .. }), "{error}");
        }
    }
}
