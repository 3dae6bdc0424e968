//! Where latlab keeps what it makes.
//!
//! | directory | holds | lives |
//! |---|---|---|
//! | `/var/lib/latlab/labs/LAB` | the journal and the state of a lab, the storage of its nodes | until it is destroyed |
//! | `/var/lib/latlab/hosts/LAB.json` | the hosts of a lab that was deployed from here onto several | until it is destroyed on all of them |
//! | `/var/lib/latlab/host.key` | this machine's private key of sealed links | until removed by hand |
//! | `/var/lib/latlab/tuning.json` | what was tuned, for whom, and what was there before | until all of it is reverted |
//! | `/var/lib/latlab/campaign-part.json` | which labs a part of a campaign deploys, and from which file | until it is measured |
//! | `/run/latlab/LAB` | pinned namespaces, writable layers, sockets, logs | until the next boot |
//! | `/var/cache/latlab` | unpacked kernels and images, verdicts of `doctor` | until `latlab cache clean` |
//!
//! Everything below a lab's two directories is latlab's by its place: nothing else is ever removed
//! recursively or unmounted.

use std::path::{Path, PathBuf};

/// The three roots. `LATLAB_STATE_DIR`, `LATLAB_RUN_DIR` and `LATLAB_CACHE_DIR` replace them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dirs {
    state: PathBuf,
    run: PathBuf,
    cache: PathBuf,
}

impl Dirs {
    /// The usual places, or those that the environment names.
    pub fn from_env() -> Dirs {
        let get = |name: &str, usual: &str| {
            std::env::var_os(name)
                .filter(|v| !v.is_empty())
                .map_or_else(|| usual.into(), PathBuf::from)
        };
        Dirs {
            state: get("LATLAB_STATE_DIR", "/var/lib/latlab"),
            run: get("LATLAB_RUN_DIR", "/run/latlab"),
            cache: get("LATLAB_CACHE_DIR", "/var/cache/latlab"),
        }
    }

    /// All three below one directory, for tests.
    pub fn below(root: &Path) -> Dirs {
        Dirs {
            state: root.join("state"),
            run: root.join("run"),
            cache: root.join("cache"),
        }
    }

    pub fn labs(&self) -> PathBuf {
        self.state.join("labs")
    }

    pub fn lab(&self, lab: &str) -> PathBuf {
        self.labs().join(lab)
    }

    pub fn journal(&self, lab: &str) -> PathBuf {
        self.lab(lab).join("journal.jsonl")
    }

    /// States of nodes saved within a measurement, as large as their memories.
    pub fn kept(&self, lab: &str) -> PathBuf {
        self.run(lab).join("kept")
    }

    pub fn state(&self, lab: &str) -> PathBuf {
        self.lab(lab).join("state.json")
    }

    /// Directories and images of its nodes' storage: on the disk that holds its state.
    pub fn storage(&self, lab: &str) -> PathBuf {
        self.lab(lab).join("storage")
    }

    /// The pages that labs have added to the machine's pools of huge pages.
    pub fn huge_pages(&self) -> PathBuf {
        self.state.join("huge-pages.json")
    }

    pub fn huge_pages_lock(&self) -> PathBuf {
        self.state.join("huge-pages.lock")
    }

    pub fn lock(&self) -> PathBuf {
        self.state.join("lock")
    }

    /// The hosts of a lab that lies on several, on the machine where it was deployed from.
    pub fn hosts_of(&self, lab: &str) -> PathBuf {
        self.across().join(format!("{lab}.json"))
    }

    /// This machine's private key of sealed links to other machines.
    pub fn host_key(&self) -> PathBuf {
        self.state.join("host.key")
    }

    /// The directory of [`Self::hosts_of`].
    pub fn across(&self) -> PathBuf {
        self.state.join("hosts")
    }

    pub fn tuning(&self) -> PathBuf {
        self.state.join("tuning.json")
    }

    /// Which labs the part of a campaign may leave that is measured here, or was killed.
    pub fn campaign_part(&self) -> PathBuf {
        self.state.join("campaign-part.json")
    }

    pub fn campaign_lock(&self) -> PathBuf {
        self.state.join("campaign.lock")
    }

    pub fn tuning_lock(&self) -> PathBuf {
        self.state.join("tuning.lock")
    }

    pub fn run_root(&self) -> &Path {
        &self.run
    }

    pub fn run(&self, lab: &str) -> PathBuf {
        self.run.join(lab)
    }

    pub fn namespaces(&self, lab: &str) -> PathBuf {
        self.run(lab).join("netns")
    }

    /// Layers that cover what images hide from containers.
    pub fn covers(&self, lab: &str) -> PathBuf {
        self.run(lab).join("covers")
    }

    /// The supervisor of its streams.
    pub fn streams(&self, lab: &str) -> PathBuf {
        self.run(lab).join("streams")
    }

    /// Where it is noted which cgroups are whole.
    pub fn groups(&self, lab: &str) -> PathBuf {
        self.run(lab).join("groups")
    }

    /// Where it is noted which nodes are paused.
    pub fn paused(&self, lab: &str) -> PathBuf {
        self.run(lab).join("paused")
    }

    /// Where native nodes have their hosts files.
    pub fn hosts(&self, lab: &str) -> PathBuf {
        self.run(lab).join("hosts")
    }

    /// A node's own directory: writable layer, sockets, console.
    pub fn node(&self, lab: &str, node: &str) -> PathBuf {
        self.run(lab).join("nodes").join(node)
    }

    pub fn cache(&self) -> &Path {
        &self.cache
    }
}
