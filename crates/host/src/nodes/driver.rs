//! A node as a lab sees it, the same for every kind.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use latlab_model::plan::{Names, NodePlace, NodePlan};
use latlab_model::profile::Profile;
use latlab_model::snapshot::{SavedAs, Snapshot};

use super::mend::{Act, Found};
use super::preparation::Preparation;
use super::session::{After, Command, Detached, Error, Session};
use super::stood::Stood;
use super::storage::{self, Held};
use super::vm::channel::Channel;
use super::vm::channels::Channels;
use super::vm::clock::ClockOffset;
use crate::borrowed::Tool;
use crate::cgroup::{Limits, NodeCgroup};
use crate::images::{Covers, RootView};
use crate::links::{Card, NicBackend};
use crate::streams;
use crate::sys::netns::NetNs;
use crate::sys::process::ProcessId;

/// A kind of node, with what the plan holds of it.
pub(crate) trait Driver {
    /// Limits of its cgroup beyond CPUs and memory.
    fn restrict(&self, _limits: &mut Limits) {}

    /// Everything that can be done before the first change to the machine. `None` for a node that is no
    /// more than a namespace.
    fn prepare(
        &self,
        _node: &NodePlan,
        _preparation: &mut Preparation<'_>,
    ) -> Result<Option<Box<dyn Prepared>>, Error> {
        Ok(None)
    }

    /// Starts a command inside.
    fn exec(&self, node: &Node<'_>, command: &Command) -> Result<Box<dyn Session>, Error>;

    /// Starts a command that no latlab waits for.
    fn detach(&self, _node: &Node<'_>, _command: &Command) -> Result<Detached, Error> {
        let reason = "commands on their own run in containers and native nodes only";
        Err(Error::Other(reason.into()))
    }

    /// The agent's path inside, `agent` being its path on the host.
    fn agent(&self, agent: &Path) -> String {
        agent.display().to_string()
    }

    /// The agent's path for programs inside, which is a file in every kind of node.
    fn agent_file(&self, agent: &Path) -> String {
        self.agent(agent)
    }

    /// A directory inside for the files of a program, in memory and gone with the node; `dir` is the node's own on the
    /// host. It is not made yet.
    fn scratch(&self, dir: &Path) -> String {
        dir.join("scratch").display().to_string()
    }

    /// Stops it where it is. Its cgroup is there, if it can have one.
    fn pause(&self, node: &Node<'_>) -> Result<(), Error> {
        match &node.cgroup {
            Some(group) => Ok(group.freeze()?),
            None => Err(Error::Other("it has no cgroup that could be frozen".into())),
        }
    }

    /// Lets it go on.
    fn resume(&self, node: &Node<'_>) -> Result<(), Error> {
        match &node.cgroup {
            Some(group) => Ok(group.thaw()?),
            None => Ok(()),
        }
    }

    /// The program that saving and restoring it need beyond those of the machine.
    fn borrows(&self) -> Option<Tool> {
        None
    }

    /// Proves that program, unless it worked before.
    fn prove(&self, _node: &Node<'_>) -> Result<(), Error> {
        Ok(())
    }

    /// Saves all of its state into an empty directory that only root enters.
    fn snapshot(&self, _node: &Node<'_>, _into: &Path, _after: After) -> Result<Saved, Error> {
        Err(Error::Other(UNSAVED.into()))
    }

    /// Ends a node that was saved to end and stands still since then.
    fn end(&self, _node: &Node<'_>) -> Result<(), Error> {
        Err(Error::Other(UNSAVED.into()))
    }

    /// Finds where a node goes on of which `act` was begun and cut off; none if it has ended. Nowhere else it runs, or
    /// will run, from then on. `dir` is the directory of the place that it was to go on at. Fails when that cannot
    /// be told yet.
    fn find(&self, _node: &Node<'_>, _act: Act, _dir: &Path) -> Result<Option<Found>, Error> {
        Err(Error::Other(UNSAVED.into()))
    }

    /// Lets the node go on where it was found and ends the rest, once the network is there. `saved` is the identity that it
    /// was saved with, where it was restored.
    fn settle(
        &self,
        _node: &Node<'_>,
        _act: Act,
        _found: Found,
        _dir: &Path,
        _saved: &SavedAs,
    ) -> Result<(), Error> {
        Err(Error::Other(UNSAVED.into()))
    }

    /// Whether its process lives; an error says why not.
    fn health(&self, _node: &Node<'_>) -> Result<(), Error> {
        Ok(())
    }

    /// The difference of its clock from the host's; `None` where it is the host's.
    fn clock(&self, _node: &Node<'_>) -> Result<Option<ClockOffset>, Error> {
        Ok(None)
    }
}

/// That of nodes with mounts of their own.
pub(super) const SCRATCH_INSIDE: &str = "/dev/shm/latlab";

/// The reason for kinds that cannot be saved.
const UNSAVED: &str =
    "a node of its kind can be neither saved nor moved: its processes are among the host's";

/// A node that was saved.
#[derive(Debug)]
pub(crate) struct Saved {
    /// The machine that it ran on, in words.
    pub machine: String,
    /// Names of the files that hold it.
    pub files: Vec<String>,
    /// Known where it stood still for that, and QEMU or its frozen group tells.
    pub stood: Option<Stood>,
}

/// The part of a move that is the network's: it follows the node.
pub(crate) trait Switch: Send {
    /// The node stands still where it was, or is about to, and will run at its new place.
    fn stopped(&mut self) -> Result<(), String>;

