//! TCP links through a real kernel: plain, under TLS, against strangers, and again after an end.

mod authority;
mod space;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use authority::Authority;
use latlab_model::overlay::Peer;
use latlab_overlay::endpoints::{Counters, DropReason};
use latlab_overlay::links::tcp::{self, Role, TcpConfig};
use latlab_overlay::tls::{self, Credentials};
use space::{LINK, Space, Switch, addresses, everything, pair};

const LISTEN: &str = "192.0.2.2:4795";

fn switch(
    space: &Space,
    role: Role,
    tls: Option<Credentials>,
    mtu: u16,
) -> (Switch, Arc<Counters>) {
    let counters = Arc::new(Counters::default());
    let origin = match role {
        Role::Connect(_) => 1,
        Role::Listen(..) => 2,
    };
    let spec = TcpConfig {
        id: LINK,
        role,
        tls,
        origin,
        counters: counters.clone(),
    };
    let switch = Switch::start(space, "tap0", mtu, 7, move || tcp::open(spec).unwrap());
    (switch, counters)
}

fn roles() -> (Role, Role) {
    let at: SocketAddr = LISTEN.parse().unwrap();
    (Role::Connect(at), Role::Listen(at, Peer::Any))
}

/// The listening side that takes one host only.
fn listen_for(peer: &str) -> Role {
    Role::Listen(LISTEN.parse().unwrap(), Peer::parse(peer).unwrap())
}

/// The credentials of the two ends; the second accepts the first only.
fn ends(authority: &Authority) -> [Option<Credentials>; 2] {
    let [a, b] = ["192.0.2.1", "192.0.2.2"].map(|host| authority.credentials(host, authority));
    let peer = Peer::parse("192.0.2.1").unwrap();
    [Some(a), Some(b.accepting(&[peer]).unwrap())]
}

/// The established connections of the link's listener, as their other ends.
fn connections(b: &Space) -> Vec<String> {
    let said = b.shell("ss -tnH state established sport = :4795");
    let lines = said.lines();
    lines
        .filter_map(|line| line.split_whitespace().nth(3).map(str::to_owned))
        .collect()
}

/// Waits until frames pass.
fn comes_up(space: &Space) {
    let begin = Instant::now();
    // A tap that was made again has another address.
    space.ip("neighbour flush all");
    while !space
        .attempt("ping -n -c 1 -W 0.2 198.51.100.2")
        .status
        .success()
    {
        assert!(
            begin.elapsed() < Duration::from_secs(60),
            "the link stays down"
        );
    }
}

fn only_down(counters: &Counters) {
    for reason in DropReason::ALL {
        let expected = matches!(reason, DropReason::Down | DropReason::NoBuffer);
        assert!(
            expected || counters.dropped(reason) == 0,
            "{}",
            reason.name()
        );
    }
}

fn carries(a_tls: Option<Credentials>, b_tls: Option<Credentials>) {
    let (a, b) = pair(1500);
    let (connect, listen) = roles();
    let (_one, counted_a) = switch(&a, connect, a_tls, 9000);
    let (_two, counted_b) = switch(&b, listen, b_tls, 9000);
    addresses(&a, "tap0", 1, 9000);
    addresses(&b, "tap0", 2, 9000);
    comes_up(&a);
    everything(&a, &b, "tap0", 9000);
    only_down(&counted_a);
    only_down(&counted_b);
}

#[test]
fn plain_carries_everything() {
    if space::can("tcp") {
        carries(None, None);
    }
}

#[test]
fn tls_carries_everything() {
    if !space::can("tls") {
        return;
    }
    let authority = Authority::new("tls");
    let [a, b] = ["192.0.2.1", "192.0.2.2"].map(|host| authority.credentials(host, &authority));
    carries(Some(a), Some(b));
}

