//! Overlay links follow a VM or a container that moves from one host of the lab to another.
//!
//! ```text
//! prepare   new host: a port, whose frames wait until a VM is there; the address stays where it is, by an order
//!           old host: frames wait from the moment on at which a VM stops its rings
//! a VM:
//! flip      others:   frames for the VM wait
//!           old host: what waits goes to the new one, by a newer order
//!           others:   the same, behind it
//! a container, which has no rings:
//! hold      all hosts: frames wait
//! turn      all hosts: the address is at the new host, by a newer order; the old cable is cut both ways
//! release   all hosts: what waits is sent
//! finish    old host: the port is closed           configurations are written, for daemons that start again
//! ```
//!
//! The flip happens while the new QEMU loads the VM: what comes meanwhile waits beside its rings. An order has a revision,
//! the host's time, so that a later move wins everywhere.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use latlab_model::kinds::Carrier;
use latlab_model::overlay::{Interface, InterfaceKind};
use latlab_model::plan::{InterfacePlan, LinkPlan, Medium, NodePlan, Plan};
use rustix::time::{ClockId, clock_gettime};

use super::control::Control;
use super::kinds::overlay::{self, NETWORK};
use super::netns_handle::port;

/// Longer than a VM stands still.
const HOLD_SECONDS: u32 = 20;
/// A VM takes what waited for it a moment after it runs again, on a machine that is not overloaded.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(1);

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
    /// Hosts have been told the new place of the address.
    is_turned: bool,
    /// Nothing is to be undone.
    is_undone: bool,
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
        if !overlay.has_hosts() {
            let name = &link.name;
            return Err(format!(
                "link `{name}` has one host for all nodes; a `carrier` gives each node its own"
            ));
        }
        let (from, to) = (end_of(link, from)?, end_of(link, to)?);
        let end = interface.endpoint;
        let kind = match node.kind().is_guest() {
            true => overlay::served(node, overlay::socket_at(lab, link, overlay, end, to)),
            false => overlay::plugged_in(port(end)),
        };
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
            port: port(end),
            interface: overlay::interface(node, interface, kind),
            from,
            to,
            revision: now_ns(),
            is_turned: false,
            is_undone: false,
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
        if let InterfaceKind::VhostUser { socket, .. } = &self.interface.kind {
            let directory = socket.parent().unwrap_or(Path::new("/"));
            fs::create_dir_all(directory)
                .map_err(|e| format!("cannot make {}: {e}", directory.display()))?;
        }
        let stay = self.moved(self.from, self.to, self.revision);
        let add = format!("add interface {} {}", self.port, self.interface);
        let (from, to) = (self.from, self.to);
        self.say(to, &stay)?;
        self.say(to, &add)?;
        if self.has_rings() {
            let wait = format!("{} when-stopped {}", self.hold_line(), self.port);
            self.say(to, &wait)?;
            self.say(from, &wait)?;
        }
        Ok(())
    }

    fn has_rings(&self) -> bool {
        matches!(self.interface.kind, InterfaceKind::VhostUser { .. })
    }

    fn hold_line(&self) -> String {
        format!("hold {} for {HOLD_SECONDS}s", self.mac)
    }

    /// Frames wait even when latlab is killed: without the container, its new namespace would answer them with resets.
    pub(crate) fn hold(&mut self) -> Result<(), String> {
        let line = format!("{} on-close stay", self.hold_line());
        self.say_all(&line)
    }

    /// Has all hosts know the address at its new host, that host first: others send to it. The old one drops what the
    /// node still sends there.
    pub(crate) fn turn(&mut self) -> Result<(), String> {
        self.is_turned = true;
        let (to, revision) = (self.to, self.revision + 1);
        let rest = (0..self.daemons.len()).filter(|at| *at != to);
        for at in [to].into_iter().chain(rest) {
            let line = self.moved(to, at, revision);
            self.say(at, &line)?;
        }
        Ok(())
    }

    /// Sends what waits.
    pub(crate) fn release(&mut self) -> Result<(), String> {
        let line = format!("release {}", self.mac);
        self.say_all(&line)
    }

    fn say_all(&mut self, line: &str) -> Result<(), String> {
        (0..self.daemons.len()).try_for_each(|at| self.say(at, line))
    }

    /// Sends frames for the VM to its new host: those that waited at the old one, then all others. They wait there until
    /// the VM runs. A daemon that fails does not keep the others from it.
    pub(crate) fn flip(&mut self) -> Result<(), String> {
        let (from, to, revision) = (self.from, self.to, self.revision + 1);
        let hold = self.hold_line();
        let release = format!("release {}", self.mac);
        let others: Vec<usize> = (0..self.daemons.len()).filter(|at| *at != from).collect();
        let mut lines: Vec<(usize, String)> = Vec::new();
        lines.extend(others.iter().map(|at| (*at, hold.clone())));
        // The new host first: others send to it. Frames from the old one do not wait there once more.
        lines.push((to, self.moved(to, to, revision)));
        lines.push((from, self.moved(to, from, revision)));
        lines.push((from, release.clone()));
        for at in others {
            if at != to {
                lines.push((at, self.moved(to, at, revision)));
            }
            lines.push((at, release.clone()));
        }
        self.is_turned = true;
        let said = lines.iter().map(|(at, line)| self.say(*at, line));
        said.fold(Ok(()), Result::and)
    }

    /// Closes the port at the old host once the VM has what waited for it, and writes the configurations as they are
    /// now.
    pub(crate) fn finish(&mut self) -> Result<(), String> {
        self.await_delivery()?;
        let delete = format!("delete interface {}", self.port);
        self.say(self.from, &delete)?;
        self.write_configs()
    }

    /// Frames at the new host leave as soon as the VM's rings run there: a moment after it was told to.
    fn await_delivery(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + DELIVERY_TIMEOUT;
        let (to, mac) = (self.to, self.mac.clone());
        let waits = |lines: Vec<String>| {
            let mut own = lines.iter().filter(|line| line.starts_with(&mac));
            own.any(|line| !line.contains(" frames 0 "))
        };
        while waits(self.ask(to, "list holds")?) {
            if Instant::now() >= deadline {
                return Err(format!("frames for {mac} still wait at its new host"));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Leaves all as it was before. An error here would hide the one that led here.
    pub(crate) fn undo(&mut self) {
        if std::mem::replace(&mut self.is_undone, true) {
            return;
        }
        let (from, to, revision) = (self.from, self.to, self.revision + 2);
        // The old host first: others send to it. Its frames go to the VM, then those of the others.
        let rest = (0..self.daemons.len()).filter(|at| *at != from);
        for at in [from].into_iter().chain(rest) {
            if self.is_turned {
                let back = self.moved(from, at, revision);
                let _ = self.say(at, &back);
            }
            // Refused where nothing is held.
            let _ = self.say(at, &format!("release {}", self.mac));
        }
        let _ = self.say(to, &format!("delete interface {}", self.port));
    }

    /// Has all hosts know the address where the node goes on after a move that was cut off, sends what waits there, and
    /// closes its other port. Fails when a host is not told.
    pub(crate) fn mend(&mut self, is_moved: bool) -> Result<(), String> {
        let (place, other) = match is_moved {
            true => (self.to, self.from),
            false => (self.from, self.to),
        };
        if is_moved {
            // Its daemon may have been started again since. Refused where the port is there.
            let add = format!("add interface {} {}", self.port, self.interface);
            let _ = self.say(place, &add);
        }
        // That host first: others send to it.
        let rest = (0..self.daemons.len()).filter(|at| *at != place);
        for at in [place].into_iter().chain(rest) {
            let order = self.moved(place, at, self.revision);
            self.say(at, &order)?;
            // Refused where nothing is held.
            let _ = self.say(at, &format!("release {}", self.mac));
        }
        // Refused where it is gone already.
        let _ = self.say(other, &format!("delete interface {}", self.port));
        self.write_configs()
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
        self.ask(at, line).map(drop)
    }

    fn ask(&mut self, at: usize, line: &str) -> Result<Vec<String>, String> {
        let said = self.daemons[at].control.say(line);
        said.map_err(|e| format!("overlay daemon {at}: {e}"))
    }

    /// Daemons that are started again begin with their configurations.
    fn write_configs(&mut self) -> Result<(), String> {
        for at in [self.from, self.to] {
            let daemon = &mut self.daemons[at];
            let written = daemon.control.say("show").and_then(|lines| {
                let new = daemon.config.with_extension("new");
                fs::write(&new, lines.join("\n") + "\n")?;
                fs::rename(&new, &daemon.config)
            });
            written.map_err(|e| format!("overlay daemon {at}: {e}"))?;
        }
        Ok(())
    }
}

fn end_of(link: &LinkPlan, node: usize) -> Result<usize, String> {
    let mut ends = link.endpoints.iter();
    let name = &link.name;
    ends.position(|end| end.node == node)
        .ok_or_else(|| format!("the node to whose host it would move is not on link `{name}`"))
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
