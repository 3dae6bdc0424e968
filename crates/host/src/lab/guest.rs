//! From a planned VM to a guest whose agent answers and whose addresses are usable.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use latlab_model::kinds::{Acceleration, Bind};
use latlab_model::plan::{NodePlace, NodePlan};
use latlab_wire::channel::{Interface, NetworkConfig, Route};

use super::deployed::NETWORK_TIMEOUT;
use super::error::BOOT_VARIABLE;
use super::inside::Inside;
use crate::cgroup::NodeCgroup;
use crate::images::RootView;
use crate::links::NicBackend;
use crate::nodes::session;
use crate::nodes::vm::channel::Channel;
use crate::nodes::vm::initramfs;
use crate::nodes::vm::kernel::Kernel;
use crate::nodes::vm::qemu::{Nic, Served, VmConfig};
use crate::nodes::vm::{Accelerator, Access, Share, Vm, pin};
use crate::sys::named::HOSTS;
use crate::sys::process::ProcessId;

/// A guest that does not answer by then is broken: under software emulation a boot takes a few
/// seconds, and several at once on few CPUs take that many times as long. Where that is not
/// enough, [`BOOT_VARIABLE`] allows more.
const BOOT_TIMEOUT: Duration = Duration::from_secs(120);
pub(super) struct Guest<'a> {
    pub node: &'a NodePlan,
    pub place: Option<NodePlace>,
    pub lab_id: &'a str,
    pub root: &'a RootView,
    /// Its kernel.
    pub kernel: &'a Kernel,
    pub dir: &'a Path,
    pub agent: &'a Path,
    /// Where packed initramfs are kept.
    pub cache: &'a Path,
    /// Directories of the host seen inside.
    pub binds: Vec<Bind>,
    /// Its hosts file, unless the lab binds another in its place.
    pub hosts: Option<String>,
    pub inside: Option<Inside>,
    /// The group of its processes.
    pub cgroup: &'a NodeCgroup,
}

impl Guest<'_> {
    /// Starts it and waits until it is ready. `backends` are the network sides of its interfaces,
    /// in their order.
    pub fn start(&self, backends: &[NicBackend]) -> Result<(ProcessId, Channel), session::Error> {
        let packed = initramfs::prepare(self.agent, self.kernel, self.cache)?;
        let nics = self.node.interfaces.iter().zip(backends);
        let config = VmConfig {
            name: self.node.name.clone(),
            lab: self.lab_id.to_string(),
            vcpus: self.node.vcpus(),
            topology: self.node.topology,
            memory_bytes: self.node.memory.map_or(512 << 20, |m| m.0),
            memory: self.node.guest_memory,
            kernel: self.kernel.clone(),
            initramfs: packed,
            agent: self.agent.to_path_buf(),
            boot_parameters: self.node.boot.clone(),
            nics: nics
                .map(|(i, backend)| Nic {
                    mac: i.mac.0,
                    served: match backend {
                        NicBackend::Tap(tap) => Served::Taps {
                            queues: vec![tap.as_fd()],
                            vhost: false,
                        },
                        NicBackend::VhostUser(socket) => Served::VhostUser(socket),
                    },
                })
                .collect(),
            root: self.image(self.root.dir.clone(), "/".into()),
            shares: self.shares()?,
            dir: self.dir.to_path_buf(),
            accelerator: match self.node.acceleration {
                Acceleration::Kvm => Accelerator::Kvm,
                Acceleration::Auto | Acceleration::Tcg => Accelerator::Tcg,
            },
        };
        let entry = self.cgroup.entry()?;
        let vm = Vm::start(&config, Some(&entry))?;
        let channel = vm.channel(boot_timeout())?;
        channel.configure_network(network(self.node), NETWORK_TIMEOUT)?;
        if let Some(hosts) = &self.hosts {
            channel.put(&mut hosts.as_bytes(), HOSTS, 0o644)?;
        }
        if let Some(inside) = &self.inside {
            inside.apply(&channel)?;
        }
        // Once it is up: until then nothing is measured, and QEMU is sure to answer.
        if let Some(place) = &self.place {
            pin::pin(&vm, place)?;
        }
        Ok((vm.id(), channel))
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

    fn shares(&self) -> Result<Vec<Share>, session::Error> {
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
        let inside = self.inside.as_ref();
        let inside = inside
            .map(|inside| inside.share(self.dir, self.agent))
            .transpose()?;
        Ok(below.chain(bound).chain(inside).collect())
    }
}

fn boot_timeout() -> Duration {
    let seconds = std::env::var(BOOT_VARIABLE)
        .ok()
        .and_then(|text| text.parse().ok());
    seconds.map_or(BOOT_TIMEOUT, Duration::from_secs)
}

fn network(node: &NodePlan) -> NetworkConfig {
    let interfaces = node.interfaces.iter().map(|i| Interface {
        mac: i.mac.0,
        name: i.name.clone(),
        mtu: Some(i.mtu),
        addresses: i
            .addresses
            .iter()
            .map(|a| (a.addr(), a.prefix_len()))
            .collect(),
    });
    let routes = node.interfaces.iter().flat_map(|i| {
        i.routes.iter().map(|r| Route {
            destination: (r.to.addr(), r.to.prefix_len()),
            gateway: Some(r.via),
            interface: Some(i.name.clone()),
        })
    });
    NetworkConfig {
        interfaces: interfaces.collect(),
        routes: routes.collect(),
    }
}
