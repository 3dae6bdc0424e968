//! Labs made in a network and mount namespace of the test's own, and traffic through them.
//!
//! Nothing of the machine can be touched: the thread a test runs on leaves the machine's network
//! and mounts before anything is made, and what it starts inherits that. Everything vanishes with
//! the thread. Traffic is one packet at a time and every wait is bounded.

// Each test program uses a part of it.
#![allow(dead_code)]

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use latlab_host::links::{Network, NicBackend, VmEnd};
use latlab_host::sys::mount;
use latlab_host::sys::netns::NetNs;
use latlab_model::facts::Facts;
use latlab_model::plan::{InterfacePlan, Plan, plan};
use latlab_model::spec::Lab;
use latlab_netlink::{Handle, Link};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mount::{MountFlags, MountPropagationFlags};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, ipproto};
use rustix::thread::UnshareFlags;

/// Longest wait for anything that must happen.
pub const TIMEOUT: Duration = Duration::from_secs(5);
/// How long a packet that must not arrive is waited for.
pub const SILENCE: Duration = Duration::from_millis(100);

/// Runs `body` in namespaces of its own, with an empty directory for a lab's namespaces.
pub fn run(name: &str, body: impl FnOnce(&Path) + Send) {
    if !rustix::process::geteuid().is_root() {
        eprintln!("{name} skipped: needs root to make namespaces");
        return;
    }
    let directory = std::env::temp_dir().join(format!("latlab-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let result = std::thread::scope(|scope| {
        let inside = scope.spawn(|| {
            leave_the_machine(&directory);
            body(&directory);
        });
        inside.join()
    });
    // The mount on it went with the thread's mount namespace.
    std::fs::remove_dir(&directory).unwrap();
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
}

fn leave_the_machine(directory: &Path) {
    // SAFETY: only this thread gets new namespaces; descriptors stay shared.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS | UnshareFlags::NEWNET) }.unwrap();
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", private).unwrap();
    rustix::mount::mount("test", directory, "tmpfs", MountFlags::empty(), None).unwrap();
    mount::make_private(directory).unwrap();
}

pub struct Deployed {
    pub directory: PathBuf,
    pub plan: Plan,
    pub taps: Vec<VmEnd>,
    root: NetNs,
}

/// Plans a lab on a machine where everything is installed.
pub fn planned(topology: &str) -> Plan {
    let lab = format!("name: t\ntopology:\n{topology}");
    let lab = Lab::parse(&lab).unwrap_or_else(|errors| panic!("{}", errors.render("lab")));
    let tools = ["crun", "runc", "qemu-system-x86_64", "nft"];
    let facts = Facts {
        cpus: latlab_model::units::CpuList::new(vec![0, 1]),
        interfaces: vec!["lan".into()],
        tools: tools
            .iter()
            .map(|tool| (tool.to_string(), "1".into()))
            .collect(),
        ..Facts::default()
    };
    plan(&lab, &facts).unwrap_or_else(|errors| panic!("{}", errors.render("lab")))
}

/// Makes the links of a lab.
pub fn deploy(directory: &Path, topology: &str) -> Deployed {
    try_deploy(directory, topology).unwrap_or_else(|error| panic!("{error}"))
}

pub fn try_deploy(directory: &Path, topology: &str) -> Result<Deployed, latlab_host::links::Error> {
    let plan = planned(topology);
    let network = Network::new(directory.to_owned(), "test-lab")?;
    network.make_namespaces(&plan)?;
    let taps = network.connect(&plan)?;
    Ok(Deployed {
        directory: directory.to_owned(),
        plan,
        taps,
        root: NetNs::current()?,
    })
}

impl Deployed {
    /// A node's namespace, or, with `@`, a link's.
    pub fn netns(&self, name: &str) -> NetNs {
        let is_host =
            |node: &latlab_model::plan::NodePlan| node.name == name && node.kind().is_host();
        if self.plan.nodes.iter().any(is_host) {
            return self.root.try_clone().unwrap();
        }
        NetNs::open(&self.directory.join(name)).unwrap()
    }

    pub fn handle(&self, name: &str) -> Handle {
        Handle::open_in(self.netns(name).as_fd()).unwrap()
    }

    pub fn link(&self, netns: &str, name: &str) -> Link {
        let link = self.handle(netns).link(name).unwrap();
        link.unwrap_or_else(|| panic!("no interface {name} in {netns}"))
    }

