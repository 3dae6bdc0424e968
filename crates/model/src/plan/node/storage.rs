//! A node's storage in its plan, and what its kind or the machine cannot have.

use serde::{Deserialize, Serialize};

use crate::diagnostic::{Diagnostics, shown};
use crate::facts::{self, Facts};
use crate::kinds::{DiskAio, DiskFormat, GuestDisk, GuestRoot, GuestStart, StorageType};
use crate::plan::lacks::Lacks;
use crate::spec::{Lab, Node, Storage, meet};
use crate::units::Bytes;

/// The program that makes the file system of a disk, and the one that makes an image in QEMU's own format.
const MKFS: &str = "mkfs.ext4";
const QEMU_IMG: &str = "qemu-img";

/// A directory of a node, and the holder of its files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoragePlan {
    /// Absolute and plain.
    pub at: String,
    #[serde(rename = "type")]
    pub kind: StorageType,
    /// The size of a file system of its own; the space that others find free at their deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Bytes>,
    /// The way to the disk of a VM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest: Option<GuestDisk>,
}

impl StoragePlan {
    /// Those of a node.
    pub(in crate::plan) fn all(node: &Node) -> Vec<StoragePlan> {
        let one = |storage: &Storage| StoragePlan {
            at: storage.at.value.clone(),
            kind: storage.kind.value,
            size: storage.size.map(|size| size.value),
            guest: guest(node, storage),
        };
        node.storage().iter().map(one).collect()
    }

    /// The path of its reads and writes, as results name it.
    pub fn facts(&self) -> String {
        let StoragePlan { at, kind, .. } = self;
        let size = self.size.filter(|_| kind.is_sized());
        let size = size.map_or_else(String::new, |size| format!(" of {size}"));
        let way = match (&self.guest, kind) {
            (Some(guest), _) => format!(" ({})", guest.facts()),
            (None, StorageType::Disk) => " (loop device, direct I/O)".to_owned(),
            (None, _) => String::new(),
        };
        format!("{kind}{size} at {at}{way}")
    }
}

fn guest(node: &Node, storage: &Storage) -> Option<GuestDisk> {
    let is_disk = node.kind.is_guest() && *storage.kind == StorageType::Disk;
    is_disk.then(|| GuestDisk {
        device: storage.device.map(|key| key.value).unwrap_or_default(),
        cache: storage.cache.map(|key| key.value).unwrap_or_default(),
        aio: storage.aio.map(|key| key.value).unwrap_or_default(),
        format: storage.format.map(|key| key.value).unwrap_or_default(),
    })
}

/// Notes what a node of its kind cannot have, and what the machine lacks for it.
pub(super) fn check(node: &Node, lacks: &mut Lacks<'_>, errors: &mut Diagnostics) {
    for storage in node.storage() {
        check_binds(node, storage, errors);
        check_medium(node, storage, lacks, errors);
        if *storage.kind == StorageType::Disk {
            let why = format!("node `{}` has a disk at `{}`", *node.name, *storage.at);
            lacks.program(MKFS, &why, storage.kind.at, errors);
        }
        if node.kind.is_guest() {
            check_guest(node, storage, lacks, errors);
        }
    }
}

fn check_binds(node: &Node, storage: &Storage, errors: &mut Diagnostics) {
    let mut binds = node.fields.binds.iter();
    if let Some(bind) = binds.find(|bind| meet(&bind.target, &storage.at)) {
        let message = format!(
            "`storage` of node `{}` is at `{}`, and a bind is at `{}`",
            *node.name,
            shown(&storage.at),
            shown(&bind.target)
        );
        errors.add(
            storage.at.at,
            message,
            "give each a directory beside the other",
        );
    }
}

/// The file system that holds the labs' state, if it is known.
fn place(facts: &Facts) -> Option<&facts::Storage> {
    facts.machine.storage.iter().find(|place| place.of_labs)
}

/// A disk in memory would measure memory.
fn check_medium(node: &Node, storage: &Storage, lacks: &mut Lacks<'_>, errors: &mut Diagnostics) {
    let facts = lacks.facts;
    let place = place(facts).filter(|place| place.in_memory && storage.kind.is_on_disk());
    if let Some(place) = place.filter(|_| lacks.is_new("state on a disk")) {
        let message = format!(
            "node `{}` has a {} at `{}`, and latlab's state in {} is in memory",
            *node.name, *storage.kind, *storage.at, place.path
        );
        let hint = "name a directory on a disk by LATLAB_STATE_DIR, or use `type: tmpfs`";
        errors.add(storage.kind.at, message, hint);
    }
}

fn check_guest(node: &Node, storage: &Storage, lacks: &mut Lacks<'_>, errors: &mut Diagnostics) {
    let (name, at) = (&node.name.value, &storage.at.value);
    let is_disk = *storage.kind == StorageType::Disk;
    if *storage.kind == StorageType::Overlay {
        let message = format!(
            "node `{name}` is a vm and has an overlay at `{at}`: its layers would be in the guest"
        );
        let hint =
            "use `type: volume` or `type: disk`; an overlay is for containers and native nodes";
        errors.add(storage.kind.at, message, hint);
    }
    if let Some((key, key_at)) = storage.guest_key().filter(|_| !is_disk) {
        let message = format!(
            "`{key}` of the {} at `{at}` of node `{name}` has no meaning",
            *storage.kind
        );
        errors.add(
            key_at,
            message,
            format!("remove `{key}`, or use `type: disk`"),
        );
    }
    let direct = storage.cache.is_none_or(|cache| cache.is_direct());
    let native = storage.aio.filter(|aio| **aio == DiskAio::Native);
    if let Some(native) = native.filter(|_| is_disk && !direct) {
        let message =
            format!("`aio: native` of the disk at `{at}` of node `{name}` needs direct I/O");
        errors.add(
            native.at,
            message,
            "`cache: none`, `cache: directsync`, or another `aio`",
        );
    }
    let own = storage
        .format
        .filter(|format| **format == DiskFormat::Qcow2);
    if let Some(format) = own.filter(|_| is_disk) {
        let why = format!("node `{name}` has an image of format qcow2");
        lacks.program(QEMU_IMG, &why, format.at, errors);
    }
    check_share(node, storage, errors);
}

