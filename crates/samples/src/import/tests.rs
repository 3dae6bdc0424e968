//! Captures written byte by byte, and what an import makes of them.

use std::fs;

use super::pair::Pair;
use super::*;
use crate::reader::SampleReader;
use crate::run_dir::RunDir;
use crate::scratch::Scratch;

const MICROSECOND: i64 = 1_000;
const SECOND: i64 = 1_000_000_000;
const START: i64 = 1_700_000_000 * SECOND;

/// pcap with timestamps in nanoseconds, and its packets: time, bytes, length on the wire.
fn pcap(packets: &[(i64, Vec<u8>, usize)]) -> Vec<u8> {
    let mut out = Vec::new();
    for number in [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        out.extend(number.to_le_bytes());
    }
    for (time, bytes, length) in packets {
        let (seconds, rest) = (time / SECOND, time % SECOND);
        for number in [
            seconds as u32,
            rest as u32,
            bytes.len() as u32,
            *length as u32,
        ] {
            out.extend(number.to_le_bytes());
        }
        out.extend(bytes);
    }
    out
}

/// UDP over IPv4 over Ethernet, with what devices change: MAC address, tag, TTL, source.
#[derive(Clone, Copy)]
struct Frame {
    mac: u8,
    tag: bool,
    ttl: u8,
    from: [u8; 4],
    to: [u8; 4],
    port: u16,
    number: u16,
    payload: usize,
}

const SENT: Frame = Frame {
    mac: 1,
    tag: false,
    ttl: 64,
    from: [10, 0, 0, 1],
    to: [10, 0, 9, 1],
    port: 4000,
    number: 0,
    payload: 100,
};

impl Frame {
    fn bytes(&self) -> Vec<u8> {
        let mut out = vec![self.mac; 12];
        if self.tag {
            out.extend([0x81, 0x00, 0x00, 0x07]);
        }
        out.extend([0x08, 0x00, 0x45, 0]);
        out.extend((28 + self.payload as u16).to_be_bytes());
        out.extend([0, 0, 0x40, 0, self.ttl, 17, self.ttl, self.mac]);
        out.extend(self.from);
        out.extend(self.to);
        out.extend(self.port.to_be_bytes());
        out.extend([0x13, 0x88]);
        out.extend((8 + self.payload as u16).to_be_bytes());
        out.extend([self.from[0], self.from[1]]);
        out.extend(self.number.to_be_bytes());
        out.resize(out.len() + self.payload - 2, 0);
        out
    }

    fn whole(&self, time: i64) -> (i64, Vec<u8>, usize) {
        let bytes = self.bytes();
        let length = bytes.len();
        (time, bytes, length)
    }
}

fn imported(scratch: &Scratch, by: By, files: &[Vec<u8>; 2]) -> Result<Pair, ImportError> {
    let [before, after] = ["before", "after"].map(|name| Source {
        path: scratch.path().join(name),
        interface: None,
    });
    fs::write(&before.path, &files[0]).unwrap();
    fs::write(&after.path, &files[1]).unwrap();
    Pair::read([before, after], by)
}

/// A hundred packets a millisecond apart, as each point changes them, with a delay to the second.
fn pair(change: impl Fn(Frame) -> Frame, delay: impl Fn(i64) -> i64) -> [Vec<u8>; 2] {
    let numbered = |number: i64| Frame {
        number: number as u16,
        ..SENT
    };
    let time = |number: i64| START + number * 1_000 * MICROSECOND;
    let before: Vec<_> = (0..100).map(|n| numbered(n).whole(time(n))).collect();
    let after = (0..100).map(|n| change(numbered(n)).whole(time(n) + delay(n)));
    [pcap(&before), pcap(&after.collect::<Vec<_>>())]
}

fn found(by: By, files: &[Vec<u8>; 2], name: &str) -> Pair {
    imported(&Scratch::new(name), by, files).unwrap()
}

fn routed(sent: Frame) -> Frame {
    Frame {
        mac: 2,
        tag: true,
        ttl: 63,
        ..sent
    }
}

