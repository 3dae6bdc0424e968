//! Moving a node that runs to another host of its lab.

use std::path::PathBuf;

use latlab_model::kinds::NodeKind;
use latlab_model::plan::{InterfacePlan, NodePlan};
use latlab_model::units::Bytes;

use super::cables::{Cables, Network};
use super::deployed::Lab;
use super::error::Error;
use super::memory::available_bytes;
use super::note::Begun;
use super::options::Step;
use super::plain::Plain;
use super::{space, tune};
use crate::images::Covers;
use crate::links::{self, Follower, NicBackend};
use crate::nodes::mend::Act;
use crate::nodes::session;
use crate::nodes::{Moved, Prepared, Start, Switch, Target};
use crate::sys::netns::NetNs;

/// A move that is about to be done.
struct Trip<'a> {
    plan: &'a NodePlan,
    /// The nodes on whose hosts it is and will be.
    from: usize,
    to: usize,
    /// The directory of its new place.
    dir: PathBuf,
    prepared: Box<dyn Prepared>,
    backends: Vec<NicBackend>,
}

impl Lab {
    /// Moves a VM or a container, while it runs, to the hosts of node `to`: those that overlay links with a carrier give
    /// it. Without such a link a VM moves to another QEMU on the same taps, and `to` is the node itself. Fails with the
    /// node where it was, unless it ran at its new place already.
    pub fn migrate(
        &self,
        node: &str,
        to: &str,
        progress: &dyn Fn(&Step<'_>),
    ) -> Result<Moved, Error> {
        let (index, plan) = self.node(node)?;
        let (host, _) = self.node(to)?;
        let _alone = self.claim_alone()?;
        self.check_nothing_begun(node)?;
        self.check_not_paused(node)?;
        let failed = |reason: String| self.unusable(node, session::Error::Other(reason));
        let unmovable = || {
            failed(
                "only VMs and containers move: the processes of other nodes are the host's".into(),
            )
        };
        space::check_unstored(plan)?;
        if !matches!(plan.kind(), NodeKind::Vm | NodeKind::Container) {
            return Err(unmovable());
        }
        let mut followers = self.followers(index, host).map_err(failed)?;
        self.borrow_for(plan, progress)?;
        let prepared = self.prepare_again(plan, progress)?.ok_or_else(unmovable)?;
        let moves = self.node_state(index).moves + 1;
        let trip = Trip {
            plan,
            from: self.host_of(index),
            to: host,
            dir: self.node_dir(node, moves),
            prepared,
            backends: backends(&followers),
        };
        let followers = followers.iter_mut().flatten().collect();
        let mut note = self.begin(
            node,
            &Begun {
                act: Act::Move,
                to: to.to_owned(),
                moves,
                directory: PathBuf::new(),
                copied: None,
            },
        )?;
        let plain = self.make_plain(node)?;
        let (moved, trouble) = match plan.kind().is_guest() {
            true => {
                let mut overlays = Overlays::prepare(followers).map_err(failed)?;
                self.carry(&trip, &mut overlays)?
            }
            false => self.migrate_container(&trip, followers)?,
        };
        // Its host and its network namespace are others than the supervisor knows.
        plain.into_iter().for_each(Plain::stay);
        let noted = self.replace_process(index, Some(moved.process), |state| {
            state.host = (host != index).then(|| to.to_owned());
            state.moves = moves;
        });
        // Without it the lab does not know where the node is.
        noted.map_err(|error| note.stays(error))?;
        trouble.map_or(Ok(moved), |reason| Err(failed(reason)))
    }

    fn migrate_container(
        &self,
        trip: &Trip<'_>,
        followers: Vec<&mut Follower>,
    ) -> Result<(Moved, Option<String>), Error> {
        let node = &trip.plan.name;
        let failed = |reason: String| self.unusable(node, session::Error::Other(reason));
        self.check_memory(node).map_err(failed)?;
        let namespaces = self.dirs.namespaces(&self.state.lab);
        let network = links::Network::new(namespaces, &self.state.id)?;
        let places = (trip.from, trip.to);
        let mut cables = Cables::make(&network, &self.state.plan, trip.plan, followers, places)?;
        cables.prepare().map_err(failed)?;
        self.carry(trip, &mut cables)
    }

    /// Has the node and its network move; with it what went wrong once it ran at its new place.
    fn carry(
        &self,
        trip: &Trip<'_>,
        network: &mut dyn Network,
    ) -> Result<(Moved, Option<String>), Error> {
        let node = &trip.plan.name;
        let start = Start {
            node: self.running(node)?,
            cgroup: &self.cgroup(trip.plan)?,
            place: tune::place(&self.state.plan, trip.plan),
            inside: None,
            covers: &Covers::default(),
            backends: Vec::new(),
            huge_pages: None,
        };
        let netns = network.netns().map(NetNs::try_clone).transpose();
        let target = Target {
            dir: &trip.dir,
            backends: &trip.backends,
            netns: netns.map_err(|error| self.unusable(node, error.into()))?,
        };
        let moved = trip.prepared.migrate(&start, &target, network.as_switch());
        let moved = moved.inspect_err(|_| network.given_up());
        let moved = moved.map_err(|source| self.unusable(node, source))?;
        let finished = network.settle();
        let trouble = moved.trouble.clone().or(finished.err());
        Ok((moved, trouble))
    }

    /// The node on whose hosts another one is: itself, until it moves.
    pub fn host_node(&self, node: &str) -> Result<String, Error> {
        let (index, _) = self.node(node)?;
        Ok(self.state.plan.nodes[self.host_of(index)].name.clone())
    }

    /// A container that moves is in memory three times for a moment: where it was, in the images, and where it comes to.
    fn check_memory(&self, node: &str) -> Result<(), String> {
        let memory = self.node_memory(node).map_err(|error| error.to_string())?;
        let (Some(used), Some(free)) = (memory.pss_bytes, available_bytes()) else {
            return Ok(());
        };
        let (needed, free) = (Bytes(used.saturating_mul(2)), Bytes(free));
        if needed > free {
            return Err(format!(
                "its move needs {needed} of memory, and {free} are available"
            ));
        }
        Ok(())
    }

    /// For each interface of a node the daemons that are to follow it to the hosts of node `to`.
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
        let open = |interface: &InterfacePlan| {
            let follower = Follower::open(plan, node, interface, from, to, &run)?;
            let link = &plan.links[interface.link].name;
            match follower {
                None if !node.kind().is_guest() => Err(format!(
                    "link `{link}` is no overlay with hosts, so its cable stays where it is"
                )),
                follower => Ok(follower),
            }
        };
        node.interfaces.iter().map(open).collect()
    }
}

