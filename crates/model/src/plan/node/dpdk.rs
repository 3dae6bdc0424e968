//! DPDK of a node in its plan, and what the lab or the machine does not have for it.

mod guest;

use serde::{Deserialize, Serialize};

use crate::diagnostic::{Diagnostics, Spanned, shown};
use crate::facts::Facts;
use crate::kinds::{Bind, DpdkDriver, NodeKind};
use crate::spec::{Dpdk, Endpoint, Lab, Link, Node, meet};
use crate::units::{Bytes, CpuList};

pub(in crate::plan) use guest::boot_words;

/// Huge pages and ports of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DpdkPlan {
    /// Memory in huge pages that is the node's alone.
    #[serde(rename = "hugepages")]
    pub huge_pages: Bytes,
    /// The size of a page.
    pub page: Bytes,
    /// CPUs of its threads, in their order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<CpuList>,
    pub driver: DpdkDriver,
    /// Its interfaces that are ports, in the order of their numbers in DPDK.
    pub ports: Vec<String>,
}

impl DpdkPlan {
    pub(in crate::plan) fn of(lab: &Lab, node: &Node) -> Option<DpdkPlan> {
        let dpdk = node.dpdk()?;
        let ports = match dpdk.devices.as_slice() {
            [] => ends(lab, node).map(|(_, end)| &end.interface).collect(),
            named => named.iter().collect::<Vec<_>>(),
        };
        Some(DpdkPlan {
            huge_pages: dpdk.huge_pages.value,
            page: dpdk.page,
            cores: dpdk.cores.as_ref().map(|cores| cores.value.clone()),
            driver: dpdk.driver(),
            ports: ports.into_iter().map(|port| port.value.clone()).collect(),
        })
    }

    /// Its memory and the path of its frames in a node of this kind, as results name them.
    pub fn facts(&self, kind: NodeKind) -> String {
        let DpdkPlan {
            huge_pages, driver, ..
        } = self;
        let path = match (self.ports.join(" "), driver.has_interface()) {
            (ports, _) if ports.is_empty() => "no ports".to_owned(),
            (ports, true) => format!("{ports} by {driver}, through the kernel"),
            // Taps of the host are outside of it.
            (ports, false) if kind.is_guest() => {
                format!("{ports} by {driver}, past the guest's kernel")
            }
            (ports, false) => format!("{ports} by {driver}, past the kernel and its taps"),
        };
        format!("DPDK with {huge_pages} in pages of {}, {path}", self.page)
    }

    /// The arguments that describe its memory, cores and ports to DPDK's environment abstraction layer. `directory` has
    /// its huge pages, and `socket` names the socket that serves a port.
    ///
    /// Segments are few files, because a vhost-user peer takes a handful of regions. Addresses are virtual, because no
    /// port does DMA without an IOMMU; a VM's virtio cards are not behind its own, and take physical ones. Of the PCI
    /// bus nothing is looked at but the ports, of which `device` is the address.
    pub fn arguments(
        &self,
        (node, kind): (&str, NodeKind),
        directory: &str,
        socket: impl Fn(&str) -> String,
        mac: impl Fn(&str) -> String,
        device: impl Fn(&str) -> String,
    ) -> Vec<String> {
        let addresses = match kind.is_guest() && self.driver == DpdkDriver::Vfio {
            true => "pa",
            false => "va",
        };
        let mut all = vec![
            format!("--file-prefix={node}"),
            format!("--huge-dir={directory}"),
            "--single-file-segments".to_owned(),
            format!("--iova-mode={addresses}"),
        ];
        // Without a list of devices DPDK would try all of the bus.
        if self.driver != DpdkDriver::Vfio || self.ports.is_empty() {
            all.push("--no-pci".to_owned());
        }
        all.extend(self.cores.iter().map(|cores| format!("--lcores={cores}")));
        let ports = self.ports.iter().enumerate().map(|(number, port)| {
            let name = self.driver.device().unwrap_or_default();
            match self.driver {
                DpdkDriver::AfPacket => format!("--vdev={name}{number},iface={port}"),
                DpdkDriver::VirtioUser => format!(
                    "--vdev={name}{number},path={},mac={},queue_size=256",
                    socket(port),
                    mac(port)
                ),
                DpdkDriver::Vfio => format!("--allow={}", device(port)),
            }
        });
        all.extend(ports);
        all
    }
}

/// The ends of a lab's links at a node, in the order of the links.
fn ends<'a>(lab: &'a Lab, node: &'a Node) -> impl Iterator<Item = (&'a Link, &'a Endpoint)> {
    let all = lab
        .links
        .iter()
        .flat_map(|link| link.endpoints.iter().map(move |end| (link, end)));
    all.filter(|(_, end)| end.node.value == node.name.value)
}

