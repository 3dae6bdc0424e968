//! Capabilities that worked in this boot of the machine, kept in the cache.
//!
//! A proof makes what a lab would make, and takes a twentieth of the time of a small lab. What the kernel did once it
//! does until the next boot, for a process with the same rights that sees the same mounts, so the deployment of a lab
//! reads it here. Refusals are not kept: a person may have mended what was missing.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::report::Outcome;
use crate::dirs::Dirs;
use crate::sys::Error;
use crate::sys::proc::{self, Status};

const FILE: &str = "capabilities.json";
const NEW: &str = "capabilities.json.new";

#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Verdicts {
    /// The boot, the rights and the mounts that they hold for, with latlab's version.
    holds_for: String,
    /// By capability, how it was seen.
    works: BTreeMap<String, String>,
}

impl Verdicts {
    /// Those that hold here and now. None if that cannot be told, or the file cannot be read.
    pub(super) fn load(dirs: &Dirs) -> Self {
        let Ok(holds_for) = identity(dirs) else {
            return Self::default();
        };
        let text = fs::read(path(dirs)).unwrap_or_default();
        let known: Self = serde_json::from_slice(&text).unwrap_or_default();
        match known.holds_for == holds_for {
            true => known,
            false => Self {
                holds_for,
                works: BTreeMap::new(),
            },
        }
    }

    pub(super) fn of(&self, capability: &str) -> Option<Outcome> {
        let reason = self.works.get(capability)?;
        Some(Outcome::Works(reason.clone()))
    }

    /// Adds what works, and writes the file if that is news.
    pub(super) fn keep<'a>(
        mut self,
        dirs: &Dirs,
        outcomes: impl Iterator<Item = (&'a &'static str, &'a Outcome)>,
    ) {
        let before = self.works.clone();
        for (name, outcome) in outcomes {
            match outcome {
                Outcome::Works(reason) => self.works.insert((*name).to_owned(), reason.clone()),
                Outcome::Fails(_) | Outcome::Unproven(_) => self.works.remove(*name),
            };
        }
        if self.works != before && !self.holds_for.is_empty() {
            // Only time is lost if they cannot be kept, by an ordinary user for example.
            let _ = self.write(dirs);
        }
    }

    fn write(&self, dirs: &Dirs) -> Result<(), Error> {
        let cache = dirs.cache();
        fs::create_dir_all(cache).map_err(Error::of("make", cache.display()))?;
        let bytes = serde_json::to_vec_pretty(self).unwrap_or_default();
        // Under one name always, so that a latlab that is killed here leaves one file, which the next one replaces. If two write
        // it at once, the file may be no document, and all is proven again.
        let new = cache.join(NEW);
        fs::write(&new, bytes)
            .and_then(|()| fs::rename(&new, path(dirs)))
            .map_err(Error::of("write", new.display()))
    }
}

fn path(dirs: &Dirs) -> PathBuf {
    dirs.cache().join(FILE)
}

/// The boot, the rights and the mounts that a verdict depends on. Mounts of labs are not among them.
fn identity(dirs: &Dirs) -> Result<String, Error> {
    let boot = proc::boot_id()?;
    let status = Status::of(std::process::id())?;
    let rights = ["CapEff", "Seccomp", "NoNewPrivs"].map(|name| status.field(name));
    let users = fs::read_link("/proc/self/ns/user").map_err(Error::of("read", "user namespace"))?;
    let mut mounts = DefaultHasher::new();
    for mount in proc::own_mounts()? {
        if !mount.point.starts_with(dirs.run_root()) {
            (mount.point, mount.root, mount.kind, mount.super_options).hash(&mut mounts);
        }
    }
    Ok(format!(
        "boot {boot}; {} {}; mounts {:016x}; latlab {}",
        users.display(),
        rights.join(" "),
        mounts.finish(),
        env!("CARGO_PKG_VERSION")
    ))
}

#[cfg(test)]
mod tests {
    use latlab_model::facts::Facts;

    use super::*;

    #[test]
    fn what_worked_is_known_until_it_fails_or_the_machine_is_another() {
        let root = std::env::temp_dir().join(format!("latlab-verdicts-{}", std::process::id()));
        let dirs = Dirs::below(&root);
        let works = || Outcome::Works("seen".into());
        let keep = |name: &'static str, outcome: &Outcome| {
            Verdicts::load(&dirs).keep(&dirs, [(&name, outcome)].into_iter());
        };
        let known = |name| Verdicts::load(&dirs).of(name);
        assert_eq!(known(Facts::VETH), None);
        keep(Facts::VETH, &works());
        keep(Facts::BRIDGE, &works());
        keep(Facts::NETKIT, &Outcome::Fails("no such kind".into()));
        assert_eq!(known(Facts::VETH), Some(works()));
        assert_eq!(known(Facts::NETKIT), None);
        keep(Facts::VETH, &Outcome::Unproven("no answer in time".into()));
        assert_eq!(known(Facts::VETH), None);
        assert_eq!(known(Facts::BRIDGE), Some(works()));

        let text = fs::read_to_string(path(&dirs)).unwrap();
        let other = text.replace("boot ", "boot of another day ");
        for spoilt in [other.as_str(), "{", ""] {
            fs::write(path(&dirs), spoilt).unwrap();
            assert_eq!(known(Facts::BRIDGE), None, "{spoilt}");
        }
        fs::remove_dir_all(root).unwrap();
    }
}
