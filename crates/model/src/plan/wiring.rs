//! The machine's file held against the machine: ports that are not there, are in use, or lack what is claimed.

use crate::diagnostic::{Diagnostics, Mark, Spanned, hint_one_of, shown};
use crate::facts::{Facts, Fault, Nic, WiredPort, Wiring};
use crate::spec::{MachineFile, Port, PortPlace};

/// The driver of a device of the PCI bus, if it has one; `None` where the machine has no such device.
pub type DriverOf<'a> = &'a dyn Fn(&str) -> Option<Option<String>>;

/// The ports and cables of a file on the machine of these facts; claims that do not hold are noted in `errors`. The memory nodes
/// that it tells are added to the facts, where the firmware does not.
pub fn wiring(
    file: &MachineFile,
    name: &str,
    facts: &mut Facts,
    driver_of: DriverOf<'_>,
    errors: &mut Diagnostics,
) -> Wiring {
    let mut ports = Vec::new();
    for port in &file.ports {
        let mut faults = Vec::new();
        let wired = check_port(port, facts, driver_of, &mut faults);
        let numa = port.numa_node.filter(|_| faults.is_empty());
        let nics = &mut facts.machine.nics;
        let nic = nics
            .iter_mut()
            .find(|n| Some(&n.name) == wired.interface.as_ref());
        if let (Some(nic), Some(numa)) = (nic, numa) {
            nic.numa_node = Some(numa.value);
        }
        for (at, fault) in &faults {
            errors.add(*at, &fault.message, &fault.hint);
        }
        let fault = faults.into_iter().next().map(|(_, fault)| fault);
        ports.push(WiredPort { fault, ..wired });
    }
    check_huge_pages(file, facts, errors);
    let cable = |ends: &[Spanned<String>; 2]| ends.clone().map(|end| end.value);
    Wiring {
        file: name.to_owned(),
        ports,
        cables: file.cables.iter().map(cable).collect(),
    }
}

/// The remedy where a card cannot be reset.
pub const RESET_HINT: &str = "write `default` to its reset_method in sysfs, if that was emptied; else use another card, or a way without VFIO";

type Faults = Vec<(Mark, Fault)>;

fn check_port(
    port: &Port,
    facts: &Facts,
    driver_of: DriverOf<'_>,
    faults: &mut Faults,
) -> WiredPort {
    let wired = find(port, facts, driver_of, faults);
    let name = port.name.as_str();
    let Some(interface) = &wired.interface else {
        return wired;
    };
    let mut add = |at, message: String, hint: &str| {
        let hint = hint.to_owned();
        faults.push((at, Fault { message, hint }));
    };
    if let Some(use_) = facts.interfaces_in_use.get(interface) {
        let message = format!("the host uses `{interface}`, port `{name}`: {use_}");
        let hint = "a lab would take it from the host, maybe with the way in; name a port that nothing uses";
        add(port.place.at(), message, hint);
    }
    if name != interface && facts.interfaces.iter().any(|other| other == name) {
        let message = format!("port `{name}` has the name of an interface, and is `{interface}`");
        add(port.name.at, message, "labs name both: choose another name");
    }
    let nic = facts.nic(interface);
    let there = nic.and_then(|nic| nic.numa_node);
    if let (Some(said), Some(there)) = (port.numa_node, there) {
        if said.value != there {
            let message = format!(
                "port `{name}` is on memory node {there}, and `numa` is {}",
                said.value
            );
            add(
                said.at,
                message,
                &format!("write `numa: {there}`, or leave it out"),
            );
        }
    }
    let functions = nic.map_or(0, |nic| nic.sriov_vfs);
    if let Some(said) = port.functions.filter(|said| said.value > functions) {
        let message = match functions {
            0 => format!("port `{name}` has no virtual functions (SR-IOV)"),
            some => format!(
                "port `{name}` has {some} virtual functions, and `functions` is {}",
                said.value
            ),
        };
        add(
            said.at,
            message,
            "enable SR-IOV in the firmware, lower `functions`, or leave it out",
        );
    }
    if let Some((at, message)) = port
        .reset
        .as_ref()
        .and_then(|said| not_reset(said, name, nic))
    {
        add(at, message, "name one that it has, or leave it out");
    }
    if let Some((at, message, hint)) = not_given_as_said(port, nic, facts) {
        add(at, message, &hint);
    }
    wired
}

/// Its interface, where there is one now.
fn find(port: &Port, facts: &Facts, driver_of: DriverOf<'_>, faults: &mut Faults) -> WiredPort {
    let name = port.name.as_str();
    let mut wired = WiredPort {
        name: name.to_owned(),
        ..WiredPort::default()
    };
    let nics = facts.machine.nics.iter();
    let (at, message, hint) = match &port.place {
        PortPlace::Interface(interface) => {
            wired.pci = facts.nic(interface).and_then(|nic| nic.pci.clone());
            if facts.interfaces.contains(interface) {
                wired.interface = Some(interface.value.clone());
                return wired;
            }
            let message = format!(
                "port `{name}`: `{}` is no interface of this machine",
                **interface
            );
            let there: Vec<&str> = facts.interfaces.iter().map(String::as_str).collect();
            (interface.at, message, hint_one_of(interface, &there))
        }
        PortPlace::Pci(pci) => {
            let address = &pci.0;
            wired.pci = Some(address.clone());
            let found = nics.filter(|nic| nic.pci.as_ref() == Some(address));
            let found: Vec<&str> = found.map(|nic| nic.name.as_str()).collect();
            let (message, hint) = match found[..] {
                [only] => {
                    wired.interface = Some(only.to_owned());
                    return wired;
                }
                [] => without_interface(name, address, facts, driver_of),
                [first, ..] => (
                    format!(
                        "port `{name}` ({address}) has several interfaces: {}",
                        found.join(", ")
                    ),
                    format!("name it by `interface`: `interface: {first}`"),
                ),
            };
            (pci.at, message, hint)
        }
    };
    faults.push((at, Fault { message, hint }));
    wired
}

