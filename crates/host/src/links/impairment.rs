//! Rate, delay, jitter and loss: what an end does to the frames it sends.
//!
//! Disciplines sit on the egress of the end's interface, so each acts in one direction only: a delay of
//! 1 ms at both ends adds 2 ms to a round trip. `netem` delays and loses; `tbf` limits the rate
//! *after* the delay, as packets would meet first a long wire and then a slow one.
//!
//! **Virtual machines.** What a guest sends enters the host at its tap, and arriving frames cannot
//! be queued. The guest could do it, but then the impairment would cost the guest's CPU and
//! depend on its kernel. So a shaper is put behind the tap: a switch with two ports, the tap and a
//! veth interface, on whose egress the disciplines sit. It is there only when asked for.
//!
//! ```text
//! QEMU ── tap ─ two-port switch ─ shaper ══ port or node's interface
//!                                 └ tbf, netem
//! ```
//!
//! **Numbers.** The rate counts Ethernet frames without preamble and checksum. A burst of 1 ms at
//! the rate, but at least two frames, may pass at once: small enough that a slow link is slow from
//! its first frames, large enough for a fast one. 50 ms at the rate may wait, but at least 64
//! frames; more is dropped, as at a switch with a shallow buffer.

use std::os::fd::OwnedFd;
use std::time::Duration;

use latlab_model::kinds::Impairment;
use latlab_netlink::{
    Handle, Interface, LinkChange, LinkKind, Netem, NewLink, Parent, Qdisc, Request, Tbf,
};

use super::builder::{End, LinkBuilder};
use super::error::Error;
use super::netns_handle::{NetnsHandle, make_tap, port_change};

/// Ethernet header, and a VLAN tag that may be there.
const FRAME_OVERHEAD_BYTES: u64 = 18;
const BURST: Duration = Duration::from_millis(1);
const BURST_MIN_FRAMES: u64 = 2;
const QUEUE: Duration = Duration::from_millis(50);
const QUEUE_MIN_FRAMES: u64 = 64;
/// Frames per second that must fit into a delay line: 10 Gbit/s of 1000-byte frames, rounded up.
const DELAY_LINE_FRAMES_PER_SECOND: f64 = 2e6;
const DELAY_LINE_MIN_FRAMES: u32 = 10_000;

pub(super) fn requests(index: u32, mtu: u32, impairment: &Impairment) -> Vec<Request<'static>> {
    let netem = impairment
        .needs_netem()
        .then(|| Qdisc::Netem(netem(impairment)));
    let tbf = impairment.rate.map(|rate| Qdisc::Tbf(tbf(rate.0, mtu)));
    match (netem, tbf) {
        (None, None) => Vec::new(),
        (Some(one), None) | (None, Some(one)) => vec![one.replace(index, Parent::Root, 1)],
        (Some(netem), Some(tbf)) => vec![
            netem.replace(index, Parent::Root, 1),
            tbf.replace(index, Parent::Class(1, 1), 2),
        ],
    }
}

fn tbf(rate_bits_per_second: u64, mtu: u32) -> Tbf {
    let frame = u64::from(mtu) + FRAME_OVERHEAD_BYTES;
    let during = |time: Duration| {
        let bytes = u128::from(rate_bits_per_second / 8) * time.as_micros() / 1_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    };
    let bytes =
        |at_rate: u64, frames: u64| u32::try_from(at_rate.max(frames * frame)).unwrap_or(u32::MAX);
    Tbf {
        rate_bits_per_second,
        burst_bytes: bytes(during(BURST), BURST_MIN_FRAMES),
        limit_bytes: bytes(during(QUEUE), QUEUE_MIN_FRAMES),
    }
}

/// The longest time that frames wait in an end's queue for its rate.
pub fn longest_wait(impairment: &Impairment, mtu: u32) -> Duration {
    impairment.rate.map_or(Duration::ZERO, |rate| {
        let bits = u64::from(tbf(rate.0, mtu).limit_bytes) * 8;
        Duration::from_secs_f64(bits as f64 / rate.0.max(1) as f64)
    })
}

fn netem(impairment: &Impairment) -> Netem {
    let time = |nanos: Option<latlab_model::units::Nanos>| {
        Duration::from_nanos(nanos.unwrap_or_default().0)
    };
    let (delay, jitter) = (time(impairment.delay), time(impairment.jitter));
    let waiting = (delay + jitter).as_secs_f64() * DELAY_LINE_FRAMES_PER_SECOND;
    Netem {
        delay,
        jitter,
        loss: impairment.loss.unwrap_or_default(),
        limit_packets: (waiting as u32).max(DELAY_LINE_MIN_FRAMES),
    }
}

