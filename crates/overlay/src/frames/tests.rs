//! Segments against an implementation that shares nothing with ours: etherparse reads every piece and
//! computes its checksums.

use etherparse::{NetHeaders, PacketHeaders, TransportHeader};

use super::random::Random;
use super::*;
use crate::endpoints::PortId;

/// A random frame.
struct Drawn {
    bytes: Vec<u8>,
    headers: usize,
    offload: Offload,
}

/// A large frame as a guest hands it over: lengths for the whole, a partial checksum.
fn draw(random: &mut Random) -> Drawn {
    let (ipv6, tcp) = (random.below(2) == 1, random.below(2) == 1);
    let mut bytes = random.bytes(12);
    bytes[0] &= 0xfe;
    for _ in 0..random.below(3) {
        bytes.extend([0x81, 0]);
        bytes.extend(random.bytes(2));
    }
    bytes.extend(if ipv6 { [0x86, 0xdd] } else { [8, 0] });
    let network = bytes.len();
    let protocol = if tcp { 6 } else { 17 };
    if ipv6 {
        bytes.extend([0x60, 0, 0, 0, 0, 0, protocol, 64]);
        bytes.extend(random.bytes(32));
        extensions(random, &mut bytes, network, protocol);
    } else {
        let options = 4 * random.below(11) as usize;
        bytes.extend([0x45 + (options / 4) as u8, 0, 0, 0]);
        bytes.extend(random.bytes(2));
        bytes.extend([0x40, 0, 64, protocol, 0, 0]);
        bytes.extend(random.bytes(8));
        bytes.extend(vec![1; options]);
    }
    let transport = bytes.len();
    if tcp {
        let options = 4 * random.below(11) as usize;
        bytes.extend(random.bytes(12));
        let flags = random.bits() as u8;
        bytes.extend([0x50 + ((options / 4) << 4) as u8, flags, 1, 0, 0, 0, 0, 0]);
        bytes.extend(vec![1; options]);
    } else {
        bytes.extend(random.bytes(4));
        bytes.extend([0; 4]);
    }
    let headers = bytes.len();
    let size = 1 + random.below(3000) as u16;
    let most = (usize::from(size) * 300).min(65_535 - headers) as u64;
    let payload = 1 + random.below(most) as usize;
    bytes.extend(random.bytes(payload));
    let gso = match (tcp, ipv6) {
        (false, _) => Gso::Udp,
        (true, false) => Gso::Tcp4,
        (true, true) => Gso::Tcp6,
    };
    let offload = Offload {
        gso,
        gso_size: size,
        checksum: Some((transport as u16, if tcp { 16 } else { 6 })),
        ..Offload::default()
    };
    Drawn {
        bytes,
        headers,
        offload,
    }
}

fn extensions(random: &mut Random, bytes: &mut Vec<u8>, network: usize, protocol: u8) {
    let mut before = network + 6;
    for kind in [0, 60].into_iter().take(random.below(3) as usize) {
        bytes[before] = kind;
        before = bytes.len();
        // A PadN option of 4 bytes.
        bytes.extend([protocol, 0, 1, 4, 0, 0, 0, 0]);
    }
}

/// The frame in a batch, in stretches of chance.
fn batch_of(random: &mut Random, drawn: &Drawn) -> Batch {
    let whole: &'static [u8] = drawn.bytes.clone().leak();
    let mut pieces = Vec::new();
    let mut at = 0;
    while at < whole.len() {
        let len = (1 + random.below(9000) as usize).min(whole.len() - at);
        pieces.push(Segment::of(&whole[at..at + len]));
        at += len;
    }
    let mut batch = Batch::new(1);
    batch.push(PortId(1), 7, drawn.offload, pieces).unwrap();
    batch
}

fn gathered(arena: &Arena, piece: usize) -> Vec<u8> {
    let mut bytes = arena.head(piece).to_vec();
    for segment in arena.rest(piece) {
        segment.append_to(&mut bytes);
    }
    assert_eq!(bytes.len(), arena.bytes(piece));
    bytes
}

/// Checks every length and checksum; returns the transport header and the payload.
fn read(frame: &[u8]) -> (Option<u16>, TransportHeader, Vec<u8>) {
    let packet = PacketHeaders::from_ethernet_slice(frame).unwrap();
    let payload = packet.payload.slice().to_vec();
    let transport = packet.transport.expect("a transport header");
    if let TransportHeader::Udp(udp) = &transport {
        assert_eq!(usize::from(udp.length), 8 + payload.len());
    }
    let mut again = transport.clone();
    let id = match packet.net.expect("an IP header") {
        NetHeaders::Ipv4(ip, _) => {
            assert_eq!(ip.header_checksum, ip.calc_header_checksum());
            again.update_checksum_ipv4(&ip, &payload).unwrap();
            Some(ip.identification)
        }
        NetHeaders::Ipv6(ip, _) => {
            again.update_checksum_ipv6(&ip, &payload).unwrap();
            None
        }
        NetHeaders::Arp(_) => panic!("ARP"),
    };
    assert_eq!(again, transport, "checksum");
    (id, transport, payload)
}

