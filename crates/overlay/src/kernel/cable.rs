//! What a container's interface on this host is an end of, and so where frames that the container sends are first seen.

use latlab_netlink::{Handle, Link};

use super::error::Error;

/// A pair of interfaces, one of them in a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cable {
    /// Frames are queued, and come in at this end when this host's processor gets round to them.
    Veth,
    /// The sender's processor runs the program (Linux 6.7): no queue in between.
    Netkit,
}

/// The cable at this interface, wherever its other end is. One that is gone has nothing at either hook.
pub(super) fn at(device: u32) -> Result<Cable, Error> {
    let is_netkit = look(device)?.is_some_and(|link| link.netkit.is_some());
    Ok(match is_netkit {
        true => Cable::Netkit,
        false => Cable::Veth,
    })
}

/// Only the host's end of a cable whose other end is in another network namespace will do:
/// `bpf_redirect_peer` silently drops what it cannot take there.
///
/// # Errors
///
/// Another kind of interface, or one that is gone.
pub(super) fn must_lead_elsewhere(device: u32) -> Result<(), Error> {
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
        .map_err(|error| Error::Attach {
            action: "look at",
            device,
            reason: error.to_string(),
        })
}
