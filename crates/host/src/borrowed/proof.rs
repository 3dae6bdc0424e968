//! CRIU: proven by a dump and a restore, once a boot of this machine if it works.
//!
//! `criu check` says that all is well where CRIU cannot dump one TCP socket. So a small process, the agent's `echo`, has
//! a connection between two fresh network namespaces, is dumped, ended and restored. What is sent meanwhile and
//! afterwards must come back in order.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use latlab_netlink::{Address, Handle, Interface, LinkChange, LinkKind, NewLink};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::criu::{Criu, Dumped};
use super::program::Borrowed;
use crate::sys;
use crate::sys::file::{Lock, make_private, write_atomically};
use crate::sys::netns::{self, NetNs};
use crate::sys::proc;
use crate::sys::process::Process;
use crate::sys::spawn::Spawn;

/// Name of the file in the cache that keeps the verdict that CRIU works; without it CRIU is tried again.
pub const VERDICT_FILE: &str = "criu.json";

/// Label of the processes of the proof; no lab has this identifier.
const LABEL: &str = "proof";

/// Longest wait for anything that must happen.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Addresses for documentation (RFC 5737), in namespaces of the proof's own.
const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const CLIENT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const PORT: u16 = 7;

/// Whether CRIU works here, and the evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    pub works: bool,
    /// Why, in a sentence for people.
    pub reason: String,
    /// The boot and the CRIU that the verdict holds for.
    holds_for: String,
}

/// Tries CRIU, until it has worked once in this boot. That it does not work is a verdict, not an error. It is not kept: the
/// machine may have been too busy, or a person may mend what was missing.
pub fn prove(criu: &Borrowed, agent: &Path, cache: &Path) -> Result<Verdict, sys::Error> {
    fs::create_dir_all(cache).map_err(sys::Error::of("make", cache.display()))?;
    let file = cache.join("criu.lock");
    let lock = Lock::take(&file, 3 * TIMEOUT)?;
    let _lock = lock.ok_or_else(|| {
        let reason = "another latlab has been trying CRIU";
        sys::Error::because("lock", file.display(), io::ErrorKind::TimedOut, reason)
    })?;
    let holds_for = format!("boot {}; {}", proc::boot_id()?, criu.origin);
    let memory = cache.join(VERDICT_FILE);
    // A file that is not ours, or of another boot, is replaced.
    let known = fs::read(&memory)
        .ok()
        .and_then(|text| serde_json::from_slice::<Verdict>(&text).ok());
    if let Some(known) = known.filter(|known| known.works && known.holds_for == holds_for) {
        return Ok(known);
    }
    let work = cache.join(format!(".criu-{}", std::process::id()));
    make_private(&work).map_err(sys::Error::of("make", work.display()))?;
    let tried = Trial::begin(agent).and_then(|mut trial| trial.move_it(criu, &work));
    // The images of a process that has ended.
    let _ = fs::remove_dir_all(&work);
    let verdict = Verdict {
        works: tried.is_ok(),
        reason: match tried {
            Ok(()) => format!(
                "{} kept a TCP connection over dump and restore",
                criu.origin
            ),
            Err(reason) => format!("{}: {reason}", criu.origin),
        },
        holds_for,
    };
    if verdict.works {
        let text = serde_json::to_vec_pretty(&verdict).expect("a document of texts");
        write_atomically(&memory, &text, 0o644)?;
    }
    Ok(verdict)
}

/// A process with a connection. It ends when this is dropped.
struct Trial {
    server: NetNs,
    process: Process,
    stream: TcpStream,
    /// The next byte that is sent, and that is expected.
    next: (u8, u8),
}

impl Trial {
    fn begin(agent: &Path) -> Result<Self, String> {
        let words = |error: &dyn std::fmt::Display| error.to_string();
        let (server, client) = connected_namespaces()?;
        let process = Spawn::new(agent, LABEL)
            .args(["echo", &PORT.to_string()])
            .netns(server.as_fd())
            .session()
            .start()
            .map_err(|e| words(&e))?;
        let stream = client.run(|| connect(&process)).map_err(|e| words(&e));
        let stream = stream.and_then(|stream| stream.map_err(|e| words(&e)));
        match stream {
            Ok(stream) => Ok(Self {
                server,
                process,
                stream,
                next: (0, 0),
            }),
            Err(reason) => {
                end(&process);
                Err(format!("no connection to try it with: {reason}"))
            }
        }
    }

