//! A link's plan: what all links have, and one medium a type.

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::kinds::{
    Cable, Carrier, FunctionSettings, HostTunnel, Impairment, LinkKind, Streams, Timestamps,
    VXLAN_OVERHEAD, VmAttachment,
};
use crate::overlay::VXLAN_PORT;
use crate::spec::Link;

/// The reason for [`Carrier::Local`] where a lab names no carrier: every node of a lab is on this machine, and each other
/// carrier adds a wire to every frame's way.
const CHOSEN: &str =
    "the lab names no carrier, and all ends are on this machine: their frames need no wire";

/// A link to be made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkPlan {
    pub name: String,
    /// The medium that joins its ends.
    pub medium: Medium,
    pub mtu: u32,
    pub endpoints: Vec<EndpointPlan>,
}

/// The medium that joins a link's ends, with all that the type needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Medium {
    Veth,
    Bridge,
    /// A bridge behind a router that masquerades.
    Nat(NatPlan),
    /// Slices of a parent interface.
    Macvlan {
        /// Host interface; one is made for the link when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<String>,
    },
    /// Ethernet over UDP.
    Vxlan(VxlanPlan),
    Overlay(OverlayPlan),
    /// A wire outside of the machine.
    Phys {
        /// Interfaces of the host, one for each endpoint.
        interfaces: Vec<String>,
        /// Whether their cards take timestamps.
        #[serde(default, skip_serializing_if = "crate::is_default")]
        timestamps: Timestamps,
    },
    /// Virtual functions of the host's cards.
    Sriov {
        /// The physical function of each endpoint.
        interfaces: Vec<String>,
        #[serde(flatten)]
        settings: FunctionSettings,
        /// How VMs have theirs, where there are any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vm: Option<VmAttachment>,
    },
    /// Whole ports of the host's cards, driven by VMs.
    Passthrough {
        /// The interface of each endpoint.
        interfaces: Vec<String>,
    },
}

/// The router of a `nat` link. Endpoint 0 is outside, the others are inside.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NatPlan {
    /// Router's addresses towards the outside endpoint.
    pub outside: Vec<IpNet>,
    /// Router's addresses on the inner bridge: the inner nodes' gateways.
    pub inside: Vec<IpNet>,
    /// For each inner endpoint (so from index 1), the addresses on the outer subnet under which the
    /// outside reaches it; same families and order as its own addresses.
    pub published: Vec<Vec<IpNet>>,
}

/// The underlay of a `vxlan` link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VxlanPlan {
    pub vni: u32,
    pub port: u16,
    pub underlay_mtu: u32,
    /// Underlay address of each endpoint's tunnel end.
    pub underlay: Vec<IpNet>,
}

/// The hosts of an `overlay` link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OverlayPlan {
    /// The carrier that joins them.
    pub carrier: Carrier,
    /// The reason for this carrier, where the lab names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<String>,
    /// The cable that joins processes and containers to it.
    #[serde(default)]
    pub cable: Cable,
    /// The sockets without a network that TCP connections between its ends take.
    #[serde(default, skip_serializing_if = "Streams::is_off")]
    pub streams: Streams,
    /// The ports of the servers whose connections take them; none are all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stream_ports: Vec<u16>,
    pub underlay_mtu: u32,
    /// Underlay address of each endpoint's host; none when all are on one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub underlay: Vec<IpNet>,
    /// The way to the link's ends on other machines; the ends here are then on one host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tunnel: Option<HostTunnel>,
}

impl OverlayPlan {
    /// Whether every end is behind a host of its own, in namespaces of this machine.
    pub fn has_hosts(&self) -> bool {
        self.carrier != Carrier::Local && self.tunnel.is_none()
    }
}

/// An end of a link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EndpointPlan {
    /// Index into `Plan::nodes`.
    pub node: usize,
    /// Index into `NodePlan::interfaces`.
    pub interface: usize,
    /// The impairment of the frames that it sends.
    #[serde(default, skip_serializing_if = "Impairment::is_none")]
    pub impairment: Impairment,
}

