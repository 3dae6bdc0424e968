//! Links over UDP through a real kernel: against its own vxlan device, and against ourselves.

mod space;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use latlab_overlay::endpoints::{Counters, DropReason, Receive, Transmit};
use latlab_overlay::frames::{Batch, Gso, Offload, Segment};
use latlab_overlay::links::udp::sealed::Identity;
use latlab_overlay::links::udp::{Endpoint, Form, UdpLinkConfig};
use space::{LINK, Space, Switch, addresses, as_cards_do, everything, pair};

const NETWORK: u32 = 0x12_3456;

/// Counters of a link, and of strangers.
#[derive(Default, Clone)]
struct Counted {
    link: Arc<Counters>,
    strangers: Arc<Counters>,
}

impl Counted {
    /// Everything that was dropped, by reason.
    fn drops(&self) -> Vec<(&'static str, u64)> {
        let each = DropReason::ALL.map(|reason| {
            let count = self.link.dropped(reason) + self.strangers.dropped(reason);
            (reason.name(), count)
        });
        each.into_iter().filter(|(_, count)| *count > 0).collect()
    }
}

/// A tap in `space` joined with a link to `remote`.
fn switch(
    space: &Space,
    form: Form,
    (local, remote): (&str, &str),
    key: Option<[u8; 32]>,
    mtu: u16,
) -> (Switch, Counted) {
    let local: SocketAddr = local.parse().unwrap();
    let remote: SocketAddr = remote.parse().unwrap();
    let counted = Counted::default();
    let (counters, strangers) = (counted.link.clone(), counted.strangers.clone());
    let origin = u64::from(local.ip().to_string().bytes().last().unwrap());
    let switch = Switch::start(space, "tap0", mtu, NETWORK, move || {
        let endpoint = Endpoint::new(form, local, origin, strangers);
        let id = LINK;
        endpoint
            .add(UdpLinkConfig {
                id,
                remote,
                counters,
                key,
            })
            .unwrap();
        let receiver = endpoint.receiver().unwrap();
        (receiver, endpoint.transmitter(id).unwrap())
    });
    (switch, counted)
}

/// The kernel's own end in `space`.
fn kernel_vxlan(space: &Space, local: &str, remote: &str, mtu: u32) {
    let v6 = if local.contains(':') {
        "udp6zerocsumrx noudp6zerocsumtx"
    } else {
        "udpcsum"
    };
    space.ip(&format!(
        "link add vx0 type vxlan id {NETWORK} local {local} remote {remote} dstport 4789 {v6}"
    ));
    addresses(space, "vx0", 2, mtu);
}

#[test]
fn the_kernels_vxlan_device_is_understood_and_understands() {
    if !space::can("vxlan") {
        return;
    }
    let (a, b) = pair(1500);
    kernel_vxlan(&b, "192.0.2.2", "192.0.2.1", 1450);
    let ends = ("192.0.2.1:4789", "192.0.2.2:4789");
    let (_switch, counted) = switch(&a, Form::Vxlan, ends, None, 1450);
    addresses(&a, "tap0", 1, 1450);
    everything(&a, &b, "vx0", 1450);
    assert_eq!(counted.drops(), []);
}

/// A TCP frame with `payload` bytes, to be segmented.
fn large(payload: usize) -> Vec<u8> {
    let mut frame = vec![0; 54 + payload];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
    frame[14..34].copy_from_slice(&[
        69, 0, 0, 0, 0, 0, 64, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
    ]);
    let total = u16::try_from(40 + payload).unwrap();
    frame[16..18].copy_from_slice(&total.to_be_bytes());
    // Ports, numbers, a header of 20 bytes, ACK, a window.
    frame[34..50].copy_from_slice(&[4, 0, 8, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 1, 0]);
    frame
}

#[test]
fn a_frame_cut_into_more_than_one_message_takes_is_joined_whole() {
    let space = Space::new();
    let whole = space.run(|| {
        let ends = ["127.0.0.1:4789", "127.0.0.2:4789"].map(|end| end.parse().unwrap());
        let [(_, mut sends), (mut receives, _)] = [0, 1].map(|at| {
            let endpoint = Endpoint::new(Form::Vxlan, ends[at], 1, Arc::default());
            let spec = UdpLinkConfig {
                id: LINK,
                remote: ends[1 - at],
                counters: Arc::default(),
                key: None,
            };
            endpoint.add(spec).unwrap();
            let receiver = endpoint.receiver().unwrap();
            (receiver, endpoint.transmitter(LINK).unwrap())
        });
        let bytes: &'static [u8] = large(64_800).leak();
        let offload = Offload {
            gso: Gso::Tcp4,
            gso_size: 1400,
            checksum: Some((34, 16)),
            ..Offload::default()
        };
        let (mut sent, mut came) = (Batch::new(1), Batch::new(8));
        sent.push(LINK, NETWORK, offload, [Segment::of(bytes)])
            .unwrap();
        // The kernel may be slow to hand the second message over, but not every time.
        (0..40).any(|_| {
            sends.transmit(&sent, &[0]);
            std::thread::sleep(Duration::from_millis(50));
            let mut frames = Vec::new();
            loop {
                came.clear();
                let some = receives.receive(&mut came);
                assert_eq!(some, came.frames().len(), "what is joined counts once");
                frames.extend(came.frames().iter().map(|frame| frame.len as usize));
                receives.complete();
                if some == 0 {
                    break;
                }
            }
            frames == [bytes.len()]
        })
    });
    assert!(whole);
}

