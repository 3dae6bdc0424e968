//! The lab, the measurement and the path between its two endpoints.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use latlab_host::lab::Lab;
use latlab_model::plan::Reach;
use latlab_model::spec::{Ends, Measurement, Waypoint};

use crate::error::Error;
use crate::nodes::Nodes;
use crate::transit::Transit;

/// With nodes on several machines, `N` is not a lab.
pub struct Context<'a, N = Lab> {
    pub lab: &'a N,
    pub measurement: &'a Measurement,
    ends: &'a Ends,
    /// Seed of the traffic's randomness.
    pub seed: u64,
    /// How the sender reaches the receiver.
    pub reach: Reach,
}

impl<'a, N: Nodes> Context<'a, N> {
    /// Finds the path from sender to receiver.
    pub fn new(
        lab: &'a N,
        measurement: &'a Measurement,
        ends: &'a Ends,
        seed: u64,
    ) -> Result<Self, Error> {
        let ipv6 = measurement.ip == 6;
        // Through other nodes, the last of them is the receiver's neighbour.
        let way = ends.way(&measurement.through);
        let (before, last) = (way[way.len() - 2], way[way.len() - 1]);
        let reach = lab.plan().reach(before, last, ipv6);
        let reach = reach.ok_or_else(|| Error::unreachable(&ends.from.node, &ends.to.node))?;
        Ok(Context {
            lab,
            measurement,
            ends,
            seed,
            reach,
        })
    }

    pub fn sender(&self) -> &str {
        &self.ends.from.node
    }

    pub fn receiver(&self) -> &str {
        &self.ends.to.node
    }

    /// The nodes that packets pass, both ends included.
    pub(crate) fn path(&self) -> Vec<Waypoint<'_>> {
        self.ends.way(&self.measurement.through)
    }

    pub(crate) fn transit(&self) -> Transit {
        Transit::of(self.lab.plan(), &self.path(), self.reach.link)
    }

    /// The unspecified address of the measured IP version and a free port, for a server to bind.
    pub fn any(&self) -> String {
        SocketAddr::new(unspecified(self.measurement.ip == 6), 0).to_string()
    }
}

pub(crate) fn loopback(is_ipv6: bool) -> IpAddr {
    match is_ipv6 {
        true => Ipv6Addr::LOCALHOST.into(),
        false => Ipv4Addr::LOCALHOST.into(),
    }
}

pub(crate) fn unspecified(is_ipv6: bool) -> IpAddr {
    match is_ipv6 {
        true => Ipv6Addr::UNSPECIFIED.into(),
        false => Ipv4Addr::UNSPECIFIED.into(),
    }
}
