//! The directory of a run, from its name to its first files.

use std::path::Path;

use latlab_model::results::Manifest;
use latlab_samples::{RunDir, RunDirError};

use super::error::Error;

/// Reserved in the run directory, so that a full disk still takes the record of its being full.
const RESERVE_BYTES: usize = 256 << 10;
pub(super) const RESERVE: &str = ".reserve";

pub(super) fn begin(dir: &RunDir, study: &str, manifest: &Manifest) -> Result<(), Error> {
    dir.write("study.yaml", study.as_bytes())?;
    dir.write(RESERVE, &[0; RESERVE_BYTES])?;
    Ok(dir.write_manifest(manifest)?)
}

/// Makes the run's directory, named by study and time, with a number if two runs begin in one second.
pub fn claim(runs: &Path, study: &str) -> Result<(String, RunDir), Error> {
    let stamp = stamp();
    let mut id = format!("{study}-{stamp}");
    let mut number = 1;
    loop {
        match RunDir::create(runs.join(&id)) {
            Ok(dir) => return Ok((id, dir)),
            Err(RunDirError::Taken { .. }) if number < 100 => {
                number += 1;
                id = format!("{study}-{stamp}-{number}");
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// The time now, as names of directories have it.
pub fn stamp() -> String {
    let now = jiff::Timestamp::now();
    now.strftime("%Y%m%d-%H%M%S").to_string()
}