/// tshark's lines for a capture and a filter.
fn dissected(space: &Space, file: &Path, filter: &str) -> String {
    let checks = "-o ip.check_checksum:TRUE -o tcp.check_checksum:TRUE -o udp.check_checksum:TRUE";
    space.shell(&format!(
        "tshark -r {} {checks} -Y '{filter}' 2>&1 | grep -v ^Running || true",
        file.display()
    ))
}

#[test]
fn wireshark_reads_what_is_sent_without_complaint() {
    if !space::can("capture") {
        return;
    }
    let (a, b) = pair(1500);
    as_cards_do(&a);
    as_cards_do(&b);
    kernel_vxlan(&b, "192.0.2.2", "192.0.2.1", 1450);
    let ends = ("192.0.2.1:4789", "192.0.2.2:4789");
    let (_switch, counted) = switch(&a, Form::Vxlan, ends, None, 1450);
    addresses(&a, "tap0", 1, 1450);
    let file = std::env::temp_dir().join(format!("latlab-capture-{}.pcapng", b.tid));
    // With room for all of it, should the writer be slow.
    let capture = b.start(&format!("tshark -q -B 256 -i wire -w {}", file.display()));
    for _ in 0..2500 {
        if file.metadata().is_ok_and(|file| file.len() > 0) {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    everything(&a, &b, "vx0", 1450);
    // The tagged frame from the other side is the last that was sent.
    let last = format!("ip.src == 192.0.2.2 && vxlan.vni == {NETWORK} && vlan.id == 5");
    for _ in 0..60 {
        if dissected(&b, &file, &last).lines().count() > 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    capture.finish();
    assert_eq!(counted.drops(), []);
    for side in [1, 2] {
        let sent = dissected(
            &b,
            &file,
            &format!("ip.src == 192.0.2.{side} && vxlan.vni == {NETWORK} && tcp"),
        );
        assert!(
            sent.lines().count() > 1000,
            "only {} of TCP by {side}",
            sent.lines().count()
        );
        let tagged = dissected(
            &b,
            &file,
            &format!("ip.src == 192.0.2.{side} && vlan.id == 5"),
        );
        assert_eq!(tagged.lines().count(), 1, "{tagged}");
    }
    let bad = "_ws.malformed || _ws.expert.severity == error || ip.checksum.status == Bad || tcp.checksum.status == Bad || udp.checksum.status == Bad || udp.checksum == 0 || icmpv6.checksum.status == Bad";
    let complaints = dissected(&b, &file, bad);
    assert_eq!(complaints, "");
    let strange = dissected(&b, &file, "udp.port == 4789 && !vxlan");
    assert_eq!(strange, "");
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn over_ipv6_and_with_an_mtu_of_64_kib_too() {
    if !space::can("vxlan") {
        return;
    }
    // The underlay's MTU stays 1500: what cannot be cut is fragmented.
    for (a_local, b_local, mtu) in [
        ("192.0.2.1", "192.0.2.2", 65_485_u32),
        ("2001:db8::1", "2001:db8::2", 9000),
    ] {
        let (a, b) = pair(1500);
        kernel_vxlan(&b, b_local, a_local, mtu);
        let ends =
            [a_local, b_local].map(|ip| SocketAddr::new(ip.parse().unwrap(), 4789).to_string());
        let (_switch, counted) = switch(&a, Form::Vxlan, (&ends[0], &ends[1]), None, mtu as u16);
        addresses(&a, "tap0", 1, mtu);
        everything(&a, &b, "vx0", mtu);
        assert_eq!(counted.drops(), []);
    }
}

#[test]
fn the_private_form_carries_frames_whole() {
    if !space::can("private form") {
        return;
    }
    for mtu in [1500_u32, 9000, 65_521] {
        let (a, b) = pair(1500);
        let (local, remote) = ("192.0.2.1:4790", "192.0.2.2:4790");
        let (_one, counted_a) = switch(&a, Form::Private, (local, remote), None, mtu as u16);
        let (_two, counted_b) = switch(&b, Form::Private, (remote, local), None, mtu as u16);
        addresses(&a, "tap0", 1, mtu);
        addresses(&b, "tap0", 2, mtu);
        everything(&a, &b, "tap0", mtu);
        assert_eq!((counted_a.drops(), counted_b.drops()), (vec![], vec![]));
    }
}

#[test]
fn the_sealed_form_carries_the_same() {
    if !space::can("sealed form") {
        return;
    }
    let (a, b) = pair(1500);
    let [key_a, key_b] = [(), ()].map(|()| Arc::new(Identity::generate().unwrap()));
    let (local, remote) = ("192.0.2.1:4791", "192.0.2.2:4791");
    let sealed = |key: &Arc<Identity>| Form::Sealed(key.clone());
    let peers = (Some(key_b.public()), Some(key_a.public()));
    let (_one, counted_a) = switch(&a, sealed(&key_a), (local, remote), peers.0, 9000);
    let (_two, counted_b) = switch(&b, sealed(&key_b), (remote, local), peers.1, 9000);
    addresses(&a, "tap0", 1, 9000);
    addresses(&b, "tap0", 2, 9000);
    // The first frames are lost while there are no keys.
    let agreed = || a.attempt("ping -n -c 20 -i 0.02 -W 1 198.51.100.2");
    assert!((0..30).any(|_| agreed().status.success()), "no keys");
    everything(&a, &b, "tap0", 9000);
    let other_than_down = |counted: &Counted| {
        let drops = counted.drops();
        drops
            .into_iter()
            .filter(|(why, _)| *why != "down")
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (other_than_down(&counted_a), other_than_down(&counted_b)),
        (vec![], vec![])
    );
}
