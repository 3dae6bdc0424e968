//! `bridge`: one learning switch in the link's namespace, a port for every end.
//!
//! No spanning tree, no forwarding delay, addresses kept for a day, multicast flooded as a simple
//! switch does: nothing in the path depends on time.

use crate::links::attach;
use crate::links::builder::LinkBuilder;
use crate::links::error::Error;
use crate::links::netns_handle::NetnsHandle;
use crate::links::vm_end::VmEnd;

const SWITCH: &str = "switch";

pub(super) fn make(link: &LinkBuilder<'_>) -> Result<Vec<VmEnd>, Error> {
    let mut at = NetnsHandle::open(link, link.inside()?)?;
    let bridge = at.make_bridge(link, SWITCH)?;
    attach::to_bridge(link, &mut at, bridge, link.ends())
}
