//! The guest's first file system: the agent as `/init` and the modules it loads, in a `newc` cpio
//! archive written here.
//!
//! The archive is cached under a digest of its content, so a thousand guests share one file and a new
//! build of the agent makes a new one. It is not compressed: it lives on this machine's disk and in its
//! page cache, and the guest would pay for decompressing it.

use std::fs;
use std::path::{Path, PathBuf};

use latlab_model::kinds::{DiskDevice, DpdkDriver, GuestRoot};
use latlab_model::plan::NodePlan;

use super::bzimage;
use super::cpio::{Archive, FILE};
use super::kernel::{Kernel, Transport};
use super::modules::{self, Modules};
use crate::sys;
use crate::sys::cached;

const PREFIX: &str = "initramfs-";
/// How many are kept, those that were used last. Each takes about 5 MB.
const KEPT: usize = 16;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "the agent {} is not a statically linked x86-64 program; build it with `cargo build` from the \
         workspace's root, whose .cargo/config.toml says how",
        path.display()
    )]
    Agent { path: PathBuf },
    #[error(transparent)]
    Modules(#[from] modules::Error),
    #[error(transparent)]
    Sys(#[from] sys::Error),
}

/// The checksums of ext4, which it asks the kernel's cipher modules for by name.
const CHECKSUMS: &str = "crc32c_generic";

/// Needs of a guest that bring modules beyond those of every guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GuestModules {
    pub root: GuestRoot,
    /// Storage is on a disk of virtio-blk.
    pub block: bool,
    /// Storage is on a disk of virtio-scsi.
    pub scsi: bool,
    /// Programs drive network cards.
    pub vfio: bool,
}

impl From<GuestRoot> for GuestModules {
    fn from(root: GuestRoot) -> Self {
        Self {
            root,
            block: false,
            scsi: false,
            vfio: false,
        }
    }
}

impl GuestModules {
    /// Those for a VM's root, disks and DPDK.
    pub(crate) fn of(node: &NodePlan, root: GuestRoot) -> Self {
        let disks = node.storage.iter().filter_map(|storage| storage.guest);
        let devices: Vec<DiskDevice> = disks.map(|disk| disk.device).collect();
        Self {
            root,
            block: devices.contains(&DiskDevice::VirtioBlk),
            scsi: devices.contains(&DiskDevice::VirtioScsi),
            vfio: drives_cards(node),
        }
    }
}

/// Whether programs of a VM drive its cards.
pub(super) fn drives_cards(node: &NodePlan) -> bool {
    let dpdk = node.dpdk.as_ref();
    dpdk.is_some_and(|dpdk| dpdk.driver == DpdkDriver::Vfio)
}

/// Makes (or finds) the initramfs for a kernel. Fails when the agent is none, a module is missing, or the cache cannot
/// be written.
pub fn prepare(
    agent: &Path,
    kernel: &Kernel,
    modules: impl Into<GuestModules>,
    cache: &Path,
) -> Result<PathBuf, Error> {
    let mut archive = begin(agent)?;
    if let Some(dir) = &kernel.modules {
        let all = Modules::open(dir)?;
        let mut wanted = wanted_modules(kernel.transport, modules.into());
        // Newer kernels have the checksums of ext4 built in.
        wanted.retain(|name| *name != CHECKSUMS || all.has(name));
        add_modules(&mut archive, &all, &wanted)?;
    }
    let bytes = archive.finish();
    let digest = bzimage::digest(&bytes);
    let path = cache.join(format!("{PREFIX}{}.cpio", &digest[..32]));
    // The name is a digest of the content, so any writer wrote the same.
    let is_there = fs::metadata(&path).is_ok_and(|found| found.len() == bytes.len() as u64);
    // Another latlab may remove it between the two, as one that was not used for long.
    if is_there && cached::mark_used(&path).is_ok() {
        return Ok(path);
    }
    fs::create_dir_all(cache).map_err(sys::Error::of("make directory", cache.display()))?;
    sys::file::write_atomically(&path, &bytes, 0o644)?;
    // One that cannot be removed takes room only.
    let _ = cached::remove_oldest(cache, KEPT, |path| {
        let name = path.file_name()?.to_str()?;
        name.starts_with(PREFIX).then(|| cached::used(path))?
    });
    Ok(path)
}

