//! Confinement of a guest's servers on the host (QEMU, virtiofsd). The agent's binary makes the
//! place and then becomes the server (`latlab-agent confine`; crates/agent/src/confine.rs says what a place is).
//!
//! Both programs are taken to be the guest's as soon as they run: an attacker who finds a hole in a device model is where
//! they are. So the rules are in the kernel and not in the servers' options. Exports are read-only mounts, the
//! process has a user of its own, and these capabilities are all that remain, in any set:
//!
//! | server | capabilities | why |
//! |---|---|---|
//! | QEMU | none | taps and listening sockets are handed over open |
//! | QEMU, a card by VFIO | none | the guest's memory is pinned within an `RLIMIT_MEMLOCK` of its own |
//! | QEMU, locked memory | `CAP_IPC_LOCK` | `mlockall(2)` of more than `RLIMIT_MEMLOCK` |
//! | QEMU, a 9p share of [`Access::Read`] | `CAP_DAC_READ_SEARCH` | files of the share that only their owner may read |
//! | QEMU, a 9p share of [`Access::Write`] | `CAP_CHOWN`, `CAP_DAC_OVERRIDE`, `CAP_FOWNER`, `CAP_FSETID` | files belong to the guest's users |
//! | virtiofsd | as QEMU for its one share, and `CAP_FOWNER` | the guest's overlay opens files with `O_NOATIME`; read-only mounts leave nothing else of it |
//! | virtiofsd, [`Access::Write`] | `CAP_SETUID`, `CAP_SETGID` too | it acts as the guest's users |
//! | virtiofsd of QEMU 7, until its guest comes | `CAP_SYS_CHROOT`, `CAP_SETPCAP` | `sandbox=chroot`; it drops both itself |
//!
//! `CAP_MKNOD` and `CAP_SETFCAP` are not among them: no guest makes a device node on the host. QEMU has one process for
//! all of its 9p shares, so a share that needs a capability takes the user's protection away from the host's root
//! beside it; there the covered paths are what is left, as in a container. With virtiofs each share has its process.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use super::error::Error;
use super::share::{Access, Share};
use crate::sys::spawn::Spawn;

/// Capabilities by their number (`linux/capability.h`).
pub(super) mod capability {
    pub const CHOWN: u32 = 0;
    pub const DAC_OVERRIDE: u32 = 1;
    pub const DAC_READ_SEARCH: u32 = 2;
    pub const FOWNER: u32 = 3;
    pub const FSETID: u32 = 4;
    pub const SETGID: u32 = 6;
    pub const SETUID: u32 = 7;
    pub const SETPCAP: u32 = 8;
    pub const IPC_LOCK: u32 = 14;
    pub const SYS_CHROOT: u32 = 18;
}

pub(super) fn capabilities(access: Access) -> &'static [u32] {
    use capability::{CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, FSETID};
    match access {
        Access::Everybody => &[],
        Access::Read => &[DAC_READ_SEARCH],
        Access::Write => &[CHOWN, DAC_OVERRIDE, FOWNER, FSETID],
    }
}

pub(super) struct Place {
    words: Vec<OsString>,
}

impl Place {
    /// An empty one, with a user of its own unless it is to act as root within its capabilities. Its mount point is a
    /// directory of the guest's, in which the host never sees anything.
    pub fn new(dir: &Path, name: &str, unprivileged: bool) -> Result<Self, Error> {
        let root = dir.join(name);
        fs::create_dir_all(&root).map_err(Error::io("make directory", &root))?;
        let mut words = vec!["confine".into(), "--root".into(), root.into()];
        if unprivileged {
            words.push("--unprivileged".into());
        }
        Ok(Self { words })
    }

    fn pair(&mut self, word: &str, from: &Path, to: impl AsRef<OsStr>) {
        let words = [word.as_ref(), from.as_os_str(), to.as_ref()];
        self.words.extend(words.map(OsStr::to_owned));
    }

    pub fn file(&mut self, from: &Path, to: impl AsRef<OsStr>) {
        self.pair("--file", from, to);
    }

    /// A directory, read-only.
    pub fn directory(&mut self, from: &Path, to: impl AsRef<OsStr>) {
        self.pair("--tree", from, to);
    }

    pub fn device(&mut self, path: &str) {
        self.words.extend(["--device", path].map(OsString::from));
    }

    pub fn share(&mut self, share: &Share, to: &str) {
        let word = match share.access {
            Access::Everybody => "--tree",
            Access::Read => "--trees",
            Access::Write => "--writable",
        };
        self.pair(word, &share.source, to);
        for covered in &share.covered {
            let covered: PathBuf = Path::new(to).join(covered);
            self.words.extend(["--empty".into(), covered.into()]);
        }
    }

    /// Lets it lock this much memory.
    pub fn lock(&mut self, bytes: u64) {
        self.words
            .extend(["--lock".into(), bytes.to_string().into()]);
    }

    pub fn keep(&mut self, capability: u32) {
        self.words
            .extend(["--keep".into(), capability.to_string().into()]);
    }

    /// The program in it; its arguments are to be added. Of latlab's environment it gets what finds programs and
    /// their libraries.
    pub fn spawn<'a>(self, agent: &Path, lab: &str, program: &str) -> Spawn<'a> {
        let mut spawn = Spawn::new(agent, lab).clean_environment();
        for name in ["PATH", "LD_LIBRARY_PATH"] {
            if let Some(value) = std::env::var_os(name) {
                spawn = spawn.env(name, value);
            }
        }
        spawn.args(self.words).args(["--", program])
    }
}
