//! A hostile peer, through a real socket: what it sends is dropped and counted, and the others lose
//! nothing.

mod space;

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use latlab_overlay::endpoints::{Counters, DropReason, PortId, Receive};
use latlab_overlay::frames::{Batch, NETWORK_UNKNOWN};
use latlab_overlay::links::udp::{Endpoint, Form, Receiver, UdpLinkConfig};
use latlab_wire::overlay::{PrivateHeader, Vxlan};
use space::Space;

const GOOD: PortId = PortId(4);
const BAD: PortId = PortId(5);

/// Link, network and bytes of a received frame.
type Arrived = (PortId, u32, Vec<u8>);

/// An endpoint on loopback with two peers, and what it counts.
struct Stage {
    endpoint: Arc<Endpoint>,
    receiver: Receiver,
    to: SocketAddr,
    good: (UdpSocket, Arc<Counters>),
    bad: (UdpSocket, Arc<Counters>),
    stranger: (UdpSocket, Arc<Counters>),
}

impl Stage {
    fn new(form: Form) -> Stage {
        let to: SocketAddr = "127.0.0.1:4799".parse().unwrap();
        let side = |host: &str| {
            let socket = UdpSocket::bind((host, 0)).unwrap();
            (socket, Arc::new(Counters::default()))
        };
        let (good, bad) = (side("127.0.0.2"), side("127.0.0.3"));
        let stranger = side("127.0.0.4");
        let endpoint = Endpoint::new(form, to, 1, stranger.1.clone());
        for (id, side) in [(GOOD, &good), (BAD, &bad)] {
            let remote = side.0.local_addr().unwrap();
            let counters = side.1.clone();
            let spec = UdpLinkConfig {
                id,
                remote,
                counters,
                key: None,
            };
            endpoint.add(spec).unwrap();
        }
        let receiver = endpoint.receiver().unwrap();
        Stage {
            endpoint,
            receiver,
            to,
            good,
            bad,
            stranger,
        }
    }

    /// Everything that comes until it is enough. The kernel may take its time, even on loopback.
    fn receive_until(&mut self, is_enough: impl Fn(&[Arrived], &Stage) -> bool) -> Vec<Arrived> {
        let mut frames = Vec::new();
        let mut batch = Batch::new(8);
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            batch.clear();
            let got = self.receiver.receive(&mut batch);
            if got == 0 && !self.receiver.arm() && is_enough(&frames, self) {
                return frames;
            }
            assert!(Instant::now() < end, "not enough: {frames:?}");
            for frame in batch.frames() {
                let mut bytes = frame.head().to_vec();
                for segment in batch.rest(frame) {
                    segment.append_to(&mut bytes);
                }
                assert_eq!(bytes.len(), frame.len as usize);
                frames.push((frame.ingress, frame.network, bytes));
            }
            self.receiver.complete();
        }
    }
}

fn vxlan(network: u32, frame: &[u8]) -> Vec<u8> {
    [&Vxlan { network }.encode()[..], frame].concat()
}

fn slice(number: u32, whole: usize, offset: usize, bytes: &[u8]) -> Vec<u8> {
    let header = PrivateHeader {
        hops: 3,
        network: 9,
        origin: 77,
        number,
        whole: whole as u32,
        offset: offset as u32,
        offload: [0; 10],
    };
    [&header.encode()[..], bytes].concat()
}

fn frame(len: usize, fill: u8) -> Vec<u8> {
    let mut bytes = vec![fill; len];
    bytes[12..14].copy_from_slice(&[0x88, 0xb5]);
    bytes
}

/// As the other tests do: nothing of the machine's network.
fn alone(name: &str, test: impl FnOnce() + Send + 'static) {
    if space::can(name) {
        Space::new().run(test);
    }
}

#[test]
fn malformed_truncated_and_strange_vxlan_is_dropped_and_counted() {
    alone("hostile vxlan", || {
        let mut stage = Stage::new(Form::Vxlan);
        let good = frame(100, 1);
        let to = stage.to;
        let bad = [
            vec![],
            vec![8],
            vxlan(9, &[])[..7].to_vec(),
            // No network, no frame, half a header.
            [&[0; 8][..], &good].concat(),
            vxlan(9, &[]),
            vxlan(9, &good[..13]),
        ];
        let mut random = 1_u64;
        for round in 0..200_u32 {
            for datagram in &bad {
                stage.bad.0.send_to(datagram, to).unwrap();
            }
            // Garbage, of which some is VXLAN by chance.
            let garbage: Vec<u8> = (0..round % 60)
                .map(|_| {
                    random = random.wrapping_mul(6364136223846793005).wrapping_add(1);
                    (random >> 33) as u8
                })
                .collect();
            stage.bad.0.send_to(&garbage, to).unwrap();
            stage.stranger.0.send_to(&vxlan(9, &good), to).unwrap();
            stage.good.0.send_to(&vxlan(9, &good), to).unwrap();
            let is_good = |(link, ..): &Arrived| *link == GOOD;
            let got = stage.receive_until(|got, _| got.iter().any(is_good));
            let of_good = got.iter().filter(|(link, ..)| *link == GOOD);
            assert_eq!(of_good.collect::<Vec<_>>(), [&(GOOD, 9, good.clone())]);
            assert!(got.iter().all(|(_, network, _)| *network < NETWORK_UNKNOWN));
        }
        // An empty datagram is no message of any length: it is not counted as a frame.
        let least = 200 * (bad.len() as u64 - 1);
        stage.receive_until(|_, stage| {
            stage.bad.1.dropped(DropReason::Malformed) >= least
                && stage.stranger.1.dropped(DropReason::Unknown) >= 200
        });
        assert_eq!(stage.stranger.1.dropped(DropReason::Unknown), 200);
        assert_eq!(stage.good.1.dropped(DropReason::Malformed), 0);
    });
}

