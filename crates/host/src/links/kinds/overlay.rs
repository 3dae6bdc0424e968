//! `overlay`: latlab's own switch, a daemon of its own (`latlab-overlay`), started for the link.
//!
//! ```text
//! local      node ── port ─ daemon ─ port ── node                    all in @LINK
//! otherwise  node ── port ─ daemon ── under ── p0 ─ underlay ─ p1 ── under ── daemon ─ port ── node
//!            └───────── @LINK.0 ────────┘  └───────── @LINK ─────────┘ └───────── @LINK.1 ────────┘
//! ```
//!
//! A link to other machines is as a local one, and its daemon has sockets in the machine's own namespace:
//!
//! ```text
//! node ── port ─ daemon ═ UDP ═ other machines
//! └──── @LINK ────────┘ @host
//! ```
//!
//! A virtual machine's port is a socket of the vhost-user protocol, any other node's a veth or, where the
//! lab says `cable: netkit`, an end of a netkit pair. Its configuration is written beside its control socket, in the lab's volatile directory, below
//! `overlay/`. It carries the lab's label, so removing the lab's processes ends it, and everything
//! that it holds in the kernel lives in the link's namespaces.
//!
//! The agent's binary runs it (`respawn`): keeps the newest that it prints, and starts it again from its configuration
//! when it ended by itself, a few times a minute at most. What was changed by `latlab overlay` meanwhile is lost then.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ipnet::IpNet;
use latlab_model::kinds::{Cable, Carrier, HostTunnel};
use latlab_model::overlay::{
    Interface, InterfaceKind, Item, Link, LinkKind, Network, Overlay, Refusal, Switches,
};
use latlab_model::overlay::{UDP_PORT, VXLAN_PORT};
use latlab_model::plan::{InterfacePlan, LinkPlan, Medium, NodePlan, OverlayPlan};

use crate::links::attach;
use crate::links::builder::{End, LinkBuilder};
use crate::links::control::Control;
use crate::links::error::Error;
use crate::links::netns_handle::{NetnsHandle, port};
use crate::links::underlay::{UNDER, Underlay};
use crate::links::vm_end::{NicBackend, VmEnd};
use crate::programs;
use crate::sys::spawn::Spawn;

/// The name of a VM's socket in the directory of its port.
const SOCKET: &str = "socket";
/// The link to the only other host, with carrier `direct`.
pub(in crate::links) const WIRE: &str = "wire";
/// The one network of the link.
pub(in crate::links) const NETWORK: &str = "lan";
const VNI: u32 = 1;

/// How much of what a daemon says is kept at least; at most twice as much.
const LOG_BYTES: u64 = 1 << 20;

/// A daemon opens an interface in some 20 ms of CPU time, and other daemons of the lab start at the same time.
const TIMEOUT: Duration = Duration::from_secs(120);

pub(super) fn make(link: &LinkBuilder<'_>, plan: &OverlayPlan) -> Result<Vec<VmEnd>, Error> {
    let program = own_program(link, "latlab-overlay", "LATLAB_OVERLAY")?;
    if !plan.has_hosts() {
        let switch = Switch {
            program: &program,
            at: NetnsHandle::open(link, link.inside()?)?,
            name: switch_name(&link.plan().name, plan, 0),
            cable: plan.cable,
        };
        let tunnels = |overlay: &mut Overlay| match &plan.tunnel {
            Some(tunnel) => tunnels(overlay, plan.carrier, tunnel, &link.network.pin_of_host()),
            None => Ok(()),
        };
        return switch.start(link, link.ends(), tunnels);
    }
    let mut underlay = Underlay::make(link, plan.underlay_mtu)?;
    let mut backends = Vec::new();
    for end in link.ends() {
        let mut at = NetnsHandle::open(link, link.tunnel(end)?)?;
        underlay.plug_in(link, end, &plan.underlay, &mut at)?;
        let switch = Switch {
            program: &program,
            at,
            name: switch_name(&link.plan().name, plan, end),
            cable: plan.cable,
        };
        let carry = |overlay: &mut Overlay| carriers(overlay, plan, end);
        backends.extend(switch.start(link, end..end + 1, carry)?);
    }
    Ok(backends)
}

struct Switch<'a> {
    program: &'a Path,
    at: NetnsHandle,
    name: String,
    cable: Cable,
}

