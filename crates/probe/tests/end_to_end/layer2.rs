//! The layer-2 forwarder between taps, whose other side is the test, and between veths.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

use latlab_probe::{By, Layer2};

use crate::harness::isolate;

/// Far beyond what anything here takes.
const TIMEOUT: Duration = Duration::from_secs(60);
const NEEDS_CHECKSUM: u8 = 1;
const TCP_SEGMENTS: u8 = 1;
const UDP_FRAGMENTS: u8 = 3;
const VIRTIO_BYTES: usize = 10;
const ADDRESSES: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
const TAG: [u8; 4] = [0x81, 0x00, 0x00, 0x05];
const UDP: u8 = 17;
const TCP: u8 = 6;

fn ip(words: &str) {
    let status = Command::new("ip").args(words.split(' ')).status();
    assert!(status.unwrap().success(), "ip {words}");
}

/// Whether the test can make interfaces.
fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("skipped: needs root to make interfaces");
    }
    is_root
}

/// The other side of an interface, with virtio headers.
fn tap(name: &str) -> File {
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true);
    let options = options.custom_flags(libc::O_NONBLOCK);
    let tap = options.open("/dev/net/tun").unwrap();
    // SAFETY: all zeros are a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    let flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: the request lives over the call.
    let made = unsafe { libc::ioctl(tap.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) };
    assert_eq!(made, 0, "{}", std::io::Error::last_os_error());
    ip(&format!("link set {name} up"));
    tap
}

