//! Actions within a measured window: a thread beside the sender does them at their times, and notes when each was
//! asked for and done, on the host's clock.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use latlab_host::lab::Lab;
use latlab_model::results::Pause;
use latlab_model::spec::Action;

use crate::clock::now_ns;
use crate::context::Context;
use crate::endpoint::Output;
use crate::error::Error;
use crate::probes::Sender;

/// A pause as it was, in nanoseconds of the host's monotonic clock.
#[derive(Debug, Clone, Copy, Default)]
struct Done {
    asked_ns: u64,
    stopped_ns: u64,
    resumed_ns: u64,
    running_ns: u64,
}

/// Waits for the end of a measurement's sender, and does the measurement's actions meanwhile. The window begins `lead`
/// after the sender is ready. Times of the pauses are on the sender's clock, from `started_ns` of its report.
pub(crate) fn beside(
    context: &Context<'_>,
    mut sender: Sender,
    lead: Duration,
) -> Result<(Output, Vec<Pause>), Error> {
    let actions = &context.measurement.actions;
    if actions.is_empty() {
        return Ok((sender.finish()?, Vec::new()));
    }
    sender.ready()?;
    let begin = Instant::now() + lead;
    let (output, done) = std::thread::scope(|scope| {
        let acting = scope.spawn(|| act(context.lab, actions, begin));
        let output = sender.finish();
        let done = acting.join();
        (
            output,
            done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        )
    });
    let (output, done) = (output?, done?);
    let node = context.sender();
    let clock = context.lab.clock(node).map_err(|source| Error::Clock {
        node: node.into(),
        source: Box::new(source),
    })?;
    let offset_ns = clock.map_or(0, |clock| clock.offset_ns);
    let started_ns = output.report.as_ref().map_or(0, |r| r.started_ns) as i64;
    let on_axis = |ns: u64| ns as i64 + offset_ns - started_ns;
    let pauses = actions.iter().zip(done).map(|(action, done)| Pause {
        node: action.node.value.clone(),
        asked_ns: on_axis(done.asked_ns),
        stopped_ns: on_axis(done.stopped_ns),
        resumed_ns: on_axis(done.resumed_ns),
        running_ns: on_axis(done.running_ns),
    });
    Ok((output, pauses.collect()))
}

/// Nodes that stand still; they go on however the measurement ends.
struct Paused<'a> {
    lab: &'a Lab,
    nodes: BTreeSet<&'a str>,
}

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        for node in &self.nodes {
            // The error that ends the measurement is the one to report.
            let _ = self.lab.resume(node);
        }
    }
}

fn act(lab: &Lab, actions: &[Action], begin: Instant) -> Result<Vec<Done>, Error> {
    let failed = |error| Error::Lab(Box::new(error));
    let mut done = vec![Done::default(); actions.len()];
    let mut paused = Paused {
        lab,
        nodes: BTreeSet::new(),
    };
    for (at_ns, index, is_end) in in_order(actions) {
        let due = begin + Duration::from_nanos(at_ns);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let node = actions[index].node.value.as_str();
        let asked_ns = now_ns();
        if is_end {
            lab.resume(node).map_err(failed)?;
            paused.nodes.remove(node);
            (done[index].resumed_ns, done[index].running_ns) = (asked_ns, now_ns());
        } else {
            paused.nodes.insert(node);
            lab.pause(node).map_err(failed)?;
            (done[index].asked_ns, done[index].stopped_ns) = (asked_ns, now_ns());
        }
    }
    Ok(done)
}

/// The begins and ends of the actions by time: nanoseconds, which one, whether its end.
fn in_order(actions: &[Action]) -> Vec<(u64, usize, bool)> {
    let moments = actions.iter().enumerate().flat_map(|(index, action)| {
        [
            (action.at.value.0, index, false),
            (action.end().0, index, true),
        ]
    });
    let mut moments: Vec<_> = moments.collect();
    // A node that goes on and stops at the same time goes on first.
    moments.sort_by_key(|&(at, index, is_end)| (at, !is_end, index));
    moments
}

#[cfg(test)]
mod tests {
    use latlab_model::diagnostic::{Mark, Spanned};
    use latlab_model::units::Nanos;

    use super::*;

    #[test]
    fn pauses_begin_and_end_in_the_order_of_time() {
        let action = |at, lasts| Action {
            at: Spanned::new(Nanos(at), Mark::default()),
            node: Spanned::new("a".into(), Mark::default()),
            lasts: Nanos(lasts),
        };
        let order = in_order(&[action(50, 10), action(10, 40)]);
        assert_eq!(
            order,
            [(10, 1, false), (50, 1, true), (50, 0, false), (60, 0, true)]
        );
    }
}