/// Why a port has no interface, and what to do.
fn without_interface(
    name: &str,
    address: &str,
    facts: &Facts,
    driver_of: DriverOf<'_>,
) -> (String, String) {
    let Some(driver) = driver_of(address) else {
        let message = format!("port `{name}`: this machine has no device {address} on its PCI bus");
        return (message, cards(facts));
    };
    let driver = driver.map_or("it has no driver".to_owned(), |driver| {
        format!("its driver is {driver}")
    });
    let hint =
        "`latlab inspect` lists the labs, of which one may have it; else bind its card's driver";
    let message = format!("port `{name}` ({address}) has no interface here now: {driver}");
    (message, hint.to_owned())
}

/// The cards of the machine with their addresses.
fn cards(facts: &Facts) -> String {
    let nics = facts.machine.nics.iter();
    let cards = nics.filter_map(|nic| Some(format!("{} ({})", nic.pci.as_ref()?, nic.name)));
    let cards: Vec<String> = cards.collect();
    match cards.as_slice() {
        [] => "`lspci` lists its devices".to_owned(),
        cards => format!("its network cards: {}", cards.join(", ")),
    }
}

/// Why the port is not reset in the way that was named; nothing is known of some kernels.
fn not_reset(said: &Spanned<String>, name: &str, nic: Option<&Nic>) -> Option<(Mark, String)> {
    let methods = match nic.filter(|nic| nic.pci.is_some()) {
        Some(nic) => nic.reset_methods.as_deref()?,
        None => &[],
    };
    if methods.contains(&said.value) {
        return None;
    }
    let has = match methods {
        [] => "cannot be reset".to_owned(),
        some => format!("can be reset by {}", some.join(" or ")),
    };
    let message = format!("port `{name}` {has}, and `reset` is `{}`", shown(said));
    Some((said.at, message))
}

/// The same where the file says that VMs can be given it.
fn not_given_as_said(
    port: &Port,
    nic: Option<&Nic>,
    facts: &Facts,
) -> Option<(Mark, String, String)> {
    let said = port.vfio.filter(|vfio| vfio.value)?;
    let (why, hint) = not_given(nic, facts)?;
    let message = format!("port `{}` cannot be given by VFIO: {why}", *port.name);
    Some((said.at, message, hint))
}

/// Why no VM can be given the port, and what to do.
fn not_given(nic: Option<&Nic>, facts: &Facts) -> Option<(String, String)> {
    let Some(nic) = nic.filter(|nic| nic.pci.is_some()) else {
        let hint = "remove `vfio`; any interface can be given with `type: phys`";
        return Some(("it is no card on the PCI bus".to_owned(), hint.to_owned()));
    };
    if nic.iommu_group.is_none() {
        let lack = facts.lacks(Facts::VFIO);
        let why = lack.map_or("the IOMMU is off", |lack| lack.reason.as_str());
        let hint = lack.and_then(|lack| lack.remedy.as_deref());
        let hint = hint.unwrap_or(
            "switch VT-d or AMD-Vi on in the firmware, and boot with `intel_iommu=on iommu=pt`",
        );
        return Some((why.to_owned(), hint.to_owned()));
    }
    if nic.keeps_its_state() {
        let why = "the kernel knows no way to reset it".to_owned();
        return Some((why, RESET_HINT.to_owned()));
    }
    let others = nic.iommu_others.join(", ");
    let hint = "put the card into another slot, or remove `vfio`";
    (!others.is_empty()).then(|| {
        let why = format!("its IOMMU group has {others} too, and a group is given as a whole");
        (why, hint.to_owned())
    })
}

fn check_huge_pages(file: &MachineFile, facts: &Facts, errors: &mut Diagnostics) {
    use crate::units::Bytes;
    let Some(said) = file.huge_pages else { return };
    let memory = &facts.machine.memory;
    // Facts that were written down may be without it.
    if memory.total_bytes == 0 {
        return;
    }
    if memory.huge_page_bytes == 0 {
        let hint = "use a kernel with CONFIG_HUGETLBFS, as those of distributions are";
        errors.add(said.at, "the host's kernel has no huge pages", hint);
        return;
    }
    let reserved = Bytes(memory.huge_pages.saturating_mul(memory.huge_page_bytes));
    if reserved.0 < said.value.0 {
        let pages = said.value.0.div_ceil(memory.huge_page_bytes);
        let message = format!(
            "`hugepages` is {}, and the machine has reserved {reserved}",
            said.value
        );
        let hint = format!("`sysctl vm.nr_hugepages={pages}`, or `hugepages={pages}` at boot");
        errors.add(said.at, message, hint);
    }
}
