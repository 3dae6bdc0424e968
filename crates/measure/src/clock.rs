//! One clock for both endpoints. Native and container nodes share the host's. A guest's clock is compared
//! with it before and after the trial; in between, its offset is interpolated linearly.

use latlab_host::lab::Lab;
use latlab_host::nodes::vm::clock::ClockOffset;
use latlab_model::results::ClockMap;

use crate::error::Error;

/// Error below which a comparison is not repeated: a one-way time has other errors of that size.
const GOOD_NS: u64 = 5_000;
/// Comparisons at most. On a busy machine the vCPU's thread and the asking thread may share a CPU, and each
/// round trip costs a scheduling delay; a moment later two CPUs may be free.
const MAX_ATTEMPTS: usize = 3;

/// Offset of the receiver's clock to the sender's at one moment: `sender = receiver + offset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offset {
    pub(crate) offset_ns: i64,
    pub(crate) error_ns: u64,
    /// Time of the comparison on the sender's clock.
    pub(crate) at_ns: i64,
}

/// The host's `CLOCK_MONOTONIC`, in nanoseconds.
pub(crate) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The clock of a node beside the host's; `None` where it is the same. Fails when a guest does not answer.
pub(crate) fn to_host(lab: &Lab, node: &str) -> Result<Option<ClockOffset>, Error> {
    lab.clock(node).map_err(|source| Error::Clock {
        node: node.to_string(),
        source: Box::new(source),
    })
}

/// Compares the clocks of two nodes; `None` when they share one. Fails when a guest does not answer.
pub fn compare(lab: &Lab, sender: &str, receiver: &str) -> Result<Option<Offset>, Error> {
    let best_of = |node| best(|| to_host(lab, node), |o| o.error_ns);
    let (sender, receiver) = (best_of(sender)?, best_of(receiver)?);
    if sender.is_none() && receiver.is_none() {
        return Ok(None);
    }
    // node = host + offset for each, so sender = receiver + (sender's offset - receiver's).
    let sender_offset = sender.map_or(0, |o| o.offset_ns);
    let latest = receiver.or(sender).map_or(0, |o| o.at_host_ns);
    Ok(Some(Offset {
        offset_ns: sender_offset - receiver.map_or(0, |o| o.offset_ns),
        error_ns: sender.map_or(0, |o| o.error_ns) + receiver.map_or(0, |o| o.error_ns),
        at_ns: latest as i64 + sender_offset,
    }))
}

/// The comparison with the smallest error of a few, of which a good one is the last. `None`, from nodes with
/// one clock, is final.
fn best<T, E>(
    ask: impl Fn() -> Result<Option<T>, E>,
    error_ns: impl Fn(&T) -> u64,
) -> Result<Option<T>, E> {
    let mut best = ask()?;
    for _ in 1..MAX_ATTEMPTS {
        let Some(found) = &best else { break };
        if error_ns(found) <= GOOD_NS {
            break;
        }
        let again = ask()?;
        if again
            .as_ref()
            .is_some_and(|a| error_ns(a) < error_ns(found))
        {
            best = again;
        }
    }
    Ok(best)
}

/// Joins the two comparisons around a trial that began at `start_ns` of the sender's clock.
pub fn map(before: Offset, after: Offset, start_ns: i64) -> ClockMap {
    ClockMap {
        offset_before_ns: before.offset_ns,
        offset_after_ns: after.offset_ns,
        before_at_ns: before.at_ns - start_ns,
        after_at_ns: after.at_ns - start_ns,
        error_ns: before.error_ns.max(after.error_ns),
    }
}

/// A receiver's time as one of the sender's clock since `start_ns`. Without a map they have one clock.
pub fn to_sender(map: Option<&ClockMap>, receiver_ns: i64, start_ns: i64) -> i64 {
    let Some(map) = map else {
        return receiver_ns - start_ns;
    };
    let rough = receiver_ns + map.offset_before_ns - start_ns;
    let span = map.after_at_ns - map.before_at_ns;
    if span <= 0 {
        return rough;
    }
    let drift = (map.offset_after_ns - map.offset_before_ns) as f64;
    let share = (rough - map.before_at_ns) as f64 / span as f64;
    rough + (drift * share).round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_of_a_few_comparisons_is_kept() {
        let asked = std::cell::Cell::new(0);
        let run = |answers: &[Option<u64>]| {
            asked.set(0);
            let ask = || {
                asked.set(asked.get() + 1);
                Ok::<_, ()>(answers[asked.get() - 1])
            };
            (best(ask, |error| *error).unwrap(), asked.get())
        };
        assert_eq!(run(&[None]), (None, 1));
        assert_eq!(run(&[Some(GOOD_NS)]), (Some(GOOD_NS), 1));
        assert_eq!(run(&[Some(90_000), Some(400)]), (Some(400), 2));
        let crowded = [Some(90_000), Some(180_000), Some(70_000)];
        assert_eq!(run(&crowded), (Some(70_000), 3));
    }

    #[test]
    fn offset_and_drift_are_undone() {
        // The receiver's clock is 1 s behind and loses 100 ns over the 10 ms of the trial.
        let start = 5_000_000_000;
        let before = Offset {
            offset_ns: 1_000_000_000,
            error_ns: 3,
            at_ns: start,
        };
        let after = Offset {
            offset_ns: 1_000_000_100,
            error_ns: 7,
            at_ns: start + 10_000_000,
        };
        let map = map(before, after, start);
        assert_eq!(map.error_ns, 7);
        let to_sender = |ns| to_sender(Some(&map), ns, start);
        assert_eq!(to_sender(4_000_000_000), 0);
        assert_eq!(to_sender(4_005_000_000 - 50), 5_000_000);
        assert_eq!(to_sender(4_010_000_000 - 100), 10_000_000);
    }
}