/// Notes ports, cores and huge pages that the lab or the machine does not have.
pub(in crate::plan) fn check_dpdk(lab: &Lab, facts: &Facts, errors: &mut Diagnostics) {
    let mut wanted = 0u64;
    for node in &lab.nodes {
        let Some(dpdk) = node.dpdk() else { continue };
        check_devices(lab, node, dpdk, errors);
        let ours = [EAL_VARIABLE, EAL_FILE_VARIABLE];
        if let Some(variable) = ours
            .iter()
            .find(|name| node.fields.env.contains_key(**name))
        {
            let message = format!(
                "`env` of node `{}` has `{variable}`, and so has `dpdk`",
                *node.name
            );
            errors.add(dpdk.at, message, "give the variable another name");
        }
        let mut binds = node.fields.binds.iter();
        let covers = |bind: &&Spanned<Bind>| meet(&bind.target, HUGE_PAGES_AT);
        let bind = binds.find(covers).filter(|_| node.kind != NodeKind::Native);
        if let Some(bind) = bind {
            let message = format!(
                "`binds` of node `{}` has `{}`, and its huge pages are at `{HUGE_PAGES_AT}`",
                *node.name,
                shown(&bind.target)
            );
            errors.add(
                bind.at,
                message,
                "bind it at another place, or remove `dpdk`",
            );
        }
        if node.kind.is_guest() {
            guest::check(node, dpdk, errors);
            continue;
        }
        check_cores(node, dpdk, facts, errors);
        check_memory(node, dpdk, facts, &mut wanted, errors);
    }
}

/// The place of a container's or a VM's huge pages, where hosts have theirs.
pub const HUGE_PAGES_AT: &str = "/dev/hugepages";

/// The arguments of [`DpdkPlan::arguments`], for commands of the node, and a file with the same.
pub const EAL_VARIABLE: &str = "LATLAB_DPDK_EAL";
pub const EAL_FILE_VARIABLE: &str = "LATLAB_DPDK_EAL_FILE";

fn check_devices(lab: &Lab, node: &Node, dpdk: &Dpdk, errors: &mut Diagnostics) {
    let name = &node.name.value;
    for device in &dpdk.devices {
        if !ends(lab, node).any(|(_, end)| end.interface.value == device.value) {
            let has: Vec<&str> = ends(lab, node)
                .map(|(_, end)| end.interface.as_str())
                .collect();
            let message = format!(
                "`devices` in `dpdk` of node `{name}` has `{}`, and no link has such an end",
                shown(device)
            );
            let hint = match has.join(", ") {
                none if none.is_empty() => format!("add a link with an end `{name}:{}`", **device),
                has => format!("the node's interfaces: {has}"),
            };
            errors.add(device.at, message, hint);
        }
    }
    for (link, end) in ends(lab, node).filter(|(_, end)| dpdk.has(&end.interface)) {
        check_port(node, dpdk, link, end, errors);
    }
}

/// A port past the kernel is a ring that the overlay's daemon serves, or a function of a card, and nothing of the kernel's
/// is at its end.
fn check_port(node: &Node, dpdk: &Dpdk, link: &Link, end: &Endpoint, errors: &mut Diagnostics) {
    let (name, port) = (&node.name.value, &end.interface.value);
    // No quotes are in DPDK's arguments.
    if port.contains(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_' | '.')) {
        let message = format!(
            "port `{}` of node `{name}` cannot be in DPDK's arguments",
            shown(port)
        );
        errors.add(
            end.interface.at,
            message,
            "use letters, digits, `-`, `_` and `.`",
        );
    }
    let Some(driver) = dpdk.driver.filter(|driver| !driver.has_interface()) else {
        return;
    };
    let mut refuse = |at, why: &str, hint: &str| {
        let message = format!(
            "port `{port}` of node `{name}` is driven by {}, {why}",
            *driver
        );
        errors.add(at, message, hint);
    };
    let (kind, is_guest) = (link.kind.value, node.kind.is_guest());
    if is_guest && driver.value == DpdkDriver::VirtioUser {
        let why = "whose rings are the host's, and a VM's memory is its own";
        refuse(
            driver.at,
            why,
            "use `driver: vfio`: the VM's card has such rings already",
        );
        return;
    }
    let wanted = driver.value.link().filter(|_| !is_guest);
    if let Some(wanted) = wanted.filter(|wanted| *wanted != kind) {
        let why = format!("and link `{}` is of type {kind}", *link.name);
        let hint = format!("use `type: {wanted}`, or `driver: af-packet`");
        refuse(driver.at, &why, &hint);
        return;
    }
    // A VM's card is shaped by the host.
    let has_impairment = end.netem_at.is_some() || end.impairment.rate.is_some();
    if has_impairment && !is_guest {
        let why = "which no delay, loss or rate of the kernel reaches";
        let hint = "remove them from this end, or use `driver: af-packet`";
        refuse(end.node.at, why, hint);
    }
}

