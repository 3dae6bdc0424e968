//! Links: making every kind latlab uses, changing, deleting and reading them.
//!
//! A link is made where it is to live. [`Interface::netns`] puts an end straight into its final
//! namespace, so that nothing ever appears half-made in the host's own one and no name can clash
//! on the way; a veth pair is one message with a namespace for each end.
//!
//! The alias (`ifalias`) cannot be part of creation: the kernel reads it only from a change
//! request. [`LinkChange::alias`] sets it, and may ride in the same batch.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsRawFd, BorrowedFd};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    BridgeStpState, InfoBridge, InfoData, InfoKind, InfoMacVlan, InfoMacVtap, InfoNetkit, InfoVeth,
    InfoVxlan, LinkAttribute, LinkFlags, LinkHeader, LinkInfo, LinkMessage, LinkVfInfo,
    MacVlanMode, NetkitMode, VfInfo, VfInfoMac, VfInfoRate, VfInfoSpoofCheck, VfInfoTrust,
    VfInfoVlan,
};

use crate::attribute::{attribute, attributes, string_of, u32_of};
use crate::error::Error;
use crate::handle::Handle;
use crate::request::Request;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MacAddress(pub [u8; 6]);

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// The properties that every new network interface has: a name, and its namespace.
#[derive(Debug, Clone)]
pub struct Interface<'fd> {
    name: String,
    netns: Option<BorrowedFd<'fd>>,
    mac: Option<MacAddress>,
    mtu_bytes: Option<u32>,
}

impl<'fd> Interface<'fd> {
    /// An interface of this name in the handle's namespace, down, with the kernel's defaults.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            netns: None,
            mac: None,
            mtu_bytes: None,
        }
    }

    pub fn netns(mut self, netns: BorrowedFd<'fd>) -> Self {
        self.netns = Some(netns);
        self
    }

    /// Give it this Ethernet address instead of a random one.
    pub fn mac(mut self, mac: Option<MacAddress>) -> Self {
        self.mac = mac;
        self
    }

    pub fn mtu(mut self, mtu_bytes: Option<u32>) -> Self {
        self.mtu_bytes = mtu_bytes;
        self
    }

    fn message(&self) -> LinkMessage {
        let mut message = named(&self.name);
        let netns = self.netns.map(|netns| netns.as_raw_fd());
        let mac = self.mac.map(|mac| mac.0.to_vec());
        let attributes = &mut message.attributes;
        attributes.extend(netns.map(LinkAttribute::NetNsFd));
        attributes.extend(mac.map(LinkAttribute::Address));
        attributes.extend(self.mtu_bytes.map(LinkAttribute::Mtu));
        message
    }
}

/// A message about the link of this name.
fn named(name: &str) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.attributes = vec![LinkAttribute::IfName(name.to_owned())];
    message
}

#[derive(Debug, Clone)]
pub struct Vxlan {
    /// The VXLAN network identifier, 24 bits.
    pub vni: u32,
    /// Source address of the outer packets.
    pub local: Option<IpAddr>,
    /// Where frames to unknown addresses go: a multicast group or the one remote endpoint. With
    /// `None`, forwarding entries say it (see [`Neighbour::flood_to`](crate::Neighbour)).
    pub remote: Option<IpAddr>,
    /// Index of the device the outer packets leave through; required for a multicast group.
    pub parent: Option<u32>,
    /// UDP destination port; IANA assigned 4789.
    pub port: u16,
    /// Compute the outer UDP checksum. Only the outer IPv4 one is optional.
    pub udp_checksum: bool,
    pub learning: bool,
}

