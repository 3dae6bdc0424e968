//! `bridge`: one learning switch in the link's namespace, a port for every end.
//!
//! No spanning tree, no forwarding delay, addresses kept for a day, multicast flooded as a simple
//! switch does: nothing in the path depends on time.

use super::attach;
use super::builder::LinkBuilder;
use super::error::Error;
use super::netns_handle::NetnsHandle;
use super::vm_end::VmEnd;

const SWITCH: &str = "switch";

pub(super) fn make(link: &LinkBuilder<'_>) -> Result<Vec<VmEnd>, Error> {
    let mut at = NetnsHandle::open(link, link.inside()?)?;
    let bridge = at.make_bridge(link, SWITCH)?;
    attach::to_bridge(link, &mut at, bridge, link.ends())
}