/// The sum of the words, from `sum` on, as checksums of the Internet have it.
fn sum(bytes: &[u8], sum: u32) -> u16 {
    let words = bytes.chunks(2).map(|pair| match pair {
        [high, low] => u32::from(u16::from_be_bytes([*high, *low])),
        rest => u32::from(rest[0]) << 8,
    });
    let mut sum = words.sum::<u32>() + sum;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn pseudo_header(packet: &[u8], segment: usize) -> u32 {
    let protocol = u32::from(packet[9]);
    u32::from(sum(&packet[12..20], protocol + segment as u32))
}

/// An IPv4 packet in a frame, with the virtio header that leaves its checksum to a card.
fn frame(tag: &[u8], protocol: u8, payload: &[u8], large: Option<u8>) -> Vec<u8> {
    let transport = if protocol == TCP { 20 } else { 8 };
    let segment = transport + payload.len();
    let mut packet = vec![0x45, 0];
    packet.extend((20 + segment as u16).to_be_bytes());
    packet.extend([0, 1, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let header = !sum(&packet, 0);
    packet[10..12].copy_from_slice(&header.to_be_bytes());
    packet.extend([0x13, 0x88, 0x13, 0x89]);
    let place = if protocol == TCP {
        packet.extend([0, 0, 0, 7, 0, 0, 0, 9, 0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0]);
        16
    } else {
        packet.extend((segment as u16).to_be_bytes());
        packet.extend([0, 0]);
        6
    };
    let begin = sum(&[], pseudo_header(&packet, segment));
    packet[20 + place..22 + place].copy_from_slice(&begin.to_be_bytes());
    packet.extend(payload);

    let network = ADDRESSES.len() + tag.len() + 2;
    let (kind, headers) = match large {
        Some(kind) => (kind, network + 20 + transport),
        None => (0, 0),
    };
    let size: u16 = if large.is_some() { 1000 } else { 0 };
    let mut frame = vec![NEEDS_CHECKSUM, kind];
    for number in [headers as u16, size, network as u16 + 20, place as u16] {
        frame.extend(number.to_ne_bytes());
    }
    frame.extend(ADDRESSES);
    frame.extend(tag);
    frame.extend([0x08, 0x00]);
    frame.extend(packet);
    frame
}

/// The payload of a frame of ours that came with this tag, its checksum verified. `None` for frames of the kernel.
fn payload(frame: &[u8], tag: &[u8]) -> Option<Vec<u8>> {
    let (header, frame) = frame.split_at(VIRTIO_BYTES);
    let rest = frame.strip_prefix(&ADDRESSES)?;
    let packet = rest.strip_prefix(tag).and_then(|r| r.strip_prefix(&[8, 0]));
    let packet = packet.unwrap_or_else(|| panic!("another tag than {tag:?}: {rest:?}"));
    assert_eq!(header[0] & NEEDS_CHECKSUM, 0, "the kernel completes it");
    let segment = &packet[20..];
    let whole = sum(segment, pseudo_header(packet, segment.len()));
    assert_eq!(whole, 0xffff, "checksum of {packet:?}");
    let transport = if packet[9] == TCP { 20 } else { 8 };
    Some(segment[transport..].to_vec())
}

/// Carries until this number of bytes of payload has come out.
fn carried(device: &mut Layer2, out: &mut File, tag: &[u8], bytes: usize) -> Vec<u8> {
    let end = Instant::now() + TIMEOUT;
    let mut found = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    while found.len() < bytes {
        assert!(Instant::now() < end, "{} of {bytes} bytes", found.len());
        device.turn().unwrap();
        match out.read(&mut buffer) {
            Ok(length) => found.extend(payload(&buffer[..length], tag).into_iter().flatten()),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
    }
    found
}

fn numbered(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|number| (number % 251) as u8).collect()
}

#[test]
fn a_frame_keeps_its_tag_and_what_is_left_to_the_card() {
    if !is_root() {
        return;
    }
    isolate();
    let (mut near, mut far) = (tap("in"), tap("out"));
    let mut device = Layer2::open_by(By::AfPacket, "in", "out").unwrap();
    for tag in [&TAG[..], &[0x88, 0xa8, 0x20, 0x07], &[]] {
        for (protocol, bytes, large) in [(UDP, 300, None), (TCP, 2500, Some(TCP_SEGMENTS))] {
            let sent = numbered(bytes);
            near.write_all(&frame(tag, protocol, &sent, large)).unwrap();
            let came = carried(&mut device, &mut far, tag, bytes);
            assert_eq!(came, sent, "tag {tag:?}, protocol {protocol}");
        }
    }
    assert_eq!(device.dropped(), 0);
}

/// Fragments of UDP that are left to a card, as old guests leave them, have no word in the header of packet sockets.
#[test]
fn a_frame_that_the_kernel_cannot_describe_is_dropped_and_counted() {
    if !is_root() {
        return;
    }
    isolate();
    let (mut near, mut far) = (tap("in"), tap("out"));
    let mut device = Layer2::open_by(By::AfPacket, "in", "out").unwrap();
    let fragments = frame(&[], UDP, &numbered(3000), Some(UDP_FRAGMENTS));
    near.write_all(&fragments).unwrap();
    let sent = numbered(100);
    near.write_all(&frame(&[], UDP, &sent, None)).unwrap();
    let came = carried(&mut device, &mut far, &[], sent.len());
    assert_eq!((came, device.dropped()), (sent, 1));
}

#[test]
fn a_forwarder_ends_when_an_interface_is_deleted() {
    if !is_root() {
        return;
    }
    isolate();
    for by in [By::AfPacket, By::AfXdp, By::Xdp] {
        for (spin, gone) in [(true, "in"), (false, "out")] {
            for name in ["in", "out"] {
                ip(&format!("link add {name} type veth peer name {name}-far"));
                ip(&format!("link set {name} up"));
            }
            let mut device = Layer2::open_by(by, "in", "out").unwrap();
            let delete = std::thread::spawn(move || ip(&format!("link del {gone}")));
            let end = Instant::now() + TIMEOUT;
            let ended = device.run(spin, || Instant::now() > end);
            delete.join().unwrap();
            let error = ended
                .expect_err(&format!("{by:?}, {gone} is gone"))
                .to_string();
            assert!(
                error.contains(&format!("{gone} is gone")),
                "{by:?}: {error}"
            );
            drop(device);
            let left = if gone == "in" { "out" } else { "in" };
            ip(&format!("link del {left}"));
        }
    }
}

#[test]
fn an_interface_that_goes_down_and_up_goes_on() {
    if !is_root() {
        return;
    }
    isolate();
    let (mut near, mut far) = (tap("in"), tap("out"));
    let mut device = Layer2::open_by(By::AfPacket, "in", "out").unwrap();
    for name in ["in", "out"] {
        ip(&format!("link set {name} down"));
        device.turn().unwrap();
        ip(&format!("link set {name} up"));
    }
    let sent = numbered(100);
    near.write_all(&frame(&[], UDP, &sent, None)).unwrap();
    assert_eq!(carried(&mut device, &mut far, &[], sent.len()), sent);
}

#[test]
fn af_xdp_refuses_an_interface_with_several_receive_queues() {
    if !is_root() {
        return;
    }
    isolate();
    ip("link add in type veth peer name in-far");
    ip("link add out numrxqueues 2 type veth peer name out-far");
    for name in ["in", "out"] {
        ip(&format!("link set {name} up"));
    }
    let refused = |by| {
        Layer2::open_by(by, "in", "out")
            .err()
            .map(|e| e.to_string())
    };
    let said = refused(By::AfXdp).expect("frames of the second queue would vanish");
    let wanted =
        "out receives by 2 queues, and AF_XDP takes frames of one here: `ethtool -L out rx 1`";
    assert_eq!(said, wanted);
    for by in [By::AfPacket, By::Xdp] {
        assert_eq!(refused(by), None, "{by:?}");
    }
    let one = Command::new("ethtool")
        .args(["-L", "out", "rx", "1"])
        .status();
    assert!(one.unwrap().success());
    assert_eq!(refused(By::AfXdp), None, "the hint helps");
}