pub(super) fn apply(
    link: &LinkBuilder<'_>,
    handle: &mut Handle,
    index: u32,
    end: &End<'_>,
) -> Result<(), Error> {
    let impairment = &end.plan.impairment;
    handle
        .apply_all(&requests(index, link.plan().mtu, impairment))
        .map_err(|error| refused(&link.plan().name, impairment, error))
}

/// Says that the discipline is missing if that is what the kernel means.
pub(super) fn refused(link: &str, impairment: &Impairment, source: latlab_netlink::Error) -> Error {
    let link = link.to_owned();
    if source.errno() == Some(libc::ENOENT) {
        let kind = if impairment.needs_netem() {
            "netem"
        } else {
            "tbf"
        };
        return Error::NoQdisc { link, kind };
    }
    Error::Netlink { link, source }
}

/// Makes the shaper of a virtual machine in the link's namespace, and `far` as what it leads to. Returns the tap.
pub(super) fn shaper(
    link: &LinkBuilder<'_>,
    at: &mut NetnsHandle,
    end: &End<'_>,
    far: Interface<'_>,
) -> Result<Vec<OwnedFd>, Error> {
    let name = |what: &str| format!("{what}{}", end.number);
    let (switch, tap, shaper) = (name("s"), name("t"), name("q"));
    let index = at.make_bridge(link, &switch)?;
    let descriptors = make_tap(link, &at.netns, end, &tap)?;
    let near = Interface::new(&shaper).mtu(Some(link.plan().mtu));
    let alias = LinkChange::of(&shaper).alias(&link.network.alias);
    let requests = [
        port_change(link, &tap).master(index).up(true).request(),
        NewLink::new(near, LinkKind::Veth(far))
            .master(index)
            .up()
            .request(),
        alias.request(),
    ];
    at.handle.apply_all(&requests).map_err(link.refused())?;
    let shaper = at.handle.link_index(&shaper).map_err(link.refused())?;
    apply(link, &mut at.handle, shaper, end)?;
    Ok(descriptors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_rates_keep_a_small_burst_and_fast_ones_a_millisecond() {
        let slow = tbf(1_000_000, 1500);
        assert_eq!((slow.burst_bytes, slow.limit_bytes), (2 * 1518, 64 * 1518));
        let fast = tbf(1_000_000_000, 1500);
        assert_eq!((fast.burst_bytes, fast.limit_bytes), (125_000, 6_250_000));
        // Mininet #729: nothing wraps or turns to zero at the ends of the scale.
        let huge = tbf(u64::MAX, 9000);
        assert_eq!((huge.burst_bytes, huge.limit_bytes), (u32::MAX, u32::MAX));
        assert!(tbf(1, 1500).burst_bytes > 1500);
    }

    #[test]
    fn a_full_queue_is_as_long_as_its_bytes_take() {
        let wait = |rate: Option<u64>| {
            let rate = rate.map(latlab_model::units::BitsPerSecond);
            let impairment = Impairment {
                rate,
                ..Impairment::default()
            };
            longest_wait(&impairment, 1500).as_millis()
        };
        assert_eq!(wait(None), 0);
        assert_eq!(wait(Some(1_000_000)), 777, "64 frames");
        assert_eq!(wait(Some(1_000_000_000)), 50);
    }

    #[test]
    fn a_rate_alone_needs_no_netem_and_both_are_stacked() {
        let rate = Some(latlab_model::units::BitsPerSecond(1_000_000));
        let delay = Some(latlab_model::units::Nanos(1_000_000));
        let actions = |impairment: Impairment| -> Vec<String> {
            requests(3, 1500, &impairment)
                .iter()
                .map(|r| r.action().to_owned())
                .collect()
        };
        let set = |kind: &str| format!("set queueing discipline {kind} on link #3");
        let none = Impairment::default();
        assert!(actions(none).is_empty());
        assert_eq!(actions(Impairment { rate, ..none }), [set("tbf")]);
        assert_eq!(actions(Impairment { delay, ..none }), [set("netem")]);
        assert_eq!(
            actions(Impairment {
                rate,
                delay,
                ..none
            }),
            [set("netem"), set("tbf")]
        );
    }

    #[test]
    fn a_long_delay_gets_a_long_queue() {
        let delay = Some(latlab_model::units::Nanos(100_000_000));
        let long = netem(&Impairment {
            delay,
            ..Impairment::default()
        });
        assert_eq!(long.limit_packets, 200_000);
        let short = netem(&Impairment {
            loss: Some(0.1),
            ..Impairment::default()
        });
        assert_eq!(short.limit_packets, DELAY_LINE_MIN_FRAMES);
    }
}