#[derive(Debug, Clone)]
pub enum LinkKind<'fd> {
    /// A pair of Ethernet interfaces; this is the other one. It is made down: the kernel makes it
    /// first and cannot bring it up before its peer exists. Bring it up with a [`LinkChange`].
    Veth(Interface<'fd>),
    /// The same without a queue in between ([`NetkitEnd`]), for Ethernet frames; the first interface is the
    /// primary one. Kernels before 6.7 and kernels without `CONFIG_NETKIT` refuse it.
    Netkit(Interface<'fd>),
    /// A plain learning switch that forwards at once.
    Bridge,
    /// A second Ethernet address on the interface with this index in the *handle's* namespace,
    /// able to talk to its siblings (mode `bridge`).
    Macvlan(u32),
    /// As `Macvlan`, with a character device for a virtual machine in place of a network stack.
    Macvtap {
        parent: u32,
        /// Nothing else uses the parent, which takes its Ethernet address and gives it all frames (mode `passthru`).
        is_alone: bool,
    },
    Vxlan(Vxlan),
}

#[derive(Debug, Clone)]
pub struct NewLink<'fd> {
    interface: Interface<'fd>,
    kind: LinkKind<'fd>,
    master: Option<u32>,
    up: bool,
}

impl<'fd> NewLink<'fd> {
    pub fn new(interface: Interface<'fd>, kind: LinkKind<'fd>) -> Self {
        Self {
            interface,
            kind,
            master: None,
            up: false,
        }
    }

    pub fn up(mut self) -> Self {
        self.up = true;
        self
    }

    /// Make the interface a port of the bridge with this index in the interface's namespace.
    pub fn master(mut self, bridge_index: u32) -> Self {
        self.master = Some(bridge_index);
        self
    }

    /// The request that makes it; fails if the name is taken.
    pub fn request(&self) -> Request<'fd> {
        let mut message = self.interface.message();
        if self.up {
            message.header.flags = LinkFlags::Up;
            message.header.change_mask = LinkFlags::Up;
        }
        if let Some(master) = self.master {
            message.attributes.push(LinkAttribute::Controller(master));
        }
        let (kind, data) = match &self.kind {
            LinkKind::Veth(peer) => {
                let data = InfoVeth::Peer(peer.message());
                (InfoKind::Veth, InfoData::Veth(data))
            }
            LinkKind::Netkit(peer) => {
                let data = vec![
                    InfoNetkit::Mode(NetkitMode::L2),
                    InfoNetkit::Peer(peer.message()),
                ];
                (InfoKind::Netkit, InfoData::Netkit(data))
            }
            LinkKind::Bridge => (InfoKind::Bridge, InfoData::Bridge(bridge_info())),
            LinkKind::Macvlan(parent) => {
                message.attributes.push(LinkAttribute::Link(*parent));
                let data = vec![InfoMacVlan::Mode(MacVlanMode::Bridge)];
                (InfoKind::MacVlan, InfoData::MacVlan(data))
            }
            LinkKind::Macvtap { parent, is_alone } => {
                message.attributes.push(LinkAttribute::Link(*parent));
                let mode = match is_alone {
                    true => MacVlanMode::Passthrough,
                    false => MacVlanMode::Bridge,
                };
                let data = vec![InfoMacVtap::Mode(mode)];
                (InfoKind::MacVtap, InfoData::MacVtap(data))
            }
            LinkKind::Vxlan(vxlan) => (InfoKind::Vxlan, InfoData::Vxlan(vxlan.info())),
        };
        let name = &self.interface.name;
        let action = match &self.kind {
            LinkKind::Veth(peer) | LinkKind::Netkit(peer) => {
                format!("create {kind} link {name} - {}", peer.name)
            }
            _ => format!("create {kind} {name}"),
        };
        let info = vec![LinkInfo::Kind(kind), LinkInfo::Data(data)];
        message.attributes.push(LinkAttribute::LinkInfo(info));
        let message = RouteNetlinkMessage::NewLink(message);
        Request::new(&message, NLM_F_CREATE | NLM_F_EXCL, action)
    }
}

fn bridge_info() -> Vec<InfoBridge> {
    vec![
        InfoBridge::StpState(BridgeStpState::Disabled),
        InfoBridge::ForwardDelay(0),
        // A day, in USER_HZ, which is 100 on every Linux ABI. The kernel's 300 s would make the first
        // packet after a pause of a measurement flood every port.
        InfoBridge::AgeingTime(86_400 * 100),
        // Without a querier on the segment, snooping of IGMP and MLD ages groups out and drops
        // multicast that a plain switch would deliver.
        InfoBridge::MulticastSnooping(false),
    ]
}

