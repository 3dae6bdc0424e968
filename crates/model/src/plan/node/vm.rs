//! A virtual machine's own part of its plan.

use serde::{Deserialize, Serialize};

use super::dpdk::boot_words;
use super::root::{HOST_IMAGE, RootPlan};
use super::tuned::Tuned;
use crate::boot;
use crate::diagnostic::{Diagnostics, Mark, Spanned, shown};
use crate::facts::Facts;
use crate::kinds::{
    Acceleration, GuestRoot, GuestStart, NetBackend, NodeKind, VM_MEMORY, VmHardware, VmNet,
};
use crate::plan::lacks::Lacks;
use crate::profile::{Isolation, Profile, Wanted};
use crate::spec::{Need, Node};
use crate::units::Bytes;

/// The program that makes a file system image of a directory.
const MKSQUASHFS: &str = "mksquashfs";
/// Below this a distribution's kernel does not reach user space.
const MIN_MEMORY: Bytes = Bytes(96 << 20);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VmPlan {
    pub root: RootPlan,
    /// The way to its root.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub root_by: GuestRoot,
    /// A flavour, a path, or [`IMAGE_KERNEL`].
    pub kernel: String,
    /// Kernel parameters: its profile's, those for DPDK, then its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub boot: Vec<String>,
    /// How its virtual CPUs lie to each other, where each has a CPU of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<GuestTopology>,
    /// How its memory is provided.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub memory: GuestMemory,
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub start: GuestStart,
    /// How its CPU is provided: `kvm` or `tcg`.
    pub acceleration: Acceleration,
    /// Its network cards; the backend is `vhost` or `qemu`.
    #[serde(default)]
    pub net: VmNet,
    /// Its CPU and timers, and what was asked of its memory.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub hardware: VmHardware,
}

/// The kernel that belongs to a VM's image; of an image without one, the usual flavour.
pub const IMAGE_KERNEL: &str = "image";
/// The flavour of a VM that names no kernel.
pub const USUAL_KERNEL: &str = "standard";

/// The kernel of a node that names none.
fn usual_kernel(node: &Node) -> &'static str {
    let image = node.fields.image.as_ref();
    match image.is_some_and(|image| image.may_have_kernel()) {
        true => IMAGE_KERNEL,
        false => USUAL_KERNEL,
    }
}

/// The CPU topology that a guest is told, so that its scheduler knows who shares a core and who a cache:
/// numbers of each in the next larger, as in QEMU's `-smp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestTopology {
    /// Parts with a memory node of their own on the host.
    pub sockets: u32,
    /// Parts of these with a last cache of their own.
    pub dies: u32,
    pub cores: u32,
    pub threads: u32,
}

/// How a VM's memory is provided (Welch 2015, table 3.3).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GuestMemory {
    /// All of it is there from the start: the guest waits for no page later.
    pub preallocated: bool,
    /// The memory is never swapped out.
    pub locked: bool,
    /// The memory is made of huge pages.
    pub huge: bool,
}

impl GuestMemory {
    /// The memory that a profile wants.
    pub fn of(profile: &Profile) -> GuestMemory {
        let wants = |knob: &str| profile.knobs.contains_key(knob);
        GuestMemory {
            preallocated: profile.cores != Isolation::Shared,
            locked: wants("memory-lock"),
            huge: matches!(profile.knobs.get("huge-pages"), Some(Wanted::Size(size)) if size.0 > 0),
        }
    }

    /// With what a node says itself.
    fn with(self, hardware: &VmHardware) -> GuestMemory {
        GuestMemory {
            preallocated: hardware.preallocate.unwrap_or(self.preallocated),
            locked: hardware.lock_memory.unwrap_or(self.locked),
            huge: hardware.huge_pages.unwrap_or(self.huge),
        }
    }

    fn facts(self) -> impl Iterator<Item = String> {
        let all = [
            (self.huge, "huge pages"),
            (self.preallocated, "memory from the start"),
            (self.locked, "memory locked"),
        ];
        let there = all.into_iter().filter(|(is_there, _)| *is_there);
        there.map(|(_, fact)| fact.to_owned())
    }
}

