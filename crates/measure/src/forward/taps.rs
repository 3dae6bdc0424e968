//! Taps on the path of a measurement.

use latlab_host::sys::netns::NetNs;
use latlab_model::spec::Waypoint;
use latlab_trace::taps::{Live, Point, Seen, Side, Tap};

use crate::context::Context;
use crate::error::Error;

pub(super) struct PlacedTap {
    node: String,
    netns: NetNs,
    point: Point,
    tap: Tap,
}

/// Taps the sender's interface, and the ingress of each later node. The sender and the first node are
/// joined by a link only, so its time goes to the first device.
pub(super) fn attach(context: &Context<'_>, max_packets: u64) -> Result<Vec<PlacedTap>, Error> {
    let path = context.path();
    let joined = |from: Waypoint<'_>, to: Waypoint<'_>| {
        let ends = context.lab.plan().joined(from, to);
        ends.map(|(a, b)| (a.to_string(), b.to_string()))
            .ok_or_else(|| Error::unreachable(from.node, to.node))
    };
    let place = |node: &str, interface: String, side| {
        PlacedTap::attach(context, node, Point { interface, side }, max_packets)
    };
    let (first, _) = joined(path[0], path[1])?;
    let mut all = vec![place(path[0].node, first, Side::Egress)?];
    let from = usize::from(path.len() > 2);
    for pair in path.windows(2).skip(from) {
        let (_, interface) = joined(pair[0], pair[1])?;
        all.push(place(pair[1].node, interface, Side::Ingress)?);
    }
    Ok(all)
}

impl PlacedTap {
    fn attach(
        context: &Context<'_>,
        node: &str,
        point: Point,
        max_packets: u64,
    ) -> Result<PlacedTap, Error> {
        let netns = context.lab.netns(node)?;
        let tap = inside(node, &netns, || Tap::attach(&point, max_packets))?;
        Ok(PlacedTap {
            node: node.into(),
            netns,
            point,
            tap,
        })
    }

    pub fn live(&self) -> Live {
        self.tap.live()
    }

    /// Removes the tap; its records, with the name of its point.
    pub fn detach(self) -> Result<(String, Seen), Error> {
        let (node, tap) = (&self.node, self.tap);
        let seen = inside(node, &self.netns, || tap.detach())?;
        Ok((format!("{node} {}", self.point), seen))
    }
}

/// Attaches or detaches a tap in the network namespace of its node.
fn inside<T: Send>(
    node: &str,
    netns: &NetNs,
    step: impl FnOnce() -> Result<T, latlab_trace::Error> + Send,
) -> Result<T, Error> {
    let done = netns.run(step).map_err(|source| Error::Namespace {
        node: node.into(),
        source,
    })?;
    done.map_err(|source| Error::Tap {
        node: node.into(),
        source,
    })
}