#[test]
fn a_routers_packets_are_known_by_their_ip_packets() {
    let delay = |n| (20 + n) * MICROSECOND;
    let all = found(By::Packet, &pair(routed, delay), "import-routed");
    let latencies = all.matched.latencies();
    assert_eq!(latencies, (0..100).map(delay).collect::<Vec<_>>());
    assert_eq!(all.directions, ["10.0.0.1 to 10.0.9.1"]);
    assert_eq!(all.left_out(), [""; 0]);
    assert!(all.checks().iter().all(|check| check.passed));
}

#[test]
fn nat_and_a_bridge_want_other_parts() {
    let nat = |sent: Frame| Frame {
        from: [192, 0, 2, 7],
        port: 61_000,
        ..routed(sent)
    };
    let refused = imported(&Scratch::new("import-nat"), By::Packet, &pair(nat, |_| 5));
    assert!(matches!(refused, Err(ImportError::NothingInCommon { .. })));
    let all = found(
        By::Payload,
        &pair(nat, |_| 5 * MICROSECOND),
        "import-payload",
    );
    assert_eq!(all.matched.counters.received, 100);
    let all = found(By::Frame, &pair(|same| same, |_| 900), "import-frame");
    assert_eq!(all.matched.counters.received, 100);
    let refused = imported(
        &Scratch::new("import-frame-2"),
        By::Frame,
        &pair(routed, |_| 5),
    );
    assert!(matches!(refused, Err(ImportError::NothingInCommon { .. })));
}

/// Packets of other ends, as the device's own ssh, beside those that it forwards.
#[test]
fn packets_of_the_device_itself_are_not_lost() {
    let numbered = |number: i64| Frame {
        number: number as u16,
        ..SENT
    };
    let own = |number| Frame {
        to: [10, 0, 0, 254],
        ..numbered(number)
    };
    let time = |number: i64| START + number * 1_000 * MICROSECOND;
    let both = (0..100).flat_map(|n| {
        let forwarded = numbered(n).whole(time(n));
        let own = own(n).whole(time(n) + MICROSECOND);
        [Some(forwarded), Some(own).filter(|_| n % 2 == 0)]
    });
    let before = pcap(&both.flatten().collect::<Vec<_>>());
    let [_, after] = pair(routed, |_| 50 * MICROSECOND);
    let all = found(By::Packet, &[before, after], "import-own");
    let counters = all.matched.counters;
    assert_eq!((counters.sent, counters.lost), (100, 0));
    let left_out = "50 packets are of directions of which none is at both points";
    assert_eq!(all.left_out(), [left_out]);
}

/// The card of the second point sees the frame as it was on the wire, where the shortest has 60 bytes.
#[test]
fn padding_of_frames_without_ip_does_not_matter() {
    let mut arp = vec![0xff; 6];
    arp.extend([2; 6]);
    arp.extend([0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 1]);
    arp.extend([2, 2, 2, 2, 2, 2, 10, 0, 0, 1]);
    arp.extend([0, 0, 0, 0, 0, 0, 10, 0, 0, 2]);
    let mut padded = arp.clone();
    padded.resize(60, 0);
    for (by, name) in [(By::Packet, "import-arp"), (By::Frame, "import-arp-2")] {
        let files = [
            pcap(&[(START, arp.clone(), 42)]),
            pcap(&[(START + 700, padded.clone(), 60)]),
        ];
        let all = found(by, &files, name);
        assert_eq!(all.matched.latencies(), [700], "{by:?}");
    }
}

#[test]
fn a_capture_of_headers_is_matched_with_a_whole_one() {
    let [before, _] = pair(routed, |_| 0);
    let cut = (0..100).map(|n: i64| {
        let frame = routed(Frame {
            number: n as u16,
            ..SENT
        });
        let (time, bytes, length) = frame.whole(START + (n * 1_000 + 30) * MICROSECOND);
        (time, bytes[..60].to_vec(), length)
    });
    let after = pcap(&cut.collect::<Vec<_>>());
    let files = [before, after];
    for (by, name) in [(By::Packet, "import-cut"), (By::Payload, "import-cut-2")] {
        let all = found(by, &files, name);
        assert_eq!(all.matched.counters.received, 100, "{by:?}");
    }
}

