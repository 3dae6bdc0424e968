//! Several network paths in turn, some milliseconds each, so that disturbances of the machine affect all paths alike.
//! For `bench/overlay-containers` and `bench/runtimes`.
//!
//!     turns tcp-rr|udp-rr|tcp-stream|udp-stream CLIENT-CPU SERVER-CPU SECONDS CONGESTION WAY...
//!
//! CONGESTION is TCP's congestion control: a machine's own default may pace what it sends.
//! A WAY is CLIENT-NETNS,SERVER-NETNS,ADDRESS,MTU[,PORT]: names of `ip netns`, the server's address, and the longest packet.
//! With a PORT, as where ports are published, the server listens there on all of its addresses, and ADDRESS may be another's.
//! All clients are on one CPU and all servers on another, or on the same one.
//!
//! Prints a line per round. It begins with the round-trip time of a cache line between both CPUs in ns, before and after
//! (0: one CPU). Then follows for each WAY the median round trip of 64 bytes in ns (`-rr`), or bytes per second and busy
//! seconds of all CPUs per GB (`-stream`). Each round has a random order.

mod bounce;
mod ends;

use std::error::Error;
use std::fs::File;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use bounce::{Bounce, pin};
use ends::{Client, Test, any_of};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const USAGE: &str = "usage: turns tcp-rr|udp-rr|tcp-stream|udp-stream CLIENT-CPU SERVER-CPU SECONDS \
                     CONGESTION CLIENT-NETNS,SERVER-NETNS,ADDRESS,MTU[,PORT]...";

fn main() {
    if let Err(error) = run() {
        eprintln!("turns: {error}");
        std::process::exit(2);
    }
}

fn run() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [test, client, server, seconds, congestion, ways @ ..] = words.as_slice() else {
        return Err(USAGE.into());
    };
    let test = Test::parse(test).ok_or(USAGE)?;
    let (client, server): (usize, usize) = (client.parse()?, server.parse()?);
    let seconds: f64 = seconds.parse()?;
    let mut clients: Vec<Client> = ways
        .iter()
        .map(|way| open(way, test, server, congestion))
        .collect::<Outcome<_>>()?;
    pin(client)?;
    let bounce = (client != server).then(|| Bounce::start(server));
    let bounce = bounce.transpose()?;
    let far = || bounce.as_ref().map_or(0, Bounce::measure);
    let mut order: Vec<usize> = (0..clients.len()).collect();
    let mut found = vec![String::new(); clients.len()];
    let (end, mut before) = (Instant::now() + Duration::from_secs_f64(seconds), far());
    for round in 1.. {
        for &way in &order {
            found[way] = clients[way].turn()?;
        }
        let after = far();
        println!("{before} {after} {}", found.join(" "));
        if Instant::now() >= end {
            break;
        }
        before = after;
        // Every way is first, second, and so on equally often, behind either of its neighbours.
        order.rotate_left(1);
        if round % order.len() == 0 {
            order.reverse();
        }
    }
    // The servers wait for ever.
    std::process::exit(0);
}

/// Starts the server of a way, and connects to it.
fn open(way: &str, test: Test, cpu: usize, congestion: &str) -> Outcome<Client> {
    let [client, server, address, mtu, ref port @ ..] = way.split(',').collect::<Vec<_>>()[..]
    else {
        return Err(format!("{way}: {USAGE}").into());
    };
    let (address, mtu): (IpAddr, usize) = (address.parse()?, mtu.parse()?);
    let at = match port {
        [] => SocketAddr::new(address, 0),
        [port] => SocketAddr::new(any_of(address), port.parse()?),
        _ => return Err(format!("{way}: {USAGE}").into()),
    };
    let (client, server) = (client.to_owned(), server.to_owned());
    let congestion = congestion.to_owned();
    let listening = inside(server, move || test.listen(at, cpu))?;
    let to = SocketAddr::new(address, listening.address.port());
    inside(client, move || {
        test.connect(to, mtu, &congestion, listening.arrived)
    })
}

/// Does something in a network namespace; sockets stay where they were made.
fn inside<T: Send + 'static>(
    name: String,
    what: impl FnOnce() -> Outcome<T> + Send + 'static,
) -> Outcome<T> {
    let there = thread::spawn(move || {
        let path = format!("/run/netns/{name}");
        let file = File::open(&path).map_err(|error| format!("{path}: {error}"))?;
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
        what()
    });
    there.join().map_err(|_| "a thread died")?
}