impl VmPlan {
    /// `profile` is what it follows, `vcpus` the number of its virtual CPUs.
    pub(super) fn of(
        node: &Node,
        profile: Option<&Profile>,
        vcpus: u32,
        topology: Option<GuestTopology>,
        facts: &Facts,
    ) -> VmPlan {
        let fields = &node.fields;
        // The node's own come last, so that they win.
        let mut boot = profile.map_or_else(Vec::new, |p| boot::of_guest(p, vcpus));
        let dpdk = node.dpdk();
        boot.extend(dpdk.map_or_else(Vec::new, |dpdk| boot_words(dpdk)));
        boot.extend(fields.boot.iter().map(|b| b.value.clone()));
        let kernel = fields.kernel.as_ref();
        let wanted = fields.acceleration.map(|a| a.value).unwrap_or_default();
        let mut net = fields.net.map(|net| net.value).unwrap_or_default();
        if net.backend == NetBackend::Auto {
            net.backend = if facts.has(Facts::VHOST_NET) {
                NetBackend::Vhost
            } else {
                NetBackend::Qemu
            };
        }
        // Packet sockets take frames as they are: no checksum is left out, and no segments are joined.
        net.offloads &= !dpdk.is_some_and(|dpdk| dpdk.driver().has_interface());
        let hardware = fields.hardware.as_ref();
        let hardware = hardware.map(|own| own.value.clone()).unwrap_or_default();
        let memory = profile.map(GuestMemory::of).unwrap_or_default();
        VmPlan {
            root: RootPlan::of(node),
            root_by: fields.root.map(|root| root.value).unwrap_or_default(),
            kernel: kernel.map_or_else(|| usual_kernel(node).into(), |own| own.value.clone()),
            boot,
            topology: topology.filter(|_| hardware.topology.is_exposed()),
            memory: memory.with(&hardware),
            start: fields
                .start
                .clone()
                .map(|start| start.value)
                .unwrap_or_default(),
            acceleration: match wanted {
                Acceleration::Auto if facts.has(Facts::KVM) => Acceleration::Kvm,
                Acceleration::Auto => Acceleration::Tcg,
                insisted => insisted,
            },
            net,
            hardware,
        }
    }

    pub fn is_emulated(&self) -> bool {
        self.acceleration != Acceleration::Kvm
    }

    pub(super) fn facts(&self) -> Vec<String> {
        let kernel = match self.kernel.as_str() {
            IMAGE_KERNEL => "its image's",
            named => named,
        };
        let mut facts = vec![format!("{kernel} kernel, {}", self.acceleration)];
        facts.extend(match &self.start {
            GuestStart::Boot => None,
            GuestStart::Clone => Some("started as a clone".to_owned()),
            GuestStart::Snapshot(_) => Some("started from a snapshot".to_owned()),
        });
        facts.extend((self.root_by == GuestRoot::Disk).then(|| "root on a disk".into()));
        facts.extend(self.net.facts());
        facts.extend(self.hardware.facts());
        facts.extend(self.memory.facts());
        facts
    }
}

pub(super) fn check(
    node: &Node,
    tuned: &Tuned<'_>,
    lacks: &mut Lacks<'_>,
    errors: &mut Diagnostics,
) {
    let (name, fields) = (&node.name.value, &node.fields);
    let why = format!("node `{name}` is a vm");
    for program in NodeKind::Vm.properties().needs.programs {
        lacks.program(program, &why, node.name.at, errors);
    }
    let whole = |c: &f64| c.fract() == 0.0 && (1.0..=255.0).contains(c);
    if let Some(cpus) = fields.cpus.filter(|c| !whole(&c.value)) {
        let message = format!("`cpus` of node `{name}` is {}", cpus.value);
        let hint = "a vm has whole virtual CPUs, 1 to 255, for example `cpus: 2`";
        errors.add(cpus.at, message, hint);
    }
    if let Some(memory) = fields.memory.filter(|m| m.value < MIN_MEMORY) {
        let message = format!(
            "`memory` of node `{name}` is {}; a kernel does not boot in it",
            memory.value
        );
        let hint = format!("at least {MIN_MEMORY}; 256MiB is comfortable");
        errors.add(memory.at, message, hint);
    }
    let kvm = |a: &Spanned<Acceleration>| a.value == Acceleration::Kvm;
    if let Some(wish) = fields.acceleration.filter(kvm) {
        let why = format!("node `{name}` insists on KVM");
        let otherwise = "`acceleration: auto` falls back to software emulation and says so";
        let need = Need::must(Facts::KVM, wish.at, &why, otherwise);
        lacks.capability(&need, errors);
    }
    match &fields.start {
        Some(start) if start.value == GuestStart::Clone => {
            check_clone(node, tuned.profile, start.at, errors);
        }
        Some(start) if matches!(start.value, GuestStart::Snapshot(_)) => {
            check_snapshot(node, start.at, errors);
        }
        _ => {}
    }
    if let Some(root) = fields.root.filter(|r| r.value == GuestRoot::Disk) {
        let why = format!("node `{name}` has its root on a disk");
        lacks.program(MKSQUASHFS, &why, root.at, errors);
        check_disk(node, tuned.profile, root.at, errors);
    }
    if let Some(net) = &fields.net {
        check_net(node, net, lacks, errors);
    }
    if let Some(hardware) = &fields.hardware {
        check_hardware(node, hardware, tuned, lacks, errors);
    }
}

