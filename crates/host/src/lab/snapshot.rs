//! Saved nodes: a node's whole state in a directory, and the same node going on from there.
//!
//! Such a directory holds whatever the node's memory held, so only root may read it. It is whole or not there:
//! the description is written last, and names the length and digest of each file.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::Duration;

use latlab_model::kinds::NodeKind;
use latlab_model::plan::{NodePlan, VM_MEMORY};
use latlab_model::snapshot::{SavedFile, Snapshot};
use latlab_model::units::Bytes;
use sha2::{Digest, Sha256};

use super::deployed::Lab;
use super::error::Error;
use super::options::Step;
use super::{machine, tune};
use crate::images::Covers;
use crate::links;
use crate::nodes::{Preparation, Saved, Start, driver_of};
use crate::sys::file::write_atomically;

const DESCRIPTION: &str = "snapshot.json";

impl Lab {
    /// Saves a node into a new directory; it goes on afterwards. Returns how long it stood still. Fails when a node of
    /// its kind cannot be saved, or the directory is there; nothing of it is left then.
    pub fn snapshot(&self, node: &str, into: &Path) -> Result<Duration, Error> {
        let _shared = self.share()?;
        let running = self.running(node)?;
        let io = |action: &'static str| {
            let path = into.to_path_buf();
            move |source| Error::Io {
                action,
                path,
                source,
            }
        };
        let made = DirBuilder::new().mode(0o700).create(into);
        made.map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => refused(into, "it exists; name a new directory"),
            _ => io("make")(source),
        })?;
        let save = || {
            check_room(running.plan, into)?;
            let saved = driver_of(&running.plan.body).snapshot(&running, into);
            let saved = saved.map_err(|source| self.unusable(node, source))?;
            self.describe(running.plan, &saved, into)?;
            Ok(saved.stopped)
        };
        save().inspect_err(|_| {
            // The error that brings us here is the one to report.
            let _ = fs::remove_dir_all(into);
        })
    }

    fn describe(&self, node: &NodePlan, saved: &Saved, into: &Path) -> Result<(), Error> {
        let files = saved.files.iter().map(|name| saved_file(into, name));
        let snapshot = Snapshot {
            format: Snapshot::FORMAT.into(),
            lab: self.state.lab.clone(),
            node: node.name.clone(),
            kind: node.kind(),
            saved: machine::now(),
            machine: saved.machine.clone(),
            files: files.collect::<Result<_, _>>()?,
            stopped_ns: saved.stopped.as_nanos() as u64,
        };
        let text = serde_json::to_vec_pretty(&snapshot).expect("a description is plain data");
        Ok(write_atomically(&into.join(DESCRIPTION), &text, 0o600)?)
    }

    /// Ends what runs of a node and lets it go on where it was saved. Fails before anything is changed when the
    /// directory holds another node, is damaged, or was saved on another machine.
    pub fn restore(
        &self,
        node: &str,
        from: &Path,
        progress: &dyn Fn(&Step<'_>),
    ) -> Result<(), Error> {
        let saved = read(from)?;
        let (index, plan) = self.node(node)?;
        check_same(&self.state.lab, plan, &saved, from)?;
        let _alone = self.claim_alone()?;
        let failed = |source| self.unusable(node, source);
        let told = |text: &str| progress(&Step::Preparing(text));
        let base = self.base();
        let mut preparation = Preparation::new(&base, self.dirs.cache(), &self.agent, &told);
        let prepared = driver_of(&plan.body)
            .prepare(plan, &mut preparation)
            .map_err(failed)?;
        let Some(prepared) = prepared else {
            return Err(refused(from, "it is of a node that has nothing to restore"));
        };
        let run = self.dirs.run(&self.state.lab);
        let start = Start {
            node: self.running(node)?,
            cgroup: &self.cgroup(plan)?,
            place: tune::place(&self.state.plan, plan),
            inside: None,
            covers: &Covers::default(),
            backends: links::backends(&self.state.plan, plan, self.host_of(index), &run),
        };
        let process = prepared.restore(&start, &saved.machine, from);
        self.replace_process(index, process.map_err(failed)?, |_| {})?;
        self.forget_pause(node)
    }
}