#[test]
fn segments_are_what_another_implementation_accepts() {
    let mut random = Random(0x5eed);
    let mut arena = Arena::default();
    for _ in 0..400 {
        let drawn = draw(&mut random);
        let batch = batch_of(&mut random, &drawn);
        let frame = &batch.frames()[0];
        arena.clear();
        let size = drawn.offload.gso_size;
        let count = match arena.cut(b"prefixed", &batch, frame, size) {
            Err(Refused::TooMany) => {
                assert!((drawn.bytes.len() - drawn.headers).div_ceil(size.into()) > MAX_PIECES);
                continue;
            }
            other => other.unwrap(),
        };
        assert_eq!(count, arena.len());
        check_cut(&drawn, &arena);
    }
}

fn check_cut(drawn: &Drawn, arena: &Arena) {
    let (header, expected) = drawn.bytes.split_at(drawn.headers);
    let start = usize::from(drawn.offload.checksum.unwrap().0);
    let size = usize::from(drawn.offload.gso_size);
    let mut got = Vec::new();
    let mut first_id = None;
    for number in 0..arena.len() {
        let piece = gathered(arena, number);
        assert_eq!(&piece[..8], b"prefixed");
        let piece = &piece[8..];
        let last = number + 1 == arena.len();
        let (id, transport, payload) = read(piece);
        assert!(payload.len() == size || last);
        first_id = first_id.or(id);
        assert_eq!(id, first_id.map(|first| first.wrapping_add(number as u16)));
        if let TransportHeader::Tcp(tcp) = transport {
            let was = &header[start..];
            let sequence = u32::from_be_bytes(was[4..8].try_into().unwrap());
            assert_eq!(
                tcp.sequence_number,
                sequence.wrapping_add((number * size) as u32)
            );
            let flag = |bit: u8| was[13] & bit != 0;
            assert_eq!(tcp.fin, last && flag(1));
            assert_eq!(tcp.psh, last && flag(8));
            assert_eq!(tcp.cwr, number == 0 && flag(0x80));
            assert_eq!((tcp.syn, tcp.ack, tcp.ece), (flag(2), flag(16), flag(0x40)));
        }
        got.extend(payload);
    }
    assert_eq!(got, expected);
}

#[test]
fn tcp_may_be_cut_smaller_than_asked() {
    let mut random = Random(11);
    let drawn = loop {
        let drawn = draw(&mut random);
        if drawn.offload.gso != Gso::Udp && drawn.bytes.len() > 20_000 {
            break drawn;
        }
    };
    let batch = batch_of(&mut random, &drawn);
    let mut arena = Arena::default();
    let size = drawn.offload.gso_size / 2 + 1;
    arena
        .cut(b"prefixed", &batch, &batch.frames()[0], size)
        .unwrap();
    let smaller = Drawn {
        offload: Offload {
            gso_size: size,
            ..drawn.offload
        },
        ..drawn
    };
    check_cut(&smaller, &arena);
}

#[test]
fn a_partial_checksum_is_completed() {
    let mut random = Random(5);
    let mut arena = Arena::default();
    for _ in 0..300 {
        let mut drawn = draw(&mut random);
        let (start, offset) = drawn.offload.checksum.unwrap();
        let (start, field) = (usize::from(start), usize::from(start + offset));
        let Ok(behind) = u16::try_from(drawn.bytes.len() - start) else {
            continue;
        };
        fill_lengths(&mut drawn.bytes, start, behind);
        // The sender's part: the sum of the pseudo header, not complemented.
        let mut pseudo = Sum::default();
        let addresses = if drawn.offload.gso == Gso::Tcp6 || is_ipv6(&drawn.bytes) {
            network_of(&drawn.bytes) + 8..network_of(&drawn.bytes) + 40
        } else {
            network_of(&drawn.bytes) + 12..network_of(&drawn.bytes) + 20
        };
        pseudo.add(&drawn.bytes[addresses]);
        pseudo.add_number(if offset == 16 { 6 } else { 17 });
        pseudo.add_number(u32::from(behind));
        let partial = pseudo.finish().map(|byte| !byte);
        drawn.bytes[field..field + 2].copy_from_slice(&partial);
        drawn.offload.gso = Gso::None;
        let batch = batch_of(&mut random, &drawn);
        arena.clear();
        arena.complete(b"", &batch, &batch.frames()[0]).unwrap();
        let done = gathered(&arena, 0);
        let (_, _, payload) = read(&done);
        assert_eq!(payload, drawn.bytes[drawn.headers..]);
    }
}

