//! `machine.yaml`: ports of a machine's cards under names of their own, and the cables between them.
//!
//! A lab then names ports, or asks for a wire and gets a cable, so that it fits other machines too. All that is written
//! there is a claim, which [`crate::plan::wiring`] holds against the machine.

use std::collections::HashMap;

use super::name::check_name;
use super::reader::{FromYaml, Object, items, read};
use super::yaml::{Value, Yaml};
use crate::diagnostic::{Diagnostics, Mark, Spanned, hint_one_of, shown};
use crate::units::Bytes;

/// The document.
#[derive(Debug, Clone, PartialEq)]
pub struct MachineFile {
    pub ports: Vec<Port>,
    /// Names of the two ports that each joins.
    pub cables: Vec<[Spanned<String>; 2]>,
    /// `hugepages:` the memory that the machine has reserved in huge pages, at least.
    pub huge_pages: Option<Spanned<Bytes>>,
}

/// A port of a card, with what it is said to have.
#[derive(Debug, Clone, PartialEq)]
pub struct Port {
    pub name: Spanned<String>,
    pub place: PortPlace,
    /// `numa:` the memory node of its card, also where the firmware does not say.
    pub numa_node: Option<Spanned<u32>>,
    /// `functions:` virtual functions that it can be divided into, at least.
    pub functions: Option<Spanned<u32>>,
    /// `vfio: true`: VMs and programs can drive it, behind an IOMMU.
    pub vfio: Option<Spanned<bool>>,
    /// `reset:` a way in which the kernel can reset it, in the kernel's word (`flr`, `pm`, `bus`).
    pub reset: Option<Spanned<String>>,
}

/// How a port is known.
#[derive(Debug, Clone, PartialEq)]
pub enum PortPlace {
    /// `pci:` the address of its device, which stays the same whatever its interface is called and wherever that is.
    Pci(Spanned<PciAddress>),
    /// `interface:` the name of the host's interface, for what is on no PCI bus.
    Interface(Spanned<String>),
}

impl PortPlace {
    pub fn at(&self) -> Mark {
        match self {
            PortPlace::Pci(pci) => pci.at,
            PortPlace::Interface(interface) => interface.at,
        }
    }
}

/// An address on the PCI bus as the kernel writes it: `0000:01:00.0`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PciAddress(pub String);

impl FromYaml for PciAddress {
    const EXPECTED: &'static str = "an address on the PCI bus";
    const EXAMPLE: &'static str = "`\"0000:01:00.0\"`";
    /// The domain may be left out, as lspci(8) does.
    fn from_text(text: &str) -> Option<Self> {
        let full = match text.matches(':').count() {
            1 => format!("0000:{text}"),
            _ => text.to_owned(),
        };
        let (slot, function) = full.split_once('.')?;
        let parts: Vec<&str> = slot.split(':').collect();
        let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
        let is_hexadecimal = |text: &str| text.bytes().all(|b| b.is_ascii_hexdigit());
        let good = lengths == [4, 2, 2]
            && parts.iter().all(|part| is_hexadecimal(part))
            && matches!(function.as_bytes(), [b'0'..=b'7']);
        good.then(|| PciAddress(full.to_ascii_lowercase()))
    }
}

impl MachineFile {
    /// Keys of which such a file has at least one, and no other document.
    pub const KEYS: [&str; 2] = ["ports", "cables"];

    /// Reads `machine.yaml` from its text. Errors: all mistakes that can be seen in the text alone.
    pub fn parse(text: &str) -> Result<MachineFile, Diagnostics> {
        let yaml = Yaml::parse(text)?;
        let mut errors = Diagnostics::default();
        let mut top = Object::new(&yaml, "the machine's file", &mut errors);
        let ports = top.require("ports", &mut errors);
        let cables = top.take("cables");
        let huge_pages = top.get("hugepages", &mut errors);
        top.finish(&mut errors);
        let ports = ports.map_or_else(Vec::new, |yaml| read_ports(yaml, &mut errors));
        let cables = cables.map_or_else(Vec::new, |yaml| read_cables(yaml, &mut errors));
        check_places(&ports, &mut errors);
        check_cables(&ports, &cables, &mut errors);
        errors.into_result(MachineFile {
            ports,
            cables,
            huge_pages,
        })
    }
}

