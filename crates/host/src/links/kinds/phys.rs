//! `phys`: interfaces of the host, each moved to its node and back. What joins them is outside of the machine.
//!
//! A node's interface has the lab's name, Ethernet address and MTU, like every other; [`Lent`] is what it was like. For a VM
//! it goes into the link, below a macvtap that has all its frames.
//!
//! **The way back.** The kernel itself returns a device of hardware when its namespace ends, to the first namespace and
//! under the name that it has by then; a virtual one it deletes. So it is moved back, and not left to the kernel, while its
//! namespace is pinned. Where the kernel was faster, as after a kill of everything, it only gets its name, address and MTU again.
//! It is known by the lab's alias, or by its device on the bus, which nothing in a node can change.

use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use latlab_model::kinds::{Mac, Timestamps};
use latlab_model::plan::{Medium, Plan};
use latlab_netlink::{Handle, Link, LinkChange, LinkKind, MacAddress, NewLink, delete};
use serde::{Deserialize, Serialize};

use crate::links::builder::{End, LinkBuilder};
use crate::links::error::Error;
use crate::links::macvtap;
use crate::links::namespaces::{alias, inside_name};
use crate::links::netns_handle::{NetnsHandle, port};
use crate::links::vm_end::VmEnd;
use crate::sys::ethtool::{self, Timestamping};
use crate::sys::netns::NetNs;

/// How long the kernel may take to return an interface from a namespace that ended.
const RETURN_TIMEOUT: Duration = Duration::from_secs(5);
const RETURN_RETRY: Duration = Duration::from_millis(20);

/// An interface of the host as it was before a node got it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lent {
    pub name: String,
    pub node: String,
    /// Its namespace meanwhile, and its name there.
    pub namespace: String,
    pub inside: String,
    pub mac: Mac,
    pub mtu: u32,
    pub up: bool,
    pub alias: Option<String>,
    /// Its device on its bus, such as `0000:03:00.0`; absent for virtual ones.
    pub device: Option<String>,
    /// Which packets its card stamped, if the lab has it stamp others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamping: Option<Timestamping>,
}

pub(super) fn make(
    link: &LinkBuilder<'_>,
    interfaces: &[String],
    timestamps: Timestamps,
) -> Result<Vec<VmEnd>, Error> {
    let mut root = Handle::open_in(link.network.root.as_fd()).map_err(link.refused())?;
    let mut taps = Vec::new();
    for (end, name) in link.ends().zip(interfaces) {
        let index = root.link_index(name).map_err(link.refused())?;
        if timestamps.is_hardware() {
            link.network
                .root
                .run(|| ethtool::stamp_packets(name))?
                .map_err(unstamped(format!("link `{}`", link.plan().name), name))?;
        }
        taps.extend(give(link, &mut root, index, &link.end(end))?);
    }
    Ok(taps)
}

/// The error of a card that cannot be set up for timestamps.
fn unstamped(place: String, interface: &str) -> impl FnOnce(std::io::Error) -> Error {
    let interface = interface.to_owned();
    move |source| Error::Unstamped {
        place,
        interface,
        source,
    }
}

/// Moves the interface with this index to the node of an end.
pub(super) fn give(
    link: &LinkBuilder<'_>,
    root: &mut Handle,
    index: u32,
    end: &End<'_>,
) -> Result<Option<VmEnd>, Error> {
    if end.is_vm() {
        return below_vm(link, root, index, end).map(Some);
    }
    let home = link.network.open_node(end.node)?;
    // One request: there is no moment at which it is in the node and nothing says whose it is.
    let change = LinkChange::rename(index, &end.interface.name)
        .netns(home.as_fd())
        .alias(&link.network.alias)
        .mac(MacAddress(end.interface.mac.0))
        .mtu(end.interface.mtu);
    let given = root.apply(&change.request());
    given.map(|()| None).map_err(link.refused())
}

/// Moves an interface into the link, with a macvtap on it that has all its frames.
fn below_vm(
    link: &LinkBuilder<'_>,
    root: &mut Handle,
    index: u32,
    end: &End<'_>,
) -> Result<VmEnd, Error> {
    let mut at = NetnsHandle::open(link, link.inside()?)?;
    let (name, tap) = (port(end.number), format!("t{}", end.number));
    let change = LinkChange::rename(index, &name)
        .netns(at.netns.as_fd())
        .alias(&link.network.alias)
        .mtu(link.plan().mtu)
        .up(true);
    root.apply(&change.request()).map_err(link.refused())?;
    let kind = LinkKind::Macvtap {
        parent: at.handle.link_index(&name).map_err(link.refused())?,
        is_alone: true,
    };
    let new = NewLink::new(macvtap::interface(end, &tap), kind).up();
    at.handle.apply(&new.request()).map_err(link.refused())?;
    macvtap::open(link, &mut at, end, &tap)
}

