//! Kinds of cables to containers, and where a container's frames are first seen.

use latlab_netlink::{Handle, Link};

use super::error::Error;

/// Whether the cable at this interface is netkit, wherever its other end is: the sender runs the program (Linux 6.7),
/// without a queue in between. Of a veth, frames are queued, and enter at this end in a softirq of this host. An interface
/// that is gone counts as veth.
pub(super) fn is_netkit(device: u32) -> Result<bool, Error> {
    Ok(look(device)?.is_some_and(|link| link.netkit.is_some()))
}

/// Checks that this is the host's end of a cable into another network namespace: elsewhere `bpf_redirect_peer` silently
/// drops frames.
pub(super) fn check_is_container(device: u32) -> Result<(), Error> {
    let Some(link) = look(device)?.filter(|link| link.parent_netns.is_some()) else {
        return Err(Error::NoContainer(device));
    };
    match link.netkit {
        Some(end) if !end.is_ethernet => Err(Error::NoFrames(device)),
        Some(end) if !end.is_primary => Err(Error::NotPrimary(device)),
        None if link.kind.as_deref() != Some("veth") => Err(Error::NoContainer(device)),
        _ => Ok(()),
    }
}

fn look(device: u32) -> Result<Option<Link>, Error> {
    Handle::open()
        .and_then(|mut handle| handle.link_by_index(device))
        .map_err(|error| Error::attach("look at", device, &error))
}
