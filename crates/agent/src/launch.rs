//! Executes a program for the host, so that what it replaces is this binary and not the host's.
//!
//! Between fork and exec a child of the host's `latlab` has that binary as its `/proc/self/exe`, and
//! a program of a hostile image may name just that as its interpreter (CVE-2019-5736). So the child
//! executes the agent first, from a sealed memory file.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStringExt;

use crate::os;

/// Executes the program and its arguments, which follow the number of the descriptor at which a
/// failure is reported and the number that the host gives to this step. Returns only on failure.
pub fn run(arguments: impl Iterator<Item = OsString>) -> Result<(), String> {
    let mut arguments = arguments.map(|word| CString::new(word.into_vec()).unwrap_or_default());
    let mut number = || arguments.next()?.to_str().ok()?.parse::<i32>().ok();
    let (Some(report), Some(step)) = (number(), number()) else {
        return Err("launch wants two numbers and a program".into());
    };
    // Closed by a successful exec, which is what the host waits for.
    let report = os::inherited(report).map_err(|e| format!("cannot report to the host: {e}"))?;
    let arguments: Vec<CString> = arguments.collect();
    let error = os::execute(&arguments);
    let mut message = [step as u8, 0, 0, 0, 0];
    message[1..].copy_from_slice(&error.raw_os_error().unwrap_or(libc::EIO).to_ne_bytes());
    rustix::io::write(&report, &message).map_err(|e| format!("cannot report to the host: {e}"))?;
    std::process::exit(127)
}
