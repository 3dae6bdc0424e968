//! Ports and wires that a lab asks for by the names of the machine's file, turned into interfaces of the host.
//!
//! A link of hardware with two ends and without `interfaces` asks for a wire, and gets a cable that nothing else has. The
//! links get theirs in the order of the lab and of the file, so that the same lab has the same cables every time.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::diagnostic::{Diagnostics, Spanned, shown};
use crate::facts::{Facts, Wiring};
use crate::spec::{Lab, Link, LinkKind};

/// The lab with interfaces of the host for all ends of its links of hardware.
pub(super) fn resolved<'l>(lab: &'l Lab, facts: &Facts, errors: &mut Diagnostics) -> Cow<'l, Lab> {
    if !lab.has_cards() {
        return Cow::Borrowed(lab);
    }
    let mut lab = lab.clone();
    let no_file = Wiring::default();
    let wiring = facts.wiring.as_ref().unwrap_or(&no_file);
    let wants: Vec<bool> = lab.links.iter().map(Link::wants_wire).collect();
    for link in &mut lab.links {
        name_ports(link, wiring, errors);
    }
    let mut uses = Uses::of(&lab);
    for (link, _) in lab.links.iter_mut().zip(wants).filter(|(_, wants)| *wants) {
        let chosen = choose(link, wiring, facts, &uses, errors);
        let Some(interfaces) = chosen else { continue };
        let at = link.kind.at;
        let named = interfaces.map(|interface| Spanned::new(interface, at));
        link.interfaces = named.into();
        uses.add(link);
    }
    Cow::Owned(lab)
}

/// Puts the interfaces of the host in the places of ports. A link with one that cannot be given has none.
fn name_ports(link: &mut Link, wiring: &Wiring, errors: &mut Diagnostics) {
    let mut is_refused = false;
    for interface in &mut link.interfaces {
        let Some(port) = wiring.port(&interface.value) else {
            continue;
        };
        match (&port.fault, &port.interface) {
            (None, Some(name)) => interface.value.clone_from(name),
            (fault, _) => {
                is_refused = true;
                let (why, hint) = fault.as_ref().map_or(("it is not here", ""), |fault| {
                    (fault.message.as_str(), fault.hint.as_str())
                });
                let message = format!("link `{}`: {why}", shown(&link.name));
                errors.add(interface.at, message, hint);
            }
        }
    }
    if is_refused {
        link.interfaces.clear();
    }
}

/// The links that have each interface of the host.
#[derive(Default)]
struct Uses {
    whole: BTreeMap<String, String>,
    functions: BTreeMap<String, Vec<FunctionUse>>,
}

struct FunctionUse {
    link: String,
    vlan: Option<u16>,
}

impl Uses {
    fn of(lab: &Lab) -> Uses {
        let mut uses = Uses::default();
        lab.links.iter().for_each(|link| uses.add(link));
        uses
    }

    fn add(&mut self, link: &Link) {
        let name = link.name.value.clone();
        for interface in link.interfaces() {
            if link.kind.value == LinkKind::Sriov {
                let vlan = link.vlan.map(|vlan| vlan.value);
                let link = name.clone();
                let all = self.functions.entry(interface).or_default();
                all.push(FunctionUse { link, vlan });
            } else if link.kind.value.is_hardware() {
                self.whole.insert(interface, name.clone());
            }
        }
    }

    /// Why a link cannot have functions of an interface, or all of it.
    fn against(&self, link: &Link, interface: &str, facts: &Facts) -> Option<String> {
        if let Some(other) = self.whole.get(interface) {
            return Some(format!("link `{other}` has `{interface}`"));
        }
        let others = self.functions.get(interface).map_or(&[][..], Vec::as_slice);
        if link.kind.value != LinkKind::Sriov {
            let other = others.first()?;
            return Some(format!(
                "link `{}` has functions of `{interface}`",
                other.link
            ));
        }
        // Two links on one wire stay apart by their VLANs only.
        let own = link.vlan.map(|vlan| vlan.value);
        let meets =
            |other: &&FunctionUse| own.is_none() || other.vlan.is_none() || own == other.vlan;
        if let Some(other) = others.iter().find(meets) {
            let other = &other.link;
            return Some(format!("link `{other}` has `{interface}` in the same VLAN"));
        }
        let there = facts.nic(interface)?.sriov_vfs as usize;
        (others.len() >= there).then(|| match there {
            0 => format!("`{interface}` has no virtual functions"),
            some => format!("all {some} functions of `{interface}` are taken"),
        })
    }