impl Vxlan {
    fn info(&self) -> Vec<InfoVxlan> {
        let mut info = vec![
            InfoVxlan::Id(self.vni),
            InfoVxlan::Port(self.port),
            InfoVxlan::Learning(self.learning),
            InfoVxlan::UDPCsum(self.udp_checksum),
        ];
        info.extend(self.parent.map(InfoVxlan::Link));
        info.extend(self.local.map(|address| match address {
            IpAddr::V4(v4) => InfoVxlan::Local(v4),
            IpAddr::V6(v6) => InfoVxlan::Local6(v6),
        }));
        info.extend(self.remote.map(|address| match address {
            IpAddr::V4(v4) => InfoVxlan::Group(v4),
            IpAddr::V6(v6) => InfoVxlan::Group6(v6),
        }));
        if self.remote.is_none() && self.local.is_some_and(|address| address.is_ipv4()) {
            // Tells the kernel the outer family when no entry does yet.
            info.push(InfoVxlan::Group(Ipv4Addr::UNSPECIFIED));
        }
        info
    }
}

/// A virtual function of a card (SR-IOV), as its physical function sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VirtualFunction {
    pub number: u32,
    /// The only address that it sends from.
    pub mac: MacAddress,
    /// The card tags its frames; 0 for none.
    pub vlan: u16,
    /// The card drops frames from other addresses than its own.
    pub spoof_check: Option<bool>,
    /// Whether its user may take all frames, and change its address.
    pub trust: Option<bool>,
}

/// Changes to an existing link, all in one request. Nothing is changed that is not named.
#[derive(Debug, Clone)]
pub struct LinkChange<'fd> {
    index: u32,
    object: String,
    /// Flags that are changed, and those of them that are set.
    flags: (LinkFlags, LinkFlags),
    attributes: Vec<LinkAttribute>,
    descriptors: std::marker::PhantomData<&'fd ()>,
}

impl<'fd> LinkChange<'fd> {
    pub fn of(name: &str) -> Self {
        let object = name.to_owned();
        let change = Self {
            object,
            ..Self::of_index(0)
        };
        change.with(LinkAttribute::IfName(name.to_owned()))
    }

    pub fn of_index(index: u32) -> Self {
        Self {
            index,
            object: format!("#{index}"),
            flags: (LinkFlags::empty(), LinkFlags::empty()),
            attributes: Vec::new(),
            descriptors: std::marker::PhantomData,
        }
    }

    pub fn up(mut self, up: bool) -> Self {
        self.set(LinkFlags::Up, up);
        self
    }

    /// Receive frames to all multicast addresses, and not only to those that a protocol of the kernel joined.
    pub fn all_multicast(mut self) -> Self {
        self.set(LinkFlags::Allmulti, true);
        self
    }

    fn set(&mut self, flag: LinkFlags, on: bool) {
        let (changed, set) = &mut self.flags;
        changed.insert(flag);
        set.set(flag, on);
    }

    pub fn rename(index: u32, name: &str) -> Self {
        let object = format!("#{index} (to be named {name})");
        let change = Self {
            object,
            ..Self::of_index(index)
        };
        change.with(LinkAttribute::IfName(name.to_owned()))
    }

    pub fn mac(self, mac: MacAddress) -> Self {
        self.with(LinkAttribute::Address(mac.0.to_vec()))
    }

    pub fn mtu(self, mtu_bytes: u32) -> Self {
        self.with(LinkAttribute::Mtu(mtu_bytes))
    }

    /// Label it; shown as `alias` by `ip link`.
    pub fn alias(self, alias: &str) -> Self {
        self.with(LinkAttribute::IfAlias(alias.to_owned()))
    }

