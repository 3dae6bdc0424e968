//! Hosts in namespaces of this machine, and TCP connections between them that carry streams.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use latlab_wire::streams::{Config, Host};
use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::loopback::keep_shadows;
use crate::registry::HostId;
use crate::sys::socket;

/// A handshake on the wire takes some 50 µs. A wire that is down delays other programs no longer than this.
const TIMEOUT: Duration = Duration::from_millis(50);

/// The hosts of all networks, and the supervisor's own namespace.
#[derive(Debug)]
pub struct Hosts {
    own: File,
    all: Vec<Listening>,
    /// The inodes of all these namespaces.
    inodes: HashSet<u64>,
}

#[derive(Debug)]
struct Listening {
    netns: File,
    listener: TcpListener,
    at: SocketAddr,
}

impl Hosts {
    /// Listens in each host, in the order of the configuration.
    pub fn new(config: &Config) -> io::Result<Self> {
        let own = File::open("/proc/thread-self/ns/net")?;
        let ends = config.networks.iter().flat_map(|network| &network.ends);
        let all = ends
            .filter_map(|end| end.host.as_ref())
            .map(|host| Listening::new(host, &own))
            .collect::<io::Result<Vec<_>>>()?;
        let namespaces = all.iter().map(|host| &host.netns).chain([&own]);
        let inodes = namespaces.map(|file| file.metadata().map(|stat| stat.ino()));
        let inodes = inodes.collect::<io::Result<_>>()?;
        Ok(Self { own, all, inodes })
    }

    /// Whether a socket is in one of these namespaces. Programs have no other ones there than shadows.
    pub fn have(&self, socket: BorrowedFd<'_>) -> bool {
        socket::namespace(socket).is_ok_and(|inode| self.inodes.contains(&inode))
    }

    pub fn own(&self) -> &File {
        &self.own
    }

    pub fn netns(&self, host: HostId) -> &File {
        &self.all[host].netns
    }

    /// A connection between two hosts: the client's end and the server's.
    pub fn pair(&self, server: HostId, client: HostId) -> io::Result<(OwnedFd, OwnedFd)> {
        let (server, client) = (&self.all[server], &self.all[client]);
        let connect = || TcpStream::connect_timeout(&server.at, TIMEOUT);
        let ours = inside(&client.netns, &self.own, connect)?;
        let theirs = server.accept(ours.local_addr()?)?;
        for end in [&ours, &theirs] {
            end.set_nonblocking(false)?;
        }
        Ok((ours.into(), theirs.into()))
    }
}

impl Listening {
    fn new(host: &Host, own: &File) -> io::Result<Self> {
        let netns = File::open(&host.netns)?;
        let listener = inside(&netns, own, || {
            keep_shadows();
            TcpListener::bind((host.address, 0))
        })?;
        listener.set_nonblocking(true)?;
        Ok(Self {
            at: listener.local_addr()?,
            listener,
            netns,
        })
    }

    /// The connection of this peer; others are closed.
    fn accept(&self, peer: SocketAddr) -> io::Result<TcpStream> {
        let end = Instant::now() + TIMEOUT;
        loop {
            match self.listener.accept() {
                Ok((stream, from)) if from == peer => return Ok(stream),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if Instant::now() > end {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                    std::thread::yield_now();
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Runs something in another network namespace, and comes back.
fn inside<T>(netns: &File, own: &File, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    enter(netns)?;
    let result = act();
    // All that is made here otherwise belongs into our own.
    enter(own).expect("a thread can return to the namespace that it came from");
    result
}

fn enter(netns: &File) -> Result<(), Errno> {
    move_into_link_name_space(netns.as_fd(), Some(LinkNameSpaceType::Network))
}
