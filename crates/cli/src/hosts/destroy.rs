//! Destroys every part of a lab. Parts on hosts that are away stay in the record, for the next time.

use latlab_host::dirs::Dirs;

use super::record::Record;
use super::remote::each;
use crate::failure::Failure;

/// Destroys a lab. Errors: hosts that could not; the record keeps them.
pub fn run(dirs: &Dirs, record: Record) -> Result<(), Failure> {
    let lab = record.lab.clone();
    let left = destroy(dirs, record)?;
    if left.is_empty() {
        return Ok(());
    }
    let message = format!("lab `{lab}` may still be on {}", reasons(&left));
    let hint = format!("`latlab destroy {lab}` goes on when that is mended");
    Err(Failure::new(message, hint))
}

/// Hosts with their reasons in a line.
pub(super) fn reasons(left: &[(String, String)]) -> String {
    let left = left
        .iter()
        .map(|(host, reason)| format!("host `{host}`: {reason}"));
    left.collect::<Vec<_>>().join("; ")
}

/// Asks every host to destroy its part. Those that may still have it, with the reason, stay in the record.
pub(super) fn destroy(dirs: &Dirs, record: Record) -> Result<Vec<(String, String)>, Failure> {
    let answers = each(&record.hosts, |host| {
        host.ask(&["destroy", "--here", &record.lab])
    });
    let answers = record.hosts.iter().zip(answers);
    let left: Vec<(String, String)> = answers
        .filter(|(_, answer)| !answer.is_good())
        .map(|(host, answer)| (host.name.clone(), answer.reason()))
        .collect();
    let record = record.retain(|host| left.iter().any(|(name, _)| *name == host.name));
    record.save(dirs)?;
    Ok(left)
}
