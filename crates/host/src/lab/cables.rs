//! The network of a container that moves: a second namespace at the new hosts, and the overlays that follow.

use latlab_model::plan::{NodePlan, Plan};

use crate::links::{self, Follower, Replica};
use crate::nodes::Switch;
use crate::sys::netns::NetNs;

/// The part of a move that is the network's, from its preparation to its end.
pub(super) trait Network: Switch {
    /// The network namespace that the node comes to, if that is another one.
    fn netns(&self) -> Option<&NetNs> {
        None
    }

    /// Removes what was at the old hosts.
    fn settle(&mut self) -> Result<(), String>;

    fn as_switch(&mut self) -> &mut dyn Switch;
}

pub(super) struct Cables<'a> {
    followers: Vec<&'a mut Follower>,
    replica: Replica<'a>,
    /// The nodes whose hosts it leaves and comes to.
    from: usize,
    to: usize,
}

impl<'a> Cables<'a> {
    /// Makes the second namespace. Fails with nothing left of it.
    pub(super) fn make(
        network: &'a links::Network,
        plan: &'a Plan,
        node: &'a NodePlan,
        followers: Vec<&'a mut Follower>,
        (from, to): (usize, usize),
    ) -> Result<Cables<'a>, links::Error> {
        Ok(Cables {
            followers,
            replica: Replica::make(network, plan, node, to)?,
            from,
            to,
        })
    }

    /// Makes its ports at the daemons of the new hosts. Fails with nothing left of it.
    pub(super) fn prepare(&mut self) -> Result<(), String> {
        let prepared = self.each(Follower::prepare);
        prepared.inspect_err(|_| self.given_up())
    }

    fn each(
        &mut self,
        mut step: impl FnMut(&mut Follower) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut followers = self.followers.iter_mut();
        followers.try_for_each(|follower| step(follower))
    }
}

impl Network for Cables<'_> {
    fn netns(&self) -> Option<&NetNs> {
        Some(self.replica.netns())
    }

    /// Has the second namespace be the node's, and the ports at the old hosts closed.
    fn settle(&mut self) -> Result<(), String> {
        // One that fails does not keep the others from it.
        let closed = self.followers.iter_mut().map(|follower| follower.finish());
        let closed = closed.fold(Ok(()), Result::and);
        let settled = self.replica.settle(self.from);
        closed.and(settled.map_err(|error| error.to_string()))
    }

    fn as_switch(&mut self) -> &mut dyn Switch {
        self
    }
}

impl Switch for Cables<'_> {
    /// From the return on, nothing reaches the node any more, and nothing of it reaches others.
    fn stopped(&mut self) -> Result<(), String> {
        self.each(Follower::hold)?;
        self.each(Follower::turn)?;
        let copied = self.replica.copy_neighbours();
        copied.map_err(|error| error.to_string())
    }

    fn running(&mut self) -> Result<(), String> {
        self.each(Follower::release)
    }

    fn given_up(&mut self) {
        self.followers
            .iter_mut()
            .for_each(|follower| follower.undo());
        self.replica.unplug(self.to);
    }
}
