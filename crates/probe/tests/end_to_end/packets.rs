//! Open-loop packets and the forwarder over real sockets: counts, matching and causal order, never
//! how long anything took.

use std::collections::HashMap;
use std::net::UdpSocket;

use crate::harness::{Outcome, Probe, counters, isolate};
use latlab_wire::probe::PacketRepr;
use latlab_wire::samples::{Record, SampleKind, Stamp, flags};
use rustix::process::Signal;

fn by_sequence(outcome: &Outcome) -> HashMap<u32, Record> {
    outcome
        .records
        .iter()
        .map(|record| (record.sequence, *record))
        .collect()
}

fn payload(flow: u16, sequence: u32) -> [u8; 18] {
    let mut bytes = [0; 18];
    PacketRepr {
        flow,
        sequence,
        intended_ns: 1,
    }
    .emit(&mut bytes);
    bytes
}

#[test]
fn every_packet_sent_is_received_and_matched() {
    isolate();
    for (bind, stamp, arrival, payload_bytes) in [
        ("127.0.0.1:0", "user", "constant", 18),
        ("127.0.0.1:0", "kernel", "poisson", 18),
        ("[::1]:0", "kernel", "constant", 16),
    ] {
        let (sink, address) = Probe::serve(&["sink", "--bind", bind, "--stamp", stamp]);
        let to = address.to_string();
        let source = Probe::run(&[
            "source",
            "--to",
            &to,
            "--rate=20000",
            "--count=2000",
            "--warmup-ms=10",
            "--flow=7",
            "--arrival",
            arrival,
        ]);
        let sink = sink.finish();

        let sent = counters!(source.good_report(), Source);
        assert_eq!((sent.planned - sent.warm_up, sent.not_sent), (2000, 0));
        assert_eq!((sent.flow, sent.payload_bytes), (7, payload_bytes));
        assert_eq!(source.kind, Some(SampleKind::Source));
        let lateness = source
            .good_report()
            .health
            .lateness
            .expect("a source has a schedule");
        assert_eq!(lateness.count, 2000);

        let received = counters!(sink.good_report(), Sink);
        assert_eq!(
            (received.received, received.recorded),
            (sent.sent, sent.sent)
        );
        assert_eq!(
            (received.duplicates, received.reordered, received.flows),
            (0, 0, 1)
        );
        assert_eq!(
            (received.corrupt, received.foreign, received.no_room),
            (0, 0, 0)
        );
        assert_eq!(sink.kind, Some(SampleKind::Sink));
        assert_eq!(sink.good_report().health.socket_drops, Some(0));

        let received = by_sequence(&sink);
        for sent in &source.records {
            let received = received[&sent.sequence];
            assert_eq!((received.start_ns, received.flow), (sent.start_ns, 7));
            assert!(
                sent.start_ns <= sent.end_ns,
                "sent before its time: {sent:?}"
            );
            let by_kernel = received.has(flags::KERNEL_STAMP);
            assert_eq!(by_kernel, stamp == "kernel", "{received:?}");
            // The clocks' offset is known to below a microsecond; ten times that to be sure.
            let slack_ns = if by_kernel { 10_000 } else { 0 };
            assert!(
                received.end_ns + slack_ns >= sent.end_ns,
                "{sent:?} {received:?}"
            );
        }
    }
}

#[test]
fn the_schedule_follows_the_seed_and_nothing_else() {
    isolate();
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = silent.local_addr().unwrap().to_string();
    let offsets = |seed| {
        let source = Probe::run(&[
            "source",
            "--to",
            &to,
            "--rate=100000",
            "--count=500",
            "--arrival=poisson",
            "--seed",
            seed,
        ]);
        let report = source.good_report();
        let offset = |record: &Record| record.start_ns - report.started_ns;
        source.records.iter().map(offset).collect::<Vec<u64>>()
    };
    let first = offsets("5");
    assert_eq!(first.len(), 500);
    assert_eq!(offsets("5"), first);
    assert_ne!(offsets("6"), first);
}

#[test]
fn a_source_needs_no_listener() {
    isolate();
    let closed = UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string();
    let source = Probe::run(&["source", "--to", &closed, "--rate=1000", "--duration-ms=50"]);
    let counters = counters!(source.good_report(), Source);
    assert_eq!(
        (counters.planned, counters.sent + counters.not_sent),
        (50, 50)
    );
    assert!(counters.network_errors > 0);
    assert_eq!(source.records.len(), 50);
}

#[test]
fn a_sink_tells_apart_what_comes() {
    isolate();
    let (sink, address) =
        Probe::serve(&["sink", "--bind=127.0.0.1:0", "--flow=1", "--max-packets=5"]);
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    sender.connect(address).unwrap();
    for sequence in [0, 2, 1, 2, 3, 4] {
        sender.send(&payload(1, sequence)).unwrap();
    }
    sender.send(&payload(2, 0)).unwrap();
    sender.send(b"noise").unwrap();
    sender.send(b"x").unwrap();
    let sink = sink.finish();
    let counters = counters!(sink.good_report(), Sink);
    assert_eq!(
        (counters.received, counters.recorded, counters.no_room),
        (9, 5, 1)
    );
    assert_eq!((counters.corrupt, counters.foreign), (2, 1));
    assert_eq!((counters.duplicates, counters.reordered), (1, 1));
    assert_eq!(
        (counters.stamp, counters.realtime_offset_start_ns),
        (Stamp::User, None)
    );
    let told: Vec<(u32, u16)> = sink.records.iter().map(|r| (r.sequence, r.flags)).collect();
    let expected = [
        (0, 0),
        (2, 0),
        (1, flags::REORDERED),
        (2, flags::DUPLICATE),
        (3, 0),
    ];
    assert_eq!(told, expected);
}

#[test]
fn what_the_kernel_drops_is_counted() {
    isolate();
    let (sink, address) = Probe::serve(&["sink", "--bind=127.0.0.1:0", "--receive-buffer=1"]);
    sink.signal(Signal::STOP);
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    for sequence in 0..500 {
        sender.send_to(&payload(0, sequence), address).unwrap();
    }
    sink.signal(Signal::CONT);
    let sink = sink.finish();
    let drops = sink
        .good_report()
        .health
        .socket_drops
        .expect("the kernel tells");
    assert!(drops > 0);
    assert_eq!(counters!(sink.good_report(), Sink).received + drops, 500);
}

#[test]
fn a_sink_takes_what_its_socket_still_holds() {
    isolate();
    for (poll, stamp) in [("block", "user"), ("block", "kernel"), ("busy", "user")] {
        let (sink, address) = Probe::serve(&[
            "sink",
            "--bind=127.0.0.1:0",
            "--poll",
            poll,
            "--stamp",
            stamp,
        ]);
        sink.signal(Signal::STOP);
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        // An empty datagram in the middle is not the end.
        for sequence in 0..100 {
            sender.send_to(&payload(0, sequence), address).unwrap();
            sender.send_to(b"", address).unwrap();
        }
        let sink = sink.finish_then(|sink| sink.signal(Signal::CONT));
        assert_eq!(counters!(sink.good_report(), Sink).recorded, 100);
    }
}