    /// The node runs where it is now, and never again where it was.
    fn running(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// The node goes on where it was, whether it was stopped or not.
    fn given_up(&mut self);
}

/// A node that was prepared and can be started.
pub(crate) trait Prepared: Send + Sync {
    /// Limits that depend on what was found meanwhile.
    fn restrict(&self, _node: &Node<'_>, _limits: &mut Limits) {}

    /// Checks what only a first start takes from the machine. Fails before anything is changed.
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Its root file system, where it has one of its own.
    fn root(&mut self) -> Option<&mut RootView> {
        None
    }

    /// The kernel that it boots, where it has one of its own: its release, and where it comes from.
    fn kernel(&self) -> Option<String> {
        None
    }

    /// The image, if a layer is to cover what it hides.
    fn covered(&self) -> Option<&RootView> {
        None
    }

    /// Starts it and returns when it is ready for commands: with its process, if the kind has one.
    fn start(&self, start: &Start<'_>) -> Result<Option<ProcessId>, Error>;

    /// Ends what runs of it and lets it go on as it was saved, or as a copy of a node that was. Fails before anything
    /// is changed where the machine is another one.
    fn restore(
        &self,
        _start: &Start<'_>,
        _saved: &Snapshot,
        _from: &Path,
    ) -> Result<Option<ProcessId>, Error> {
        Err(Error::Other(UNSAVED.into()))
    }

    /// Moves what runs of it to `target`; `switch` lets the network follow.
    fn migrate(
        &self,
        _start: &Start<'_>,
        _target: &Target<'_>,
        _switch: &mut dyn Switch,
    ) -> Result<Moved, Error> {
        Err(Error::Other(UNSAVED.into()))
    }
}

/// The place that a node moves to.
pub(crate) struct Target<'a> {
    pub dir: &'a Path,
    /// The network sides of its interfaces, in their order. Taps are those that it has.
    pub backends: &'a [NicBackend],
    /// The network namespace of a container there.
    pub netns: Option<NetNs>,
}

/// A node that moved.
#[derive(Debug, Clone)]
pub struct Moved {
    pub(crate) process: ProcessId,
    /// The time of the whole copy.
    pub total: Duration,
    pub stood: Option<Stood>,
    /// How long it stood still by QEMU's own account.
    pub downtime: Option<Duration>,
    /// Bytes of state that were copied.
    pub bytes: u64,
    /// Passes over its memory.
    pub rounds: u64,
    /// The node wrote faster than it was copied, and was stopped for the rest.
    pub was_forced: bool,
    /// A failure after it ran at its new place.
    pub(crate) trouble: Option<String>,
}

/// A node of a lab on this machine.
pub(crate) struct Node<'a> {
    pub plan: &'a NodePlan,
    /// Identifier of the deployment, the label of its processes.
    pub lab_id: &'a str,
    /// Its own directory.
    pub dir: PathBuf,
    /// The directory of its storage.
    pub storage: PathBuf,
    /// Its pinned network namespace; not there for the host itself.
    pub netns: PathBuf,
    /// How the lab's nodes know each other.
    pub names: &'a Names,
    /// Its hosts file on the host, where it needs one there.
    pub hosts: PathBuf,
    /// The directory below which labs have their mounts.
    pub labs: &'a Path,
    /// The agent's binary on the host.
    pub agent: &'a Path,
    /// Where borrowed programs and verdicts are.
    pub cache: &'a Path,
    /// Its process, once started.
    pub process: Option<ProcessId>,
    /// Its cgroup, where there is one.
    pub cgroup: Option<NodeCgroup>,
    /// The directory of the supervisor of its connections, where its programs are under a filter for that.
    pub streams: Option<PathBuf>,
    /// Directories of the sockets that serve ports of DPDK, by the name of the port.
    pub sockets: BTreeMap<String, PathBuf>,
    /// Cards of hardware that are ports of DPDK, by the name of the port.
    pub devices: BTreeMap<String, Card>,
    /// Channels into the lab's guests.
    pub channels: &'a Channels,
}

/// The reason for a node of a lab that was kept although it failed.
const NEVER_CAME_UP: &str = "it did not come up when the lab was deployed";

impl Node<'_> {
    pub fn process(&self) -> Result<ProcessId, Error> {
        let process = self.process;
        process.ok_or_else(|| Error::Other(NEVER_CAME_UP.into()))
    }

