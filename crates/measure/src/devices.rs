//! Devices under test that a measurement starts, and the routes that lead through them.
//!
//! Each is one process in its node that sets up, reports that it is ready, waits for the end of its input,
//! and reverts its changes. So it ends with the trial, or with latlab. The kernel's forwarders are shell
//! scripts with the commands that an administrator would type; latlab's are probes.

use std::io::{BufRead, BufReader, Write};
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use latlab_host::nodes::session::{Command, Session, Signaller};
use latlab_model::kinds::{DpdkDriver, Mac};
use latlab_model::plan::{DpdkPlan, EAL_VARIABLE, Plan};
use latlab_model::spec::{Device, Waypoint};

use crate::context::Context;
use crate::endpoint::{Endpoint, KILL, MAX_ERRORS, Output, read_all, strings, trimmed};
use crate::error::Error;
use crate::pin::{self, Pins};

/// A guest under software emulation loads modules, DPDK clears memory.
const SETUP_TIMEOUT: Duration = Duration::from_secs(60);
/// Timeout for a script to revert its changes.
const END_TIMEOUT: Duration = Duration::from_secs(20);
/// Output of a script that has set up.
const READY: &str = "latlab: ready";
/// Output of `dpdk-testpmd` that forwards.
const TESTPMD_READY: &str = "Press enter to exit";

#[derive(Default)]
pub(crate) struct Devices {
    // Fields are dropped in this order: routes before the devices they lead to.
    routes: Vec<Script>,
    kernels: Vec<Script>,
    own: Vec<(String, Endpoint)>,
}

impl Devices {
    /// Starts the device in each node between the endpoints, and routes packets through them.
    pub(crate) fn start(context: &Context<'_>, pins: Pins) -> Result<Devices, Error> {
        let mut devices = Devices::default();
        if context.measurement.device == Device::Lab {
            return Ok(devices);
        }
        let path = context.path();
        for nodes in path.windows(3) {
            let plan = context.lab.plan();
            let sides = plan
                .joined(nodes[0], nodes[1])
                .zip(plan.joined(nodes[1], nodes[2]));
            let Some(((_, near), (far, _))) = sides else {
                continue;
            };
            devices.start_one(context, nodes, (near, far), pins)?;
        }
        for (node, script) in routes(context, &path) {
            devices.routes.push(Script::start(context, &node, &script)?);
        }
        Ok(devices)
    }

