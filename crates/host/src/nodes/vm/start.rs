//! From a planned VM to a guest whose agent answers and whose addresses are usable.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use latlab_model::kinds::{Bind, GuestStart, NetBackend, StorageType};
use latlab_model::plan::{NodePlan, StoragePlan, VM_MEMORY, VmPlan};
use latlab_model::snapshot::Snapshot;

use super::accelerator::Accelerator;
use super::cards;
use super::channel::{Channel, Moving};
use super::clone;
use super::copy;
use super::disk::Disk;
use super::dpdk;
use super::error;
use super::fingerprint;
use super::guest::Vm;
use super::initramfs::drives_cards;
use super::kernel::Kernel;
use super::migrate;
use super::network;
use super::nic::{self, Nic, Served};
use super::pin;
use super::qemu::{Origin, VmConfig};
use super::share::{Access, GuestDisks, Share};
use super::snapshot;
use super::state;
use super::template::Templates;
use super::tuned;
use crate::images::RootView;
use crate::links::NicBackend;
use crate::nodes::driver::{Moved, Node, Prepared, Start, Switch, Target};
use crate::nodes::session::Error;
use crate::sys::cgroup_entry::CgroupEntry;
use crate::sys::named::HOSTS;
use crate::sys::process::ProcessId;

/// Seconds a guest may take to boot.
pub(crate) const BOOT_VARIABLE: &str = "LATLAB_BOOT_TIMEOUT";

/// A guest that does not answer by then is broken: under software emulation a boot takes a few
/// seconds, and several at once on few CPUs take that many times as long. Where that is not
/// enough, [`BOOT_VARIABLE`] allows more.
const BOOT_TIMEOUT: Duration = Duration::from_secs(120);

/// A QEMU that a guest moves to waits for the daemons of its cards, one of which may have ended meanwhile.
const TARGET_TIMEOUT: Duration = Duration::from_secs(30);

/// A virtual machine whose image and kernel are there.
pub(super) struct PreparedVm {
    pub plan: VmPlan,
    pub root: RootView,
    /// The images of root and modules, where it has them on disks.
    pub disks: Option<GuestDisks>,
    pub kernel: Kernel,
    pub initramfs: PathBuf,
    pub templates: Arc<Templates>,
    /// Directories of the host seen inside.
    pub binds: Vec<Bind>,
    /// The directory of the guest that it starts as a copy of.
    pub snapshot: Option<PathBuf>,
}

impl Prepared for PreparedVm {
    fn check(&self) -> Result<(), Error> {
        match &self.snapshot {
            Some(directory) => copy::open(directory).map(drop),
            None => Ok(()),
        }
    }

    fn root(&mut self) -> Option<&mut RootView> {
        Some(&mut self.root)
    }

    fn kernel(&self) -> Option<String> {
        let Kernel {
            release, origin, ..
        } = &self.kernel;
        Some(format!("{release} ({origin})"))
    }

    fn start(&self, start: &Start<'_>) -> Result<Option<ProcessId>, Error> {
        let node = &start.node;
        let entry = start.cgroup.entry()?;
        let vhost = self.vhost(&start.backends)?;
        let images = images(node)?;
        let config = VmConfig {
            storage: Self::disks_of(start, &images),
            ..self.config(start, &start.backends, &vhost)?
        };
        let timeout = boot_timeout();
        let (vm, channel) = match &self.snapshot {
            Some(directory) => copy::start(&config, Some(&entry), node, directory, timeout)?,
            None => self.start_new(&config, &entry, start, timeout)?,
        };
        if start.inside.is_some() {
            tuned::apply(&channel)?;
        }
        // Once it is up: until then nothing is measured, and QEMU is sure to answer.
        if let Some(place) = &start.place {
            pin::pin(&vm, place)?;
        }
        node.channels.insert(&node.plan.name, channel);
        Ok(Some(vm.id()))
    }

    fn restore(
        &self,
        start: &Start<'_>,
        saved: &Snapshot,
        from: &Path,
    ) -> Result<Option<ProcessId>, Error> {
        let node = &start.node;
        let entry = start.cgroup.entry()?;
        let former = Vm::attach(&node.plan.name, &node.dir, node.process()?);
        let former = former.map_err(|_| error::Error::CardsGone)?;
        let backends = cards::taken_from(&former, &self.plan.net, &start.backends)?;
        let vhost = self.vhost(&backends)?;
        let config = self.config(start, &backends, &vhost)?;
        copy::check(&config, saved, node)?;
        let state = copy::state(from)?;
        former.end()?;
        let timeout = boot_timeout();
        let vm = snapshot::load(&config, Some(&entry), &state, timeout)?;
        let pinned = start.place.as_ref().map(|place| pin::pin(&vm, place));
        let pinned = pinned.transpose();
        pinned.map_err(|error| vm.end_because(error))?;
        let channel = copy::go_on(&vm, &saved.saved_as, node, timeout);
        let channel = channel.map_err(|error| vm.end_because(error))?;
        node.channels.insert(&node.plan.name, channel);
        Ok(Some(vm.id()))
    }