    /// Settings of a card's virtual function, which its own driver cannot change.
    pub fn function(self, function: VirtualFunction) -> Self {
        let number = function.number;
        let mac = VfInfo::Mac(VfInfoMac::new(number, &function.mac.0));
        let vlan = VfInfo::Vlan(VfInfoVlan::new(number, function.vlan.into(), 0));
        let spoof_check = function.spoof_check;
        let spoof_check =
            spoof_check.map(|on| VfInfo::SpoofCheck(VfInfoSpoofCheck::new(number, on)));
        let trust = function.trust;
        let trust = trust.map(|on| VfInfo::Trust(VfInfoTrust::new(number, on)));
        let all = [mac, vlan].into_iter().chain(spoof_check).chain(trust);
        self.with(LinkAttribute::VfInfoList(vec![LinkVfInfo(all.collect())]))
    }

    /// The most that a card lets its virtual function send, in megabits per second. Some drivers take that only while the
    /// card has carrier.
    pub fn function_rate(self, number: u32, max_megabits: u32) -> Self {
        let rate = VfInfo::Rate(VfInfoRate::new(number, 0, max_megabits));
        self.with(LinkAttribute::VfInfoList(vec![LinkVfInfo(vec![rate])]))
    }

    /// Make it a port of the bridge with this index; zero detaches it.
    pub fn master(self, bridge_index: u32) -> Self {
        self.with(LinkAttribute::Controller(bridge_index))
    }

    pub fn netns(self, netns: BorrowedFd<'fd>) -> Self {
        self.with(LinkAttribute::NetNsFd(netns.as_raw_fd()))
    }

    fn with(mut self, attribute: LinkAttribute) -> Self {
        self.attributes.push(attribute);
        self
    }

    pub fn request(&self) -> Request<'fd> {
        let mut message = LinkMessage::default();
        message.header.index = self.index;
        (message.header.change_mask, message.header.flags) = self.flags;
        message.attributes.clone_from(&self.attributes);
        let action = format!("change link {}", self.object);
        Request::new(&RouteNetlinkMessage::SetLink(message), 0, action)
    }
}

/// The request that deletes the link of this name; its peer or its ports' membership goes with it.
pub fn delete(name: &str) -> Request<'static> {
    let message = RouteNetlinkMessage::DelLink(named(name));
    Request::new(&message, 0, format!("delete link {name}"))
}

/// Packet counters of a link since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkStats {
    pub rx_packets: u64,
    pub tx_packets: u64,
    pub rx_bytes: u64,
    pub tx_bytes: u64,
    pub rx_errors: u64,
    pub tx_errors: u64,
    /// Packets received and dropped for want of room or a taker.
    pub rx_dropped: u64,
    pub tx_dropped: u64,
}

/// An end of a netkit pair (Linux 6.7, `drivers/net/netkit.c`): a veth without the queue in between. What
/// one end sends is given to programs first, on the sender's own CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetkitEnd {
    /// The end at which the programs of both are managed, as the host's is.
    pub is_primary: bool,
    /// The pair carries Ethernet frames (mode L2), not packets without them (L3).
    pub is_ethernet: bool,
}

// include/uapi/linux/if_link.h, which libc does not have.
const IFLA_PERM_ADDRESS: u16 = 54;
const IFLA_PARENT_DEV_NAME: u16 = 56;
const IFLA_NETKIT_PRIMARY: u16 = 2;
const IFLA_NETKIT_MODE: u16 = 5;

