//! The file of hosts, as verbs read it.

use std::path::Path;

use latlab_model::spec::{ManagedHost, ManagedHosts};

use crate::failure::Failure;
use crate::files::Source;

/// Reads a file of hosts.
pub fn read(file: &Path) -> Result<ManagedHosts, Failure> {
    let source = Source::read(file).map_err(|failure| match file.exists() {
        true => failure,
        false => failure.and_hint("`latlab host --help` shows one; `--hosts` names another"),
    })?;
    let directory = file.parent().unwrap_or(Path::new(""));
    let hosts = ManagedHosts::parse(&source.text).map_err(|all| source.mistakes(all))?;
    Ok(hosts.relative_to(directory))
}

/// A host of the file.
pub fn find<'h>(
    hosts: &'h ManagedHosts,
    file: &Path,
    name: &str,
) -> Result<&'h ManagedHost, Failure> {
    hosts.host(name).ok_or_else(|| {
        let names: Vec<&str> = hosts.hosts.iter().map(|host| host.name.as_str()).collect();
        let message = format!("{} has no host `{name}`", file.display());
        Failure::new(message, format!("it has {}", names.join(", ")))
    })
}