    fn start_one(
        &mut self,
        context: &Context<'_>,
        nodes: &[Waypoint<'_>],
        (near, far): (&str, &str),
        pins: Pins,
    ) -> Result<(), Error> {
        let (m, node) = (context.measurement, nodes[1].node);
        let script = match m.device {
            Device::Lab => return Ok(()),
            Device::Bridge => bridge(near, far),
            Device::Route => forwarding(m.ip == 6, ""),
            Device::Nat => forwarding(m.ip == 6, &masquerade(m.ip == 6, far)),
            Device::Testpmd => match dpdk(context, node) {
                Some(dpdk) => {
                    let peers = peers(context.lab.plan(), dpdk, nodes);
                    testpmd_of_node(dpdk, (near, far), peers, pins.receiver)
                        .map_err(|reason| failed(node, reason))?
                }
                None => testpmd(near, far, pins.receiver),
            },
            Device::Xdp | Device::AfPacket | Device::AfXdp => {
                let (by, poll) = (m.device.word(), m.poll.word());
                let mut args = strings(&["layer2", "--in", near, "--out", far]);
                args.extend(strings(&["--by", by, "--poll", poll]));
                args.extend(pin::argument(pins.receiver));
                let mut device = Endpoint::start(context.lab, node, &args)?;
                device.ready()?;
                self.own.push((node.to_string(), device));
                return Ok(());
            }
        };
        self.kernels.push(Script::start(context, node, &script)?);
        Ok(())
    }

    /// Ends all devices; the output of latlab's own.
    pub(crate) fn stop(self, timeout: Duration) -> Result<Vec<(String, Output)>, Error> {
        for mut held in self.routes.into_iter().chain(self.kernels) {
            held.end()?;
        }
        let mut outputs = Vec::new();
        for (node, device) in self.own {
            outputs.push((node, device.stop(timeout)?));
        }
        Ok(outputs)
    }
}

/// Sets up, reports it, waits for the end of input, reverts.
fn script(set_up: &str, undo: &str) -> String {
    format!("set -e\ntrap '{undo}' EXIT\n{set_up}\necho '{READY}'\ncat >/dev/null\n")
}

fn bridge(near: &str, far: &str) -> String {
    let set_up = format!(
        "ip link add latlab-bridge type bridge stp_state 0 forward_delay 0\n\
         ip link set {near} master latlab-bridge\n\
         ip link set {far} master latlab-bridge\n\
         ip link set latlab-bridge up"
    );
    script(&set_up, "ip link del latlab-bridge")
}

fn forwarding(ipv6: bool, more: &str) -> String {
    let file = if ipv6 {
        "/proc/sys/net/ipv6/conf/all/forwarding"
    } else {
        "/proc/sys/net/ipv4/ip_forward"
    };
    let family = if ipv6 { "ip6" } else { "ip" };
    let table = match more {
        "" => String::new(),
        _ => format!("nft delete table {family} latlab-nat; "),
    };
    let set_up = format!("old=$(cat {file})\necho 1 > {file}\n{more}");
    script(&set_up, &format!("{table}echo $old > {file}"))
}

fn masquerade(ipv6: bool, far: &str) -> String {
    let family = if ipv6 { "ip6" } else { "ip" };
    format!(
        "nft add table {family} latlab-nat\n\
         nft add chain {family} latlab-nat out '{{ type nat hook postrouting priority srcnat ; }}'\n\
         nft add rule {family} latlab-nat out oifname {far} masquerade"
    )
}

/// DPDK's forwarder over packet sockets, in huge pages if enough are free. Its main thread only waits; both it
/// and the forwarding thread are put on the device's CPU.
fn testpmd(near: &str, far: &str, cpu: Option<u32>) -> String {
    let cpu = cpu.unwrap_or(0);
    format!(
        "free=$(awk '/^HugePages_Free/ {{ print $2 }}' /proc/meminfo)\n\
         pages=--no-huge\n\
         if [ \"${{free:-0}}\" -ge 128 ]; then pages=--in-memory; fi\n\
         exec stdbuf -oL dpdk-testpmd --lcores '(0,1)@{cpu}' $pages -m 256 --no-pci --no-telemetry --iova-mode=va \
         --vdev net_af_packet0,iface={near} --vdev net_af_packet1,iface={far} \
         -- --nb-cores=1 --forward-mode=io --total-num-mbufs=16384 2>&1"
    )
}

fn dpdk<'a>(context: &'a Context<'_>, node: &str) -> Option<&'a DpdkPlan> {
    context.lab.plan().node(node)?.dpdk.as_ref()
}

/// The Ethernet addresses to which a device sends on either side, where its ports are functions of cards: those take
/// only frames for themselves, and send only their own.
fn peers(plan: &Plan, dpdk: &DpdkPlan, nodes: &[Waypoint<'_>]) -> Option<(Mac, Mac)> {
    if dpdk.driver != DpdkDriver::Vfio {
        return None;
    }
    mac(plan, nodes[1], nodes[0]).zip(mac(plan, nodes[1], nodes[2]))
}

/// The Ethernet address of `neighbour` on its link to `node`.
fn mac(plan: &Plan, node: Waypoint<'_>, neighbour: Waypoint<'_>) -> Option<Mac> {
    let (_, name) = plan.joined(node, neighbour)?;
    let mut interfaces = plan.node(neighbour.node)?.interfaces.iter();
    let found = interfaces.find(|interface| interface.name == name);
    found.map(|interface| interface.mac)
}

/// The same with the huge pages and ports of a node that has such, and on its cores, if it names any.
fn testpmd_of_node(
    dpdk: &DpdkPlan,
    (near, far): (&str, &str),
    peers: Option<(Mac, Mac)>,
    cpu: Option<u32>,
) -> Result<String, String> {
    let number = |interface: &str| {
        let found = dpdk.ports.iter().position(|port| port == interface);
        found.ok_or_else(|| format!("`{interface}` is not among the `devices` of its `dpdk`"))
    };
    let (near, far) = (number(near)?, number(far)?);
    let cores = match &dpdk.cores {
        Some(_) => String::new(),
        None => format!("--lcores '(0,1)@{}'", cpu.unwrap_or(0)),
    };
    let mode = match peers {
        Some((before, behind)) => {
            format!("mac --eth-peer={near},{before} --eth-peer={far},{behind}")
        }
        None => "io".to_owned(),
    };
    Ok(format!(
        "exec stdbuf -oL dpdk-testpmd ${EAL_VARIABLE} {cores} \
         -- --nb-cores=1 --forward-mode={mode} --portlist={near},{far} --total-num-mbufs=16384 2>&1"
    ))
}

fn failed(node: &str, reason: String) -> Error {
    Error::Device {
        node: node.into(),
        reason,
    }
}

/// A script for each node that routes packets of this measurement through the devices, and responses back the
/// same way.
fn routes(context: &Context<'_>, path: &[Waypoint<'_>]) -> Vec<(String, String)> {
    let plan = context.lab.plan();
    let ipv6 = context.measurement.ip == 6;
    let last = path.len() - 1;
    let (there, back) = (
        address(plan, path[last], path[last - 1], ipv6),
        address(plan, path[0], path[1], ipv6),
    );
    let routes_itself = context.measurement.device.routes();
    let mut all = Vec::new();
    for (at, &node) in path.iter().enumerate() {
        let is_end = at == 0 || at == last;
        // A device on layer 2 needs no routes.
        if !is_end && !routes_itself {
            continue;
        }
        let leg = |next: usize, to: Option<IpAddr>, is_device: bool| {
            let through = routes_itself && is_device;
            leg(plan, node, path[next], to?, through, ipv6)
        };
        let mut lines = Vec::new();
        if at < last {
            lines.extend(leg(at + 1, there, at + 1 < last));
        }
        if at > 0 {
            lines.extend(leg(at - 1, back, at > 1));
        }
        let of = |action: &str| -> Vec<String> {
            let lines = lines.iter();
            lines
                .map(|line| format!("ip route {action} {line}"))
                .collect()
        };
        let (mut set_up, mut undo) = (of("replace"), of("del"));
        let device = if at == 0 { path[1] } else { path[last - 1] };
        let to = if at == 0 { there } else { back };
        if let Some(entry) = neighbour(context, node, device, to).filter(|_| is_end) {
            set_up.push(format!("ip neighbour replace {entry} nud permanent"));
            undo.push(format!("ip neighbour del {entry}"));
        }
        all.push((
            node.node.to_string(),
            script(&set_up.join("\n"), &undo.join("; ")),
        ));
    }
    all
}

/// The entry by which `node` sends what is for `to` to the Ethernet address of a device that forwards by addresses.
fn neighbour(
    context: &Context<'_>,
    node: Waypoint<'_>,
    device: Waypoint<'_>,
    to: Option<IpAddr>,
) -> Option<String> {
    let dpdk = dpdk(context, device.node).filter(|dpdk| dpdk.driver == DpdkDriver::Vfio);
    dpdk.filter(|_| context.measurement.device == Device::Testpmd)?;
    let plan = context.lab.plan();
    let (interface, _) = plan.joined(node, device)?;
    let (to, mac) = (to?, mac(plan, node, device)?);
    Some(format!("{to} lladdr {mac} dev {interface}"))
}

/// Route from `node` to `to`: via `next`, or on its link.
fn leg(
    plan: &Plan,
    node: Waypoint<'_>,
    next: Waypoint<'_>,
    to: IpAddr,
    through: bool,
    ipv6: bool,
) -> Option<String> {
    let (interface, _) = plan.joined(node, next)?;
    if through {
        let hop = plan.reach(node, next, ipv6)?.address;
        Some(format!("{to} via {hop} dev {interface}"))
    } else {
        Some(format!("{to} dev {interface}"))
    }
}

/// The address of `node` on its link to `neighbour`.
fn address(plan: &Plan, node: Waypoint<'_>, neighbour: Waypoint<'_>, ipv6: bool) -> Option<IpAddr> {
    Some(plan.reach(neighbour, node, ipv6)?.address)
}

struct Script {
    node: String,
    session: Box<dyn Session>,
    signal: Signaller,
    stdin: Option<Box<dyn Write + Send>>,
    /// Lines of its output; disconnected at its end.
    said: Receiver<String>,
    errors: Receiver<Vec<u8>>,
    ended: bool,
}

impl Script {
    fn start(context: &Context<'_>, node: &str, script: &str) -> Result<Script, Error> {
        let mut session = context.lab.start(node, &Command::shell(script))?;
        let stdin = session.take_stdin();
        let stdout = session.take_stdout();
        let errors = read_all(session.take_stderr(), MAX_ERRORS);
        let (send, said) = channel();
        std::thread::spawn(move || {
            let lines = stdout.map(|s| BufReader::new(s).lines().map_while(Result::ok));
            // The receiver may be gone.
            let _ = lines
                .into_iter()
                .flatten()
                .try_for_each(|line| send.send(line));
        });
        let signal = session.signaller();
        let mut held = Script {
            node: node.into(),
            session,
            signal,
            stdin,
            said,
            errors,
            ended: false,
        };
        held.ready()?;
        Ok(held)
    }