impl Medium {
    pub fn kind(&self) -> LinkKind {
        match self {
            Medium::Veth => LinkKind::Veth,
            Medium::Bridge => LinkKind::Bridge,
            Medium::Nat(_) => LinkKind::Nat,
            Medium::Macvlan { .. } => LinkKind::Macvlan,
            Medium::Vxlan(_) => LinkKind::Vxlan,
            Medium::Overlay(_) => LinkKind::Overlay,
            Medium::Phys { .. } => LinkKind::Phys,
            Medium::Sriov { .. } => LinkKind::Sriov,
            Medium::Passthrough { .. } => LinkKind::Passthrough,
        }
    }

    /// The interfaces of the host that its ends are on, in their order.
    pub fn interfaces(&self) -> &[String] {
        match self {
            Medium::Phys { interfaces, .. }
            | Medium::Sriov { interfaces, .. }
            | Medium::Passthrough { interfaces } => interfaces,
            _ => &[],
        }
    }

    pub(super) fn interfaces_mut(&mut self) -> Option<&mut Vec<String>> {
        match self {
            Medium::Phys { interfaces, .. }
            | Medium::Sriov { interfaces, .. }
            | Medium::Passthrough { interfaces } => Some(interfaces),
            _ => None,
        }
    }

    /// The source of its packets' times.
    pub fn timestamps(&self) -> Timestamps {
        match self {
            Medium::Phys { timestamps, .. } => *timestamps,
            _ => Timestamps::Program,
        }
    }

    /// Whether VMs drive their ends themselves, so that the host has no interface there.
    pub fn is_driven_by_vms(&self) -> bool {
        match self {
            Medium::Sriov { vm, .. } => *vm == Some(VmAttachment::Vfio),
            Medium::Passthrough { .. } => true,
            _ => false,
        }
    }

    /// The medium of a link as written. `underlay` hands out an address of one subnet for each end.
    pub(super) fn of(
        link: &Link,
        mtu: u32,
        has_vms: bool,
        nat: NatPlan,
        underlay: &mut dyn FnMut() -> Vec<IpNet>,
    ) -> Medium {
        match link.kind.value {
            LinkKind::Veth => Medium::Veth,
            LinkKind::Bridge => Medium::Bridge,
            LinkKind::Nat => Medium::Nat(nat),
            LinkKind::Macvlan => Medium::Macvlan {
                parent: link.parent.as_ref().map(|p| p.value.clone()),
            },
            LinkKind::Vxlan => Medium::Vxlan(VxlanPlan {
                vni: link.vni.as_ref().map_or(1, |v| v.value),
                port: link.port.as_ref().map_or(VXLAN_PORT, |p| p.value),
                underlay_mtu: mtu + VXLAN_OVERHEAD,
                underlay: underlay(),
            }),
            LinkKind::Overlay => {
                let carrier = link.carrier();
                Medium::Overlay(OverlayPlan {
                    carrier,
                    chosen: link.carrier.is_none().then(|| CHOSEN.to_owned()),
                    cable: link.cable(),
                    streams: match &link.tunnel {
                        // Each machine has a supervisor of its own, which knows no other.
                        Some(_) => Streams::Off,
                        None => link.streams(),
                    },
                    stream_ports: link.stream_ports.iter().map(|port| port.value).collect(),
                    underlay_mtu: mtu + carrier.overhead(),
                    underlay: match (carrier, &link.tunnel) {
                        (Carrier::Local, _) | (_, Some(_)) => Vec::new(),
                        _ => underlay(),
                    },
                    tunnel: link.tunnel.clone(),
                })
            }
            LinkKind::Phys => Medium::Phys {
                interfaces: link.interfaces(),
                timestamps: link.timestamps(),
            },
            LinkKind::Sriov => Medium::Sriov {
                interfaces: link.interfaces(),
                settings: link.function_settings(),
                vm: has_vms.then(|| link.vm()),
            },
            LinkKind::Passthrough => Medium::Passthrough {
                interfaces: link.interfaces(),
            },
        }
    }
}