    pub fn interface(&self, node: &str, name: &str) -> &InterfacePlan {
        let node = self.plan.node(node).unwrap();
        node.interfaces
            .iter()
            .find(|interface| interface.name == name)
            .unwrap()
    }

    /// The address under which `from` reaches `to`.
    pub fn address(&self, from: &str, to: &str, ipv6: bool) -> IpAddr {
        self.plan.reach(from, to, ipv6).unwrap().address
    }

    /// Sends a datagram and its answer both ways once; returns the sender as the receiver saw it.
    pub fn udp(&self, from: &str, to: &str, ipv6: bool) -> io::Result<IpAddr> {
        udp(
            &self.netns(from),
            &self.netns(to),
            self.address(from, to, ipv6),
        )
    }

    /// Everything between two nodes, in both families: TCP, UDP, ICMP.
    pub fn assert_reaches(&self, from: &str, to: &str) {
        for ipv6 in [false, true] {
            let address = self.address(from, to, ipv6);
            let (client, server) = (self.netns(from), self.netns(to));
            let what = |protocol: &str| format!("{protocol} from {from} to {to} at {address}");
            udp(&client, &server, address).unwrap_or_else(|e| panic!("{}: {e}", what("UDP")));
            tcp(&client, &server, address).unwrap_or_else(|e| panic!("{}: {e}", what("TCP")));
            ping(&client, address, 56).unwrap_or_else(|e| panic!("{}: {e}", what("ICMP")));
        }
    }

    pub fn namespaces(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.directory).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

/// Unpins and removes every namespace of the directory.
pub fn remove_all(directory: &Path) {
    for entry in std::fs::read_dir(directory).unwrap() {
        remove(&entry.unwrap().path());
    }
}

pub fn remove(namespace: &Path) {
    mount::unmount_below(namespace).unwrap();
    std::fs::remove_file(namespace).unwrap();
}

fn any(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

pub fn udp(client: &NetNs, server: &NetNs, address: IpAddr) -> io::Result<IpAddr> {
    udp_within(client, server, address, TIMEOUT)
}

pub fn udp_within(
    client: &NetNs,
    server: &NetNs,
    address: IpAddr,
    timeout: Duration,
) -> io::Result<IpAddr> {
    let bind = |netns: &NetNs| -> io::Result<UdpSocket> {
        let socket = netns.run(|| UdpSocket::bind((any(address), 0))).unwrap()?;
        socket.set_read_timeout(Some(timeout))?;
        Ok(socket)
    };
    let (client, server) = (bind(client)?, bind(server)?);
    client.send_to(
        b"question",
        SocketAddr::new(address, server.local_addr()?.port()),
    )?;
    let mut buffer = [0; 16];
    let (length, seen) = server.recv_from(&mut buffer)?;
    assert_eq!(&buffer[..length], b"question");
    server.send_to(b"answer", seen)?;
    let (length, from) = client.recv_from(&mut buffer)?;
    assert_eq!(&buffer[..length], b"answer");
    assert_eq!(
        from.ip(),
        address,
        "the answer comes from where the question went"
    );
    Ok(seen.ip())
}

pub fn tcp(client: &NetNs, server: &NetNs, address: IpAddr) -> io::Result<IpAddr> {
    let listener = server
        .run(|| TcpListener::bind((any(address), 0)))
        .unwrap()?;
    let to = SocketAddr::new(address, listener.local_addr()?.port());
    let mut stream = client
        .run(|| TcpStream::connect_timeout(&to, TIMEOUT))
        .unwrap()?;
    let (mut accepted, seen) = listener.accept()?;
    for stream in [&stream, &accepted] {
        stream.set_read_timeout(Some(TIMEOUT))?;
    }
    let mut buffer = [0; 8];
    stream.write_all(b"question")?;
    accepted.read_exact(&mut buffer)?;
    accepted.write_all(b"answer!!")?;
    stream.read_exact(&mut buffer)?;
    assert_eq!(&buffer, b"answer!!");
    Ok(seen.ip())
}

/// One ICMP echo of `size` bytes of data.
pub fn ping(client: &NetNs, address: IpAddr, size: usize) -> io::Result<()> {
    let (family, protocol, request, reply, header) = match address {
        IpAddr::V4(_) => (AddressFamily::INET, ipproto::ICMP, 8, 0, 20),
        IpAddr::V6(_) => (AddressFamily::INET6, ipproto::ICMPV6, 128, 129, 0),
    };
    let socket = client
        .run(|| rustix::net::socket(family, SocketType::RAW, Some(protocol)))
        .unwrap()?;
    set_socket_timeout(&socket, Timeout::Recv, Some(SILENCE))?;
    // Type, code, checksum, identifier, sequence number, data.
    let mut packet = vec![request, 0, 0, 0, 0x1a, 0xb1, 0, 1];
    packet.resize(8 + size, 0x5a);
    if address.is_ipv4() {
        let sum = checksum(&packet).to_be_bytes();
        packet[2..4].copy_from_slice(&sum);
    }
    rustix::net::sendto(
        &socket,
        &packet,
        SendFlags::empty(),
        &SocketAddr::new(address, 0),
    )?;
    let deadline = Instant::now() + TIMEOUT;
    let mut buffer = vec![0; 65536];
    while Instant::now() < deadline {
        let length = match rustix::net::recv(&socket, &mut buffer[..], RecvFlags::empty()) {
            Ok((length, _)) => length,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => continue,
            Err(errno) => return Err(errno.into()),
        };
        let answer = &buffer[header.min(length)..length];
        if answer.len() == packet.len() && answer[0] == reply && answer[4..] == packet[4..] {
            return Ok(());
        }
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "no echo"))
}

/// RFC 1071.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| {
        u32::from(u16::from_be_bytes([
            pair[0],
            pair.get(1).copied().unwrap_or(0),
        ]))
    });
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Plays the guest behind a tap.
pub struct Guest<'a> {
    pub tap: &'a OwnedFd,
    pub mac: [u8; 6],
    pub address: Ipv4Addr,
}