impl Switch<'_> {
    fn start(
        mut self,
        link: &LinkBuilder<'_>,
        ends: impl Iterator<Item = usize>,
        carry: impl FnOnce(&mut Overlay) -> Result<(), Refusal>,
    ) -> Result<Vec<VmEnd>, Error> {
        let directory = directory(link, &self.name);
        let failed = |path: &Path| {
            let (link, path) = (link.plan().name.clone(), path.to_path_buf());
            move |source| Error::File { link, path, source }
        };
        fs::create_dir_all(&directory).map_err(failed(&directory))?;
        let (vms, others): (Vec<End<'_>>, Vec<End<'_>>) =
            ends.map(|end| link.end(end)).partition(End::has_rings);
        for end in &vms {
            let own = directory.join(port(end.number));
            fs::create_dir_all(&own).map_err(failed(&own))?;
        }
        let ports: Vec<(End<'_>, String)> = others
            .into_iter()
            .map(|end| (end, port(end.number)))
            .collect();
        attach::pairs(link, &mut self.at, &ports, self.cable, None)?;

        let mut overlay = Overlay::default();
        let mut backends = Vec::new();
        let add = || -> Result<(), Refusal> {
            overlay.add(Item::Network(NETWORK.into(), Network::new(VNI)))?;
            for (end, device) in &ports {
                let own = interface(end.node, end.interface, plugged_in(device.clone()));
                overlay.add(Item::Interface(device.clone(), own))?;
            }
            for end in &vms {
                let port = port(end.number);
                // A directory of its own, which is all that its QEMU sees of this one.
                let socket = directory.join(&port).join(SOCKET);
                let own = interface(end.node, end.interface, served(end.node, socket.clone()));
                overlay.add(Item::Interface(port, own))?;
                backends.push(end.vm_end(NicBackend::VhostUser(socket)));
            }
            carry(&mut overlay)
        };
        add().map_err(|refusal| Error::Overlay {
            link: link.plan().name.clone(),
            log: vec![refusal.to_string()],
        })?;
        let config = directory.join("config");
        fs::write(&config, overlay.to_string()).map_err(failed(&config))?;
        start(link, self.program, &self.at, &directory)?;
        Ok(backends)
    }
}

/// The port of an interface.
pub(in crate::links) fn interface(
    node: &NodePlan,
    interface: &InterfacePlan,
    kind: InterfaceKind,
) -> Interface {
    // A node's address is known before it speaks, and is bound to it. A program of DPDK may forward others' frames.
    let is_bound = !node.is_past_kernel(&interface.name);
    Interface {
        network: NETWORK.into(),
        kind,
        macs: is_bound.then_some(interface.mac).into_iter().collect(),
        mtu: u16::try_from(interface.mtu).unwrap_or(u16::MAX),
        mode: None,
    }
}

/// A port that is the other end of a node's cable.
pub(in crate::links) fn plugged_in(device: String) -> InterfaceKind {
    InterfaceKind::Veth {
        device,
        netns: None,
    }
}

/// A port whose rings are served at a socket.
pub(in crate::links) fn served(node: &NodePlan, socket: PathBuf) -> InterfaceKind {
    InterfaceKind::VhostUser {
        socket,
        client: false,
        queues: node.body.queues(),
        switches: Switches::default(),
    }
}

/// Adds what joins the host of this end with the others.
fn carriers(overlay: &mut Overlay, plan: &OverlayPlan, end: usize) -> Result<(), Refusal> {
    if plan.carrier == Carrier::Direct {
        let kind = LinkKind::Direct {
            device: UNDER.into(),
            netns: None,
            network: NETWORK.into(),
        };
        return overlay.add(Item::Link(WIRE.into(), Link::new(kind)));
    }
    let port = match plan.carrier {
        Carrier::Udp => UDP_PORT,
        _ => VXLAN_PORT,
    };
    let at = |net: &IpNet| SocketAddr::new(net.addr(), port);
    let own = at(&plan.underlay[end]);
    for (peer, address) in plan.underlay.iter().enumerate() {
        if peer != end {
            let link = tunnel_to(plan.carrier, at(address), own, None);
            overlay.add(Item::Link(peer_link(peer), link))?;
        }
    }
    Ok(())
}

/// Adds the tunnels to other machines.
fn tunnels(
    overlay: &mut Overlay,
    carrier: Carrier,
    tunnel: &HostTunnel,
    netns: &Path,
) -> Result<(), Refusal> {
    for (host, remote) in &tunnel.remotes {
        let keys = tunnel.keys.as_ref();
        let public = keys.and_then(|keys| Some((keys, keys.public.get(host)?)));
        let link = match public {
            Some((keys, peer)) => with_network(LinkKind::Sealed {
                remote: *remote,
                local: Some(tunnel.local),
                netns: Some(netns.to_path_buf()),
                key: keys.private.clone(),
                peer: peer.clone(),
            }),
            None => tunnel_to(carrier, *remote, tunnel.local, Some(netns)),
        };
        overlay.add(Item::Link(format!("host-{host}"), link))?;
    }
    Ok(())
}

