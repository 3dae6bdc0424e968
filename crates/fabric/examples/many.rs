//! Many agents in one process, on a real etcd: what fits on a machine, and how soon all of them know of a move.
//!
//! `cargo run --release -p latlab-fabric --example many -- URL[,URL…] HOSTS ADDRESSES MOVES`
//!
//! The agents' daemons are switches that only count: what is measured is the state's way. Prints a line for the catch-up of
//! each hundred hosts, and the times of moves from the request to the last agent.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use latlab_fabric::change::{self, Moved};
use latlab_fabric::etcd::{Client, Credentials};
use latlab_fabric::join::{Event, Member, Options};
use latlab_fabric::keys::{Carrier, Host, Keys, Network, Place};
use latlab_fabric::orders::Own;
use latlab_fabric::switch::Switch;
use latlab_model::spec::Mac;
use latlab_overlay::control::Refusal;

/// A daemon that takes all lines.
struct Counting(Arc<Mutex<u64>>);

impl Switch for Counting {
    fn say(&mut self, line: &str) -> io::Result<Result<Vec<String>, Refusal>> {
        if line.starts_with("move ") {
            *self.0.lock().expect("no panic") += 1;
        }
        Ok(Ok(Vec::new()))
    }
}

/// The host, the revision that it has applied, and when.
type Applied = (usize, u64, Instant);

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [urls, hosts, addresses, moves] = &words[..] else {
        eprintln!("usage: many URL[,URL…] HOSTS ADDRESSES MOVES");
        std::process::exit(2);
    };
    let number = |text: &str| text.parse::<usize>().expect("a number");
    let (hosts, addresses, moves) = (number(hosts), number(addresses), number(moves));
    let urls: Vec<String> = urls.split(',').map(ToString::to_string).collect();
    let client = Client::new(&urls, &Credentials::default()).expect("URLs of etcd");
    let keys = Keys::of(&format!("many-{}", std::process::id())).expect("a name");
    let stop = Arc::new(AtomicBool::new(false));
    let lines = Arc::new(Mutex::new(0));
    let (send, applied) = channel::<Applied>();

    join(0, &urls, &keys, &stop, &lines, &send);
    let macs: Vec<Mac> = (0..addresses as u32)
        .map(|number| {
            let [a, b, c, d] = number.to_be_bytes();
            Mac([2, 0, a, b, c, d])
        })
        .collect();
    let place = |host: usize| Place::parse(&format!("h{host}:vm")).expect("a place");
    go(&client, &keys, &macs, &place(0), "first");
    let mut began = Instant::now();
    for host in 1..hosts {
        join(host, &urls, &keys, &stop, &lines, &send);
        if (host + 1) % 100 == 0 {
            println!(
                "{} hosts: the last hundred joined in {:.1?}",
                host + 1,
                began.elapsed()
            );
            began = Instant::now();
        }
    }
    std::thread::sleep(Duration::from_secs(3));
    while applied.try_recv().is_ok() {}

    let mut times = Vec::new();
    for number in 0..moves {
        let begin = Instant::now();
        let mac = macs[number % macs.len()];
        let to = place(1 + number % (hosts - 1));
        let revision = go(&client, &keys, &[mac], &to, &format!("m{number}"));
        times.push(last(&applied, hosts, revision).duration_since(begin));
        std::thread::sleep(Duration::from_millis(100));
    }
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    println!(
        "{moves} moves, {hosts} hosts, {addresses} addresses: half within {:.1?}, 99 of 100 within {:.1?}; {} lines for daemons",
        at(0.5),
        at(0.99),
        lines.lock().expect("no panic"),
    );
    stop.store(true, Ordering::Relaxed);
}

/// Moves addresses. Returns the revision.
fn go(client: &Client, keys: &Keys, macs: &[Mac], to: &Place, id: &str) -> u64 {
    match change::move_addresses(client, keys, ("lan", macs), (None, to), id) {
        Ok(Moved::Done { revision }) => revision,
        other => panic!("{other:?}"),
    }
}

fn join(
    number: usize,
    urls: &[String],
    keys: &Keys,
    stop: &Arc<AtomicBool>,
    lines: &Arc<Mutex<u64>>,
    applied: &Sender<Applied>,
) {
    // Hosts ask the members in turn.
    let mut urls = urls.to_vec();
    let first = number % urls.len();
    urls.rotate_left(first);
    let client = Client::new(&urls, &Credentials::default()).expect("URLs of etcd");
    let address = SocketAddr::from((Ipv4Addr::from(0x0a00_0001 + number as u32), 51789));
    let options = Options {
        keys: keys.clone(),
        own: Own {
            name: format!("h{number}"),
            host: Host {
                address,
                carrier: Carrier::Udp,
            },
            key: None,
        },
        networks: vec![("lan".into(), Network { vni: 7 })],
    };
    let lines = Arc::clone(lines);
    let connect = move || Ok(Counting(Arc::clone(&lines)));
    let member = Member::join(client, options, connect).expect("a host that joins");
    let (stop, applied) = (Arc::clone(stop), applied.clone());
    std::thread::spawn(move || {
        member
            .follow(&stop, &mut |event| {
                if let Event::Moved { revision, .. } = event {
                    applied.send((number, *revision, Instant::now())).ok();
                }
            })
            .expect("a host that stays");
    });
}

/// When the last host had this revision.
fn last(applied: &Receiver<Applied>, hosts: usize, revision: u64) -> Instant {
    let mut done: BTreeMap<usize, Instant> = BTreeMap::new();
    while done.len() < hosts {
        let (host, has, at) = applied
            .recv_timeout(Duration::from_secs(60))
            .expect("every host applies a move");
        if has >= revision {
            done.entry(host).or_insert(at);
        }
    }
    done.into_values().max().expect("hosts")
}