/// `struct virtio_net_hdr`, all zero: no offload.
const VNET_HEADER_BYTES: usize = 10;

impl<'a> Guest<'a> {
    /// The guest of the tap at this position.
    pub fn new(lab: &'a Deployed, tap: usize) -> Self {
        let end = &lab.taps[tap];
        let interface = &lab.plan.nodes[end.node].interfaces[end.interface];
        let v4 = interface.addresses.iter().find_map(|net| match net.addr() {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(_) => None,
        });
        let NicBackend::Tap(tap) = &end.backend else {
            panic!("this link gives no tap");
        };
        Guest {
            tap: &tap[0],
            mac: interface.mac.0,
            address: v4.unwrap(),
        }
    }

    fn arp(&self, operation: u8, to: [u8; 6], target: Ipv4Addr) {
        let mut frame = vec![0; VNET_HEADER_BYTES];
        let ethernet = if operation == 1 { [0xff; 6] } else { to };
        frame.extend(ethernet);
        frame.extend(self.mac);
        frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, operation]);
        frame.extend(self.mac);
        frame.extend(self.address.octets());
        frame.extend(if operation == 1 { [0; 6] } else { to });
        frame.extend(target.octets());
        frame.resize(VNET_HEADER_BYTES + 60, 0);
        assert_eq!(rustix::io::write(self.tap, &frame).unwrap(), frame.len());
    }

    /// The next ARP message from `sender`: operation and Ethernet address.
    fn receive(&self, sender: Ipv4Addr) -> Option<(u8, [u8; 6])> {
        let deadline = Instant::now() + TIMEOUT;
        let mut buffer = [0; 4096];
        while Instant::now() < deadline {
            let timeout = Timespec::try_from(SILENCE).unwrap();
            let mut ready = [PollFd::new(self.tap, PollFlags::IN)];
            if poll(&mut ready, Some(&timeout)).unwrap() == 0 {
                continue;
            }
            let length = rustix::io::read(self.tap, &mut buffer).unwrap();
            let Some(frame) = buffer[..length].get(VNET_HEADER_BYTES..) else {
                continue;
            };
            let is_arp = frame.len() >= 42 && frame[12..14] == [8, 6];
            if is_arp && frame[28..32] == sender.octets() {
                return Some((frame[21], frame[22..28].try_into().unwrap()));
            }
        }
        None
    }

    /// Asks who has `target`; the Ethernet address that answers.
    pub fn resolve(&self, target: Ipv4Addr) -> Option<[u8; 6]> {
        self.arp(1, [0; 6], target);
        self.receive(target)
            .filter(|&(operation, _)| operation == 2)
            .map(|(_, mac)| mac)
    }

    /// Waits for a question from `asker` and answers it.
    pub fn answer(&self, asker: Ipv4Addr) -> bool {
        match self.receive(asker) {
            Some((1, mac)) => {
                self.arp(2, mac, asker);
                true
            }
            _ => false,
        }
    }
}
