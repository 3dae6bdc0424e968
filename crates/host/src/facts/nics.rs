//! Network interfaces: their names, and for those with a device behind them what it can do.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

use latlab_model::facts::{Interrupt, Nic};
use latlab_netlink::{Handle, InterfaceAddress, Link, RouteEntry};

use super::machine::Source;
use super::texts::{self, CardEvidence};
use crate::sys::sriov::{linked_name, name_of};
use crate::sys::{ethtool, vfio};

/// The names of all interfaces of this network namespace, and what uses those that are in use.
pub(super) fn names(source: &Source) -> (Vec<String>, BTreeMap<String, String>) {
    let listed = Handle::open()
        .and_then(|mut handle| Ok((handle.links()?, handle.addresses()?, handle.routes()?)));
    match listed {
        Ok((links, addresses, routes)) => {
            let used = |link: &Link| {
                let by = routed_by(link, &routes, true)
                    .or_else(|| used_by(link, &links, &addresses))
                    .or_else(|| routed_by(link, &routes, false));
                Some((link.name.clone(), by?))
            };
            let in_use = links.iter().filter_map(used).collect();
            (links.into_iter().map(|link| link.name).collect(), in_use)
        }
        // sysfs shows the namespace it was mounted in, which is nearly always ours.
        Err(_) => (source.names("sys/class/net"), BTreeMap::new()),
    }
}

/// The reason why a link cannot leave its namespace, if there is one.
fn used_by(link: &Link, links: &[Link], addresses: &[InterfaceAddress]) -> Option<String> {
    if link.name == "lo" {
        return Some("it is the loopback interface".into());
    }
    if let Some(kind) = link.kind.as_deref().filter(|k| CANNOT_LEAVE.contains(k)) {
        return Some(format!("it is a {kind}, whose ports are here"));
    }
    if let Some(master) = link.master {
        let master = links.iter().find(|other| other.index == master);
        let name = master.map_or("another interface", |master| &master.name);
        return Some(format!("it is a port of `{name}`"));
    }
    if let Some(above) = links.iter().find(|other| other.is_above(link)) {
        return Some(format!("`{}` is made on top of it", above.name));
    }
    let own = |found: &&InterfaceAddress| found.address.interface == link.index;
    let mut own = addresses.iter().filter(own).map(|found| found.address);
    // The kernel gives every interface that is up one of this kind.
    let assigned = own.find(|address| match address.address {
        IpAddr::V4(_) => true,
        IpAddr::V6(address) => !address.is_unicast_link_local(),
    });
    assigned.map(|it| format!("it has the address {}/{}", it.address, it.prefix_length))
}

/// The default route, or another one, that leaves by a link. The kernel itself makes those of link-local addresses.
fn routed_by(link: &Link, routes: &[RouteEntry], is_default: bool) -> Option<String> {
    let mut own = routes.iter().filter(|route| {
        route.interface == Some(link.index) && (route.prefix_length == 0) == is_default
    });
    if is_default {
        let way_in = "the default route leaves by it, which may be the way in".to_owned();
        return own.next().map(|_| way_in);
    }
    let mut destinations = own.filter_map(|route| Some((route.destination?, route.prefix_length)));
    let (destination, length) = destinations.find(|(destination, _)| match destination {
        IpAddr::V4(_) => true,
        IpAddr::V6(destination) => {
            !destination.is_unicast_link_local() && !destination.is_multicast()
        }
    })?;
    Some(format!("a route to {destination}/{length} leaves by it"))
}

/// Kinds of links that the kernel does not move, because others are attached to them.
const CANNOT_LEAVE: [&str; 4] = ["bridge", "bond", "team", "openvswitch"];

/// `hypervisor` is the machine's.
pub(super) fn read(source: &Source, hypervisor: Option<&str>) -> Vec<Nic> {
    let of_qemu = hypervisor.is_some_and(|name| name.contains("QEMU"));
    let all = source.names("sys/class/net").into_iter();
    let with_device = all.filter(|name| {
        let device = source.path(&format!("sys/class/net/{name}/device"));
        device.exists()
    });
    with_device
        .map(|name| read_one(source, name, of_qemu))
        .collect()
}

