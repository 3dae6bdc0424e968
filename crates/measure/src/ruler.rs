//! The taps' own error: packets between two taps with an empty wire in between, where there is nothing
//! to measure. What a result shows beyond this is the device's; what it shows below is nothing.
//!
//! Measured beside every forward run, right before its window, from the processor that sends in it:
//! the machine is then in the state in which it will measure.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use latlab_host::links::wire::Wire;
use latlab_model::results::{Ruler, samples_needed};
use latlab_trace::taps::{Point, Side, Tap};
use latlab_wire::probe::{HEADER_BYTES, Packet, PacketRepr};
use rustix::thread::{CpuSet, sched_setaffinity};

/// As many as the 99.99th percentile needs, and some that are not counted: the first resolve the
/// neighbour's address.
const WARM_UP: u32 = 2_000;
/// Time between two packets: less than a device's, so that the ruler is not better than what it is
/// laid at.
const APART: Duration = Duration::from_micros(5);
/// The discard port (RFC 863).
const PORT: u16 = 9;

/// Why there is no ruler.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The wire.
    #[error(transparent)]
    Wire(#[from] latlab_host::sys::Error),
    /// A tap.
    #[error(transparent)]
    Tap(#[from] latlab_trace::Error),
    /// The packets.
    #[error("cannot send over an empty wire: {0}")]
    Send(#[from] std::io::Error),
}

/// Measures it, sending from `cpu` where that is given and allowed.
///
/// # Errors
/// When there can be no wire or no tap.
pub fn measure(cpu: Option<u32>) -> Result<Ruler, Error> {
    let packets = WARM_UP + samples_needed(0.9999) as u32;
    let wire = Wire::new()?;
    let tap = |side| {
        let point = Point {
            interface: Wire::INTERFACE.into(),
            side,
        };
        Tap::attach(&point, u64::from(packets))
    };
    let before = wire.near.run(|| tap(Side::Egress))??;
    let behind = wire.far.run(|| tap(Side::Ingress))??;
    let (from, to) = wire.addresses(PORT);
    // Nobody reads it; without it every packet would be answered.
    let _sink = wire.far.run(|| UdpSocket::bind(to))??;
    let sent = wire.near.run(|| -> std::io::Result<()> {
        let socket = UdpSocket::bind(from)?;
        socket.connect(to)?;
        pin(cpu);
        send(&socket, packets)
    })?;
    let before = wire.near.run(|| before.detach())??;
    let behind = wire.far.run(|| behind.detach())??;
    sent?;
    let (passages, fates) = latlab_trace::taps::matching::matched(0, &before, &behind);
    let counted = passages.iter().filter(|one| one.sequence >= WARM_UP);
    let latencies = counted.filter_map(latlab_samples::Passage::latency_ns);
    Ok(ruler(latencies.collect(), fates.lost))
}

fn ruler(mut latencies: Vec<u64>, lost: u64) -> Ruler {
    latencies.sort_unstable();
    let count = latencies.len() as u64;
    let at = |p: f64| {
        let rank = ((count as f64 * p) as usize).min(latencies.len().saturating_sub(1));
        latencies.get(rank).map_or(0.0, |ns| *ns as f64)
    };
    Ruler {
        median_ns: at(0.5),
        p9999_ns: (count >= samples_needed(0.9999)).then(|| at(0.9999)),
        samples: count,
        lost,
    }
}

/// The thread ends with the sending, so nothing has to be undone.
fn pin(cpu: Option<u32>) {
    let Some(cpu) = cpu else { return };
    let mut set = CpuSet::new();
    set.set(cpu as usize);
    // One that is not to be had leaves the scheduler's choice.
    sched_setaffinity(None, &set).ok();
}

fn send(socket: &UdpSocket, packets: u32) -> std::io::Result<()> {
    let mut payload = [0; HEADER_BYTES];
    let begin = Instant::now();
    for sequence in 0..packets {
        let due = APART * sequence;
        while begin.elapsed() < due {
            std::hint::spin_loop();
        }
        let header = PacketRepr {
            flow: 0,
            sequence,
            intended_ns: due.as_nanos() as u64,
        };
        header.emit(&mut Packet::new_unchecked(&mut payload[..]));
        socket.send(&payload)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_needs_ten_packets_beyond_it() {
        let few = ruler((0..99_999).collect(), 0);
        assert_eq!((few.median_ns, few.p9999_ns), (49_999.0, None));
        let many = ruler((0..100_000).rev().collect(), 3);
        assert_eq!((many.p9999_ns, many.lost), (Some(99_990.0), 3));
        assert_eq!(ruler(Vec::new(), 0).median_ns, 0.0);
    }
}
