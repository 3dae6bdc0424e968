//! Serving directories to guests whose kernel has no 9p (the distributions' cloud kernels): one
//! `virtiofsd` process a share, started before QEMU, which connects to its socket and takes it along when
//! it ends.

use std::ffi::OsString;
use std::fs;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::qemu::{VmConfig, virtiofs_socket};
use super::{Error, console, open_log};
use crate::cgroup;
use crate::sys::process::Process;
use crate::sys::spawn::Spawn;

/// Where distributions put it. Debian 12 has QEMU's own, later releases a package of its own.
const PROGRAMS: [&str; 3] = [
    "/usr/libexec/virtiofsd",
    "/usr/lib/qemu/virtiofsd",
    "/usr/bin/virtiofsd",
];
/// How long a server may take to make its socket.
const PATIENCE: Duration = Duration::from_secs(10);

/// Running servers, ended when dropped: a guest that could not be started leaves none.
#[derive(Debug, Default)]
pub(super) struct Servers(Vec<Process>);

impl Servers {
    /// Starts a server for each share and waits for its socket.
    pub(super) fn start(
        config: &VmConfig<'_>,
        cgroup: Option<&cgroup::Entry>,
    ) -> Result<Self, Error> {
        let Some(program) = PROGRAMS.into_iter().find(|path| Path::new(path).exists()) else {
            return Err(Error::NoVirtiofsd {
                release: config.kernel.release.clone(),
                looked: PROGRAMS.map(str::to_owned).to_vec(),
            });
        };
        let mut servers = Self::default();
        for (index, share) in config.all_shares().iter().enumerate() {
            let socket = virtiofs_socket(&config.dir, index);
            // Of a former guest of this name; its absence is as good.
            let _ = fs::remove_file(&socket);
            let log_path = config.dir.join(format!("fs{index}.log"));
            let log = open_log(&log_path)?;
            let mut spawn = Spawn::new(program, &config.lab)
                .args(arguments(program, &socket, &share.source))
                .session()
                .descriptor(log.as_fd(), 1)
                .descriptor(log.as_fd(), 2);
            if let Some(cgroup) = cgroup {
                spawn = spawn.cgroup(cgroup);
            }
            servers.0.push(spawn.start()?);
            servers.wait_for(&socket, &log_path, config)?;
        }
        Ok(servers)
    }

    fn wait_for(&self, socket: &Path, log: &Path, config: &VmConfig<'_>) -> Result<(), Error> {
        let deadline = Instant::now() + PATIENCE;
        while !socket.exists() {
            let ended = self.0.last().map_or(Ok(true), Process::has_ended)?;
            if ended || Instant::now() > deadline {
                let said = console::last_lines(log);
                let (name, how) = (config.name.clone(), "its virtiofsd did not start".into());
                return Err(Error::GuestEnded { name, how, said });
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// They now belong to a running guest.
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

/// QEMU's own server and the later one take the directory in different words. The sandbox is a change
/// of root: the default, a pivot, fails where the directory is the machine's root itself.
fn arguments(program: &str, socket: &Path, source: &Path) -> Vec<OsString> {
    let with = |start: &str, path: &Path| {
        let mut word = OsString::from(start);
        word.push(path);
        word
    };
    let socket = with("--socket-path=", socket);
    let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
    let mut line = vec![socket];
    if program.starts_with("/usr/lib/qemu") {
        line.extend(words(&["-o", "sandbox=chroot", "-o", "cache=always", "-o"]));
        line.push(with("source=", source));
    } else {
        line.extend(words(&["--sandbox=chroot", "--cache=always"]));
        line.push(with("--shared-dir=", source));
    }
    line
}
