//! The supervisor's start.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use latlab_model::plan::Plan;

use super::client::{CONTROL, Client, failed};
use super::config::config;
use super::error::Error;
use crate::programs;
use crate::sys::spawn::Spawn;

/// The supervisor opens a few descriptors and makes one namespace.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Starts the supervisor of a lab with its files in `directory`. Returns when it answers.
pub(crate) fn start(
    plan: &Plan,
    lab_id: &str,
    directory: &Path,
    namespaces: &Path,
) -> Result<(), Error> {
    let program = programs::latlab_program("latlab-streams", "LATLAB_STREAMS");
    if !program.is_file() {
        return Err(Error::NoProgram(program));
    }
    fs::create_dir_all(directory).map_err(failed("create", directory))?;
    let file = directory.join("config");
    let text = serde_json::to_vec(&config(plan, namespaces)).map_err(io::Error::from);
    text.and_then(|text| fs::write(&file, text))
        .map_err(failed("write", &file))?;
    let log = directory.join("log");
    let output = File::create(&log).map_err(failed("create", &log))?;
    let control = directory.join(CONTROL);
    let arguments: [&OsStr; 4] = [
        "--config".as_ref(),
        file.as_os_str(),
        "--control".as_ref(),
        control.as_os_str(),
    ];
    let supervisor = Spawn::new(program, lab_id)
        .args(arguments)
        .descriptor(output.as_fd(), 1)
        .descriptor(output.as_fd(), 2)
        .session()
        .start()?;
    let end = Instant::now() + TIMEOUT;
    while Client::connect(directory).and_then(|c| c.status()).is_err() {
        if supervisor.has_ended().unwrap_or(true) || Instant::now() > end {
            let said = fs::read_to_string(&log).unwrap_or_default();
            let log = said.lines().take(2).map(str::to_owned).collect();
            return Err(Error::Failed { log });
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}
