//! The records of a tap, and their times.

use std::net::UdpSocket;
use std::ops::Range;

use latlab_host::links::wire::Wire;
use latlab_trace::taps::{Point, Side, Tap};
use latlab_wire::probe::{HEADER_BYTES, Packet, PacketRepr};

/// Sends packets of ours, and waits until all of them have come.
fn pass(from: &UdpSocket, to: &UdpSocket, sequences: Range<u32>) {
    let mut payload = [0; HEADER_BYTES];
    for sequence in sequences.clone() {
        let header = PacketRepr {
            flow: 7,
            sequence,
            intended_ns: 0,
        };
        header.emit(&mut Packet::new_unchecked(&mut payload[..]));
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
