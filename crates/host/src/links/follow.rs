//! Overlay links follow a VM that moves from one host of the lab to another.
//!
//! ```text
//! prepare   new host: a port without frames        the address stays where it is, by an order
//! hold      all hosts: frames for the VM wait
//! flip      all hosts: the address is at the new host, by a newer order; what waits is sent, in order
//! finish    old host: the port is closed           configurations are written, for daemons that start again
//! ```
//!
//! An order has a revision, the host's time, so that a later move wins everywhere.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use latlab_model::kinds::Carrier;
use latlab_model::overlay::{Interface, InterfaceKind, Switches};
use latlab_model::plan::{InterfacePlan, LinkPlan, Medium, NodePlan, OverlayPlan, Plan};
use rustix::time::{ClockId, clock_gettime};

use super::control::Control;
use super::kinds::overlay::{self, NETWORK};

/// Longer than a VM stands still.
const HOLD_SECONDS: u32 = 20;

/// A VM's end of an overlay link whose daemon is to be another one.
pub(crate) struct Follower {
    /// The daemons of the link, by the end that each serves.
    daemons: Vec<Daemon>,
    carrier: Carrier,
    mac: String,
    port: String,
    interface: Interface,
    from: usize,
    to: usize,
    revision: u64,
}

struct Daemon {
    control: Control,
    config: PathBuf,
}

impl Follower {
    /// Connects to the daemons of the link of an interface; none where the link is no overlay. `from` and `to` are the
    /// nodes whose hosts the VM leaves and comes to, `lab` the lab's volatile directory.
    pub(crate) fn open(
        plan: &Plan,
        node: &NodePlan,
        interface: &InterfacePlan,
        from: usize,
        to: usize,
        lab: &Path,
    ) -> Result<Option<Follower>, String> {
        let link = &plan.links[interface.link];
        let Medium::Overlay(overlay) = &link.medium else {
            return Ok(None);
        };
        if overlay.carrier == Carrier::Local {
            let name = &link.name;
            return Err(format!(
                "link `{name}` has one host for all nodes; a `carrier` gives each node its own"
            ));
        }
        let (from, to) = (end_of(link, from)?, end_of(link, to)?);
        let daemon = |end: usize| -> io::Result<Daemon> {
            let directory = overlay::daemon_directory(lab, link, overlay, end);
            Ok(Daemon {
                control: Control::connect(&directory.join("control"))?,
                config: directory.join("config"),
            })
        };
        let daemons = (0..link.endpoints.len()).map(daemon);
        let daemons = daemons.collect::<io::Result<_>>();
        Ok(Some(Follower {
            daemons: daemons.map_err(|e| format!("link `{}`: {e}", link.name))?,
            carrier: overlay.carrier,
            mac: interface.mac.to_string(),
            port: overlay::port_name(interface.endpoint),
            interface: port(lab, link, overlay, node, interface, to),
            from,
            to,
            revision: now_ns(),
        }))
    }

    /// The socket at which the new host serves the VM's card.
    pub(crate) fn socket(&self) -> PathBuf {
        match &self.interface.kind {
            InterfaceKind::VhostUser { socket, .. } => socket.clone(),
            _ => PathBuf::new(),
        }
    }

    /// Makes the port at the new host. Frames for the VM go where it still is.
    pub(crate) fn prepare(&mut self) -> Result<(), String> {
        let socket = self.socket();
        let directory = socket.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(directory)
            .map_err(|e| format!("cannot make {}: {e}", directory.display()))?;
        let stay = self.moved(self.from, self.to, self.revision);
        let add = format!("add interface {} {}", self.port, self.interface);
        let to = self.to;
        self.say(to, &stay)?;
        self.say(to, &add)
    }

    pub(crate) fn hold(&mut self) -> Result<(), String> {
        let line = format!("hold {} for {HOLD_SECONDS}s", self.mac);
        self.say_all(|_| line.clone())
    }

    /// Sends frames for the VM to its new host: those that waited, then all others.
    pub(crate) fn flip(&mut self) -> Result<(), String> {
        let revision = self.revision + 1;
        let lines: Vec<String> = (0..self.daemons.len())
            .map(|at| self.moved(self.to, at, revision))
            .collect();
        // The new host first: others send to it.
        let to = self.to;
        self.say(to, &lines[to])?;
        for at in (0..lines.len()).filter(|at| *at != to) {
            self.say(at, &lines[at])?;
        }
        let release = format!("release {}", self.mac);
        self.say_all(|_| release.clone())
    }

    /// Closes the port at the old host, and writes the configurations as they are now.
    pub(crate) fn finish(&mut self) -> Result<(), String> {
        let delete = format!("delete interface {}", self.port);
        self.say(self.from, &delete)?;
        for at in [self.from, self.to] {
            self.write_config(at)?;
        }
        Ok(())
    }

    /// Leaves all as it was before. An error here would hide the one that led here.
    pub(crate) fn undo(&mut self) {
        let release = format!("release {}", self.mac);
        for at in 0..self.daemons.len() {
            // Refused where nothing was held.
            let _ = self.say(at, &release);
        }
        let _ = self.say(self.to, &format!("delete interface {}", self.port));
    }

    /// The order at host `at` for a VM that is at host `place`.
    fn moved(&self, place: usize, at: usize, revision: u64) -> String {
        let to = match self.carrier {
            _ if place == at => format!("interface {}", self.port),
            Carrier::Direct => format!("link {}", overlay::WIRE),
            _ => format!("link {}", overlay::peer_link(place)),
        };
        format!(
            "move {} to {to} network {NETWORK} revision {revision}",
            self.mac
        )
    }

    fn say(&mut self, at: usize, line: &str) -> Result<(), String> {
        let said = self.daemons[at].control.say(line);
        said.map(drop)
            .map_err(|e| format!("overlay daemon {at}: {e}"))
    }

    fn say_all(&mut self, line: impl Fn(usize) -> String) -> Result<(), String> {
        (0..self.daemons.len()).try_for_each(|at| self.say(at, &line(at)))
    }

    /// A daemon that is started again begins with its configuration.
    fn write_config(&mut self, at: usize) -> Result<(), String> {
        let daemon = &mut self.daemons[at];
        let written = daemon.control.say("show").and_then(|lines| {
            let new = daemon.config.with_extension("new");
            fs::write(&new, lines.join("\n") + "\n")?;
            fs::rename(&new, &daemon.config)
        });
        written.map_err(|e| format!("overlay daemon {at}: {e}"))
    }
}

fn end_of(link: &LinkPlan, node: usize) -> Result<usize, String> {
    let mut ends = link.endpoints.iter();
    let name = &link.name;
    ends.position(|end| end.node == node)
        .ok_or_else(|| format!("the node to whose host it would move is not on link `{name}`"))
}

fn port(
    lab: &Path,
    link: &LinkPlan,
    overlay: &OverlayPlan,
    node: &NodePlan,
    interface: &InterfacePlan,
    host: usize,
) -> Interface {
    Interface {
        network: NETWORK.into(),
        kind: InterfaceKind::VhostUser {
            socket: overlay::socket_at(lab, link, overlay, interface.endpoint, host),
            client: false,
            queues: node.body.queues(),
            switches: Switches::default(),
        },
        macs: BTreeSet::from([interface.mac]),
        mtu: u16::try_from(interface.mtu).unwrap_or(u16::MAX),
        mode: None,
    }
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