/// A share and a root on a disk exclude each other, and a template has no disks.
fn check_share(node: &Node, storage: &Storage, errors: &mut Diagnostics) {
    let (name, at) = (&node.name.value, &storage.at.value);
    let root = node.fields.root.map(|root| root.value);
    if root == Some(GuestRoot::Disk) && *storage.kind == StorageType::Volume {
        let message = format!(
            "node `{name}` has its root on a disk and a volume at `{at}`, which is a share of the host"
        );
        errors.add(
            storage.kind.at,
            message,
            "use `type: disk`, or `root: share`",
        );
    }
    let start = node.fields.start.as_ref().map(|start| &start.value);
    if start == Some(&GuestStart::Clone) && *storage.kind == StorageType::Disk {
        let message = format!(
            "node `{name}` starts as a clone and has a disk at `{at}`, which its template has not"
        );
        errors.add(storage.kind.at, message, "`start: boot`");
    }
}

/// Storage that together needs more than is free: it would fail in the middle of a measurement.
pub(in crate::plan) fn check_space(lab: &Lab, facts: &Facts, errors: &mut Diagnostics) {
    let Some(place) = place(facts).filter(|place| !place.in_memory) else {
        return;
    };
    let free = place.free_bytes;
    let mut wanted = 0u64;
    for node in &lab.nodes {
        let on_disk = |storage: &&Storage| storage.kind.is_on_disk();
        for storage in node.storage().iter().filter(on_disk) {
            let Some(size) = storage.size else { continue };
            let before = wanted;
            wanted = wanted.saturating_add(size.value.0);
            if before <= free && wanted > free {
                let message = format!(
                    "the storage up to `{}` of node `{}` has {}; {} are free in {}",
                    *storage.at,
                    *node.name,
                    Bytes(wanted),
                    Bytes(free),
                    place.path
                );
                errors.add(size.at, message, "lower `size`, or make room there");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::facts::{Facts, Storage};
    use crate::plan::{Plan, plan};
    use crate::spec::Lab;
    use crate::units::CpuList;

    /// The plan of a node on a machine whose labs have their state there.
    fn planned(node: &str, in_memory: bool) -> Result<Plan, String> {
        let tools = ["crun", "qemu-system-x86_64", "mkfs.ext4", "qemu-img"];
        let mut facts = Facts {
            tools: tools.map(|tool| (tool.to_string(), "1".into())).into(),
            cpus: CpuList::new(vec![0]),
            ..Facts::default()
        };
        facts.machine.storage = vec![Storage {
            path: "/var/lib/latlab/labs".into(),
            free_bytes: 1 << 30,
            total_bytes: 1 << 30,
            of_labs: true,
            in_memory,
        }];
        let lab = format!("name: t\ntopology: {{nodes: {{a: {{{node}}}}}}}\n");
        let lab = Lab::parse(&lab).expect("a readable lab");
        plan(&lab, &facts).map_err(|errors| errors.render("t"))
    }

    #[test]
    fn every_result_names_the_way() {
        for (node, expected) in [
            (
                "kind: native, storage: {at: /mnt, size: 16MiB}",
                "volume at /mnt",
            ),
            (
                "kind: container, storage: {at: /mnt, type: overlay}",
                "overlay at /mnt",
            ),
            (
                "kind: container, storage: {at: /mnt, type: disk, size: 16MiB}",
                "disk of 16MiB at /mnt (loop device, direct I/O)",
            ),
            (
                "kind: vm, storage: {at: /mnt, type: tmpfs, size: 16MiB}",
                "tmpfs of 16MiB at /mnt",
            ),
            (
                "kind: vm, storage: {at: /mnt, type: disk, size: 16MiB, format: qcow2, aio: native}",
                "disk of 16MiB at /mnt (virtio-blk, qcow2, cache none, aio native)",
            ),
        ] {
            let plan = planned(node, false).unwrap();
            let facts = plan.nodes[0].facts();
            assert_eq!(facts.last().map(String::as_str), Some(expected));
        }
    }

    #[test]
    fn storage_on_a_disk_is_refused_where_that_is_memory() {
        for (kind, is_refused) in [
            ("volume", true),
            ("overlay", true),
            ("disk", true),
            ("tmpfs", false),
        ] {
            let node = format!("kind: native, storage: {{at: /mnt, type: {kind}, size: 16MiB}}");
            let said = planned(&node, true).err().unwrap_or_default();
            let refused = said.contains("latlab's state in /var/lib/latlab/labs is in memory");
            assert_eq!(refused, is_refused, "{said}");
            assert!(planned(&node, false).is_ok());
        }
    }

    #[test]
    fn a_directory_is_in_its_storage() {
        let plan = planned("kind: native, storage: [{at: /mnt}, {at: /srv}]", false).unwrap();
        let at = |directory: &str| {
            let storage = plan.nodes[0].storage_of(directory);
            storage.map(|storage| storage.at.clone())
        };
        assert_eq!(at("/srv/a/b").as_deref(), Some("/srv"));
        assert_eq!(at("/mnt").as_deref(), Some("/mnt"));
        assert_eq!(at("/mntx"), None);
    }
}
