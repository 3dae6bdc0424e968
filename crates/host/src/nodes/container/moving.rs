//! Moving a container that runs into another network namespace, as to another machine: processes, memory and
//! connections are dumped and restored.
//!
//! ```text
//! source   runs ──────────────┐ stands still, is dumped ─────────────── ends
//! target                                                 restored, runs
//! network         held, cut off                                  released
//! ```
//!
//! The network is cut before the dump: the kernel would acknowledge what the copy never gets. Until the copy runs, every
//! failure ends the copy and lets the source go on; from then on the source never runs again.
//!
//! Images are in memory, in a mount namespace of latlab's own, and end with it. File systems stay where they are, because
//! both places are on this machine: the root, and those in memory (`/tmp`, `/dev/shm`), are mounted once more. To let
//! CRIU pack and unpack each of the latter costs 7 ms.

use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::checkpoint::{self, DUMP, RESTORE};
use super::drain::{self, Drained};
use super::error::Error;
use super::handle::Container;
use super::standstill::{self, DUMP_LOG, LIMITS, PID_FILE, RESTORE_LOG};
use crate::borrowed::Borrowed;
use crate::borrowed::criu::{Criu, Cut, Dumped, End, Place};
use crate::nodes::driver::{Moved, Switch};
use crate::nodes::stood::{Stood, monotonic_ns};
use crate::sys::file::make_private;
use crate::sys::mounts_of::MountsOf;
use crate::sys::netns::NetNs;
use crate::sys::process::Process;
use crate::sys::{inside, mount};

/// Most time between the cut of the network and the end of the copy; frames are held a little longer.
const SWITCH_TIMEOUT: Duration = Duration::from_secs(16);

/// The directory of a move's images, in the node's.
const IMAGES: &str = "images";

/// Moves a container from the network namespace `from` to `to`, which has the same interfaces. `switch` is told when the
/// container is about to stand still, and when it runs again.
pub(super) fn run(
    container: &Container,
    from: &NetNs,
    to: &NetNs,
    tool: &Borrowed,
    switch: &mut dyn Switch,
) -> Result<Moved, Error> {
    let began = Instant::now();
    let source = Process::open(container.process)?.ok_or(Error::Ended)?;
    checkpoint::check_all_below(&container.cgroup, container.process)?;
    // That of an earlier move would be taken for the copy.
    let _ = fs::remove_file(container.dir.join(PID_FILE));
    let images = container.dir.join(IMAGES);
    make_private(&images).map_err(Error::io("make", &images))?;
    let mounts = MountsOf::process(source.as_fd(), container.process.pid)?;
    // Both are there for a moment, in one group.
    let room = container.cgroup.doubled(&container.dir.join(LIMITS))?;
    let moved = inside::with_own_mounts(&container.dir.join("host"), || {
        mount::tmpfs(&images, inside::half_of_memory())?;
        let rootfs = container.dir.join("rootfs");
        let taken = mounts.attach(&rootfs, &images)?;
        let copy = Copy {
            container,
            tool,
            images: &images,
            root: &rootfs,
            taken: &taken,
            began: Instant::now(),
        };
        let (process, stopped_ns) = copy.make(&source, from, to, switch)?;
        let trouble = switch.running().err();
        let stood = Stood {
            stopped_ns,
            running_ns: monotonic_ns(),
        };
        // Connections were made of a listening socket with a filter.
        drain::release(&container.cgroup);
        let stays = standstill::end(&source)
            .err()
            .map(|error| error.to_string());
        Ok::<_, Error>(Moved {
            process: process.id(),
            total: Duration::ZERO,
            stood: Some(stood),
            downtime: None,
            bytes: pages(&images),
            rounds: 1,
            was_forced: false,
            trouble: trouble.or(stays),
        })
    });
    drop(room);
    standstill::forget_stopped(&container.dir);
    // An empty one that stays is used by the next move.
    let _ = fs::remove_dir(&images);
    let total = began.elapsed();
    moved.map(|moved| Moved { total, ..moved })
}

/// Bytes of memory among the images.
fn pages(images: &Path) -> u64 {
    let files = fs::read_dir(images).into_iter().flatten().flatten();
    let is_pages = |file: &fs::DirEntry| file.file_name().to_string_lossy().starts_with("pages-");
    let lengths = files
        .filter(is_pages)
        .filter_map(|file| file.metadata().ok());
    lengths.map(|about| about.len()).sum()
}

struct Copy<'a> {
    container: &'a Container,
    tool: &'a Borrowed,
    images: &'a Path,
    /// A mount of the container's root.
    root: &'a Path,
    /// Mounts of its file systems in memory.
    taken: &'a [(PathBuf, PathBuf)],
    began: Instant,
}

impl Copy<'_> {
    /// Dumps the container and restores it; the first process of the copy, and when it began to stand still. Fails with
    /// the container as it was.
    fn make(
        &self,
        source: &Process,
        from: &NetNs,
        to: &NetNs,
        switch: &mut dyn Switch,
    ) -> Result<(Process, u64), Error> {
        let cgroup = &self.container.cgroup;
        let stopped = standstill::note_stopped(self.container)?;
        let entry = cgroup.entry()?;
        let mut sources = None;
        let made = self.quiet(from, switch, source).and_then(|stopped_ns| {
            // None can be born any more.
            sources = Some(cgroup.pids()?.into_iter().collect());
            let place = Place {
                root: self.root,
                cgroup: &entry,
            };
            Ok((self.restore(place, to)?, stopped_ns))
        });
        made.inspect_err(|_| {
            // Before the copy ends: what it would send at its end is not for its peers.
            switch.given_up();
            if let Some(sources) = &sources {
                standstill::end_others(cgroup, sources);
            }
            standstill::go_on(cgroup, &stopped);
        })
    }

    /// Dumps the container, cut off from its peers, once none of its connections is the kernel's alone. When it began to
    /// stand still.
    fn quiet(&self, from: &NetNs, switch: &mut dyn Switch, source: &Process) -> Result<u64, Error> {
        let drained = Drained::make(self.container)?;
        switch.stopped().map_err(Error::NotMoved)?;
        drained.release_listeners();
        self.dump(source, from, &drained)?;
        // The copy comes into the same group.
        drained.end()
    }

    fn criu<'a>(&'a self, netns: &'a NetNs, log: &'a Path) -> Criu<'a> {
        let lab = &self.container.lab_id;
        Criu {
            cut: Cut::ByCaller,
            taken: self.taken,
            timeout: SWITCH_TIMEOUT.saturating_sub(self.began.elapsed()),
            end: End::Own(&self.container.cgroup),
            ..Criu::new(self.tool, lab, netns.as_fd(), self.images, log)
        }
    }

    fn dump(&self, source: &Process, from: &NetNs, drained: &Drained<'_>) -> Result<(), Error> {
        let log = self.container.dir.join(DUMP_LOG);
        let criu = Criu {
            frozen: drained.frozen(),
            ..self.criu(from, &log)
        };
        let dumped = criu.dump(source, Dumped::Stand);
        dumped.map_err(|error| checkpoint::explain(DUMP, error, &log))?;
        checkpoint::allow_held_calls(self.images)
    }

    fn restore(&self, place: Place<'_>, to: &NetNs) -> Result<Process, Error> {
        let log = self.container.dir.join(RESTORE_LOG);
        let pid_file = self.container.dir.join(PID_FILE);
        let restored = self.criu(to, &log).restore(Some(place), &pid_file);
        restored.map_err(|error| checkpoint::explain(RESTORE, error, &log))
    }
}
