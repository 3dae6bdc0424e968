//! Moving a node that runs to another host of its lab.

use std::fs;
use std::path::{Path, PathBuf};

use latlab_model::kinds::NodeKind;

use super::deployed::Lab;
use super::error::Error;
use super::options::Step;
use super::tune;
use crate::images::Covers;
use crate::links::{self, Follower, NicBackend};
use crate::nodes::session;
use crate::nodes::{Moved, Start, Switch, Target};

impl Lab {
    /// Moves a VM, while it runs, to the hosts of node `to`: those that overlay links with a carrier give it. Without
    /// such a link it moves to another QEMU on the same taps, and `to` is the node itself. Fails with the VM where it
    /// was, unless it ran at its new place already.
    pub fn migrate(
        &self,
        node: &str,
        to: &str,
        progress: &dyn Fn(&Step<'_>),
    ) -> Result<Moved, Error> {
        let (index, plan) = self.node(node)?;
        let (host, _) = self.node(to)?;
        self.check_goes_on(node)?;
        let _alone = self.claim_alone()?;
        let failed = |source: session::Error| self.unusable(node, source);
        let prepared = self.prepare_again(plan, progress)?;
        let Some(prepared) = prepared.filter(|_| plan.kind() == NodeKind::Vm) else {
            return Err(failed(session::Error::Other(
                "only a VM moves: the processes of other nodes are among the host's".into(),
            )));
        };
        let moves = self.node_state(index).moves + 1;
        let dir = self.node_dir(node, moves);
        let mut followers = self
            .followers(index, host)
            .map_err(|reason| failed(other(reason)))?;
        let start = Start {
            node: self.running(node)?,
            cgroup: &self.cgroup(plan)?,
            place: tune::place(&self.state.plan, plan),
            inside: None,
            covers: &Covers::default(),
            backends: Vec::new(),
        };
        let target = Target {
            dir: &dir,
            backends: backends(&followers),
        };
        let mut network = Network(followers.iter_mut().flatten().collect());
        let note = Note::write(self.move_note(node))?;
        let moved = network
            .prepare()
            .map_err(other)
            .and_then(|()| prepared.migrate(&start, &target, &mut network));
        let moved = moved.inspect_err(|_| network.given_up()).map_err(failed)?;
        let finished = network
            .0
            .iter_mut()
            .try_for_each(|follower| follower.finish());
        self.replace_process(index, Some(moved.process), |state| {
            state.host = (host != index).then(|| to.to_owned());
            state.moves = moves;
        })?;
        drop(note);
        let trouble = moved.trouble.clone().or(finished.err());
        trouble.map_or(Ok(moved), |reason| Err(failed(other(reason))))
    }

    /// For each interface of a VM the daemons that are to follow it to the hosts of node `to`.
    fn followers(&self, index: usize, to: usize) -> Result<Vec<Option<Follower>>, String> {
        let plan = &self.state.plan;
        let (node, from) = (&plan.nodes[index], self.host_of(index));
        let run = self.dirs.run(&self.state.lab);
        let overlays = links::backends(plan, node, from, &run);
        let is_overlay = |backend: &NicBackend| matches!(backend, NicBackend::VhostUser(_));
        match (overlays.iter().any(is_overlay), from == to) {
            (true, true) => return Err("it is on the hosts of that node already".into()),
            (false, false) => {
                return Err("none of its links is an overlay with hosts to move between".into());
            }
            _ => {}
        }
        let open = |interface| Follower::open(plan, node, interface, from, to, &run);
        node.interfaces.iter().map(open).collect()
    }
}

/// A file that says that a node moves. A latlab that is killed leaves it.
struct Note(PathBuf);

impl Note {
    fn write(path: PathBuf) -> Result<Note, Error> {
        let directory = path.parent().unwrap_or(Path::new("/"));
        let written = fs::create_dir_all(directory).and_then(|()| fs::write(&path, ""));
        match written {
            Ok(()) => Ok(Note(path)),
            Err(source) => Err(Error::Io {
                action: "create",
                path,
                source,
            }),
        }
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        // One that stays costs the lab: its node is taken to be at either place.
        let _ = fs::remove_file(&self.0);
    }
}

fn other(reason: String) -> session::Error {
    session::Error::Other(reason)
}

fn backends(followers: &[Option<Follower>]) -> Vec<NicBackend> {
    let backend = |follower: &Option<Follower>| match follower {
        Some(follower) => NicBackend::VhostUser(follower.socket()),
        None => NicBackend::Tap(Vec::new()),
    };
    followers.iter().map(backend).collect()
}

/// The overlay links of the VM.
struct Network<'a>(Vec<&'a mut Follower>);

impl Network<'_> {
    fn prepare(&mut self) -> Result<(), String> {
        self.0
            .iter_mut()
            .try_for_each(|follower| follower.prepare())
    }
}

impl Switch for Network<'_> {
    fn stopped(&mut self) -> Result<(), String> {
        self.0.iter_mut().try_for_each(|follower| follower.hold())
    }

    fn running(&mut self) -> Result<(), String> {
        self.0.iter_mut().try_for_each(|follower| follower.flip())
    }

    fn given_up(&mut self) {
        self.0.iter_mut().for_each(|follower| follower.undo());
    }
}