    fn move_it(&mut self, criu: &Borrowed, work: &Path) -> Result<(), String> {
        self.send(100).and_then(|()| self.receive())?;
        let log = work.join("log");
        let server = self.server.try_clone().map_err(|e| e.to_string())?;
        let job = Criu::new(criu, LABEL, server.as_fd(), work, &log);
        let dumped = job.dump(&self.process, Dumped::End);
        dumped.map_err(|e| format!("the dump failed: {e}"))?;
        end(&self.process);
        self.send(100)?;
        let restored = job.restore(None, &work.join("pid"));
        self.process = restored.map_err(|e| format!("the restore failed: {e}"))?;
        self.send(100).and_then(|()| self.receive())
    }

    fn send(&mut self, count: u8) -> Result<(), String> {
        let bytes: Vec<u8> = (0..count).map(|n| self.next.0.wrapping_add(n)).collect();
        self.next.0 = self.next.0.wrapping_add(count);
        let sent = self.stream.write_all(&bytes);
        sent.map_err(|e| format!("the connection takes nothing: {e}"))
    }

    /// Takes back all that was sent.
    fn receive(&mut self) -> Result<(), String> {
        while self.next.1 != self.next.0 {
            let mut byte = [0];
            let read = self.stream.read_exact(&mut byte);
            read.map_err(|e| format!("the connection gives nothing back: {e}"))?;
            if byte[0] != self.next.1 {
                return Err(format!("byte {} came back as {}", self.next.1, byte[0]));
            }
            self.next.1 = self.next.1.wrapping_add(1);
        }
        Ok(())
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        end(&self.process);
    }
}

/// Ends a process and collects it, if it is a child. Nothing is left to do if that fails: it ends by itself, later.
fn end(process: &Process) {
    let _ = process.signal(Signal::KILL);
    let _ = process.wait(TIMEOUT);
    let _ = process.collect();
}

fn connect(server: &Process) -> io::Result<TcpStream> {
    let to = SocketAddr::new(IpAddr::V4(SERVER), PORT);
    let deadline = Instant::now() + TIMEOUT;
    let stream = loop {
        match TcpStream::connect_timeout(&to, TIMEOUT) {
            Ok(stream) => break stream,
            // The process is about to listen.
            Err(_) if Instant::now() < deadline && !server.has_ended().unwrap_or(true) => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(error) => return Err(error),
        }
    };
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

/// Two namespaces that nothing pins, joined by a veth pair.
fn connected_namespaces() -> Result<(NetNs, NetNs), String> {
    let fresh = || -> Result<NetNs, String> {
        netns::on_thread(|| netns::unshare().and_then(|()| NetNs::current()))
            .map_err(|e| e.to_string())
    };
    let (server, client) = (fresh()?, fresh()?);
    let failed = |error: latlab_netlink::Error| error.to_string();
    let mut handle = Handle::open_in(server.as_fd()).map_err(failed)?;
    let near = Interface::new("eth0");
    let far = Interface::new("eth0").netns(client.as_fd());
    handle
        .apply(&NewLink::new(near, LinkKind::Veth(far)).request())
        .map_err(failed)?;
    for (netns, address) in [(&server, SERVER), (&client, CLIENT)] {
        let mut handle = Handle::open_in(netns.as_fd()).map_err(failed)?;
        let link = handle.link("eth0").map_err(failed)?;
        let interface = link.ok_or("the kernel made no interface")?.index;
        let address = Address {
            interface,
            address: IpAddr::V4(address),
            prefix_length: 24,
        };
        handle.apply(&address.add()).map_err(failed)?;
        // CRIU tries the kernel's sockets on the loopback.
        for name in ["eth0", "lo"] {
            let up = LinkChange::of(name).up(true).request();
            handle.apply(&up).map_err(failed)?;
        }
    }
    Ok((server, client))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_not_kept() {
        let cache = std::env::temp_dir().join(format!("latlab-proof-{}", std::process::id()));
        let criu = Borrowed {
            program: "criu".into(),
            arguments: Vec::new(),
            version: "4.2".into(),
            origin: "a CRIU".into(),
        };
        let verdict = |works| Verdict {
            works,
            reason: "an old one".into(),
            holds_for: format!("boot {}; a CRIU", proc::boot_id().unwrap()),
        };
        let agent = cache.join("no-agent");
        let prove = || prove(&criu, &agent, &cache).unwrap();
        let memory = cache.join(VERDICT_FILE);
        // Nothing was tried that says anything about CRIU.
        assert!(!prove().works && !memory.exists());
        // As an older latlab kept it.
        fs::write(&memory, serde_json::to_vec(&verdict(false)).unwrap()).unwrap();
        let refused = prove();
        assert!(!refused.works && refused.reason != "an old one");
        fs::write(&memory, serde_json::to_vec(&verdict(true)).unwrap()).unwrap();
        assert_eq!(prove(), verdict(true));
        fs::remove_dir_all(cache).unwrap();
    }
}