    fn is_unused(&self, interface: &str) -> bool {
        !self.whole.contains_key(interface) && !self.functions.contains_key(interface)
    }
}

/// The interfaces at the ends of a cable for a link; why there is none is noted.
fn choose(
    link: &Link,
    wiring: &Wiring,
    facts: &Facts,
    uses: &Uses,
    errors: &mut Diagnostics,
) -> Option<[String; 2]> {
    let mut shared = None;
    let mut reasons = BTreeSet::new();
    for cable in &wiring.cables {
        let ends = cable
            .each_ref()
            .map(|name| end_of(name, link, wiring, facts, uses));
        match ends {
            [Ok(first), Ok(second)] => {
                let is_unused = uses.is_unused(&first) && uses.is_unused(&second);
                let found = [first, second];
                if is_unused {
                    return Some(found);
                }
                shared = shared.or(Some(found));
            }
            [first, second] => {
                let why = first.err().or(second.err()).unwrap_or_default();
                reasons.insert(format!("{}: {why}", cable.join("–")));
            }
        }
    }
    if shared.is_some() {
        return shared;
    }
    let (name, kind) = (shown(&link.name), link.kind.value);
    let file = match wiring.file.as_str() {
        "" => Wiring::FILE,
        file => file,
    };
    let (message, hint) = match reasons.is_empty() {
        true => (
            format!(
                "link `{name}`, of type {kind}, asks for a wire, and no file names one of this machine"
            ),
            format!(
                "write one for each end, `interfaces: [enp3s0f0, enp3s0f1]`, or list `ports` and `cables` in {file}"
            ),
        ),
        false => {
            let reasons: Vec<String> = reasons.into_iter().collect();
            (
                format!(
                    "link `{name}`, of type {kind}, gets no cable of {file}: {}",
                    reasons.join("; ")
                ),
                "free one, or name `interfaces`".to_owned(),
            )
        }
    };
    errors.add(link.kind.at, message, hint);
    None
}

