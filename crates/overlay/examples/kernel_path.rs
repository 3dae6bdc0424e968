//! Sets up the kernel path of one network namespace from lines on its standard input, and exits: what
//! it set up stays and works, as it does when a daemon is killed. For `bench/overlay-containers`.
//!
//! ```text
//! kernel_path NAME <<.
//! netkit DEVICE NAMESPACE-FILE MTU MAC
//! container ID DEVICE NETWORK [MAC]
//! direct ID DEVICE NETWORK
//! tunnel ID DEVICE
//! local NETWORK SOURCE DESTINATION FROM TO DEVICE [REMOTE:PORT LOCAL:PORT]
//! wire NETWORK SOURCE DESTINATION FROM TO DEVICE
//! vxlan NETWORK SOURCE DESTINATION FROM TO DEVICE REMOTE:PORT LOCAL:PORT REMOTE-MAC LOCAL-MAC
//! counts ID
//! .
//! ```

use std::error::Error;
use std::fs::File;
use std::io::BufRead;
use std::os::fd::AsFd;

use latlab_netlink::{Handle, Interface, LinkChange, LinkKind, MacAddress, NewLink};
use latlab_overlay::endpoints::{DropReason, PortId};
use latlab_overlay::kernel::{
    Action, KernelPath, KernelPort, KernelPortKind, Mac, Origin, ROUTES, Route, RouteKey,
    TunnelEnds,
};

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let name = std::env::args().nth(1).ok_or("usage: kernel_path NAME")?;
    let (path, was_there) = KernelPath::open(&name, ROUTES)?;
    if was_there {
        println!("went on with {} ports", path.ports()?.len());
    }
    let mut links = Handle::open()?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        if !words.is_empty() {
            obey(&path, &mut links, &words).map_err(|error| format!("{line}: {error}"))?;
        }
    }
    Ok(())
}

fn obey(path: &KernelPath, links: &mut Handle, words: &[&str]) -> Outcome<()> {
    let line = Line(words);
    match words[0] {
        "counts" => {
            let counts = path.counts(PortId(line.word(1)?.parse()?))?;
            println!("{counts:?} spoofed {}", counts.dropped(DropReason::Spoofed));
            Ok(())
        }
        "netkit" => make_netkit(links, &line),
        "container" | "direct" | "tunnel" => Ok(path.attach(&line.port(links)?)?),
        _ => store_route(path, links, &line),
    }
}

fn make_netkit(links: &mut Handle, line: &Line<'_>) -> Outcome<()> {
    let (inside, mtu) = (File::open(line.word(2)?)?, Some(line.word(3)?.parse()?));
    let other = Interface::new("eth0").netns(inside.as_fd()).mtu(mtu);
    let other = other.mac(Some(MacAddress(mac(line.word(4)?)?)));
    let name = line.word(1)?;
    let pair = NewLink::new(Interface::new(name).mtu(mtu), LinkKind::Netkit(other));
    let up = LinkChange::of(name).up(true).request();
    Ok(links.apply_all(&[pair.request(), up])?)
}

fn store_route(path: &KernelPath, links: &mut Handle, line: &Line<'_>) -> Outcome<()> {
    let network = line.word(1)?.parse()?;
    let action = line.action(links.link_index(line.word(6)?)?)?;
    let ingress = PortId(line.word(4)?.parse()?);
    let origin = match action {
        Action::Local { from: Some(_), .. } => Origin::Tunnel(network),
        _ => Origin::Device(device_of(path, ingress)?),
    };
    let key = RouteKey {
        origin,
        source: mac(line.word(2)?)?,
        destination: mac(line.word(3)?)?,
    };
    let route = Route {
        network,
        ingress,
        egress: PortId(line.word(5)?.parse()?),
        action,
        longest: None,
    };
    Ok(path.store(&key, &route)?)
}

/// The words of a command.
struct Line<'a>(&'a [&'a str]);

impl Line<'_> {
    fn word(&self, at: usize) -> Result<&str, &'static str> {
        self.0.get(at).copied().ok_or("a word is missing")
    }

    fn port(&self, links: &mut Handle) -> Outcome<KernelPort> {
        Ok(KernelPort {
            id: PortId(self.word(1)?.parse()?),
            device: links.link_index(self.word(2)?)?,
            kind: match self.word(0)? {
                "container" => KernelPortKind::Container,
                "direct" => KernelPortKind::Direct,
                _ => KernelPortKind::Tunnel,
            },
            network: self.0.get(3).map_or(Ok(0), |word| word.parse())?,
            tap: None,
            mac: self.0.get(4).map(|word| mac(word)).transpose()?,
            floods: None,
        })
    }

    fn ends(&self) -> Outcome<TunnelEnds> {
        let (remote, local) = (self.word(7)?.parse()?, self.word(8)?.parse()?);
        Ok(TunnelEnds { remote, local })
    }

    fn action(&self, device: u32) -> Outcome<Action> {
        Ok(match self.word(0)? {
            "local" => Action::Local {
                device,
                from: self.0.get(7).map(|_| self.ends()).transpose()?,
            },
            "wire" => Action::Direct { device },
            "vxlan" => Action::Vxlan {
                device,
                ends: self.ends()?,
                remote_mac: mac(self.word(9)?)?,
                local_mac: mac(self.word(10)?)?,
            },
            _ => return Err("no such command".into()),
        })
    }
}

fn device_of(path: &KernelPath, id: PortId) -> Outcome<u32> {
    let ports = path.ports()?;
    let port = ports.iter().find(|port| port.id == id);
    Ok(port.ok_or("no such port")?.device)
}

fn mac(text: &str) -> Outcome<Mac> {
    let mut bytes = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut bytes {
        *byte = u8::from_str_radix(parts.next().ok_or("an Ethernet address is too short")?, 16)?;
    }
    Ok(bytes)
}