    /// Its storage, with the directories that hold it.
    pub fn held(&self) -> Vec<Held> {
        storage::of(self.plan, &self.storage)
    }

    /// Where the mounts of its storage are pinned, for a node without a process.
    pub fn mounts(&self) -> PathBuf {
        self.netns.with_extension("mnt")
    }

    /// Announces a process of the node to the supervisor of its connections. The socket is for the process itself.
    pub fn stream_session(&self) -> Result<Option<OwnedFd>, Error> {
        let Some(directory) = &self.streams else {
            return Ok(None);
        };
        streams::open_session(directory, &self.plan.name)
            .map_err(|error| Error::Other(error.to_string()))
    }

    /// The text of its hosts file.
    pub fn hosts_file(&self) -> String {
        self.names.hosts(&self.plan.name)
    }

    /// Its identity, as a saved guest has it.
    pub fn identity(&self) -> SavedAs {
        SavedAs::of(self.plan, self.names)
    }

    /// The channel to a guest's agent.
    pub fn channel(&self) -> Result<Channel, Error> {
        let process = self.process()?;
        self.channels.open(&self.plan.name, &self.dir, process)
    }
}

/// A node about to be started.
pub(crate) struct Start<'a> {
    /// Without a process yet.
    pub node: Node<'a>,
    /// The group of its processes.
    pub cgroup: &'a NodeCgroup,
    /// Where its threads run.
    pub place: Option<NodePlace>,
    /// The profile of the knobs inside, where it has knobs of its own.
    pub inside: Option<Profile>,
    /// The layers over hidden paths of images.
    pub covers: &'a Covers,
    /// The network sides of a guest's interfaces, in their order.
    pub backends: Vec<NicBackend>,
    /// A file system of huge pages, attached nowhere yet, for a node with DPDK.
    pub huge_pages: Option<Arc<OwnedFd>>,
}