impl LinkPlan {
    /// The sockets without a network that TCP connections between its ends take.
    pub fn streams(&self) -> Streams {
        match &self.medium {
            Medium::Overlay(overlay) => overlay.streams,
            _ => Streams::Off,
        }
    }

    /// The ports of the servers whose connections take streams; none are all.
    pub fn stream_ports(&self) -> &[u16] {
        match &self.medium {
            Medium::Overlay(overlay) => &overlay.stream_ports,
            _ => &[],
        }
    }

    /// The carrier of an overlay, and why it was chosen, where the lab names none.
    pub fn choice(&self) -> Option<String> {
        let Medium::Overlay(overlay) = &self.medium else {
            return None;
        };
        let why = overlay.chosen.as_ref()?;
        let (name, carrier) = (&self.name, overlay.carrier.word());
        Some(format!("link `{name}` has carrier `{carrier}`: {why}"))
    }

    pub fn facts(&self) -> Vec<String> {
        let mut facts = vec![format!("mtu {}", self.mtu)];
        if let Medium::Overlay(overlay) = &self.medium {
            facts.push(format!("carrier {}", overlay.carrier.word()));
            if !overlay.streams.is_off() {
                let ports: Vec<String> = overlay.stream_ports.iter().map(u16::to_string).collect();
                let fact = overlay.streams.fact();
                facts.push(match ports.is_empty() {
                    true => fact.to_owned(),
                    false => format!("{fact} to ports {}", ports.join(", ")),
                });
            }
        }
        let interfaces = self.medium.interfaces();
        if !interfaces.is_empty() {
            facts.push(format!("over {}", interfaces.join(", ")));
        }
        if self.medium.timestamps().is_hardware() {
            facts.push("hardware timestamps".into());
        }
        if let Medium::Sriov { settings, vm, .. } = &self.medium {
            facts.extend(settings.facts());
            facts.extend(vm.map(|vm| format!("VMs by {vm}")));
        }
        let first = self
            .endpoints
            .first()
            .map(|e| e.impairment)
            .unwrap_or_default();
        if self.endpoints.iter().all(|e| e.impairment == first) {
            facts.extend(first.rate.map(|r| format!("rate {r}")));
            facts.extend(first.delay.map(|d| format!("delay {d}")));
            facts.extend(first.jitter.map(|j| format!("jitter {j}")));
            facts.extend(first.loss.map(|l| format!("loss {}%", l * 100.0)));
        } else {
            facts.push("impaired differently by direction".into());
        }
        facts
    }
}

#[cfg(test)]
mod tests {
    use crate::facts::Facts;
    use crate::plan::plan;
    use crate::spec::Lab;

    #[test]
    fn a_link_says_how_vms_have_their_functions() {
        let facts_of = |kind: &str, vm: &str| {
            let text = format!(
                "name: t\ntopology:\n  nodes: {{a: {{kind: native}}, b: {{kind: {kind}}}}}\n  links:\n    \
                 - {{type: sriov, {vm}endpoints: ['a:eth0', 'b:eth0'], interfaces: [nic0, nic0]}}\n"
            );
            let facts = Facts {
                interfaces: vec!["nic0".into()],
                tools: [("qemu-system-x86_64".to_owned(), "7".to_owned())].into(),
                ..Facts::default()
            };
            let plan = plan(&Lab::parse(&text).unwrap(), &facts).unwrap();
            plan.links[0].facts().join(", ")
        };
        assert!(facts_of("vm", "vm: vfio, ").ends_with("VMs by vfio"));
        assert!(facts_of("vm", "").ends_with("VMs by macvtap"));
        assert!(!facts_of("native", "vm: vfio, ").contains("VMs"));
    }
}