#[test]
fn slices_that_overlap_or_never_end_are_bounded_and_counted() {
    alone("hostile slices", || {
        let mut stage = Stage::new(Form::Private);
        let good = frame(3000, 7);
        let to = stage.to;
        for number in 0..200_u32 {
            let send = |bytes: Vec<u8>| stage.bad.0.send_to(&bytes, to).unwrap();
            // Begun and never ended; overlapping; another length; beyond its end.
            send(slice(number, 60_000, 100, &[1; 900]));
            send(slice(number, 60_000, 500, &[2; 900]));
            send(slice(number, 50_000, 2000, &[3; 900]));
            send(slice(number, 100, 50, &[4; 51]));
            // The good one's frame comes in two slices, the second first.
            let (front, back) = good.split_at(1500);
            let sent = [
                slice(number, 3000, 1500, back),
                slice(number, 3000, 0, front),
            ];
            for datagram in sent {
                stage.good.0.send_to(&datagram, to).unwrap();
            }
            let wrong = 3 * u64::from(number + 1);
            let got = stage.receive_until(|got, stage| {
                !got.is_empty() && stage.bad.1.dropped(DropReason::Malformed) >= wrong
            });
            assert_eq!(got, [(GOOD, 9, good.clone())]);
        }
        let counters = &stage.bad.1;
        assert_eq!(counters.dropped(DropReason::Malformed), 3 * 200);
        assert!(counters.dropped(DropReason::Incomplete) >= 150);
        assert_eq!(stage.good.1.dropped(DropReason::Incomplete), 0);
    });
}

#[test]
fn a_frame_that_comes_home_is_dropped_as_a_loop() {
    alone("loop", || {
        let mut stage = Stage::new(Form::Private);
        let mut datagram = slice(1, 60, 0, &frame(60, 1));
        datagram[8..16].copy_from_slice(&1_u64.to_be_bytes());
        stage.bad.0.send_to(&datagram, stage.to).unwrap();
        let got = stage.receive_until(|_, stage| stage.bad.1.dropped(DropReason::Loop) == 1);
        assert_eq!(got, []);
    });
}

#[test]
fn an_offload_that_cannot_be_is_malformed() {
    alone("offload", || {
        let mut stage = Stage::new(Form::Private);
        let mut datagram = slice(1, 60, 0, &frame(60, 1));
        // A checksum beyond the frame.
        datagram[28..38].copy_from_slice(&[1, 0, 0, 0, 0, 0, 59, 0, 16, 0]);
        stage.bad.0.send_to(&datagram, stage.to).unwrap();
        let got = stage.receive_until(|_, stage| stage.bad.1.dropped(DropReason::Malformed) == 1);
        assert_eq!(got, []);
    });
}

/// Links come and go a thousand times while another carries frames, which loses none.
#[test]
fn links_come_and_go_without_loss_on_others() {
    alone("links under traffic", || {
        let mut stage = Stage::new(Form::Vxlan);
        let good = frame(200, 3);
        for round in 0..1000_u32 {
            let remote: SocketAddr = format!("127.0.1.{}:9", round % 200 + 1).parse().unwrap();
            let spec = UdpLinkConfig {
                id: PortId(100),
                remote,
                counters: Arc::default(),
                key: None,
            };
            stage.endpoint.add(spec.clone()).unwrap();
            let other = UdpLinkConfig {
                id: PortId(101),
                ..spec
            };
            assert!(stage.endpoint.add(other).is_err(), "one host, one link");
            stage.good.0.send_to(&vxlan(9, &good), stage.to).unwrap();
            assert!(stage.endpoint.remove(PortId(100)));
            assert!(!stage.endpoint.remove(PortId(100)));
            stage.good.0.send_to(&vxlan(9, &good), stage.to).unwrap();
            let got = stage.receive_until(|got, _| got.len() >= 2);
            assert_eq!(got.len(), 2);
        }
        assert!(stage.endpoint.transmitter(PortId(100)).is_err());
    });
}
