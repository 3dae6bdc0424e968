//! Serving directories to guests whose kernel has no 9p (the distributions' cloud kernels): one
//! `virtiofsd` process a share, started before QEMU, which connects to its socket and takes it along when
//! it ends.
//!
//! A server has a place of its own ([`super::confine`]) that holds its share and nothing else of the host's. What it may
//! do there follows from the share alone, so a writable share beside the host's root opens nothing in that.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;

use super::confine::{self, Place, capability};
use super::error::Error;
use super::paths::virtiofs_socket;
use super::qemu::VmConfig;
use super::share::{Access, Share};
use crate::sys::cgroup_entry::CgroupEntry;
use crate::sys::file;
use crate::sys::process::Process;

/// Where distributions put it. Debian 12 has QEMU's own, later releases a package of its own.
const PROGRAMS: [&str; 3] = [
    "/usr/libexec/virtiofsd",
    "/usr/lib/qemu/virtiofsd",
    "/usr/bin/virtiofsd",
];
/// The number under which a server inherits its listening socket.
const SOCKET_FD: i32 = 3;
/// Where its directory is in its place.
const EXPORT: &str = "/export";

/// Running servers, ended when dropped: a guest that could not be started leaves none.
#[derive(Debug, Default)]
pub(super) struct Servers(Vec<Process>);

/// Where the server of share `index` says what is wrong.
pub(super) fn log_path(dir: &Path, index: usize) -> PathBuf {
    dir.join(format!("fs{index}.log"))
}

impl Servers {
    /// Starts a server for each share that needs one, each with its log. Its socket listens already: QEMU may come at any time.
    pub(super) fn start(
        config: &VmConfig<'_>,
        cgroup: Option<&CgroupEntry>,
        logs: &[OwnedFd],
    ) -> Result<Self, Error> {
        if config.virtiofs().next().is_none() {
            return Ok(Self::default());
        }
        let Some(program) = PROGRAMS.into_iter().find(|path| Path::new(path).exists()) else {
            return Err(Error::NoVirtiofsd {
                release: config.kernel.release.clone(),
                looked: PROGRAMS.map(str::to_owned).to_vec(),
            });
        };
        let mut servers = Self::default();
        let place = Surroundings {
            program,
            dir: &config.dir,
            agent: &config.agent,
            lab: &config.lab,
            cgroup,
        };
        for ((index, share), log) in config.virtiofs().zip(logs) {
            servers.0.push(place.serve(index, &share, log)?);
        }
        Ok(servers)
    }

    /// Hands the servers over to a running guest.
    pub(super) fn keep(mut self) -> Vec<Process> {
        std::mem::take(&mut self.0)
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for server in &self.0 {
            // The error that brings us here is the one to report.
            let _ = server.signal(Signal::KILL);
            let _ = server.wait(Duration::from_secs(1));
            let _ = server.collect();
        }
    }
}

/// Common to the servers of a guest.
struct Surroundings<'a> {
    program: &'a str,
    dir: &'a Path,
    agent: &'a Path,
    lab: &'a str,
    cgroup: Option<&'a CgroupEntry>,
}

impl Surroundings<'_> {
    fn serve(&self, index: usize, share: &Share, log: &OwnedFd) -> Result<Process, Error> {
        let socket = listen(&virtiofs_socket(self.dir, index))?;
        let mut spawn = place(self.dir, index, share, self.program)?
            .spawn(self.agent, self.lab, self.program)
            .args(arguments(self.program, share.access))
            .session()
            .descriptor(socket.as_fd(), SOCKET_FD)
            .descriptor(log.as_fd(), 1)
            .descriptor(log.as_fd(), 2);
        if let Some(cgroup) = self.cgroup {
            spawn = spawn.cgroup(cgroup);
        }
        Ok(spawn.start()?)
    }
}

/// Listens at a path. QEMU, which is another user, connects; the guest's directory keeps other users away.
fn listen(path: &Path) -> Result<UnixListener, Error> {
    // A former guest of this name may have left it.
    file::remove(path).map_err(Error::io("remove", path))?;
    let listener = UnixListener::bind(path).map_err(Error::io("listen at", path))?;
    fs::set_permissions(path, Permissions::from_mode(0o666)).map_err(Error::io("open", path))?;
    Ok(listener)
}

/// QEMU's own server changes its root and empties its bounding set, and then has given up the privileges for both,
/// before it hears a word of the guest's; the later one can be told that it is confined already.
/// One that writes acts as the user that the guest names, for which it must be root.
fn place(dir: &Path, index: usize, share: &Share, program: &str) -> Result<Place, Error> {
    let writes = share.access == Access::Write;
    let mut place = Place::new(dir, &format!("fs{index}"), !writes)?;
    place.share(share, EXPORT);
    let kept = confine::capabilities(share.access).iter().copied();
    kept.for_each(|one| place.keep(one));
    place.keep(capability::FOWNER);
    if writes {
        place.keep(capability::SETUID);
        place.keep(capability::SETGID);
    }
    if is_qemus(program) {
        place.keep(capability::SYS_CHROOT);
        place.keep(capability::SETPCAP);
    }
    Ok(place)
}

fn is_qemus(program: &str) -> bool {
    program.starts_with("/usr/lib/qemu")
}

/// QEMU's own server and the later one take the same in different words. Both would take capabilities that they do
/// not have here, unless told which.
fn arguments(program: &str, access: Access) -> Vec<OsString> {
    let capabilities = match access {
        Access::Everybody => "-chown:-dac_override:-fsetid:-setgid:-setuid:-mknod:-setfcap",
        Access::Read => {
            "+dac_read_search:-chown:-dac_override:-fsetid:-setgid:-setuid:-mknod:-setfcap"
        }
        Access::Write => "-mknod:-setfcap",
    };
    let options = ["cache=always".to_owned(), format!("modcaps={capabilities}")];
    let (sandbox, source, sign) = if is_qemus(program) {
        ("sandbox=chroot", "source", "-o")
    } else {
        ("sandbox=none", "shared-dir", "")
    };
    let all = [sandbox.to_owned(), format!("{source}={EXPORT}")]
        .into_iter()
        .chain(options);
    let mut line = vec![
        format!("--fd={SOCKET_FD}").into(),
        // Raised before it starts.
        "--rlimit-nofile=0".into(),
    ];
    for option in all {
        match sign {
            "" => line.push(format!("--{option}").into()),
            sign => line.extend([sign.into(), option.into()]),
        }
    }
    line
}

#[cfg(test)]
#[path = "virtiofs_tests.rs"]
mod tests;