fn network_of(bytes: &[u8]) -> usize {
    let mut at = 12;
    while bytes[at..at + 2] == [0x81, 0] {
        at += 4;
    }
    at + 2
}

fn is_ipv6(bytes: &[u8]) -> bool {
    bytes[network_of(bytes)] >> 4 == 6
}

fn fill_lengths(bytes: &mut [u8], start: usize, behind: u16) {
    let network = network_of(bytes);
    if is_ipv6(bytes) {
        let length = (bytes.len() - network - 40) as u16;
        bytes[network + 4..network + 6].copy_from_slice(&length.to_be_bytes());
    } else {
        let length = (bytes.len() - network) as u16;
        bytes[network + 2..network + 4].copy_from_slice(&length.to_be_bytes());
        let mut sum = Sum::default();
        sum.add(&bytes[network..start]);
        bytes[network + 10..network + 12].copy_from_slice(&sum.finish());
    }
    if Headers::parse(bytes).is_ok_and(|headers| !headers.tcp) {
        bytes[start + 4..start + 6].copy_from_slice(&behind.to_be_bytes());
    }
}

#[test]
fn unsegmentable_frames_are_refused_with_a_reason() {
    let mut random = Random(23);
    let mut arena = Arena::default();
    let mut refused = |change: &dyn Fn(&mut Drawn), wanted: fn(&Drawn) -> bool| {
        let mut drawn = loop {
            let drawn = draw(&mut random);
            if wanted(&drawn) {
                break drawn;
            }
        };
        drawn.offload.gso_size = 1000;
        change(&mut drawn);
        let batch = batch_of(&mut random, &drawn);
        let size = drawn.offload.gso_size;
        let why = arena
            .cut(b"x", &batch, &batch.frames()[0], size)
            .unwrap_err();
        assert!(arena.is_empty());
        why
    };
    let tcp4 = |drawn: &Drawn| drawn.offload.gso == Gso::Tcp4 && drawn.bytes.len() > 20_000;
    assert_eq!(
        refused(&|d| d.offload.gso = Gso::Tcp6, tcp4),
        Refused::Protocol
    );
    assert_eq!(
        refused(&|d| d.offload.checksum = Some((100, 16)), tcp4),
        Refused::Tunnel
    );
    assert_eq!(refused(&|d| d.offload.gso_size = 1, tcp4), Refused::TooMany);
    assert_eq!(
        refused(
            &|d| {
                let network = network_of(&d.bytes);
                d.bytes[network + 6] = 0x20;
            },
            tcp4
        ),
        Refused::Fragment
    );
    assert_eq!(refused(&|d| d.bytes.truncate(30), tcp4), Refused::Headers);
}

/// A large TCP frame that may be joined again: acknowledged, nothing urgent, IPv4's number by chance.
fn draw_stream(random: &mut Random) -> Drawn {
    loop {
        let mut drawn = draw(random);
        let transport = usize::from(drawn.offload.checksum.unwrap().0);
        let pieces = (drawn.bytes.len() - drawn.headers).div_ceil(drawn.offload.gso_size.into());
        if drawn.offload.gso == Gso::Udp || drawn.headers > HEAD || pieces > MAX_PIECES {
            continue;
        }
        // Any FIN and PSH, which only the last piece keeps.
        drawn.bytes[transport + 13] = 0x10 | (random.bits() as u8 & 0x49);
        return drawn;
    }
}

/// All of a frame.
fn whole(batch: &Batch, number: usize) -> Vec<u8> {
    let frame = &batch.frames()[number];
    let mut bytes = frame.head().to_vec();
    for segment in batch.rest(frame) {
        segment.append_to(&mut bytes);
    }
    assert_eq!(bytes.len(), frame.len as usize);
    bytes
}

/// Receives frames as a link does.
fn receive(batch: &mut Batch, frames: &[Vec<u8>]) {
    let mut joiner = Joiner::default();
    for frame in frames {
        let frame: &'static [u8] = frame.clone().leak();
        let segment = Segment::of(frame);
        if !joiner.join(batch, 7, frame, segment) {
            joiner.end(batch);
            let offload = Offload::default();
            batch.push(PortId(1), 7, offload, [segment]).unwrap();
            joiner.begin(frame, &offload);
        }
    }
    joiner.end(batch);
}