/// The interfaces of the host that a plan gives to nodes, as they are now. Fails when one is not there.
pub(crate) fn lent(plan: &Plan) -> Result<Vec<Lent>, Error> {
    let mut lent = Vec::new();
    for link in &plan.links {
        let Medium::Phys {
            interfaces,
            timestamps,
        } = &link.medium
        else {
            continue;
        };
        let refused = |source| Error::Netlink {
            link: link.name.clone(),
            source,
        };
        let mut root = Handle::open().map_err(refused)?;
        for (number, (end, name)) in link.endpoints.iter().zip(interfaces).enumerate() {
            let found = root.link(name).map_err(refused)?;
            let found = found.ok_or_else(|| Error::NoInterface {
                link: link.name.clone(),
                interface: name.clone(),
            })?;
            let timestamping = match timestamps.is_hardware() {
                true => {
                    let found = ethtool::timestamping(name);
                    Some(found.map_err(unstamped(format!("link `{}`", link.name), name))?)
                }
                false => None,
            };
            let node = &plan.nodes[end.node];
            let (namespace, inside) = match node.kind().is_guest() {
                true => (inside_name(link), port(number)),
                false => (
                    node.name.clone(),
                    node.interfaces[end.interface].name.clone(),
                ),
            };
            lent.push(Lent {
                name: found.name,
                node: node.name.clone(),
                namespace,
                inside,
                mac: Mac(found.mac.unwrap_or(MacAddress([0; 6])).0),
                mtu: found.mtu_bytes,
                up: found.up,
                alias: found.alias,
                device: found.device,
                timestamping,
            });
        }
    }
    Ok(lent)
}

impl Lent {
    /// Returns it to this namespace as it was, from its other one, which is pinned in `namespaces`. False when it is in
    /// neither: it was unplugged, or deleted.
    pub(crate) fn take_back(&self, namespaces: &Path, lab_id: &str) -> Result<bool, Error> {
        let label = alias(lab_id);
        let deadline = Instant::now() + RETURN_TIMEOUT;
        loop {
            if self.moved_back(&namespaces.join(&self.namespace), &label)? || self.mended(&label)? {
                if let Some(former) = self.timestamping {
                    let set = ethtool::set_timestamping(&self.name, former);
                    set.map_err(unstamped(format!("node `{}`", self.node), &self.name))?;
                }
                return Ok(true);
            }
            // The kernel deletes virtual ones with their namespace, and returns the others from a thread of its own.
            if self.device.is_none() || Instant::now() >= deadline {
                return Ok(false);
            }
            std::thread::sleep(RETURN_RETRY);
        }
    }

    /// Whether it was in the namespace pinned at `place`; if so, it is here now.
    fn moved_back(&self, place: &Path, label: &str) -> Result<bool, Error> {
        let Ok(place) = NetNs::open(place) else {
            return Ok(false);
        };
        let mut inside = Handle::open_in(place.as_fd()).map_err(self.stays())?;
        let links = inside.links().map_err(self.stays())?;
        let Some(link) = links.iter().find(|link| self.is(link, label)) else {
            return Ok(false);
        };
        // Those on top of it would stay behind, and change it once more when their namespace ends.
        let above = links.iter().filter(|other| other.is_above(link));
        let requests: Vec<_> = above.map(|other| delete(&other.name)).collect();
        inside.apply_all(&requests).map_err(self.stays())?;
        let root = NetNs::current()?;
        let back = self.restored(link).netns(root.as_fd());
        let moved = inside.apply(&back.request());
        moved.map(|()| true).map_err(self.stays())
    }

    /// Whether it is in this namespace; if so, it is as it was.
    fn mended(&self, label: &str) -> Result<bool, Error> {
        let mut here = Handle::open().map_err(self.stays())?;
        let links = here.links().map_err(self.stays())?;
        // An interface with its own name and no label has not left, or came back before.
        let is_back = |link: &Link| link.name == self.name && !has_label(link, label);
        let is_same = |link: &&Link| self.is(link, label) || self.device.is_none() && is_back(link);
        match links.iter().find(is_same) {
            Some(link) if !is_back(link) => {
                let changed = here.apply(&self.restored(link).request());
                changed.map(|()| true).map_err(self.stays())
            }
            found => Ok(found.is_some()),
        }
    }

    fn stays(&self) -> impl Fn(latlab_netlink::Error) -> Error + use<'_> {
        |source| Error::Return {
            interface: self.name.clone(),
            source,
        }
    }

    fn is(&self, link: &Link, label: &str) -> bool {
        match &self.device {
            Some(device) => link.device.as_ref() == Some(device),
            None => link.name == self.inside && has_label(link, label),
        }
    }

    fn restored<'fd>(&self, link: &Link) -> LinkChange<'fd> {
        LinkChange::rename(link.index, &self.name)
            .alias(self.alias.as_deref().unwrap_or_default())
            .mac(MacAddress(self.mac.0))
            .mtu(self.mtu)
            .up(self.up)
    }
}

fn has_label(link: &Link, label: &str) -> bool {
    link.alias.as_deref() == Some(label)
}