fn read_one(source: &Source, name: String, of_qemu: bool) -> Nic {
    let at = format!("sys/class/net/{name}");
    let number = |file: &str| source.number(&format!("{at}/{file}"));
    let queues = |prefix| source.numbered(&format!("{at}/queues"), prefix).len() as u32;
    let device = source.path(&format!("{at}/device")).canonicalize();
    let device = device.ok().filter(|device| is_on_pci(device));
    Nic {
        driver: linked_name(&source.path(&format!("{at}/device/driver"))),
        // -1 while unknown, which is no number of this type.
        speed_mbit: number("speed").and_then(|speed| speed.try_into().ok()),
        carrier: number("carrier") == Some(1),
        iommu_group: device.as_deref().and_then(vfio::group_of),
        iommu_others: device
            .as_deref()
            .map(vfio::others_of_group)
            .unwrap_or_default(),
        reset_methods: device.as_deref().and_then(vfio::reset_methods),
        pci: device.as_deref().and_then(name_of),
        emulated_by: texts::card_maker(&evidence(source, &at, of_qemu)).map(str::to_owned),
        sriov_vfs: number("device/sriov_totalvfs").unwrap_or_default() as u32,
        receive_queues: queues("rx-"),
        send_queues: queues("tx-"),
        interrupts: Vec::new(),
        hardware_timestamps: ethtool::stamps_received_packets(&name).ok(),
        numa_node: number("device/numa_node").and_then(|node| node.try_into().ok()),
        name,
    }
}

fn evidence(source: &Source, at: &str, of_qemu: bool) -> CardEvidence {
    let bus = linked_name(&source.path(&format!("{at}/device/subsystem")));
    let id = |file: &str| {
        let text = source.line(&format!("{at}/device/{file}"))?;
        u16::from_str_radix(text.trim_start_matches("0x"), 16).ok()
    };
    let pair = |first, second| {
        (
            id(first).unwrap_or_default(),
            id(second).unwrap_or_default(),
        )
    };
    CardEvidence {
        bus: bus.unwrap_or_default(),
        device: pair("vendor", "device"),
        subsystem: pair("subsystem_vendor", "subsystem_device"),
        of_qemu,
    }
}

/// The driver of a device of the PCI bus, if it has one; `None` where the machine has no such device.
pub fn pci_driver(address: &str) -> Option<Option<String>> {
    let device = Path::new("/sys/bus/pci/devices").join(address);
    device.exists().then(|| linked_name(&device.join("driver")))
}

fn is_on_pci(device: &Path) -> bool {
    let bus = device.join("subsystem").read_link();
    bus.is_ok_and(|bus| bus.ends_with("pci"))
}

/// The interfaces with the numbers of their interrupts: those that the bus lists, else those whose
/// handlers name the interface or its device, as drivers do (`i40e-eth0-TxRx-0`, `virtio4-input.0`).
pub(super) fn with_interrupts(
    mut nics: Vec<Nic>,
    source: &Source,
    interrupts: &[Interrupt],
) -> Vec<Nic> {
    for nic in &mut nics {
        let at = format!("sys/class/net/{}/device", nic.name);
        let of_bus = source.numbered(&format!("{at}/msi_irqs"), "");
        if !of_bus.is_empty() {
            nic.interrupts = of_bus.into_keys().collect();
            continue;
        }
        let device = source.path(&at).canonicalize().ok();
        let device = device.as_deref().and_then(name_of);
        let names = [Some(nic.name.clone()), device];
        let is_its = |owner: &String| {
            let mut words = owner.split(['-', '@', '.', ':']);
            words.any(|word| names.iter().flatten().any(|name| name == word))
        };
        let its = interrupts.iter().filter(|i| i.owners.iter().any(is_its));
        nic.interrupts = its.map(|i| i.number).collect();
    }
    nics
}