/// The beginning of every initramfs: the agent, and the places that it needs.
pub(crate) fn begin(agent: &Path) -> Result<Archive, Error> {
    let program = fs::read(agent).map_err(sys::Error::of("read the agent", agent.display()))?;
    if !is_static_program(&program) {
        return Err(Error::Agent {
            path: agent.to_owned(),
        });
    }
    let mut archive = Archive::default();
    for directory in ["dev", "proc", "sys", "modules"] {
        archive.directory(directory);
    }
    archive.console();
    archive.program("init", &program);
    Ok(archive)
}

/// Adds modules and what they need, named in the order in which the agent loads them.
pub(crate) fn add_modules(
    archive: &mut Archive,
    all: &Modules,
    wanted: &[&str],
) -> Result<(), Error> {
    for (index, module) in all.in_order(wanted)?.iter().enumerate() {
        let name = format!("modules/{index:02}-{}.ko", module.name);
        archive.add(&name, FILE, &module.bytes, (0, 0));
    }
    Ok(())
}

/// The modules that every guest needs first: its buses, its channel, its root, its
/// network cards.
fn wanted_modules(transport: Transport, modules: GuestModules) -> Vec<&'static str> {
    let mut wanted = vec!["virtio_pci", "virtio_console"];
    match (modules.root, transport) {
        (GuestRoot::Disk, _) => wanted.extend(["virtio_blk", "squashfs"]),
        (GuestRoot::Share, Transport::NineP) => wanted.extend(["9pnet_virtio", "9p"]),
        (GuestRoot::Share, Transport::VirtioFs) => wanted.push("virtiofs"),
    }
    wanted.extend(["overlay", "virtio_net"]);
    if modules.block {
        wanted.push("virtio_blk");
    }
    if modules.scsi {
        wanted.extend(["virtio_scsi", "sd_mod"]);
    }
    if modules.block || modules.scsi {
        wanted.extend([CHECKSUMS, "ext4"]);
    }
    if modules.vfio {
        wanted.extend(["vfio_iommu_type1", "vfio_pci"]);
    }
    wanted
}

/// An x86-64 ELF file that asks for no dynamic loader.
fn is_static_program(elf: &[u8]) -> bool {
    const PT_INTERP: u32 = 3;
    const X86_64: [u8; 2] = [62, 0];
    if !elf.starts_with(b"\x7fELF\x02\x01") || elf.get(18..20) != Some(&X86_64) {
        return false;
    }
    let table = || -> Option<[usize; 3]> {
        let field = |at: usize| {
            let bytes = elf.get(at..)?.first_chunk::<2>()?;
            Some(usize::from(u16::from_le_bytes(*bytes)))
        };
        let table = u64::from_le_bytes(*elf.get(0x20..)?.first_chunk::<8>()?);
        Some([usize::try_from(table).ok()?, field(0x36)?, field(0x38)?])
    };
    let Some([table, size, count]) = table() else {
        return false;
    };
    count > 0
        && (0..count).all(|index| {
            let header = elf.get(table.saturating_add(index * size)..);
            let kind = header.and_then(|header| header.first_chunk::<4>());
            kind.is_some_and(|kind| u32::from_le_bytes(*kind) != PT_INTERP)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_bring_their_drivers() {
        let of = |block, scsi| {
            let modules = GuestModules {
                block,
                scsi,
                ..GuestRoot::Share.into()
            };
            wanted_modules(Transport::NineP, modules)
        };
        assert!(!of(false, false).contains(&"ext4"));
        assert!(of(true, false).ends_with(&["virtio_blk", CHECKSUMS, "ext4"]));
        assert!(of(false, true).ends_with(&["virtio_scsi", "sd_mod", CHECKSUMS, "ext4"]));
    }

    #[test]
    fn only_a_static_program_is_an_agent() {
        let mut elf = b"\x7fELF\x02\x01".to_vec();
        elf.resize(0x40 + 56, 0);
        elf[18] = 62;
        elf[0x20] = 0x40;
        elf[0x36] = 56;
        elf[0x38] = 1;
        elf[0x40] = 1;
        assert!(is_static_program(&elf));
        elf[0x40] = 3;
        assert!(!is_static_program(&elf));
        assert!(!is_static_program(b"#!/bin/sh\n"));
        assert!(!is_static_program(&elf[..0x41]));
        elf[0x27] = 0xff;
        assert!(!is_static_program(&elf));
    }
}