/// Reads a description and compares all that it names with what is there.
fn read(from: &Path) -> Result<Snapshot, Error> {
    let path = from.join(DESCRIPTION);
    let text = fs::read(&path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => refused(from, "it holds no saved node, or a part of one"),
        _ => Error::Io {
            action: "read",
            path: path.clone(),
            source,
        },
    })?;
    let saved: Snapshot = serde_json::from_slice(&text)
        .ok()
        .filter(|saved: &Snapshot| saved.format == Snapshot::FORMAT)
        .ok_or_else(|| refused(from, "another version of latlab wrote it, or it is damaged"))?;
    for file in &saved.files {
        // A name that leads elsewhere is not one of ours.
        let is_plain = Path::new(&file.name).file_name() == Some(file.name.as_ref());
        if !is_plain || saved_file(from, &file.name)? != *file {
            return Err(refused(
                from,
                &format!("its file `{}` is not what was saved", file.name),
            ));
        }
    }
    Ok(saved)
}

fn check_same(lab: &str, node: &NodePlan, saved: &Snapshot, from: &Path) -> Result<(), Error> {
    if saved.lab == lab && saved.node == node.name && saved.kind == node.kind() {
        return Ok(());
    }
    let Snapshot { lab, node, .. } = saved;
    Err(refused(
        from,
        &format!("it holds node `{node}` of lab `{lab}`"),
    ))
}

/// A guest's memory may take as much room as it has.
fn check_room(node: &NodePlan, into: &Path) -> Result<(), Error> {
    if node.kind() != NodeKind::Vm {
        return Ok(());
    }
    let stat = rustix::fs::statvfs(into).map_err(|errno| Error::Io {
        action: "look at",
        path: into.to_path_buf(),
        source: errno.into(),
    })?;
    let free = Bytes(stat.f_bavail.saturating_mul(stat.f_frsize));
    let memory = node.memory.unwrap_or(VM_MEMORY);
    if free < memory {
        let reason = format!("its memory may need {memory}, and {free} are free there");
        return Err(refused(into, &reason));
    }
    Ok(())
}

fn saved_file(dir: &Path, name: &str) -> Result<SavedFile, Error> {
    let path = dir.join(name);
    let read = || -> io::Result<SavedFile> {
        let mut file = File::open(&path)?;
        let mut digest = Sha256::new();
        let mut chunk = vec![0; 1 << 20];
        let mut bytes = 0;
        loop {
            match file.read(&mut chunk)? {
                0 => break,
                count => {
                    digest.update(&chunk[..count]);
                    bytes += count as u64;
                }
            }
        }
        let digest = digest.finalize();
        Ok(SavedFile {
            name: name.to_owned(),
            bytes,
            sha256: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
        })
    };
    read().map_err(|source| Error::Io {
        action: "read",
        path,
        source,
    })
}

fn refused(dir: &Path, reason: &str) -> Error {
    Error::Snapshot {
        dir: dir.to_path_buf(),
        reason: reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved(name: &str) -> std::path::PathBuf {
        let dir = std::env::temp_dir().join(format!("latlab-saved-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("state"), "memory").unwrap();
        let snapshot = Snapshot {
            format: Snapshot::FORMAT.into(),
            lab: "l".into(),
            node: "n".into(),
            kind: NodeKind::Vm,
            saved: "2026-01-01T00:00:00Z".into(),
            machine: "m".into(),
            files: vec![saved_file(&dir, "state").unwrap()],
            stopped_ns: 1,
        };
        let text = serde_json::to_string(&snapshot).unwrap();
        fs::write(dir.join(DESCRIPTION), text).unwrap();
        dir
    }

    #[test]
    fn what_was_changed_since_is_refused() {
        let dir = saved("changed");
        assert_eq!(read(&dir).unwrap().node, "n");
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
        for (from, to) in [
            ("latlab.snapshot/1", "latlab.snapshot/9"),
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
