//! What a container's interface on this host is an end of, and so where frames that the container sends are first seen.

use latlab_netlink::Handle;

use super::error::Error;

/// A pair of interfaces, one of them in a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cable {
    /// Frames are queued, and come in at this end when this host's processor gets round to them.
    Veth,
    /// The sender's processor runs the program (Linux 6.7): no queue in between.
    Netkit,
}

/// The cable that this interface is the host's end of. The other end must be in another network namespace:
/// `bpf_redirect_peer` silently drops what it cannot take there.
///
/// # Errors
///
/// Another kind of interface, or one that is gone.
pub(super) fn of(device: u32) -> Result<Cable, Error> {
    let link = Handle::open()
        .and_then(|mut handle| handle.link_by_index(device))
        .map_err(|error| Error::Attach {
            action: "look at",
            device,
            reason: error.to_string(),
        })?;
    let Some(link) = link.filter(|link| link.parent_netns.is_some()) else {
        return Err(Error::NoContainer(device));
    };
    match link.netkit {
        Some(end) if !end.is_ethernet => Err(Error::NoFrames(device)),
        Some(end) if !end.is_primary => Err(Error::NotPrimary(device)),
        Some(_) => Ok(Cable::Netkit),
        None if link.kind.as_deref() == Some("veth") => Ok(Cable::Veth),
        None => Err(Error::NoContainer(device)),
    }
}