fn pieces_of(arena: &mut Arena, batch: &Batch, number: usize) -> Vec<Vec<u8>> {
    let frame = &batch.frames()[number];
    arena.clear();
    arena
        .cut(&[], batch, frame, frame.offload.gso_size)
        .unwrap();
    (0..arena.len())
        .map(|piece| gathered(arena, piece))
        .collect()
}

#[test]
fn joining_reverses_segmentation() {
    let mut random = Random(0x901d);
    let mut arena = Arena::default();
    let mut joined = 0;
    for _ in 0..300 {
        let drawn = draw_stream(&mut random);
        let pieces = pieces_of(&mut arena, &batch_of(&mut random, &drawn), 0);
        let mut batch = Batch::new(pieces.len() + 1);
        receive(&mut batch, &pieces);
        assert_eq!(batch.frames().len(), 1, "{} pieces", pieces.len());
        let frame = &batch.frames()[0];
        if pieces.len() == 1 {
            assert_eq!(frame.offload, Offload::default());
            assert_eq!(whole(&batch, 0), pieces[0]);
            continue;
        }
        joined += 1;
        assert_eq!(frame.offload, drawn.offload);
        assert_eq!(pieces_of(&mut arena, &batch, 0), pieces);
        // With the checksum completed it is a frame by itself.
        arena.clear();
        arena.complete(&[], &batch, frame).unwrap();
        read(&gathered(&arena, 0));
    }
    assert!(joined > 200, "{joined}");
}

#[test]
fn a_stream_of_tiny_segments_is_joined_into_frames_that_one_system_call_takes() {
    let mut random = Random(9);
    let mut arena = Arena::default();
    let mut drawn = draw_stream(&mut random);
    drawn.bytes.truncate(drawn.headers);
    drawn.bytes.extend(random.bytes(16 * MAX_PIECES));
    drawn.offload.gso_size = 16;
    let pieces = pieces_of(&mut arena, &batch_of(&mut random, &drawn), 0);
    let mut batch = Batch::new(8);
    receive(&mut batch, &pieces);
    let mut again = Vec::new();
    for (number, frame) in batch.frames().iter().enumerate() {
        assert!(batch.rest(frame).len() <= MAX_SEGMENTS);
        again.extend(pieces_of(&mut arena, &batch, number));
    }
    assert_eq!(again, pieces);
}

#[test]
fn unrelated_or_damaged_segments_are_not_joined() {
    let mut random = Random(77);
    let mut arena = Arena::default();
    for _ in 0..2000 {
        let drawn = draw_stream(&mut random);
        let mut pieces = pieces_of(&mut arena, &batch_of(&mut random, &drawn), 0);
        pieces.truncate(4);
        if pieces.len() < 3 {
            continue;
        }
        // One bit of one byte behind the addresses, anywhere in any of them.
        let number = random.below(pieces.len() as u64) as usize;
        let at = 12 + random.below(pieces[number].len() as u64 - 12) as usize;
        let bit = 1 << random.below(8);
        pieces[number][at] ^= bit;
        let mut batch = Batch::new(pieces.len());
        receive(&mut batch, &pieces);
        // Cut again, whatever was joined is what came, damage included.
        let mut again = Vec::new();
        for number in 0..batch.frames().len() {
            match batch.frames()[number].offload.gso {
                Gso::None => again.push(whole(&batch, number)),
                _ => again.extend(pieces_of(&mut arena, &batch, number)),
            }
        }
        assert_eq!(again, pieces, "bit {bit} of byte {at} of frame {number}");
    }
}

#[test]
fn garbage_is_joined_to_nothing_and_never_panics() {
    let mut random = Random(5);
    let mut arena = Arena::default();
    for _ in 0..500 {
        let drawn = draw_stream(&mut random);
        let mut pieces = pieces_of(&mut arena, &batch_of(&mut random, &drawn), 0);
        pieces.truncate(6);
        for piece in &mut pieces {
            // Cut short, drawn out, or with a header of chance.
            match random.below(4) {
                0 => piece.truncate(14 + random.below(120) as usize),
                1 => piece.extend(random.bytes(40)),
                2 => {
                    let at = 14 + random.below(40) as usize;
                    let end = piece.len();
                    piece[at.min(end - 1)] = random.bits() as u8;
                }
                _ => {}
            }
        }
        let mut batch = Batch::new(pieces.len());
        receive(&mut batch, &pieces);
        let bytes: usize = (0..batch.frames().len())
            .map(|n| whole(&batch, n).len())
            .sum();
        assert!(bytes <= pieces.iter().map(Vec::len).sum());
    }
}
