//! `bridge`: one learning switch in the link's namespace, a port for every end.
//!
//! No spanning tree, no forwarding delay, addresses kept for a day, multicast flooded as a simple
//! switch does: nothing in the path depends on time.

use super::attach::{self, Site};
use super::{Error, VmEnd, Wiring};

/// The switch's name in the link's namespace.
const SWITCH: &str = "switch";

pub(super) fn make(link: &Wiring<'_>) -> Result<Vec<VmEnd>, Error> {
    let mut site = Site::open(link, link.inside()?)?;
    let bridge = site.make_bridge(link, SWITCH)?;
    attach::to_bridge(link, &mut site, bridge, link.ends())
}