#[test]
fn a_counter_of_32_bits_that_wraps_is_told_and_nothing_is_written() {
    // In both files: the stamps go back.
    let wrapped = |n: i64| if n < 60 { 0 } else { -matching::WRAP_NS };
    let refused = imported(
        &Scratch::new("import-wraps"),
        By::Packet,
        &pair(routed, wrapped),
    );
    let wraps = matches!(refused, Err(ImportError::Wraps { count: 1, .. }));
    assert!(wraps, "{refused:?}");
    // A tool that sorts packets hides it: then the latency jumps.
    let [before, after] = pair(routed, |n| if n < 60 { 50 } else { 50 + matching::WRAP_NS });
    let refused = imported(&Scratch::new("import-jumps"), By::Packet, &[before, after]);
    let jumps = matches!(refused, Err(ImportError::CyclesApart { count: 1, .. }));
    assert!(jumps, "{refused:?}");
}

#[test]
fn a_clock_that_was_set_back_fails_a_check() {
    let set_back = |n: i64| {
        if n < 60 {
            50 * MICROSECOND
        } else {
            -500_000 * MICROSECOND
        }
    };
    let all = found(By::Packet, &pair(routed, set_back), "import-step");
    let failed = all.checks().into_iter().filter(|check| !check.passed);
    let failed: Vec<String> = failed.map(|check| check.name).collect();
    assert_eq!(failed, ["clock-steps", "causality"]);
}

#[test]
fn swapped_and_damaged_captures_are_refused() {
    let [before, after] = pair(routed, |_| 50 * MICROSECOND);
    let scratch = Scratch::new("import-swapped");
    let refused = imported(&scratch, By::Packet, &[after.clone(), before.clone()]);
    assert!(matches!(refused, Err(ImportError::BackToFront { .. })));
    let short = after[..after.len() - 7].to_vec();
    let refused = imported(&scratch, By::Packet, &[before.clone(), short]);
    assert!(
        matches!(refused, Err(ImportError::Damaged { .. })),
        "{refused:?}"
    );
    let refused = imported(
        &scratch,
        By::Packet,
        &[before.clone(), b"no capture".to_vec()],
    );
    assert!(
        matches!(refused, Err(ImportError::NotACapture { .. })),
        "{refused:?}"
    );
    let refused = imported(&scratch, By::Packet, &[before, after[..24].to_vec()]);
    assert!(
        matches!(refused, Err(ImportError::Empty { .. })),
        "{refused:?}"
    );
}

/// A fuzzer's finding: a block of macOS (process information) whose length is below a block's smallest.
#[test]
fn a_block_of_pcapng_that_is_too_short_is_refused() {
    let [before, _] = pair(routed, |_| 50 * MICROSECOND);
    let scratch = Scratch::new("import-short");
    for order in [u32::to_le_bytes, u32::to_be_bytes] {
        let words = [0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28];
        let short = [0x8000_0001, 6, 0x10a, 42];
        let file: Vec<u8> = words
            .iter()
            .chain(&short)
            .copied()
            .flat_map(order)
            .collect();
        let refused = imported(&scratch, By::Packet, &[before.clone(), file]).unwrap_err();
        let what = "byte 28 begins no block";
        assert!(refused.to_string().contains(what), "{refused}");
    }
}

#[test]
fn an_import_is_a_run_like_others() {
    let delay = |n| (20 + n) * MICROSECOND;
    let pairs = vec![
        found(By::Packet, &pair(routed, delay), "import-run-1"),
        found(By::Packet, &pair(routed, |n| 2 * delay(n)), "import-run-2"),
    ];
    let import = Import {
        pairs: Vec::new(),
        by: By::Packet,
        name: "captures".into(),
    };
    let all = Imported { import, pairs };
    let scratch = Scratch::new("import-run-dir");
    let dir = RunDir::create(scratch.path().join("run")).unwrap();
    let manifest = all.write(&dir, "run".into()).unwrap();
    assert_eq!(dir.read_manifest().unwrap(), manifest);
    assert_eq!(manifest.started, "2023-11-14T22:13:20Z");
    assert_eq!(dir.verify(&manifest.checksums), []);
    for (number, pair) in (1..).zip(&all.pairs) {
        let trial = dir.read_trial(number).unwrap().unwrap();
        let place = dir.inside(number, trial.samples.as_deref().unwrap());
        let samples = SampleReader::open(place.unwrap()).unwrap();
        assert_eq!(samples.read_all().unwrap(), pair.matched.samples);
    }
}