    fn migrate(
        &self,
        start: &Start<'_>,
        target: &Target<'_>,
        switch: &mut dyn Switch,
    ) -> Result<Moved, Error> {
        let node = &start.node;
        let entry = start.cgroup.entry()?;
        let source = Vm::attach(&node.plan.name, &node.dir, node.process()?)?;
        let noted = fingerprint::noted(&node.dir)?.ok_or(error::Error::Shares)?;
        if !state::can_copy_running(&mut source.qmp()?, self.plan.is_emulated())? {
            return Err(error::Error::Untracked.into());
        }
        let backends = cards::taken_from(&source, &self.plan.net, target.backends)?;
        let vhost = self.vhost(&backends)?;
        let (ours, theirs) =
            UnixStream::pair().map_err(error::Error::io("pair", Path::new("sockets")))?;
        let config = VmConfig {
            dir: target.dir.to_path_buf(),
            origin: Origin::Saved {
                state: theirs.as_fd(),
                waits: false,
            },
            ..self.config(start, &backends, &vhost)?
        };
        fingerprint::check(&config, &noted)?;
        let new = Vm::start(&config, Some(&entry))?;
        drop(theirs);
        let ready = || -> Result<_, error::Error> {
            // QEMU listens from its start, and answers when its devices are there.
            drop(new.qmp_within(TARGET_TIMEOUT)?);
            if let Some(place) = &start.place {
                pin::pin(&new, place)?;
            }
            Ok(())
        };
        ready().map_err(|error| new.end_because(error))?;
        let channel = node.channels.known(&node.plan.name);
        let follower = channel
            .as_ref()
            .map(|channel| channel.begin_move(target.dir));
        let follower = follower.transpose();
        let follower = follower.map_err(|error| new.end_because(error.into()))?;
        let moved = migrate::run(&source, &new, &ours, switch)?;
        // The guest is the target's now, whatever else goes wrong.
        let followed = follower.map_or(Ok(()), Moving::finish);
        let followed = followed.err().map(|error| error.to_string());
        let ended = source.end().err().map(|error| error.to_string());
        Ok(Moved {
            trouble: moved.trouble.or(followed).or(ended),
            ..moved
        })
    }
}

impl PreparedVm {
    /// Starts a guest that takes its network from the lab for the first time.
    fn start_new(
        &self,
        config: &VmConfig<'_>,
        entry: &CgroupEntry,
        start: &Start<'_>,
        timeout: Duration,
    ) -> Result<(Vm, Channel), Error> {
        let node = &start.node;
        let (vm, channel) = match self.plan.start {
            GuestStart::Clone => clone::start(config, Some(entry), &self.templates, timeout)?,
            _ => {
                let vm = Vm::start(config, Some(entry))?;
                let channel = vm.channel(timeout)?;
                (vm, channel)
            }
        };
        // The lab may say itself what is at the place of its hosts file.
        let mut targets = self.binds.iter().map(|bind| Path::new(&bind.target));
        let is_bound = targets.any(|target| Path::new(HOSTS).starts_with(target));
        let hosts = (!is_bound).then(|| node.hosts_file());
        // Cards that its programs drive are gone from the guest's interfaces then.
        dpdk::set_up(&channel, node, &start.backends)?;
        network::set_up(&channel, node, &start.backends, hosts)?;
        Ok((vm, channel))
    }