fn read_ports(yaml: &Yaml, errors: &mut Diagnostics) -> Vec<Port> {
    let all = Object::new(yaml, "`ports`", errors);
    let read = all.entries().filter_map(|(name, yaml)| {
        let name = Spanned::new(name.value.to_string(), name.at);
        check_name("port", &name, errors);
        let what = format!("port `{}`", shown(&name));
        let mut o = Object::new(yaml, what.clone(), errors);
        let is_mapping = o.is_mapping();
        let written = (o.key_at("pci").is_some(), o.key_at("interface").is_some());
        let pci = o.get::<PciAddress>("pci", errors);
        let interface = o.get::<String>("interface", errors);
        let (numa_node, functions) = (o.get("numa", errors), o.get("functions", errors));
        let (vfio, reset) = (o.get("vfio", errors), o.get("reset", errors));
        o.finish(errors);
        if is_mapping && written.0 == written.1 {
            let message = format!("{what} needs one of `pci` and `interface`");
            let hint = "for example `{pci: \"0000:01:00.0\"}`; `latlab doctor` lists the cards";
            errors.add(name.at, message, hint);
            return None;
        }
        let place = match (pci, interface) {
            (Some(pci), _) => PortPlace::Pci(pci),
            (None, interface) => PortPlace::Interface(interface?),
        };
        Some(Port {
            name,
            place,
            numa_node,
            functions,
            vfio,
            reset,
        })
    });
    read.collect()
}

const CABLE_EXAMPLE: &str = "for example `cables: [[left, right]]`";

fn read_cables(yaml: &Yaml, errors: &mut Diagnostics) -> Vec<[Spanned<String>; 2]> {
    let items = items(yaml, "`cables`", CABLE_EXAMPLE, errors).unwrap_or_default();
    let one = |yaml: &Yaml| {
        let ends = match &yaml.value {
            Value::Seq(ends) => ends.as_slice(),
            _ => &[],
        };
        let [first, second] = ends else {
            let message = "a cable must be a list of the two ports that it joins";
            errors.add(yaml.at, message, CABLE_EXAMPLE);
            return None;
        };
        let mut end = |yaml| read::<String>(yaml, "an end of a cable", errors);
        Some([end(first)?, end(second)?])
    };
    items.iter().filter_map(one).collect()
}

/// Two names for one port would give it away twice.
fn check_places(ports: &[Port], errors: &mut Diagnostics) {
    let mut seen: HashMap<&str, &str> = HashMap::new();
    for port in ports {
        let place = match &port.place {
            PortPlace::Pci(pci) => pci.value.0.as_str(),
            PortPlace::Interface(interface) => interface.as_str(),
        };
        if let Some(other) = seen.insert(place, &port.name) {
            let (name, place) = (shown(&port.name), shown(place));
            let message = format!("ports `{}` and `{name}` are both {place}", shown(other));
            errors.add(port.place.at(), message, "name each port once");
        }
    }
}

fn check_cables(ports: &[Port], cables: &[[Spanned<String>; 2]], errors: &mut Diagnostics) {
    let names: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
    let mut seen: HashMap<&str, Mark> = HashMap::new();
    for end in cables.iter().flatten() {
        let name = shown(end);
        if !names.contains(&end.as_str()) {
            let message = format!("a cable ends at `{name}`, which is no port of this file");
            errors.add(end.at, message, hint_one_of(end, &names));
        } else if let Some(first) = seen.insert(end, end.at) {
            let line = first.line;
            let message = format!("a cable ends at port `{name}` already, on line {line}");
            errors.add(end.at, message, "a port has one cable");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_ports_and_cables() {
        let text = "ports:\n  left: {pci: \"01:00.0\", numa: 1, functions: 7, vfio: true}\n  \
                    right: {interface: eth1}\ncables: [[left, right]]\nhugepages: 64MiB\n";
        let file = MachineFile::parse(text).unwrap();
        let PortPlace::Pci(pci) = &file.ports[0].place else {
            panic!("{file:?}")
        };
        assert_eq!(pci.0, "0000:01:00.0");
        assert_eq!(file.cables[0][1].value, "right");
        assert_eq!(file.huge_pages.unwrap().value, Bytes(64 << 20));
    }

    #[test]
    fn each_mistake_has_its_place_and_a_hint() {
        let said = |text: &str| MachineFile::parse(text).unwrap_err().render("m");
        for (text, wanted) in [
            (
                "ports: {left: {}}",
                "m:1:9: port `left` needs one of `pci` and `interface`",
            ),
            (
                "ports: {left: {pci: \"0:1\"}}",
                "`pci` of port `left` must be an address on the PCI bus, not `0:1`",
            ),
            (
                "ports: {left: {interface: eth0, functoins: 1}}",
                "did you mean `functions`?",
            ),
            (
                "ports: {a: {interface: eth0}, b: {interface: eth0}}",
                "ports `a` and `b` are both eth0",
            ),
            (
                "ports: {left: {interface: eth0}}\ncables: [[left, rihgt]]",
                "m:2:17: a cable ends at `rihgt`, which is no port of this file",
            ),
            (
                "ports: {left: {interface: eth0}}\ncables: [[left, left]]",
                "a cable ends at port `left` already, on line 2",
            ),
            (
                "ports: {left: {interface: eth0}}\ncables: [[left]]",
                "a cable must be a list of the two ports",
            ),
            ("cables: []", "the machine's file has no `ports`"),
        ] {
            let said = said(text);
            assert!(said.contains(wanted), "{text}: {said}");
        }
    }
}
