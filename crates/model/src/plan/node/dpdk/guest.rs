//! DPDK of a VM: its kernel reserves the huge pages at boot, out of the VM's own memory, and an IOMMU of its own lets
//! programs drive its cards.

use crate::diagnostic::{Diagnostics, Spanned};
use crate::kinds::{DpdkDriver, GuestStart, VM_MEMORY};
use crate::spec::{Dpdk, Node};
use crate::units::{Bytes, CpuList};

const GIB: u64 = 1 << 30;
/// Memory of a VM that kernel, agent and a program of DPDK need beside its huge pages.
const SYSTEM: Bytes = Bytes(128 << 20);
/// QEMU's machine has all memory below the hole for devices if it is less than this, else the first 2 GiB (`pc_q35_init`).
const SPLIT: u64 = 0xb000_0000;
const BELOW: u64 = 2 * GIB;

/// Kernel parameters for the huge pages (kernel: admin-guide/mm/hugetlbpage), and for the IOMMU. Debian's kernels lack
/// VFIO without one (`CONFIG_VFIO_NOIOMMU`). The kernel's own drivers stay as fast as without (`pt`).
pub(in crate::plan) fn boot_words(dpdk: &Dpdk) -> Vec<String> {
    let size = match dpdk.page.0 {
        GIB => "1G",
        _ => "2M",
    };
    let pages = dpdk.huge_pages.value.0 / dpdk.page.0;
    let mut words = vec![format!("hugepagesz={size}"), format!("hugepages={pages}")];
    if dpdk.driver() == DpdkDriver::Vfio {
        words.extend(["intel_iommu=on", "iommu=pt"].map(str::to_owned));
    }
    words
}

/// The memory that the kernel of a VM can make pages of a size of.
fn room(memory: Bytes, page: Bytes) -> Bytes {
    let free = memory.0.saturating_sub(SYSTEM.0);
    if page.0 < GIB {
        return Bytes(free / page.0 * page.0);
    }
    // Such a page begins at a multiple of its size. The first has holes; firmware and kernel take the upper end.
    let whole = match memory.0 < SPLIT {
        true => (free / GIB).saturating_sub(1),
        false => free.saturating_sub(BELOW) / GIB,
    };
    Bytes(whole * GIB)
}

/// The least memory, in steps of 128 MiB, in which a VM has these pages.
fn enough(pages: Bytes, page: Bytes) -> Bytes {
    let mut memory = pages.0.next_multiple_of(SYSTEM.0);
    while room(Bytes(memory), page) < pages {
        memory += SYSTEM.0;
    }
    Bytes(memory)
}