    fn config<'a>(
        &self,
        start: &'a Start<'_>,
        backends: &'a [NicBackend],
        vhost: &'a [Vec<OwnedFd>],
    ) -> Result<VmConfig<'a>, Error> {
        let node = &start.node;
        let interfaces = node.plan.interfaces.iter();
        let nics = interfaces.zip(backends).zip(vhost);
        Ok(VmConfig {
            name: node.plan.name.clone(),
            lab: node.lab_id.to_string(),
            vcpus: node.plan.vcpus(),
            topology: self.plan.topology,
            memory_bytes: node.plan.memory.unwrap_or(VM_MEMORY).0,
            memory: self.plan.memory,
            hardware: self.plan.hardware.clone(),
            iommu: drives_cards(node.plan),
            kernel: self.kernel.clone(),
            initramfs: self.initramfs.clone(),
            agent: node.agent.to_path_buf(),
            boot_parameters: self.plan.boot.clone(),
            nics: nics
                .map(|((interface, backend), vhost)| Nic {
                    mac: interface.mac.0,
                    shape: self.plan.net,
                    served: match backend {
                        NicBackend::Tap(queues) => Served::Taps {
                            queues: queues.iter().map(AsFd::as_fd).collect(),
                            vhost: vhost.iter().map(AsFd::as_fd).collect(),
                        },
                        NicBackend::VhostUser(socket) => Served::VhostUser(socket),
                        NicBackend::Card(card) => Served::Hardware(card),
                    },
                })
                .collect(),
            root: self.image(self.root.dir.clone(), "/".into()),
            shares: self.shares(start)?,
            disks: self.disks.clone(),
            storage: Vec::new(),
            scratch: scratch(node.plan),
            dir: node.dir.clone(),
            accelerator: Accelerator::of(self.plan.acceleration),
            origin: Origin::Boot,
        })
    }

    /// For each interface an open `/dev/vhost-net` for each of its queues, where the host's kernel is to serve them.
    /// QEMU, which is not root, could not open it.
    fn vhost(&self, backends: &[NicBackend]) -> Result<Vec<Vec<OwnedFd>>, Error> {
        let is_vhost = self.plan.net.backend == NetBackend::Vhost;
        let of_card = |backend: &NicBackend| match backend {
            NicBackend::Tap(queues) if is_vhost => {
                queues.iter().map(|_| nic::open_vhost()).collect()
            }
            NicBackend::Tap(_) | NicBackend::VhostUser(_) | NicBackend::Card(_) => Ok(Vec::new()),
        };
        backends
            .iter()
            .map(|backend| Ok(of_card(backend)?))
            .collect()
    }

    /// A part of the image at its place in the guest.
    fn image(&self, source: PathBuf, target: String) -> Share {
        let access = if self.root.of_host {
            Access::Everybody
        } else {
            Access::Read
        };
        let covered = self.root.fresh.iter().chain(&self.root.hidden);
        let covered = covered.filter_map(|path| path.strip_prefix(&target).ok());
        let covered = covered.map(Path::to_owned).collect();
        Share {
            covered,
            ..Share::new(source, target, access)
        }
    }

    fn shares(&self, start: &Start<'_>) -> Result<Vec<Share>, Error> {
        let below = self.root.submounts.iter();
        let below = below.map(|mount| self.image(mount.clone(), mount.display().to_string()));
        let bound = self.binds.iter().map(|bind| {
            let access = if bind.read_only {
                Access::Read
            } else {
                Access::Write
            };
            Share::new(&bind.source, &bind.target, access)
        });
        let inside = start.inside.as_ref();
        let inside = inside
            .map(|profile| tuned::share(profile, &start.node.dir, start.node.agent))
            .transpose()?;
        let held = start.node.held();
        let volumes = held
            .iter()
            .filter(|held| held.plan.kind == StorageType::Volume);
        let volumes = volumes.map(|held| Share::new(held.files(), &held.plan.at, Access::Write));
        let all = below.chain(bound).chain(volumes).chain(inside);
        Ok(all.collect())
    }

    /// The guest's disks, with their images in the same order.
    fn disks_of<'a>(start: &Start<'_>, images: &'a [File]) -> Vec<Disk<'a>> {
        let of = |(storage, image): (&StoragePlan, &'a File)| {
            let shape = storage.guest?;
            let at = storage.at.clone();
            let image = image.as_fd();
            Some(Disk { at, shape, image })
        };
        let disks = start.node.plan.storage.iter();
        let disks = disks.filter(|storage| storage.guest.is_some());
        disks.zip(images).filter_map(of).collect()
    }
}

/// The images of its disks, in their order.
fn images(node: &Node<'_>) -> Result<Vec<File>, Error> {
    let held = node.held();
    let disks = held.iter().filter(|held| held.plan.guest.is_some());
    disks.map(|held| Ok(held.open_image()?)).collect()
}

/// Directories of its storage in memory, with their sizes.
fn scratch(node: &NodePlan) -> Vec<(String, u64)> {
    let memory = node.storage.iter();
    let memory = memory.filter(|storage| storage.kind == StorageType::Tmpfs);
    let sized = memory.map(|storage| {
        let size = storage.size.map_or(0, |size| size.0);
        (storage.at.clone(), size)
    });
    sized.collect()
}

fn boot_timeout() -> Duration {
    let seconds = std::env::var(BOOT_VARIABLE)
        .ok()
        .and_then(|text| text.parse().ok());
    seconds.map_or(BOOT_TIMEOUT, Duration::from_secs)
}
