//! Types of links with what each needs of the machine, and words of their ends.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::facts::document::Facts;
use crate::units::{BitsPerSecond, Nanos};
use crate::words::vocabulary;

/// The type of a link, which joins its endpoints.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkKind {
    #[default]
    Veth,
    Bridge,
    /// A bridge behind a router that masquerades: what Docker's users get.
    Nat,
    /// MAC-addressed slices of one parent interface.
    Macvlan,
    /// An Ethernet over UDP: every endpoint behind a tunnel end of its own.
    Vxlan,
    /// latlab's own switch: in user space for virtual machines, in the kernel for the others.
    Overlay,
    /// Interfaces of the host that a cable or a switch joins, moved to the nodes.
    Phys,
    /// Virtual functions of the host's cards (SR-IOV).
    Sriov,
    /// Whole ports of the host's cards, given to VMs by VFIO.
    Passthrough,
}

vocabulary!(LinkKind, {
    "veth" => Veth, "bridge" => Bridge, "nat" => Nat, "macvlan" => Macvlan, "vxlan" => Vxlan,
    "overlay" => Overlay, "phys" => Phys, "sriov" => Sriov, "passthrough" => Passthrough,
});

impl LinkKind {
    /// Whether its ends are on cards of the host, which a lab names.
    pub const fn is_hardware(self) -> bool {
        matches!(
            self,
            LinkKind::Phys | LinkKind::Sriov | LinkKind::Passthrough
        )
    }

    /// Programs that must be installed for a link.
    pub(crate) const fn programs(self) -> &'static [&'static str] {
        match self {
            LinkKind::Nat => &["nft"],
            _ => &[],
        }
    }

    /// Names of the capabilities that a link needs, whose hosts `carrier` joins.
    pub(crate) const fn capabilities(self, carrier: Carrier) -> &'static [&'static str] {
        match (self, carrier) {
            (LinkKind::Veth, _) => &[Facts::VETH],
            (LinkKind::Bridge, _) => &[Facts::VETH, Facts::BRIDGE],
            (LinkKind::Nat, _) => &[Facts::VETH, Facts::BRIDGE, Facts::MASQUERADE],
            (LinkKind::Macvlan, _) => &[Facts::MACVLAN],
            (LinkKind::Vxlan, _) => &[Facts::VETH, Facts::BRIDGE, Facts::VXLAN],
            // The daemon has a tap for each port of the kernel's, for what the kernel does not know.
            (LinkKind::Overlay, Carrier::Local) => &[Facts::VETH, Facts::BPF, Facts::TAP],
            (LinkKind::Overlay, _) => &[Facts::VETH, Facts::BPF, Facts::TAP, Facts::BRIDGE],
            // The interface is there, and moving it needs no more than the nodes' namespaces.
            (LinkKind::Phys | LinkKind::Sriov, _) => &[],
            (LinkKind::Passthrough, _) => &[Facts::VFIO],
        }
    }
}

/// The carrier that joins the hosts of an `overlay`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Carrier {
    /// Nothing: all ends are guests of one host.
    #[default]
    Local,
    /// Every end is on a host of its own; Ethernet over UDP in VXLAN's format joins them.
    Vxlan,
    /// The same in the overlay's own format, which keeps large frames whole.
    Udp,
    /// As `Udp`, encrypted and authenticated; between machines only.
    Sealed,
    /// The frames as they are, on a wire of their own.
    Direct,
}

impl Carrier {
    /// Whether its frames may leave the machine, so that a link can join hosts.
    #[must_use]
    pub fn is_between_hosts(self) -> bool {
        matches!(self, Carrier::Sealed | Carrier::Udp | Carrier::Vxlan)
    }

    /// Bytes that it adds to a packet, at most.
    pub(crate) const fn overhead(self) -> u32 {
        match self {
            Carrier::Local | Carrier::Direct => 0,
            Carrier::Vxlan => VXLAN_OVERHEAD,
            // Inner Ethernet with a tag, the private header, UDP and IPv4.
            Carrier::Udp => 100,
            // And the sealed header with its tag.
            Carrier::Sealed => 132,
        }
    }
}

/// The tunnel of an `overlay` between machines, as one of them has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostTunnel {
    pub local: SocketAddr,
    /// The tunnel's ends on the other hosts, by the hosts' names.
    pub remotes: BTreeMap<String, SocketAddr>,
    /// The keys of a sealed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<TunnelKeys>,
}