#[test]
fn certificates_of_another_authority_are_refused_by_either_side() {
    if !space::can("tls") {
        return;
    }
    let [ours, other] = ["ours", "other"].map(Authority::new);
    let cases = [
        // A stranger that trusts us connects; we connect to a stranger.
        (
            other.credentials("192.0.2.1", &ours),
            ours.credentials("192.0.2.2", &ours),
        ),
        (
            ours.credentials("192.0.2.1", &ours),
            other.credentials("192.0.2.2", &ours),
        ),
        // Signed, but for another address.
        (
            ours.credentials("192.0.2.1", &ours),
            ours.credentials("192.0.2.1", &ours),
        ),
    ];
    for (a_tls, b_tls) in cases {
        let (a, b) = pair(1500);
        let (connect, listen) = roles();
        let (_one, sent) = switch(&a, connect, Some(a_tls), 1500);
        let (_two, received) = switch(&b, listen, Some(b_tls), 1500);
        addresses(&a, "tap0", 1, 1500);
        addresses(&b, "tap0", 2, 1500);
        let pinged = a.attempt("ping -n -c 10 -i 0.1 -W 0.2 198.51.100.2");
        assert!(!pinged.status.success());
        let frames = |counters: &Counters| {
            counters
                .received
                .frames
                .load(std::sync::atomic::Ordering::Relaxed)
        };
        assert_eq!((frames(&sent), frames(&received)), (0, 0));
    }
}

#[test]
fn a_file_that_holds_something_else_is_named() {
    let directory = std::env::temp_dir().join(format!("latlab-nothing-{}", std::process::id()));
    std::fs::write(&directory, "nothing").unwrap();
    let read = Credentials::read(&directory, &directory, Path::new("/nowhere/ca.pem"));
    let said = read.unwrap_err().to_string();
    std::fs::remove_file(&directory).unwrap();
    assert!(said.contains("latlab-nothing"), "{said}");
}

#[test]
fn a_link_returns_after_either_side_was_away() {
    if !space::can("tcp") {
        return;
    }
    let (a, b) = pair(1500);
    let (connect, listen) = roles();
    let mut one = switch(&a, connect.clone(), None, 1500);
    let mut two = switch(&b, listen.clone(), None, 1500);
    addresses(&a, "tap0", 1, 1500);
    addresses(&b, "tap0", 2, 1500);
    comes_up(&a);
    drop(two);
    assert!(
        !a.attempt("ping -n -c 2 -i 0.1 -W 0.2 198.51.100.2")
            .status
            .success()
    );
    two = switch(&b, listen, None, 1500);
    addresses(&b, "tap0", 2, 1500);
    comes_up(&a);
    drop(one);
    one = switch(&a, connect, None, 1500);
    addresses(&a, "tap0", 1, 1500);
    comes_up(&a);
    drop((one, two));
}