/// A clone's memory is a file's until it writes: none of it can be of another kind or all there from the start.
fn check_clone(node: &Node, profile: Option<&Profile>, at: Mark, errors: &mut Diagnostics) {
    let (name, fields) = (&node.name.value, &node.fields);
    let mut refuse = |what: &str| {
        let message = format!("node `{name}` starts as a clone and {what}");
        errors.add(at, message, "`start: boot`");
    };
    let is_plain = |profile: &&Profile| {
        profile.cores == Isolation::Shared && profile.knobs.is_empty() && profile.boot.is_empty()
    };
    if let Some(profile) = profile.filter(|profile| !is_plain(profile)) {
        let name = shown(&profile.name);
        refuse(&format!(
            "follows profile `{name}`, which its template did not"
        ));
    }
    let hardware = fields.hardware.as_ref().map(|hardware| &hardware.value);
    let wants = |of: fn(&VmHardware) -> Option<bool>| hardware.and_then(of) == Some(true);
    if wants(|h| h.huge_pages) || wants(|h| h.preallocate) || wants(|h| h.lock_memory) {
        refuse("wants memory of a particular kind, but shares a template's");
    }
}

/// Only VMs with their roots on disks can be saved.
fn check_snapshot(node: &Node, at: Mark, errors: &mut Diagnostics) {
    let name = &node.name.value;
    if node.fields.root.map(|root| root.value) != Some(GuestRoot::Disk) {
        let message = format!("node `{name}` starts from a snapshot and has its root on a share");
        errors.add(at, message, "`root: disk`, as the VM that was saved has");
    }
    if !node.storage().is_empty() {
        let message = format!("node `{name}` starts from a snapshot and has `storage`");
        errors.add(
            at,
            message,
            "`start: boot`: a node with storage cannot be saved",
        );
    }
}

/// A guest with its root on a disk has no share of the host: with one its state could not be saved or moved.
fn check_disk(node: &Node, profile: Option<&Profile>, at: Mark, errors: &mut Diagnostics) {
    let (name, fields) = (&node.name.value, &node.fields);
    let mut refuse = |what: &str, hint: &str| {
        let message = format!("node `{name}` has its root on a disk and {what}");
        errors.add(at, message, hint);
    };
    let image = fields.image.as_ref();
    if image.is_none_or(|image| image.is(HOST_IMAGE)) {
        refuse(
            "the host's own files as its image, which change while they are read",
            "give it an `image:` of its own: a directory, an OCI archive, a list of packages, or `empty`",
        );
    }
    if !fields.binds.is_empty() {
        refuse("`binds`, which are shares of the host", "use `root: share`");
    }
    let vcpus = fields.cpus.map_or(1.0, |cpus| cpus.value.min(255.0)) as u32;
    if profile.is_some_and(|profile| !profile.in_guest(vcpus).knobs.is_empty()) {
        refuse(
            "follows a profile, whose knobs reach a guest over a share",
            "use `root: share`, or `tuning: default` for the node",
        );
    }
}

fn check_hardware(
    node: &Node,
    hardware: &Spanned<VmHardware>,
    tuned: &Tuned<'_>,
    lacks: &mut Lacks<'_>,
    errors: &mut Diagnostics,
) {
    let name = &node.name.value;
    if hardware.cpu.as_deref() == Some("host") {
        let why = format!("node `{name}` wants the host's CPU");
        let otherwise = "without `cpu` it is `host` under KVM, and `max` under emulation";
        lacks.capability(
            &Need::must(Facts::KVM, hardware.at, &why, otherwise),
            errors,
        );
    }
    let memory = &lacks.facts.machine.memory;
    let bytes = node.fields.memory.map_or(VM_MEMORY, |m| m.value).0;
    let free = memory
        .huge_pages_free
        .saturating_mul(memory.huge_page_bytes);
    if hardware.huge_pages == Some(true) && !tuned.reserves_pages && free < bytes {
        let message = format!(
            "node `{name}` wants {} of huge pages; {} are free",
            Bytes(bytes),
            Bytes(free)
        );
        let missing = (bytes - free).div_ceil(memory.huge_page_bytes.max(1));
        let hint = match memory.huge_page_bytes {
            0 => "the host's kernel has no huge pages".to_owned(),
            _ => format!("sysctl vm.nr_hugepages={}", memory.huge_pages + missing),
        };
        errors.add(hardware.at, message, hint);
    }
}