/// Refuses addresses that are written for ports past the kernel. In a host's part of a lab every end has one.
pub(in crate::plan) fn check_port_addresses(lab: &Lab, errors: &mut Diagnostics) {
    for node in &lab.nodes {
        let Some(dpdk) = node.dpdk() else { continue };
        let Some(driver) = dpdk.driver.filter(|driver| !driver.has_interface()) else {
            continue;
        };
        for (_, end) in ends(lab, node).filter(|(_, end)| dpdk.has(&end.interface)) {
            let Some(address) = end.addresses.first() else {
                continue;
            };
            let message = format!(
                "port `{}` of node `{}` is driven by {}, so the node's kernel would not have its address",
                *end.interface, *node.name, *driver
            );
            let hint = "remove the address: the DPDK program has its own";
            errors.add(address.at, message, hint);
        }
    }
}

fn check_cores(node: &Node, dpdk: &Dpdk, facts: &Facts, errors: &mut Diagnostics) {
    let Some(cores) = &dpdk.cores else { return };
    let name = &node.name.value;
    let own = node.fields.cpuset.as_ref().map(|own| &own.value);
    let missing = |there: &CpuList| cores.iter().find(|cpu| !there.contains(*cpu));
    let lacking = match own {
        Some(own) => missing(own).map(|cpu| (cpu, format!("the node's `cpuset` is {own}"))),
        None => missing(&facts.cpus)
            .map(|cpu| (cpu, format!("this machine has the CPUs {}", facts.cpus))),
    };
    if let Some((cpu, why)) = lacking {
        let message = format!("`cores` in `dpdk` of node `{name}` has CPU {cpu}; {why}");
        errors.add(cores.at, message, "name CPUs that the node may use");
    }
}