    fn ready(&mut self) -> Result<(), Error> {
        let end = Instant::now() + SETUP_TIMEOUT;
        let mut last = String::new();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.said.recv_timeout(left) {
                Ok(line) if line.contains(READY) || line.contains(TESTPMD_READY) => {
                    return Ok(());
                }
                Ok(line) => last = line,
                Err(RecvTimeoutError::Disconnected) => {
                    self.ended = true;
                    drop(self.session.wait());
                    let errors = self.errors();
                    return Err(self.failed(if errors.is_empty() { last } else { errors }));
                }
                Err(RecvTimeoutError::Timeout) => {
                    return Err(
                        self.failed(format!("not ready after {} s", SETUP_TIMEOUT.as_secs()))
                    );
                }
            }
        }
    }

    fn failed(&self, reason: String) -> Error {
        failed(&self.node, reason)
    }

    fn errors(&self) -> String {
        trimmed(&self.errors.recv().unwrap_or_default())
    }

    /// Closes the script's input and waits until it has reverted its changes.
    fn end(&mut self) -> Result<(), Error> {
        if std::mem::replace(&mut self.ended, true) {
            return Ok(());
        }
        self.stdin.take();
        let end = Instant::now() + END_TIMEOUT;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.said.recv_timeout(left) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    // A script that has just ended cannot be signalled.
                    (self.signal)(KILL).ok();
                    drop(self.session.wait());
                    return Err(
                        self.failed(format!("it did not end within {} s", END_TIMEOUT.as_secs()))
                    );
                }
            }
        }
        match self.session.wait() {
            Ok(exit) if exit.success() => Ok(()),
            Ok(exit) => Err(self.failed(format!("{exit}: {}", self.errors()))),
            Err(source) => Err(self.failed(source.to_string())),
        }
    }
}

impl Drop for Script {
    /// Reverts the changes after a failure elsewhere too.
    fn drop(&mut self) {
        self.end().ok();
    }
}