/// Notes pages and cores that the VM does not have.
pub(super) fn check(node: &Node, dpdk: &Spanned<Dpdk>, errors: &mut Diagnostics) {
    let (name, fields, size) = (&node.name.value, &node.fields, dpdk.huge_pages);
    let memory = fields.memory.map_or(VM_MEMORY, |memory| memory.value);
    let room = room(memory, dpdk.page);
    if size.value > room {
        let message = format!(
            "`hugepages` in `dpdk` of node `{name}` is {}; of its {memory} of memory {room} can be pages of {}",
            size.value, dpdk.page
        );
        let enough = enough(size.value, dpdk.page).0 >> 20;
        let hint = format!("lower it, or raise `memory` to {enough}MiB");
        errors.add(size.at, message, hint);
    }
    let own = fields.cpus.map_or(1.0, |cpus| cpus.value).ceil() as u32;
    let own = CpuList::new((0..own).collect());
    let lacking = dpdk.cores.as_ref().and_then(|cores| {
        let cpu = cores.iter().find(|cpu| !own.contains(*cpu))?;
        Some((cores.at, cpu))
    });
    if let Some((at, cpu)) = lacking {
        let message =
            format!("`cores` in `dpdk` of node `{name}` has CPU {cpu}; the vm has the CPUs {own}");
        errors.add(at, message, "name virtual CPUs, or raise `cpus`");
    }
    let start = fields.start.as_ref();
    if let Some(start) = start.filter(|start| start.value != GuestStart::Boot) {
        let message = format!(
            "node `{name}` does not boot, and huge pages for `dpdk` are reserved when a kernel boots"
        );
        errors.add(start.at, message, "`start: boot`");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Facts;
    use crate::plan::{Plan, plan};
    use crate::spec::Lab;

    fn planned(node: &str, link: &str) -> Result<Plan, String> {
        let text = format!(
            "name: t\ntopology:\n  nodes:\n    a: {{kind: native}}\n    d: {{kind: vm, {node}}}\n  links:\n    \
             - {{endpoints: ['a:eth0', 'd:in'], {link}}}\n    - {{endpoints: ['a:eth1', 'd:out']}}\n"
        );
        let facts = Facts {
            tools: [("qemu-system-x86_64".to_owned(), "7".to_owned())].into(),
            ..Facts::default()
        };
        let lab = Lab::parse(&text).map_err(|errors| errors.render("t"))?;
        plan(&lab, &facts).map_err(|errors| errors.render("t"))
    }

    #[test]
    fn whole_gigabytes_depend_on_where_memory_lies() {
        let (small, large) = (Bytes(2 << 20), Bytes(GIB));
        let mib = |number: u64| Bytes(number << 20);
        assert_eq!(room(mib(512), small), mib(384));
        assert_eq!(room(mib(100), small), mib(0));
        for (memory, pages) in [
            (1024, 0),
            (2048, 0),
            (2560, 1),
            (3072, 0),
            (4096, 1),
            (6144, 3),
        ] {
            assert_eq!(room(mib(memory), large), Bytes(pages * GIB), "{memory}");
        }
        assert_eq!(enough(mib(512), small), mib(640));
        assert_eq!(enough(Bytes(GIB), large), mib(2176));
        assert_eq!(enough(Bytes(2 * GIB), large), mib(4224));
    }

    #[test]
    fn the_kernel_reserves_pages_and_uses_an_iommu_for_cards() {
        let words = |dpdk: &str| {
            let plan = planned(&format!("memory: 4GiB, dpdk: {{{dpdk}}}"), "").unwrap();
            let line = match &plan.nodes[1].body {
                crate::plan::NodeBody::Vm(vm) => vm.boot.join(" "),
                other => panic!("{other:?}"),
            };
            (line, plan.nodes[1].facts().last().unwrap().clone())
        };
        let (line, facts) = words("hugepages: 64MiB");
        assert_eq!(line, "hugepagesz=2M hugepages=32");
        assert!(facts.ends_with("in out by af-packet, through the kernel"));
        let (line, facts) = words("hugepages: 1GiB, page: 1GiB, driver: vfio");
        assert_eq!(line, "hugepagesz=1G hugepages=1 intel_iommu=on iommu=pt");
        assert!(
            facts.ends_with("in out by vfio, past the guest's kernel"),
            "{facts}"
        );
    }

    #[test]
    fn packet_sockets_take_whole_frames() {
        let offloads = |driver: &str| {
            let dpdk = format!("dpdk: {{hugepages: 64MiB, driver: {driver}}}");
            let plan = planned(&dpdk, "").unwrap();
            match &plan.nodes[1].body {
                crate::plan::NodeBody::Vm(vm) => vm.net.offloads,
                other => panic!("{other:?}"),
            }
        };
        assert!(!offloads("af-packet") && offloads("vfio"));
    }

    #[test]
    fn a_card_of_a_vm_is_shaped_by_the_host() {
        let vfio = "dpdk: {hugepages: 64MiB, driver: vfio}";
        let plan = planned(vfio, "rate: 1Gbit").unwrap();
        assert!(plan.nodes[1].is_past_kernel("in"));
    }
}
