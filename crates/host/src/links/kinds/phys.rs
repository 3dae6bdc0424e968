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
use latlab_model::plan::{LinkPlan, Medium, Plan};
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
    /// The address that its hardware has by itself, which tells the ports of one device apart; some have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_mac: Option<Mac>,
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

/// An interface of the host that a link has, as it is now. Fails when it is not there.
pub(super) fn found(link: &LinkPlan, name: &str) -> Result<Link, Error> {
    let found = Handle::open().and_then(|mut handle| handle.link(name));
    let found = found.map_err(Error::of_link(link))?;
    found.ok_or_else(|| Error::NoInterface {
        link: link.name.clone(),
        interface: name.to_owned(),
    })
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
        for (number, (end, name)) in link.endpoints.iter().zip(interfaces).enumerate() {
            let found = found(link, name)?;
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
                own_mac: found.own_mac.map(|mac| Mac(mac.0)),
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
        let Some(link) = self.among(&links, label) else {
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
        let is_virtual = |_: &&Link| self.device.is_none();
        let came_back = || links.iter().filter(is_virtual).find(|link| is_back(link));
        match self.among(&links, label).or_else(came_back) {
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

    /// The one that it is. A card may have several ports on one device. Without addresses of their own, they are told apart by
    /// the label and the names, which also a node's root could change.
    fn among<'l>(&self, links: &'l [Link], label: &str) -> Option<&'l Link> {
        let found = links.iter().filter(|link| self.may_be(link, label));
        found.max_by_key(|link| {
            let has_name = [&self.inside, &self.name].contains(&&link.name);
            (has_label(link, label), has_name)
        })
    }

    fn may_be(&self, link: &Link, label: &str) -> bool {
        let Some(device) = &self.device else {
            return link.name == self.inside && has_label(link, label);
        };
        let other = self.own_mac.zip(link.own_mac);
        let is_other_port = other.is_some_and(|(own, theirs)| own.0 != theirs.0);
        link.device.as_ref() == Some(device) && !is_other_port
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

#[cfg(test)]
mod tests {
    use super::*;

    const LABEL: &str = "latlab:7";

    fn lent(name: &str, inside: &str, own_mac: Option<u8>) -> Lent {
        Lent {
            name: name.into(),
            node: "a".into(),
            namespace: "a".into(),
            inside: inside.into(),
            mac: Mac([2, 0, 0, 0, 0, 1]),
            mtu: 1500,
            up: true,
            alias: None,
            device: Some("0000:03:00.0".into()),
            own_mac: own_mac.map(|last| Mac([2, 0, 0, 0, 0, last])),
            timestamping: None,
        }
    }

    fn port(name: &str, own_mac: Option<u8>, has_label: bool) -> Link {
        Link {
            name: name.into(),
            device: Some("0000:03:00.0".into()),
            own_mac: own_mac.map(|last| MacAddress([2, 0, 0, 0, 0, last])),
            alias: has_label.then(|| LABEL.into()),
            ..Link::default()
        }
    }

    /// The name of the one among two, whichever is first.
    fn chosen(lent: &Lent, mut links: [Link; 2]) -> String {
        let name = |links: &[Link]| lent.among(links, LABEL).unwrap().name.clone();
        let first = name(&links);
        links.reverse();
        assert_eq!(name(&links), first);
        first
    }

    #[test]
    fn ports_of_one_device_are_told_apart() {
        // Both in a node, one under the name of the other.
        let both = || [port("eth1", Some(1), true), port("eth0", Some(2), true)];
        assert_eq!(chosen(&lent("p0", "eth0", Some(1)), both()), "eth1");
        assert_eq!(chosen(&lent("p1", "eth1", Some(2)), both()), "eth0");
        // Back before, beside the port that the host kept.
        let home = || [port("p0", Some(1), false), port("p1", Some(2), false)];
        assert_eq!(chosen(&lent("p1", "eth0", Some(2)), home()), "p1");
        let gone = [port("p0", Some(1), false), port("p2", Some(3), false)];
        assert!(lent("p1", "eth0", Some(2)).among(&gone, LABEL).is_none());
    }

    #[test]
    fn ports_without_addresses_of_their_own_are_known_by_label_and_name() {
        let lent = lent("p1", "eth1", None);
        let node = [port("eth0", None, true), port("eth1", None, true)];
        assert_eq!(chosen(&lent, node), "eth1");
        // The kernel returned it under the node's name.
        let returned = [port("p0", None, false), port("eth9", None, true)];
        assert_eq!(chosen(&lent, returned), "eth9");
        let home = [port("p0", None, false), port("p1", None, false)];
        assert_eq!(chosen(&lent, home), "p1");
    }

    #[test]
    fn a_journal_of_before_has_no_address() {
        let mut written = serde_json::to_value(lent("p0", "eth0", Some(1))).unwrap();
        assert!(written.as_object_mut().unwrap().remove("own_mac").is_some());
        let read: Lent = serde_json::from_value(written).unwrap();
        assert_eq!(read, lent("p0", "eth0", None));
    }
}
