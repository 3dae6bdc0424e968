//! Bulk transfer by iperf3, with the CPU time per byte on either side.
//!
//! CPU time is counted twice. `sender` and `receiver` come from the node's cgroup, if it has one: iperf3, its
//! system calls, and for a VM the whole of QEMU. `sender-process` and `receiver-process` are iperf3's own
//! accounting, which inside a guest sees only the guest.

use std::io::{BufRead, BufReader, Read};
use std::sync::mpsc::channel;
use std::time::Duration;

use latlab_host::nodes::session::{Command, Session};
use latlab_model::spec::Protocol;

use crate::context::Context;
use crate::endpoint::{self, KILL, strings};
use crate::error::Error;
use crate::iperf;
use crate::measured::Measured;
use crate::nodes::Nodes;

/// iperf3's usual port; every node has its own network namespace.
const PORT: &str = "5201";
/// A guest under software emulation takes seconds to load a program over 9p.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// Grace period of iperf3 beyond its duration.
const GRACE: Duration = Duration::from_secs(30);

/// Measures once. Fails when iperf3 is missing in a node, or fails.
pub fn measure<N: Nodes>(context: &Context<'_, N>) -> Result<Measured, Error> {
    let m = context.measurement;
    let server = Server::start(context)?;
    let before = usage(context);
    let output = client(context)?;
    let after = usage(context);
    drop(server);
    let transfer = iperf::parse(&output, m.protocol == Protocol::Udp);
    let transfer = transfer.map_err(|message| failed(context.sender(), message))?;
    let mut result = transfer.result;
    // The nodes' CPU time has that of the warm-up.
    let bytes = result.bytes + transfer.warmup_bytes;
    for ((role, before), (_, after)) in before.into_iter().zip(after) {
        if let (Some(before), Some(after)) = (before, after) {
            let per_byte = after.saturating_sub(before) as f64 / bytes.max(1) as f64;
            result.cpu_ns_per_byte.insert(role.into(), per_byte);
        }
    }
    Ok(Measured {
        stream: Some(result),
        ..Measured::default()
    })
}

fn usage<N: Nodes>(context: &Context<'_, N>) -> [(&'static str, Option<u64>); 2] {
    [
        ("sender", context.lab.node_cpu_ns(context.sender())),
        ("receiver", context.lab.node_cpu_ns(context.receiver())),
    ]
}

struct Server(Box<dyn Session>);

impl Server {
    fn start<N: Nodes>(context: &Context<'_, N>) -> Result<Server, Error> {
        let node = context.receiver();
        let mut argv = strings(&["iperf3", "--server", "--one-off"]);
        argv.extend(strings(&["--forceflush", "--port", PORT]));
        let mut session = start(context, node, argv)?;
        let stdout = session.take_stdout();
        let mut stderr = session.take_stderr();
        drop(session.take_stdin());
        let (send, listening) = channel();
        // Reads to the end, so that the server never blocks on a full pipe.
        std::thread::spawn(move || {
            for line in stdout
                .map(BufReader::new)
                .into_iter()
                .flat_map(|r| r.lines().map_while(Result::ok))
            {
                if line.contains("Server listening") {
                    send.send(()).ok();
                }
            }
        });
        if listening.recv_timeout(START_TIMEOUT).is_ok() {
            return Ok(Server(session));
        }
        (session.signaller())(KILL).ok();
        let mut text = String::new();
        stderr
            .as_mut()
            .map(|s| s.take(4096).read_to_string(&mut text));
        let exit = session
            .wait()
            .map_or_else(|e| e.to_string(), |e| e.to_string());
        let message = format!("its server does not listen ({}{exit})", text.trim());
        Err(failed(node, message))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A one-off server has ended by itself after a good measurement.
        (self.0.signaller())(KILL).ok();
        self.0.wait().ok();
    }
}

fn start<N: Nodes>(
    context: &Context<'_, N>,
    node: &str,
    argv: Vec<String>,
) -> Result<Box<dyn Session>, Error> {
    let started = context.lab.start(node, &Command::new(argv));
    started.map_err(|e| {
        let text = e.to_string();
        if text.contains("No such file") || text.contains("not found") {
            Error::MissingTool {
                node: node.into(),
                tool: "iperf3",
                package: "iperf3",
            }
        } else {
            failed(node, text)
        }
    })
}

fn client<N: Nodes>(context: &Context<'_, N>) -> Result<String, Error> {
    let m = context.measurement;
    let address = context.reach.address.to_string();
    let seconds = m.duration.0.div_ceil(1_000_000_000).max(1).to_string();
    let warmup = m.warmup.0.div_ceil(1_000_000_000).to_string();
    let mut argv = strings(&["iperf3", "--client", &address, "--port", PORT, "--json"]);
    argv.extend(strings(&["--time", &seconds, "--omit", &warmup]));
    if m.protocol == Protocol::Udp {
        let rate = m.bitrate.map_or(0, |b| b.0).to_string();
        argv.extend(strings(&["--udp", "--bitrate", &rate]));
        argv.extend(strings(&["--length", &m.size.to_string()]));
    } else if let Some(rate) = m.bitrate {
        argv.extend(strings(&["--bitrate", &rate.0.to_string()]));
    }
    let mut session = start(context, context.sender(), argv)?;
    let timeout = Duration::from_nanos(m.duration.0 + m.warmup.0) + GRACE;
    let text = endpoint::output(&mut *session, timeout);
    let late = format!("no result within {} s", timeout.as_secs());
    text.ok_or_else(|| failed(context.sender(), late))
}

fn failed(node: &str, message: String) -> Error {
    Error::Iperf {
        node: node.into(),
        message,
    }
}