/// A tunnel whose sockets are in this namespace, or in the daemon's.
fn tunnel_to(
    carrier: Carrier,
    remote: SocketAddr,
    local: SocketAddr,
    netns: Option<&Path>,
) -> Link {
    let (local, netns) = (Some(local), netns.map(Path::to_path_buf));
    with_network(match carrier {
        Carrier::Udp => LinkKind::Udp {
            remote,
            local,
            netns,
        },
        _ => LinkKind::Vxlan {
            remote,
            local,
            netns,
        },
    })
}

/// A link of the one network: the other host gets nothing that is added to the daemon later.
fn with_network(kind: LinkKind) -> Link {
    Link {
        kind,
        networks: BTreeSet::from([NETWORK.into()]),
    }
}

fn directory(link: &LinkBuilder<'_>, name: &str) -> PathBuf {
    let lab = link.network.directory.parent();
    directory_in(lab.unwrap_or(&link.network.directory), name)
}

fn directory_in(lab: &Path, name: &str) -> PathBuf {
    lab.join("overlay").join(name)
}

/// The socket at which the daemon of end `host` serves the card of a VM whose end is `end`; none of a link of another
/// type. `lab` is the lab's volatile directory.
pub(super) fn vm_socket(lab: &Path, link: &LinkPlan, end: usize, host: usize) -> Option<PathBuf> {
    match &link.medium {
        Medium::Overlay(plan) => Some(socket_at(lab, link, plan, end, host)),
        _ => None,
    }
}

pub(in crate::links) fn socket_at(
    lab: &Path,
    link: &LinkPlan,
    plan: &OverlayPlan,
    end: usize,
    host: usize,
) -> PathBuf {
    let directory = daemon_directory(lab, link, plan, host);
    directory.join(port(end)).join(SOCKET)
}

/// The directory of the daemon that serves an end.
pub(in crate::links) fn daemon_directory(
    lab: &Path,
    link: &LinkPlan,
    plan: &OverlayPlan,
    end: usize,
) -> PathBuf {
    directory_in(lab, &switch_name(&link.name, plan, end))
}

/// The name of the link to the host of an end.
pub(in crate::links) fn peer_link(end: usize) -> String {
    format!("host{end}")
}

/// The name of the daemon that serves an end.
fn switch_name(link: &str, plan: &OverlayPlan, end: usize) -> String {
    match plan.has_hosts() {
        false => link.to_owned(),
        true => format!("{link}.{end}"),
    }
}

/// A binary of latlab's: beside its own, or where a variable says.
fn own_program(link: &LinkBuilder<'_>, name: &str, variable: &str) -> Result<PathBuf, Error> {
    let path = programs::latlab_program(name, variable);
    if path.is_file() {
        Ok(path)
    } else {
        Err(Error::NoOverlay {
            link: link.plan().name.clone(),
            path,
        })
    }
}

/// Starts the daemon and waits until it answers, which is when its ports are there.
fn start(
    link: &LinkBuilder<'_>,
    program: &Path,
    at: &NetnsHandle,
    directory: &Path,
) -> Result<(), Error> {
    let log_path = directory.join("log");
    let socket = directory.join("control");
    let config = directory.join("config");
    let bytes = LOG_BYTES.to_string();
    let arguments: [&OsStr; 8] = [
        "respawn".as_ref(),
        directory.as_os_str(),
        bytes.as_ref(),
        program.as_os_str(),
        "--config".as_ref(),
        config.as_os_str(),
        "--control".as_ref(),
        socket.as_os_str(),
    ];
    let agent = own_program(link, "latlab-agent", "LATLAB_AGENT")?;
    let daemon = Spawn::new(agent, &link.network.lab_id)
        .args(arguments)
        .netns(at.netns.as_fd())
        .session()
        .start()
        .map_err(link.failed())?;
    let end = Instant::now() + TIMEOUT;
    while !answers(&socket) {
        let ended = daemon.has_ended().unwrap_or(true);
        let is_late = Instant::now() > end;
        if ended || is_late {
            let mut log = said(&log_path);
            if log.is_empty() && is_late {
                log = vec![
                    format!("it does not answer after {} s", TIMEOUT.as_secs()),
                    "  hint: are the CPUs of the machine taken by something else?".into(),
                ];
            }
            return Err(Error::Overlay {
                link: link.plan().name.clone(),
                log,
            });
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

fn answers(socket: &Path) -> bool {
    let asked = Control::connect(socket).and_then(|mut control| control.say("list networks"));
    asked.is_ok()
}

/// The daemon's log: its errors are a line with the reason and one with a hint.
fn said(log: &Path) -> Vec<String> {
    let said = fs::read_to_string(log).unwrap_or_default();
    said.lines().take(2).map(str::to_owned).collect()
}