/// `wanted` is what is lacking for the nodes before it, in bytes.
fn check_memory(
    node: &Node,
    dpdk: &Spanned<Dpdk>,
    facts: &Facts,
    wanted: &mut u64,
    errors: &mut Diagnostics,
) {
    let (name, size) = (&node.name.value, dpdk.huge_pages);
    let memory = &facts.machine.memory;
    // Facts that were written down may be without it.
    if memory.total_bytes == 0 {
        return;
    }
    if memory.huge_page_bytes == 0 {
        let message = format!("node `{name}` wants huge pages, and the host's kernel has none");
        let hint = "use a kernel with CONFIG_HUGETLBFS, as those of distributions are";
        errors.add(size.at, message, hint);
        return;
    }
    let free = match memory.huge_page_bytes == dpdk.page.0 {
        true => memory.huge_pages_free.saturating_mul(dpdk.page.0),
        false => 0,
    };
    let there = memory.available_bytes.saturating_add(free);
    let before = *wanted;
    *wanted = wanted.saturating_add(size.value.0);
    if before <= there && *wanted > there {
        let message = format!(
            "the huge pages up to node `{name}` are {}; {} of memory are available",
            Bytes(*wanted),
            Bytes(there)
        );
        errors.add(size.at, message, "lower `hugepages`, or make room");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Facts;
    use crate::plan::{Plan, plan};

    fn facts() -> Facts {
        let mut facts = Facts {
            tools: [("crun".to_string(), "1".to_string())].into(),
            cpus: CpuList::new(vec![0, 1]),
            interfaces: vec!["nic0".to_string()],
            ..Facts::default()
        };
        facts.machine.memory.total_bytes = 4 << 30;
        facts.machine.memory.huge_page_bytes = 2 << 20;
        facts.machine.memory.available_bytes = 1 << 30;
        facts
    }

    fn planned(dpdk: &str, link: &str) -> Result<Plan, String> {
        let text = format!(
            "name: t\ntopology:\n  nodes:\n    a: {{kind: native}}\n    d: {{kind: container, {dpdk}}}\n  links:\n    \
             - {{endpoints: ['a:eth0', 'd:in'], {link}}}\n    - {{endpoints: ['a:eth1', 'd:out']}}\n"
        );
        let lab = Lab::parse(&text).map_err(|errors| errors.render("t"))?;
        plan(&lab, &facts()).map_err(|errors| errors.render("t"))
    }

    #[test]
    fn all_interfaces_are_ports_unless_some_are_named() {
        let ports = |dpdk: &str| {
            let plan = planned(dpdk, "").unwrap();
            plan.nodes[1].dpdk.clone().unwrap().ports
        };
        assert_eq!(ports("dpdk: {hugepages: 64MiB}"), ["in", "out"]);
        assert_eq!(
            ports("dpdk: {hugepages: 64MiB, devices: [out, in]}"),
            ["out", "in"]
        );
    }

    #[test]
    fn every_result_names_memory_and_path() {
        let plan = planned("dpdk: {hugepages: 64MiB}", "").unwrap();
        let expected = "DPDK with 64MiB in pages of 2MiB, in out by af-packet, through the kernel";
        assert_eq!(
            plan.nodes[1].facts().last().map(String::as_str),
            Some(expected)
        );
        assert!(!plan.nodes[1].is_past_kernel("in"));
        let user = "dpdk: {hugepages: 64MiB, devices: in, driver: virtio-user}";
        let plan = planned(user, "type: overlay").unwrap();
        let facts = plan.nodes[1].facts();
        let path = "in by virtio-user, past the kernel and its taps";
        assert!(facts.last().unwrap().ends_with(path), "{facts:?}");
        assert!(plan.nodes[1].is_past_kernel("in") && !plan.nodes[1].is_past_kernel("out"));
    }

    #[test]
    fn arguments_name_memory_cores_and_ports() {
        let arguments = |dpdk: &str, link: &str| {
            let plan = planned(dpdk, link).unwrap();
            let dpdk = plan.nodes[1].dpdk.clone().unwrap();
            let all = dpdk.arguments(
                ("d", plan.nodes[1].kind()),
                "/dev/hugepages",
                |port| format!("/s/{port}"),
                |_| "02:00:00:00:00:01".into(),
                |_| "0000:03:10.0".into(),
            );
            all.join(" ")
        };
        assert_eq!(
            arguments("dpdk: {hugepages: 64MiB, cores: 0-1}", ""),
            "--file-prefix=d --huge-dir=/dev/hugepages --single-file-segments --iova-mode=va --no-pci --lcores=0-1 \
             --vdev=net_af_packet0,iface=in --vdev=net_af_packet1,iface=out"
        );
        let user = "dpdk: {hugepages: 64MiB, devices: in, driver: virtio-user}";
        assert!(arguments(user, "type: overlay").ends_with(
            "--no-pci --vdev=net_virtio_user0,path=/s/in,mac=02:00:00:00:00:01,queue_size=256"
        ));
        let function = "dpdk: {hugepages: 64MiB, devices: in, driver: vfio}";
        let link = "type: sriov, interfaces: [nic0, nic0]";
        assert!(arguments(function, link).ends_with("--iova-mode=va --allow=0000:03:10.0"));
    }

    #[test]
    fn what_the_lab_or_the_machine_lacks_is_refused() {
        for (dpdk, link, what, hint) in [
            (
                "devices: [eth9]",
                "",
                "has `eth9`, and no link",
                "the node's interfaces: in, out",
            ),
            (
                "cores: '0-2'",
                "",
                "has CPU 2; this machine has the CPUs 0-1",
                "name CPUs",
            ),
            (
                "driver: virtio-user",
                "",
                "is of type veth",
                "`type: overlay`",
            ),
            (
                "driver: virtio-user, devices: in",
                "type: overlay, delay: 1ms",
                "no delay, loss or rate",
                "remove them from this end",
            ),
        ] {
            let dpdk = format!("dpdk: {{hugepages: 64MiB, {dpdk}}}");
            let said = planned(&dpdk, link).expect_err(&dpdk);
            assert!(said.contains(what) && said.contains(hint), "{said}");
        }
        let said = planned("dpdk: {hugepages: 2GiB}", "").unwrap_err();
        assert!(
            said.contains("are 2GiB; 1GiB of memory are available"),
            "{said}"
        );
        let own = "cpuset: '1', dpdk: {hugepages: 64MiB, cores: '0'}";
        let said = planned(own, "").unwrap_err();
        assert!(
            said.contains("has CPU 0; the node's `cpuset` is 1"),
            "{said}"
        );
        let said = planned("env: {LATLAB_DPDK_EAL: x}, dpdk: {hugepages: 64MiB}", "").unwrap_err();
        assert!(said.contains("has `LATLAB_DPDK_EAL`"), "{said}");
        let bound = "binds: '/dev/hugepages:/dev/hugepages', dpdk: {hugepages: 64MiB}";
        let said = planned(bound, "").unwrap_err();
        assert!(
            said.contains("its huge pages are at `/dev/hugepages`"),
            "{said}"
        );
    }
}
