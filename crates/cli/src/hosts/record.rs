//! The hosts that have parts of a lab. The record is written before any host is asked to deploy, and removed when no host
//! has a part any more, so that `latlab destroy` finds all of them after any failure.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use latlab_host::dirs::Dirs;
use latlab_host::sys::file::sync_directory;
use latlab_model::spec::Lab;
use latlab_samples::write_atomically;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

const FORMAT: &str = "latlab.hosts/1";

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// `latlab.hosts/1`.
    format: String,
    pub lab: String,
    /// Those that may have a part, in the lab's order.
    pub hosts: Vec<Host>,
    /// The host of each node.
    nodes: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    pub name: String,
    /// The destination of ssh(1); none: this machine.
    pub ssh: Option<String>,
    /// The program there, a shell's words; none: `latlab`, and here this program.
    pub latlab: Option<String>,
}

/// All of this machine, and why others cannot be read.
pub fn all(dirs: &Dirs) -> Result<(Vec<Record>, Vec<Failure>), Failure> {
    let (mut records, mut unreadable) = (Vec::new(), Vec::new());
    for name in Record::list(dirs)? {
        match Record::read(dirs, &name) {
            Ok(record) => records.extend(record),
            Err(failure) => unreadable.push(failure),
        }
    }
    Ok((records, unreadable))
}

impl Record {
    pub fn of(lab: &Lab) -> Record {
        let hosts = lab.hosts.iter().map(|host| Host {
            name: host.name.value.clone(),
            ssh: host.ssh.as_ref().map(|ssh| ssh.value.clone()),
            latlab: host.latlab.as_ref().map(|latlab| latlab.value.clone()),
        });
        let nodes = lab.nodes.iter().filter_map(|node| {
            let host = node.fields.host.as_ref()?;
            Some((node.name.value.clone(), host.value.clone()))
        });
        Record {
            format: FORMAT.into(),
            lab: lab.name.value.clone(),
            hosts: hosts.collect(),
            nodes: nodes.collect(),
        }
    }

    /// The other machine that a node of a lab is on; none if it is on this one. Errors: a node that a lab on several
    /// hosts lacks.
    pub fn remote_of(dirs: &Dirs, lab: &str, node: &str) -> Result<Option<Host>, Failure> {
        let Some(record) = Record::read(dirs, lab)? else {
            return Ok(None);
        };
        let host = record.host_of(node)?;
        Ok(host.ssh.is_some().then(|| host.clone()))
    }

    /// The names of all nodes.
    pub fn nodes(&self) -> Vec<String> {
        self.nodes.keys().cloned().collect()
    }

    /// Errors: a node that the lab lacks.
    pub fn host_of(&self, node: &str) -> Result<&Host, Failure> {
        let host = self.nodes.get(node);
        let host = host.and_then(|name| self.hosts.iter().find(|host| host.name == *name));
        host.ok_or_else(|| {
            let names: Vec<&str> = self.nodes.keys().map(String::as_str).collect();
            let message = format!("lab `{}` has no node `{node}`", self.lab);
            Failure::new(message, format!("it has {}", names.join(", ")))
        })
    }

    /// The record of a lab; none of a lab on this machine alone.
    pub fn read(dirs: &Dirs, lab: &str) -> Result<Option<Record>, Failure> {
        // A lab's name is a file's; anything else is no lab.
        if lab.contains('/') || lab.is_empty() {
            return Ok(None);
        }
        let path = dirs.hosts_of(lab);
        let unreadable = |error: &dyn Display| {
            let message = format!("cannot read the hosts of lab `{lab}`: {error}");
            let hint = format!(
                "`latlab destroy --here {lab}` on each of them, then remove {}",
                path.display()
            );
            Failure::new(message, hint)
        };
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            text => text.map_err(|error| unreadable(&error))?,
        };
        let record: Record = serde_json::from_str(&text).map_err(|error| unreadable(&error))?;
        match record.format == FORMAT {
            true => Ok(Some(record)),
            false => Err(unreadable(&format!(
                "its format is {}, and this latlab reads {FORMAT}",
                record.format
            ))),
        }
    }

    /// The names of all labs on several hosts.
    pub fn list(dirs: &Dirs) -> Result<Vec<String>, Failure> {
        let entries = match fs::read_dir(dirs.across()) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_some_and(|ending| ending == "json") {
                names.extend(path.file_stem().map(|name| name.to_string_lossy().into()));
            }
        }
        names.sort();
        Ok(names)
    }

    /// Refuses a lab that was deployed from here already.
    pub fn must_be_new(&self, dirs: &Dirs) -> Result<(), Failure> {
        match dirs.hosts_of(&self.lab).exists() {
            true => Err(self.is_deployed()),
            false => Ok(()),
        }
    }

    fn is_deployed(&self) -> Failure {
        let message = format!("lab `{}` is deployed already, or was in part", self.lab);
        let hint = format!(
            "`latlab inspect {0}` shows it, `latlab destroy {0}` removes it",
            self.lab
        );
        Failure::new(message, hint)
    }

    /// Writes it, whole or not at all. Errors: a lab that has one.
    pub fn create(&self, dirs: &Dirs) -> Result<(), Failure> {
        let directory = dirs.across();
        fs::create_dir_all(&directory)?;
        let whole = directory.join(format!(".{}.{}", self.lab, std::process::id()));
        self.write(&whole)?;
        // Unlike a rename, a link replaces nothing.
        let linked = fs::hard_link(&whole, dirs.hosts_of(&self.lab));
        fs::remove_file(&whole)?;
        match linked {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(self.is_deployed()),
            linked => Ok(linked.and_then(|()| sync_directory(&directory))?),
        }
    }

    /// The record of some of its hosts, with their nodes.
    #[must_use]
    pub fn retain(mut self, keeps: impl FnMut(&Host) -> bool) -> Record {
        self.hosts.retain(keeps);
        let hosts = &self.hosts;
        self.nodes
            .retain(|_, of| hosts.iter().any(|host| host.name == *of));
        self
    }

    /// Replaces the one that is written; without any host there is none.
    pub fn save(&self, dirs: &Dirs) -> Result<(), Failure> {
        let path = dirs.hosts_of(&self.lab);
        if self.hosts.is_empty() {
            fs::remove_file(path)?;
            return Ok(());
        }
        self.write(&path)
    }

    fn write(&self, path: &Path) -> Result<(), Failure> {
        Ok(write_atomically(path, &serde_json::to_vec_pretty(self)?)?)
    }
}
