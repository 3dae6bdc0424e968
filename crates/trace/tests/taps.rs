//! The records of a tap, and their times.

use std::net::UdpSocket;
use std::ops::Range;
use std::process::Command;

use latlab_host::links::wire::Wire;
use latlab_trace::Error;
use latlab_trace::taps::{Point, Side, Tap};
use latlab_wire::probe::{HEADER_BYTES, PacketRepr};

/// Sends packets of ours, and waits until all of them have come.
fn pass(from: &UdpSocket, to: &UdpSocket, sequences: Range<u32>) {
    let mut payload = [0; HEADER_BYTES];
    for sequence in sequences.clone() {
        let header = PacketRepr {
            flow: 7,
            sequence,
            intended_ns: 0,
        };
        header.emit(&mut payload);
        from.send(&payload).unwrap();
    }
    sequences.for_each(|_| {
        to.recv(&mut payload).unwrap();
    });
}

#[test]
fn a_tap_sees_packets_while_attached_and_no_others() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: needs root to make network namespaces");
    }
    let wire = Wire::new().unwrap();
    let (from, to) = wire.addresses(9);
    let server = wire.far.run(|| UdpSocket::bind(to)).unwrap().unwrap();
    let point = Point {
        interface: Wire::INTERFACE.into(),
        side: Side::Egress,
    };
    let tapped = || {
        let client = UdpSocket::bind(from).unwrap();
        client.connect(to).unwrap();
        let mut tap = Tap::load(&point, 100).unwrap();
        pass(&client, &server, 0..10);
        tap.resume().unwrap();
        pass(&client, &server, 10..20);
        tap.suspend().unwrap();
        pass(&client, &server, 20..30);
        tap.resume().unwrap();
        pass(&client, &server, 30..40);
        tap.detach().unwrap()
    };
    let seen = wire.near.run(tapped).unwrap();
    let numbers: Vec<u32> = seen.records.iter().map(|(_, one)| one.sequence).collect();
    let expected: Vec<u32> = (10..20).chain(30..40).collect();
    assert_eq!(numbers, expected);
}

fn tc(words: &str) -> String {
    let output = Command::new("tc")
        .args(words.split_whitespace())
        .output()
        .unwrap();
    assert!(output.status.success(), "tc {words}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Classic BPF that matches nothing, at a place that many programs use, and at the taps' own.
const AT_FIRST: &str = "prio 1 handle 1 bpf";
const AT_TAPS: &str = "prio 3 handle 0x74617000 bpf";
const NOTHING: &str = "bytecode '1,6 0 0 0'";

#[test]
fn filters_of_others_stay_beside_a_tap_and_after_it() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: needs root to make network namespaces");
    }
    let wire = Wire::new().unwrap();
    let tried = || {
        let device = Wire::INTERFACE;
        tc(&format!("qdisc add dev {device} clsact"));
        for (side, name) in [(Side::Ingress, "ingress"), (Side::Egress, "egress")] {
            let filters = || tc(&format!("filter show dev {device} {name}"));
            let add = |place: &str| {
                let words = format!("filter add dev {device} {name} protocol all {place}");
                // One word, with blanks.
                let mut words: Vec<&str> = words.split_whitespace().collect();
                words.extend(["bytecode", "1,6 0 0 0,"]);
                let added = Command::new("tc").args(words).output().unwrap();
                assert!(added.status.success(), "{added:?}");
            };
            let point = Point {
                interface: device.into(),
                side,
            };
            add(AT_FIRST);
            let left = Tap::attach(&point, 100).unwrap();
            // From Linux 6.6 on a tap is no filter.
            let is_filter = filters().contains("direct-action");
            let tap = Tap::attach(&point, 100).unwrap();
            left.detach().unwrap();
            assert_eq!(
                filters().contains("direct-action"),
                is_filter,
                "the second's"
            );
            assert_eq!(filters().matches(NOTHING).count(), 1, "{}", filters());
            tap.detach().unwrap();
            assert!(!filters().contains("direct-action"), "{}", filters());
            assert_eq!(filters().matches(NOTHING).count(), 1, "{}", filters());
            add(AT_TAPS);
            match Tap::attach(&point, 100) {
                Ok(_) => assert!(!is_filter),
                Err(Error::Attach { reason, .. }) => {
                    assert!(
                        is_filter && reason.starts_with("another program's"),
                        "{reason}"
                    );
                }
                Err(error) => panic!("{error}"),
            }
            assert_eq!(filters().matches(NOTHING).count(), 2, "{}", filters());
        }
    };
    wire.near.run(tried).unwrap();
}