fn backends(followers: &[Option<Follower>]) -> Vec<NicBackend> {
    let backend = |follower: &Option<Follower>| match follower {
        Some(follower) => NicBackend::VhostUser(follower.socket()),
        None => NicBackend::Tap(Vec::new()),
    };
    followers.iter().map(backend).collect()
}

/// The overlay links of a VM.
struct Overlays<'a>(Vec<&'a mut Follower>);

impl<'a> Overlays<'a> {
    fn prepare(followers: Vec<&'a mut Follower>) -> Result<Overlays<'a>, String> {
        let mut all = Overlays(followers);
        let prepared = all.0.iter_mut().try_for_each(|follower| follower.prepare());
        prepared.inspect_err(|_| all.given_up())?;
        Ok(all)
    }
}

impl Network for Overlays<'_> {
    fn settle(&mut self) -> Result<(), String> {
        // One that fails does not keep the others from it.
        let finished = self.0.iter_mut().map(|follower| follower.finish());
        finished.fold(Ok(()), Result::and)
    }

    fn as_switch(&mut self) -> &mut dyn Switch {
        self
    }
}

impl Switch for Overlays<'_> {
    fn stopped(&mut self) -> Result<(), String> {
        let flipped = self.0.iter_mut().map(|follower| follower.flip());
        flipped.fold(Ok(()), Result::and)
    }

    fn given_up(&mut self) {
        self.0.iter_mut().for_each(|follower| follower.undo());
    }
}