/// The interface of a port, or why a link cannot have it.
fn end_of(
    name: &str,
    link: &Link,
    wiring: &Wiring,
    facts: &Facts,
    uses: &Uses,
) -> Result<String, String> {
    let port = wiring.port(name).ok_or("it is no port")?;
    if let Some(fault) = &port.fault {
        return Err(fault.message.clone());
    }
    let interface = port.interface.clone().ok_or("it is not here")?;
    match uses.against(link, &interface, facts) {
        Some(reason) => Err(reason),
        None => Ok(interface),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{plan, wiring};
    use super::*;
    use crate::facts::{Capability, Nic, NumaNode};
    use crate::spec::MachineFile;
    use crate::units::CpuList;

    const FILE: &str = "ports:\n  left: {pci: '01:00.0', numa: 1}\n  right: {pci: '02:00.0'}\n  \
                        up: {interface: nic2}\n  down: {interface: nic3}\n\
                        cables: [[left, right], [up, down]]\n";

    fn facts() -> Facts {
        let nic = |number: u32| Nic {
            name: format!("nic{number}"),
            pci: (number < 2).then(|| format!("0000:0{}:00.0", number + 1)),
            sriov_vfs: 2,
            iommu_group: (number == 0).then_some(7),
            iommu_others: (number == 0)
                .then(|| "0000:01:00.1".to_owned())
                .into_iter()
                .collect(),
            ..Nic::default()
        };
        let mut facts = Facts {
            interfaces: (0..4).map(|number| format!("nic{number}")).collect(),
            ..Facts::default()
        };
        facts.machine.nics = (0..4).map(nic).collect();
        facts
    }

    /// Reads the file for the machine; what does not hold is returned.
    fn read(facts: &mut Facts, text: &str) -> String {
        let file = MachineFile::parse(text).unwrap();
        let mut errors = Diagnostics::default();
        let driver =
            |address: &str| (address == "0000:03:00.0").then(|| Some("vfio-pci".to_owned()));
        facts.wiring = Some(wiring(&file, "machine.yaml", facts, &driver, &mut errors));
        errors
            .into_result(())
            .map_or_else(|errors| errors.render("m"), |()| String::new())
    }

    /// The interfaces of each link, or the mistakes.
    fn interfaces(facts: &Facts, links: &[&str]) -> Result<Vec<String>, String> {
        let lines = links.iter().enumerate().map(|(number, link)| {
            format!("    - {{{link}, endpoints: ['a:e{number}', 'b:e{number}']}}\n")
        });
        let lines: String = lines.collect();
        let lab = format!(
            "name: t\ntopology:\n  nodes: {{a: {{kind: native}}, b: {{kind: native}}}}\n  links:\n{lines}"
        );
        let plan = plan(&Lab::parse(&lab).unwrap(), facts).map_err(|all| all.render("t"))?;
        let links = plan.links.iter();
        Ok(links
            .map(|link| link.medium.interfaces().join(" "))
            .collect())
    }

    #[test]
    fn a_link_without_interfaces_gets_a_free_cable() {
        let mut facts = facts();
        assert_eq!(read(&mut facts, FILE), "");
        assert_eq!(facts.machine.nics[0].numa_node, Some(1));
        let of = |links: &[&str]| interfaces(&facts, links);
        assert_eq!(of(&["type: phys"]).unwrap(), ["nic0 nic1"]);
        let named = "type: sriov, interfaces: [left, left]";
        assert_eq!(
            of(&["type: phys", named]).unwrap(),
            ["nic2 nic3", "nic0 nic0"]
        );
        // A cable of its own is better than a shared one, which needs VLANs.
        let vlan = |vlan| format!("type: sriov, vlan: {vlan}");
        let (first, second, third) = (vlan(1), vlan(2), vlan(3));
        assert_eq!(
            of(&[&first, &second, &third]).unwrap(),
            ["nic0 nic1", "nic2 nic3", "nic0 nic1"]
        );
        let said = of(&[&first, "type: phys", &vlan(1)]).unwrap_err();
        assert!(said.contains("gets no cable of machine.yaml: left–right: link `l0` has `nic0` in the same VLAN; up–down: link `l1` has `nic2`"), "{said}");
        let said = of(&["type: phys", "type: phys", "type: sriov"]).unwrap_err();
        assert!(
            said.contains("link `l2`, of type sriov, gets no cable"),
            "{said}"
        );
    }

    #[test]
    fn a_node_is_placed_near_the_card_of_its_wire() {
        let mut facts = facts();
        facts.cpus = CpuList::new((0..8).collect());
        facts.machine.processors.numa = [0, 1]
            .map(|id| NumaNode {
                id,
                cpus: Some(CpuList::new((4 * id..4 * id + 4).collect())),
                memory_bytes: 1 << 30,
                distances: Vec::new(),
            })
            .into();
        for (numa, cpus) in [(0, 0..4), (1, 4..8)] {
            let file = FILE.replace("numa: 1", &format!("numa: {numa}"));
            let mut facts = facts.clone();
            assert_eq!(read(&mut facts, &file), "");
            let lab = "name: t\ntopology:\n  nodes: {a: {kind: native, isolate: true}, b: {kind: native}}\n  \
                       links: [{type: sriov, endpoints: ['a:e', 'b:e']}]\n";
            let plan = plan(&Lab::parse(lab).unwrap(), &facts).unwrap();
            let own = plan.nodes[0].cpuset.clone().unwrap();
            assert!(own.iter().all(|cpu| cpus.contains(&cpu)), "{numa}: {own}");
        }
    }

    #[test]
    fn a_wire_needs_a_file_that_names_one() {
        let said = interfaces(&facts(), &["type: phys"]).unwrap_err();
        assert!(
            said.contains("link `l0`, of type phys, asks for a wire, and no file names one"),
            "{said}"
        );
        assert!(
            said.contains("`ports` and `cables` in /etc/latlab/machine.yaml"),
            "{said}"
        );
    }

    #[test]
    fn a_port_with_a_fault_is_given_to_no_link() {
        let mut facts = facts();
        let use_ = "the default route leaves by it".to_owned();
        facts.interfaces_in_use.insert("nic0".into(), use_);
        let said = read(&mut facts, FILE);
        assert!(
            said.contains("m:2:15: the host uses `nic0`, port `left`: the default route"),
            "{said}"
        );
        let named = interfaces(&facts, &["type: sriov, interfaces: [left, right]"]).unwrap_err();
        assert!(
            named.contains("link `l0`: the host uses `nic0`, port `left`"),
            "{named}"
        );
        assert_eq!(interfaces(&facts, &["type: phys"]).unwrap(), ["nic2 nic3"]);
    }

    #[test]
    fn claims_that_do_not_hold_are_told_with_what_to_do() {
        let mut facts = facts();
        facts.machine.memory.total_bytes = 1 << 30;
        facts.machine.memory.huge_page_bytes = 2 << 20;
        facts.machine.nics[1].reset_methods = Some(vec!["pm".into(), "bus".into()]);
        facts.machine.nics[3].numa_node = Some(0);
        let lack = Capability {
            works: false,
            reason: "the IOMMU is off, or there is none".into(),
            costs: String::new(),
            remedy: Some("boot with intel_iommu=on iommu=pt".into()),
        };
        facts.capabilities.insert(Facts::VFIO.into(), lack);
        let said = read(
            &mut facts,
            "ports:\n  nic1: {pci: '01:00.0', functions: 3, vfio: true}\n  b: {pci: '09:00.0'}\n  c: {pci: '03:00.0'}\n  \
             d: {pci: '02:00.0', vfio: true, reset: flr}\n  e: {interface: nic9}\n  f: {interface: nic3, numa: 1, vfio: true}\nhugepages: 6MiB\n",
        );
        for wanted in [
            "port `nic1` has the name of an interface, and is `nic0`",
            "port `nic1` has 2 virtual functions, and `functions` is 3",
            "port `nic1` cannot be given by VFIO: its IOMMU group has 0000:01:00.1 too",
            "port `b`: this machine has no device 0000:09:00.0 on its PCI bus\n  hint: its network cards: 0000:01:00.0 (nic0)",
            "port `c` (0000:03:00.0) has no interface here now: its driver is vfio-pci",
            "port `d` cannot be given by VFIO: the IOMMU is off, or there is none\n  hint: boot with intel_iommu=on",
            "port `d` can be reset by pm or bus, and `reset` is `flr`\n  hint: name one that it has",
            "port `e`: `nic9` is no interface of this machine\n  hint: did you mean `nic",
            "port `f` is on memory node 0, and `numa` is 1",
            "port `f` cannot be given by VFIO: it is no card on the PCI bus",
            "`hugepages` is 6MiB, and the machine has reserved 0B\n  hint: `sysctl vm.nr_hugepages=3`",
        ] {
            assert!(said.contains(wanted), "{wanted}: {said}");
        }
    }

    #[test]
    fn a_device_with_several_interfaces_is_no_port() {
        let mut facts = facts();
        facts.machine.nics[1].pci = facts.machine.nics[0].pci.clone();
        let said = read(&mut facts, "ports: {left: {pci: '01:00.0'}}\n");
        let wanted = "port `left` (0000:01:00.0) has several interfaces: nic0, nic1\n  hint: name it by `interface`";
        assert!(said.contains(wanted), "{said}");
        let port = &facts.wiring.as_ref().unwrap().ports[0];
        assert!(port.interface.is_none() && port.fault.is_some());
        assert_eq!(read(&mut facts, "ports: {left: {interface: nic1}}\n"), "");
    }

    #[test]
    fn a_card_that_keeps_its_state_is_not_given() {
        let mut facts = facts();
        let nic = &mut facts.machine.nics[1];
        (nic.iommu_group, nic.reset_methods) = (Some(8), Some(Vec::new()));
        let said = read(
            &mut facts,
            "ports: {d: {pci: '02:00.0', vfio: true, reset: bus}}\n",
        );
        for wanted in [
            "port `d` cannot be given by VFIO: the kernel knows no way to reset it\n  hint: write `default`",
            "port `d` cannot be reset, and `reset` is `bus`",
        ] {
            assert!(said.contains(wanted), "{wanted}: {said}");
        }
    }
}