/// The keys of a sealed tunnel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunnelKeys {
    /// The file with this machine's private key.
    pub private: PathBuf,
    /// The other hosts' public keys in hexadecimal, by the hosts' names.
    pub public: BTreeMap<String, String>,
}

/// The sockets without a network that TCP connections over an `overlay` take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Streams {
    /// None: connections take the network.
    #[default]
    Off,
    /// Those of AF_UNIX where the kernel can keep descriptors from passing through them (Linux 6.16), else TCP's.
    Auto,
    /// A pair of AF_UNIX stream sockets.
    Unix,
    /// A TCP connection over a loopback.
    Tcp,
}

impl Streams {
    pub fn is_off(&self) -> bool {
        *self == Streams::Off
    }

    /// A link's property as it is shown.
    pub fn fact(self) -> &'static str {
        match self {
            Streams::Off => "no streams",
            Streams::Auto => "streams",
            Streams::Unix => "streams unix",
            Streams::Tcp => "streams tcp",
        }
    }
}

/// The cable that joins a process or container to an `overlay`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cable {
    /// A pair of interfaces with a queue in between.
    #[default]
    Veth,
    /// The same without: the sender's CPU does what is to be done (Linux 6.7).
    Netkit,
}

/// How a VM has its virtual function.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VmAttachment {
    /// The host's kernel drives the function, and the VM has a virtio card on a macvtap above it.
    #[default]
    Macvtap,
    /// The VM drives the function itself, behind the IOMMU.
    Vfio,
}

vocabulary!(VmAttachment, { "macvtap" => Macvtap, "vfio" => Vfio });

/// Settings of virtual functions at their card, which their users cannot change. The driver's own where nothing is said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct FunctionSettings {
    /// The card tags and untags its frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u16>,
    /// The card drops frames with another source address than the function's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spoof_check: Option<bool>,
    /// Its user may receive all frames of the card, and change its address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<bool>,
    /// The most that it sends; whole megabits per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tx_rate: Option<BitsPerSecond>,
    /// Pairs of its queues, where the host's kernel drives it; else the driver's own number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<u32>,
}

impl FunctionSettings {
    pub(crate) fn facts(&self) -> Vec<String> {
        let switched = |name: &str, on: bool| format!("{name} {}", if on { "on" } else { "off" });
        let facts = [
            self.vlan.map(|vlan| format!("VLAN {vlan}")),
            self.spoof_check.map(|on| switched("spoof check", on)),
            self.trust.map(|on| switched("trust", on)),
            self.max_tx_rate
                .map(|rate| format!("at most {rate} by the card")),
            self.queues.map(|count| format!("queues {count}")),
        ];
        facts.into_iter().flatten().collect()
    }
}

/// Bytes that VXLAN adds to a frame: inner Ethernet 14, VXLAN 8, UDP 8, IPv4 20 (RFC 7348).
pub(crate) const VXLAN_OVERHEAD: u32 = 50;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Reads `02:00:00:00:00:01`.
    pub fn parse(text: &str) -> Option<Mac> {
        let mut bytes = [0u8; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().filter(|p| p.len() == 2)?;
            *byte = u8::from_str_radix(part, 16).ok()?;
        }
        parts.next().is_none().then_some(Mac(bytes))
    }

    /// Whether it is a group's: multicast or broadcast (IEEE 802, 8.2.2).
    #[must_use]
    pub fn is_group(self) -> bool {
        self.0[0] & 1 == 1
    }
}

impl std::fmt::Display for Mac {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl TryFrom<String> for Mac {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        Mac::parse(&text).ok_or_else(|| format!("`{text}` is not a MAC address"))
    }
}

impl From<Mac> for String {
    fn from(mac: Mac) -> String {
        mac.to_string()
    }
}

/// The deliberate impairment of frames by a link. One-way by definition: it acts on what an endpoint
/// sends, so a delay of 1 ms on both ends adds 2 ms to a round trip.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Impairment {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<BitsPerSecond>,
    /// Constant part of the delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Nanos>,
    /// Random part of the delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Nanos>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
}

impl Impairment {
    /// True when frames pass untouched.
    pub fn is_none(&self) -> bool {
        *self == Impairment::default()
    }

    /// True when it needs the kernel's netem queueing discipline.
    pub fn needs_netem(&self) -> bool {
        self.delay.is_some() || self.jitter.is_some() || self.loss.is_some()
    }
}