fn check_net(node: &Node, net: &Spanned<VmNet>, lacks: &mut Lacks<'_>, errors: &mut Diagnostics) {
    let name = &node.name.value;
    if net.backend == NetBackend::Vhost {
        let why = format!("node `{name}` insists on vhost");
        let otherwise = "`backend: auto` takes QEMU's own and says so";
        lacks.capability(
            &Need::must(Facts::VHOST_NET, net.at, &why, otherwise),
            errors,
        );
    }
    // A guest uses no more pairs of queues than it has CPUs (virtio_net's `max_queue_pairs`).
    let cpus = node.fields.cpus.map_or(1.0, |cpus| cpus.value);
    if f64::from(net.queues) > cpus {
        let message = format!(
            "`net` of node `{name}` has {} queues for {cpus} CPU",
            net.queues
        );
        let hint = "a guest uses no more queues than it has CPUs: raise `cpus`";
        errors.add(net.at, message, hint);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::plan_with;
    use crate::spec::Lab;
    use crate::units::CpuList;

    const PAGED: &str = "name: paged\nabout: x\ncores: shared\nknobs: {huge-pages: 1GiB}\n";

    /// Mistakes of a VM with these fields in a lab with this field.
    fn said(lab: &str, fields: &str) -> String {
        let text = format!("name: t\n{lab}\ntopology: {{nodes: {{v: {{kind: vm, {fields}}}}}}}\n");
        let lab = Lab::parse(&text).unwrap_or_else(|e| panic!("{}", e.render("t")));
        let tools = ["qemu-system-x86_64", "mksquashfs"];
        let mut facts = Facts {
            cpus: CpuList::new(vec![0, 1, 2, 3]),
            tools: tools.map(|tool| (tool.to_owned(), "1".to_owned())).into(),
            ..Facts::default()
        };
        facts.machine.memory.huge_page_bytes = 2 << 20;
        let planned = plan_with(&lab, &facts, &|name| match name {
            "paged" => Profile::parse(PAGED, &|_| None).ok(),
            other => Profile::builtin(other),
        });
        planned.map_or_else(|errors| errors.render("t"), |_| String::new())
    }

    #[test]
    fn a_clone_follows_no_profile_of_its_own_or_of_the_lab() {
        for (lab, fields) in [
            ("", "start: clone, tuning: isolated"),
            ("tuning: isolated", "start: clone"),
            ("tuning: isolated only placement", "start: clone"),
            ("tuning: throughput", "start: clone"),
        ] {
            let said = said(lab, fields);
            assert!(said.contains("which its template did not"), "{lab}: {said}");
        }
        for lab in ["", "tuning: isolated", "tuning: default"] {
            assert_eq!(said(lab, "start: clone, tuning: default"), "");
        }
        assert_eq!(said("tuning: default", "start: clone"), "");
    }

    #[test]
    fn a_root_on_a_disk_has_no_share_for_a_profiles_knobs() {
        let disk = "root: disk, image: ./rootfs";
        for lab in ["tuning: isolated", "tuning: throughput"] {
            let said = said(lab, disk);
            assert!(said.contains("knobs reach a guest over a share"), "{said}");
        }
        let own = format!("{disk}, tuning: default");
        assert_eq!(said("tuning: isolated", &own), "");
        assert_eq!(said("", &own), "");
        assert_eq!(said("tuning: isolated only placement", disk), "");
    }

    #[test]
    fn huge_pages_are_free_or_reserved_by_the_labs_profile() {
        let huge = "hardware: {huge_pages: true}";
        assert_eq!(said("tuning: paged", huge), "");
        let own = format!("{huge}, tuning: default");
        assert_eq!(said("tuning: paged", &own), "");
        for (lab, fields) in [("", huge), ("", own.as_str()), ("tuning: isolated", huge)] {
            let said = said(lab, fields);
            assert!(said.contains("of huge pages; 0"), "{lab}: {said}");
        }
    }
}