impl NetkitEnd {
    fn parse(data: &[u8]) -> Self {
        let primary = attribute(data, IFLA_NETKIT_PRIMARY);
        Self {
            is_primary: primary.is_some_and(|value| value.first() == Some(&1)),
            is_ethernet: attribute(data, IFLA_NETKIT_MODE).and_then(u32_of) == Some(0),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Link {
    pub index: u32,
    pub name: String,
    /// The kind of virtual link ("veth", "bridge", "tun"...); `None` for hardware and loopback.
    pub kind: Option<String>,
    pub alias: Option<String>,
    pub mac: Option<MacAddress>,
    /// The address that its hardware has by itself (Linux 5.6).
    pub own_mac: Option<MacAddress>,
    /// The device on its bus, such as `0000:03:00.0` (Linux 5.14); `None` for virtual links.
    pub device: Option<String>,
    pub mtu_bytes: u32,
    pub up: bool,
    /// The medium is there: the other end of a veth is up, a tap is open.
    pub carrier: bool,
    /// Operational: the kernel has noticed the carrier and started the queueing discipline, so
    /// packets pass. It follows `carrier` with a delay, because a work queue does it; asking for a
    /// single link ([`Handle::link`]) makes kernels since 6.9 do it before they answer.
    pub running: bool,
    pub netkit: Option<NetkitEnd>,
    pub master: Option<u32>,
    /// The interface it is stacked on, or a veth's other end; an index in the namespace
    /// `parent_netns` names, or in this one.
    pub parent: Option<u32>,
    /// The kernel's id of the namespace `parent` lives in, when it is another one.
    pub parent_netns: Option<i32>,
    pub stats: LinkStats,
}

impl Link {
    fn parse(payload: &[u8]) -> Option<Self> {
        let header = LinkHeader::parse(payload).ok()?;
        let mut link = Self {
            index: header.index,
            up: header.flags.contains(LinkFlags::Up),
            carrier: header.flags.contains(LinkFlags::LowerUp),
            running: header.flags.contains(LinkFlags::Running),
            ..Self::default()
        };
        for (kind, value) in attributes(payload.get(16..)?) {
            match kind {
                libc::IFLA_IFNAME => link.name = string_of(value),
                libc::IFLA_IFALIAS => link.alias = Some(string_of(value)),
                libc::IFLA_ADDRESS => link.mac = value.try_into().ok().map(MacAddress),
                IFLA_PERM_ADDRESS => link.own_mac = value.try_into().ok().map(MacAddress),
                IFLA_PARENT_DEV_NAME => link.device = Some(string_of(value)),
                libc::IFLA_MTU => link.mtu_bytes = u32_of(value)?,
                libc::IFLA_MASTER => link.master = u32_of(value),
                libc::IFLA_LINK => link.parent = u32_of(value),
                libc::IFLA_LINK_NETNSID => link.parent_netns = u32_of(value).map(|id| id as i32),
                libc::IFLA_STATS64 => link.stats = LinkStats::parse(value),
                libc::IFLA_LINKINFO => {
                    link.kind = attribute(value, libc::IFLA_INFO_KIND).map(string_of);
                    link.netkit = attribute(value, libc::IFLA_INFO_DATA)
                        .filter(|_| link.kind.as_deref() == Some("netkit"))
                        .map(NetkitEnd::parse);
                }
                _ => {}
            }
        }
        Some(link)
    }

    /// Whether it is made on top of `other`, a link of the same namespace. A veth names its other end in the same way.
    pub fn is_above(&self, other: &Link) -> bool {
        let same = self.parent == Some(other.index) && self.parent_netns.is_none();
        same && self.kind.as_deref() != Some("veth")
    }
}

impl LinkStats {
    /// Reads the leading fields of `struct rtnl_link_stats64`; absent ones are zero.
    fn parse(value: &[u8]) -> Self {
        let mut fields = value
            .chunks_exact(8)
            .map(|field| u64::from_ne_bytes(std::array::from_fn(|i| field[i])));
        let mut next = || fields.next().unwrap_or_default();
        Self {
            rx_packets: next(),
            tx_packets: next(),
            rx_bytes: next(),
            tx_bytes: next(),
            rx_errors: next(),
            tx_errors: next(),
            rx_dropped: next(),
            tx_dropped: next(),
        }
    }
}

impl Handle {
    pub fn links(&mut self) -> Result<Vec<Link>, Error> {
        let message = RouteNetlinkMessage::GetLink(LinkMessage::default());
        let request = Request::new(&message, 0, "list links".into());
        self.dump(&request, Link::parse)
    }

    pub fn link(&mut self, name: &str) -> Result<Option<Link>, Error> {
        let message = RouteNetlinkMessage::GetLink(named(name));
        let request = Request::new(&message, 0, format!("look up link {name}"));
        self.ask(&request, Link::parse)
    }

    pub fn link_by_index(&mut self, index: u32) -> Result<Option<Link>, Error> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        let message = RouteNetlinkMessage::GetLink(message);
        let request = Request::new(&message, 0, format!("look up link #{index}"));
        self.ask(&request, Link::parse)
    }

    /// The index of the link of this name; an error that names it if there is none.
    pub fn link_index(&mut self, name: &str) -> Result<u32, Error> {
        self.link(name)?
            .map(|link| link.index)
            .ok_or_else(|| Error::Refused {
                action: format!("look up link {name}"),
                source: std::io::Error::from_raw_os_error(libc::ENODEV),
                detail: None,
            })
    }
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::NetlinkMessage;

    use super::*;

    fn parsed(request: &Request<'_>) -> RouteNetlinkMessage {
        let mut bytes = Vec::new();
        request.emit(&mut bytes, 1, 0);
        match NetlinkMessage::<RouteNetlinkMessage>::deserialize(&bytes)
            .unwrap()
            .payload
        {
            netlink_packet_core::NetlinkPayload::InnerMessage(message) => message,
            other => panic!("unexpected payload {other:?}"),
        }
    }

    #[test]
    fn a_veth_request_describes_both_ends() {
        let end = |name: &str| Interface::new(name).mac(Some(MacAddress([2, 0, 0, 0, 0, 1])));
        let link = NewLink::new(end("port1"), LinkKind::Veth(end("eth0").mtu(Some(9000))))
            .master(7)
            .up()
            .request();
        assert_eq!(link.action(), "create veth link port1 - eth0");
        let RouteNetlinkMessage::NewLink(message) = parsed(&link) else {
            panic!("not NewLink")
        };
        assert!(message.attributes.contains(&LinkAttribute::Controller(7)));
        let info = message
            .attributes
            .iter()
            .find_map(|attribute| match attribute {
                LinkAttribute::LinkInfo(info) => Some(info),
                _ => None,
            });
        let peer = match &info.unwrap()[1] {
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))) => peer,
            other => panic!("not a veth: {other:?}"),
        };
        assert!(message.header.flags.contains(LinkFlags::Up));
        assert!(
            !peer.header.flags.contains(LinkFlags::Up),
            "the kernel would refuse"
        );
        assert!(peer.attributes.contains(&LinkAttribute::Mtu(9000)));
        assert!(
            peer.attributes
                .contains(&LinkAttribute::IfName("eth0".into()))
        );
    }

    #[test]
    fn a_netkit_end_is_read_and_absent_attributes_are_not_assumed() {
        let attribute = |kind: u16, value: &[u8]| {
            let length = u16::try_from(4 + value.len()).unwrap();
            let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
            bytes.extend(value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            bytes
        };
        let end = |primary: u8, mode: u32| {
            let mode = attribute(IFLA_NETKIT_MODE, &mode.to_ne_bytes());
            NetkitEnd::parse(&[attribute(IFLA_NETKIT_PRIMARY, &[primary]), mode].concat())
        };
        let made = |is_primary, is_ethernet| NetkitEnd {
            is_primary,
            is_ethernet,
        };
        assert_eq!(end(1, 0), made(true, true));
        assert_eq!(end(0, 1), made(false, false));
        assert_eq!(NetkitEnd::parse(&[]), made(false, false));
    }

    #[test]
    fn stats_of_an_older_kernel_read_as_zero_where_absent() {
        let mut bytes = Vec::new();
        for value in [1u64, 2, 3] {
            bytes.extend(value.to_ne_bytes());
        }
        let stats = LinkStats::parse(&bytes);
        assert_eq!(
            (stats.rx_packets, stats.tx_packets, stats.rx_bytes),
            (1, 2, 3)
        );
        assert_eq!(stats.tx_dropped, 0);
    }

    #[test]
    fn mac_addresses_show_in_colon_form() {
        assert_eq!(
            MacAddress([2, 0, 10, 255, 0, 1]).to_string(),
            "02:00:0a:ff:00:01"
        );
    }
}
