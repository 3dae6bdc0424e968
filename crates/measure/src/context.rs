//! The lab, the measurement and the path between its two endpoints.

use latlab_host::lab::Lab;
use latlab_model::plan::Reach;
use latlab_model::spec::{Ends, Measurement};

use crate::error::Error;
use crate::nodes::Nodes;

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
        let (from, to) = (&ends.from.value, &ends.to.value);
        let ipv6 = measurement.ip == 6;
        // Through other nodes, the last of them is the receiver's neighbour.
        let before = measurement.through.last();
        let before = before.map_or(&from.node, |node| &node.value);
        let reach = lab
            .plan()
            .reach(before, &to.node, to.interface.as_deref(), ipv6)
            .ok_or_else(|| Error::Unreachable {
                from: from.node.clone(),
                to: to.node.clone(),
            })?;
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

    pub(crate) fn path(&self) -> Vec<&str> {
        let through = self.measurement.through.iter();
        let between = through.map(|node| node.value.as_str());
        let mut path = vec![self.sender()];
        path.extend(between);
        path.push(self.receiver());
        path
    }

    /// The unspecified address of the measured IP version, for a server to bind.
    pub fn any(&self, port: u16) -> String {
        match self.measurement.ip {
            6 => format!("[::]:{port}"),
            _ => format!("0.0.0.0:{port}"),
        }
    }
}
