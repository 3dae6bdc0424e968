//! The slow packets for Wireshark: pcapng (draft-ietf-opsawg-pcapng) with timestamps in nanoseconds,
//! one interface a tap, each packet's causes as its comment.
//!
//! The taps keep a packet's identity, not its bytes, so the frames are rebuilt from known fields: Ethernet,
//! IP and UDP headers without addresses, and the probe's own header. The interfaces' description says so.

use super::error::ExplainError;
use super::tables::{Choice, each};
use crate::attribution::Explained;
use latlab_samples::RunDir;
use latlab_wire::probe::{HEADER_BYTES, PacketRepr};

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const ETHERNET: u16 = 1;
const OPTION_COMMENT: u16 = 1;
const OPTION_NAME: u16 = 2;
const OPTION_DESCRIPTION: u16 = 3;
const OPTION_RESOLUTION: u16 = 9;
const HEADERS_BYTES: usize = 14 + 20 + 8;

/// The file's bytes. Fails when the run directory is not whole, or nothing in it went through taps.
pub fn file(run: &RunDir, choice: &Choice) -> Result<Vec<u8>, ExplainError> {
    let mut out = Vec::new();
    let mut section = 0x1a2b_3c4d_u32.to_le_bytes().to_vec();
    section.extend([1, 0, 0, 0]);
    section.extend((-1i64).to_le_bytes());
    block(SECTION, &section, &mut out);
    let mut interfaces = 0;
    each(run, choice, |tables| {
        for (place, hop) in tables.trace.hops.iter().enumerate() {
            for tap in [&hop.before, &hop.behind] {
                let name = format!("trial {}: {tap}", tables.trial.trial);
                interface(&name, &mut out);
            }
            let mut frames: Vec<(u64, u32, Explained)> = Vec::new();
            for one in tables.attribute(place)?.attribution.worst {
                frames.push((one.passage.in_ns, interfaces, one.clone()));
                frames.push((one.passage.in_ns + one.latency_ns(), interfaces + 1, one));
            }
            frames.sort_by_key(|(at, interface, one)| (*at, *interface, one.passage.sequence));
            for (at, interface, one) in &frames {
                packet(*at, *interface, one, &mut out);
            }
            interfaces += 2;
        }
        Ok(())
    })?;
    Ok(out)
}

fn block(kind: u32, body: &[u8], out: &mut Vec<u8>) {
    let padded = body.len().next_multiple_of(4);
    let length = (padded + 12) as u32;
    out.extend(kind.to_le_bytes());
    out.extend(length.to_le_bytes());
    out.extend(body);
    out.resize(out.len() + padded - body.len(), 0);
    out.extend(length.to_le_bytes());
}

fn option(code: u16, value: &[u8], out: &mut Vec<u8>) {
    out.extend(code.to_le_bytes());
    out.extend((value.len() as u16).to_le_bytes());
    out.extend(value);
    out.resize(out.len().next_multiple_of(4), 0);
}

fn interface(name: &str, out: &mut Vec<u8>) {
    let mut body = ETHERNET.to_le_bytes().to_vec();
    body.extend([0; 2]);
    body.extend(0u32.to_le_bytes());
    option(OPTION_NAME, name.as_bytes(), &mut body);
    let how = "a tap; frames are rebuilt from what it kept: length, flow, sequence number, time";
    option(OPTION_DESCRIPTION, how.as_bytes(), &mut body);
    option(OPTION_RESOLUTION, &[9], &mut body);
    option(0, &[], &mut body);
    block(INTERFACE, &body, out);
}

fn packet(at: u64, interface: u32, one: &Explained, out: &mut Vec<u8>) {
    let frame = frame(one);
    let mut body = interface.to_le_bytes().to_vec();
    body.extend(((at >> 32) as u32).to_le_bytes());
    body.extend((at as u32).to_le_bytes());
    body.extend((frame.len() as u32).to_le_bytes());
    body.extend(one.passage.bytes.max(frame.len() as u32).to_le_bytes());
    body.extend(&frame);
    body.resize(body.len().next_multiple_of(4), 0);
    let mut comment = format!("{} ns; first cause: {}", one.latency_ns(), one.first);
    for (cause, ns) in one.by_cause() {
        comment += &format!("; {ns} ns {cause}");
    }
    option(OPTION_COMMENT, comment.as_bytes(), &mut body);
    option(0, &[], &mut body);
    block(ENHANCED_PACKET, &body, out);
}

fn frame(one: &Explained) -> Vec<u8> {
    let mut frame = vec![0; HEADERS_BYTES + HEADER_BYTES];
    frame[12..14].copy_from_slice(&[8, 0]);
    let ip_bytes = (one.passage.bytes.max(frame.len() as u32) - 14) as u16;
    frame[14] = 0x45;
    frame[16..18].copy_from_slice(&ip_bytes.to_be_bytes());
    (frame[22], frame[23]) = (64, 17);
    frame[38..40].copy_from_slice(&(ip_bytes - 20).to_be_bytes());
    let header = PacketRepr {
        flow: one.passage.flow,
        sequence: one.passage.sequence,
        intended_ns: 0,
    };
    header.emit(&mut frame[HEADERS_BYTES..]);
    frame
}