/// Strangers are disconnected or wait, whatever they send, and the link continues.
#[test]
fn strangers_do_not_disturb() {
    if !space::can("tcp") {
        return;
    }
    let (a, b) = pair(1500);
    let (connect, listen) = roles();
    let (_one, _) = switch(&a, connect, None, 1500);
    let (_two, counters) = switch(&b, listen, None, 1500);
    addresses(&a, "tap0", 1, 1500);
    addresses(&b, "tap0", 2, 1500);
    comes_up(&a);
    // From another address than the peer's: not taken while the link lives.
    let from_here = b.run(|| {
        let mut stranger = TcpStream::connect(LISTEN).unwrap();
        stranger
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        stranger.write_all(&[0xff; 64]).ok();
        stranger.read(&mut [0; 16]).map_or(0, |read| read)
    });
    assert_eq!(from_here, 0);
    a.shell("ping -n -c 3 -i 0.05 -W 20 198.51.100.2");
    assert_eq!(counters.dropped(DropReason::Malformed), 0);
    // From the peer's own address: garbage ends it, and the real one comes back.
    let end = Instant::now() + Duration::from_secs(60);
    let is_seen = || counters.dropped(DropReason::Malformed) > 0;
    while !is_seen() && Instant::now() < end {
        a.run(|| {
            let mut stranger = TcpStream::connect(LISTEN).unwrap();
            stranger.write_all(&[0xff; 64]).unwrap();
        });
        // The listener may be busy, and the peer may return before the stranger's bytes are read: then it goes unnoticed.
        let moment = Instant::now() + Duration::from_secs(1);
        while !is_seen() && Instant::now() < moment {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    comes_up(&a);
    assert!(is_seen());
}

/// A certificate for one host does not impersonate another.
#[test]
fn another_hosts_certificate_does_not_take_the_peers_place() {
    if !space::can("tls") {
        return;
    }
    let authority = Authority::new("place");
    let (a, b) = pair(1500);
    let [a_tls, b_tls] = ends(&authority);
    let (_one, _) = switch(&a, roles().0, a_tls, 1500);
    let (_two, counters) = switch(&b, listen_for("192.0.2.1"), b_tls, 1500);
    addresses(&a, "tap0", 1, 1500);
    addresses(&b, "tap0", 2, 1500);
    comes_up(&a);
    let before = connections(&b);
    assert_eq!(before.len(), 1, "{before:?}");
    // From the peer's own address, with a good certificate, of the other host.
    let intruder = authority.credentials("192.0.2.2", &authority);
    let let_in = a.run(move || {
        let socket = TcpStream::connect(LISTEN).unwrap();
        let mut shaken = intruder.connect("192.0.2.2".parse().unwrap()).unwrap();
        tls::handshake(&mut shaken, &socket, Duration::from_secs(60)).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        // A client of TLS 1.3 hears now whether it was let in.
        let mut stream = rustls::StreamOwned::new(shaken, socket);
        stream.read(&mut [0; 1]).map_err(|error| error.to_string())
    });
    assert!(let_in.is_err(), "{let_in:?}");
    a.shell("ping -n -c 3 -i 0.05 -W 20 198.51.100.2");
    assert_eq!(connections(&b), before, "the peer was thrown out");
    assert_eq!(counters.dropped(DropReason::Malformed), 0);
    // A peer that vanishes without a word is noticed: a timer watches whenever nothing is on its way.
    let begin = Instant::now();
    while !b
        .shell("ss -tnoH state established sport = :4795")
        .contains("keepalive")
    {
        assert!(begin.elapsed() < Duration::from_secs(60), "nobody watches");
    }
}

/// Hosts without a key take all places that there are, again and again; the peer finds one.
#[test]
fn strangers_do_not_keep_the_peer_out() {
    if !space::can("tls") {
        return;
    }
    let authority = Authority::new("crowd");
    for tls in [false, true] {
        let (a, b) = pair(1500);
        a.ip("address add 192.0.2.3/24 dev wire");
        let [a_tls, b_tls] = match tls {
            true => ends(&authority),
            false => [None, None],
        };
        let (_two, _) = switch(&b, listen_for("192.0.2.1"), b_tls, 1500);
        // Silent connections from another address, replaced as soon as they are closed.
        const CROWD: &str = "import socket
crowd = []
while True:
    for s in list(crowd):
        try:
            if not s.recv(1): raise OSError
        except BlockingIOError: continue
        except OSError: s.close(); crowd.remove(s)
    if len(crowd) < 50:
        s = socket.create_connection((\"192.0.2.2\", 4795), 60, (\"192.0.2.3\", 0))
        s.setblocking(False); crowd.append(s)";
        let _crowd = a.start(&format!("python3 -c '{CROWD}'"));
        let begin = Instant::now();
        while !b.shell("ss -tnH sport = :4795").contains("192.0.2.3") {
            assert!(begin.elapsed() < Duration::from_secs(60), "nobody comes");
        }
        let (_one, _) = switch(&a, roles().0, a_tls, 1500);
        addresses(&a, "tap0", 1, 1500);
        addresses(&b, "tap0", 2, 1500);
        comes_up(&a);
        a.shell("ping -n -c 5 -i 0.05 -W 20 198.51.100.2");
    }
}
