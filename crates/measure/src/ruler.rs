//! The ruler: the taps' own error, measured with packets between two taps on an empty wire. Latency above
//! it is the device's; latency below it is no latency.
//!
//! The ruler is measured beside every forward run, right before its window and from the sender's CPU, so that
//! the machine is in the same state.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use latlab_host::links::wire::Wire;
use latlab_model::results::{Ruler, samples_needed};
use latlab_trace::taps::{Point, Side, Tap};
use latlab_wire::probe::{HEADER_BYTES, PacketRepr};

use crate::affinity::pin_thread;

/// Packets that are not counted: the first resolve the neighbour's address.
const WARMUP_PACKETS: u32 = 2_000;
/// Time between two packets: less than a device's, so that the ruler does not look better than a result.
const INTERVAL: Duration = Duration::from_micros(5);
/// The discard port (RFC 863).
const PORT: u16 = 9;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Wire(#[from] latlab_host::sys::Error),
    #[error(transparent)]
    Tap(#[from] latlab_trace::Error),
    #[error("cannot send over an empty wire: {0}")]
    Send(#[from] std::io::Error),
}

/// Measures the taps' error, sending from `cpu` if given and allowed.
pub fn measure(cpu: Option<u32>) -> Result<Ruler, Error> {
    let packets = WARMUP_PACKETS + samples_needed(0.9999) as u32;
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
    // Without a socket every packet would be answered with an ICMP error.
    let _sink = wire.far.run(|| UdpSocket::bind(to))??;
    let sent = wire.near.run(|| -> std::io::Result<()> {
        let socket = UdpSocket::bind(from)?;
        socket.connect(to)?;
        // This thread ends with the sending. A CPU that is not available leaves the scheduler's choice.
        cpu.map(pin_thread);
        send(&socket, packets)
    })?;
    let before = wire.near.run(|| before.detach())??;
    let behind = wire.far.run(|| behind.detach())??;
    sent?;
    let (passages, counters) = latlab_trace::taps::matching::matched(0, &before, &behind);
    let counted = passages.iter().filter(|one| one.sequence >= WARMUP_PACKETS);
    let latencies = counted.filter_map(latlab_samples::Passage::latency_ns);
    Ok(ruler(latencies.collect(), counters.lost))
}

/// The value with `p` of the sorted values below it, by nearest rank; 0 for none.
pub(crate) fn percentile(sorted: &[u64], p: f64) -> f64 {
    let rank = (sorted.len() as f64 * p) as usize;
    let rank = rank.min(sorted.len().saturating_sub(1));
    sorted.get(rank).map_or(0.0, |&value| value as f64)
}

fn ruler(mut latencies: Vec<u64>, lost: u64) -> Ruler {
    latencies.sort_unstable();
    let count = latencies.len() as u64;
    Ruler {
        median_ns: percentile(&latencies, 0.5),
        p9999_ns: (count >= samples_needed(0.9999)).then(|| percentile(&latencies, 0.9999)),
        samples: count,
        lost,
    }
}

fn send(socket: &UdpSocket, packets: u32) -> std::io::Result<()> {
    let mut payload = [0; HEADER_BYTES];
    let begin = Instant::now();
    for sequence in 0..packets {
        let due = INTERVAL * sequence;
        while begin.elapsed() < due {
            std::hint::spin_loop();
        }
        let header = PacketRepr {
            flow: 0,
            sequence,
            intended_ns: due.as_nanos() as u64,
        };
        header.emit(&mut payload);
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
