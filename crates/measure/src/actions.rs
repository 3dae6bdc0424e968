//! Actions within a measured window: a thread beside the sender does them at their times, and notes when each was
//! asked for and done, on the host's clock.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use latlab_host::lab::{Lab, Moved, Step, Stood};
use latlab_model::results::{ActionRecord, Copied, Held};
use latlab_model::spec::{Act, Action};

use crate::clock::{self, now_ns};
use crate::context::Context;
use crate::endpoint::Output;
use crate::error::Error;
use crate::probes::Sender;

/// An action as it was, in ns of the host's monotonic clock.
#[derive(Debug, Clone, Copy, Default)]
struct Done {
    asked_ns: u64,
    done_ns: u64,
    stopped_ns: Option<u64>,
    resumed_ns: Option<u64>,
    running_ns: Option<u64>,
    claimed: Option<Duration>,
    copied: Option<Copied>,
}

impl Done {
    fn stood(&mut self, stood: Option<Stood>) {
        self.stopped_ns = stood.map(|stood| stood.stopped_ns);
        self.running_ns = stood.map(|stood| stood.running_ns);
    }

    fn moved(&mut self, moved: &Moved) {
        self.stood(moved.stood);
        self.claimed = moved.downtime;
        self.copied = Some(Copied {
            bytes: moved.bytes,
            passes: moved.rounds,
            was_forced: moved.was_forced,
        });
    }
}

/// The actions of a measurement.
#[derive(Debug, Default)]
pub(crate) struct Acted {
    /// On the sender's clock, from the begin of the window.
    pub records: Vec<ActionRecord>,
    /// When nodes stood still, on the host's clock.
    pub held: Vec<Held>,
}

/// Fetches and proves the programs that actions need: within the window it would take long.
pub(crate) fn prepare(context: &Context<'_>) -> Result<(), Error> {
    for action in &context.measurement.actions {
        if !matches!(action.act, Act::Pause { .. }) {
            context.lab.prepare_tools(&action.node.value)?;
        }
    }
    Ok(())
}

/// Waits for the end of a measurement's sender, and does the measurement's actions meanwhile. The window begins `lead`
/// after the sender is ready. Their times are on the sender's clock, from `started_ns` of its report. Nodes are where
/// they were before when it returns.
pub(crate) fn beside(
    context: &Context<'_>,
    mut sender: Sender,
    lead: Duration,
) -> Result<(Output, Acted), Error> {
    let actions = &context.measurement.actions;
    if actions.is_empty() {
        return Ok((sender.finish()?, Acted::default()));
    }
    sender.ready()?;
    let begin = Instant::now() + lead;
    let mut changed = Changed::new(context.lab);
    let (output, done) = std::thread::scope(|scope| {
        let acting = scope.spawn(|| act(actions, begin, &mut changed));
        let output = sender.finish();
        let done = acting.join();
        (
            output,
            done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        )
    });
    let (output, done) = (output?, done?);
    let started_ns = output.report.as_ref().map_or(0, |r| r.started_ns) as i64;
    let records = on_axis(context, started_ns, &done)?;
    let held = held(actions, &done);
    changed.put_back()?;
    Ok((output, Acted { records, held }))
}

fn held(actions: &[Action], done: &[Done]) -> Vec<Held> {
    let both = actions.iter().zip(done);
    let held = both.filter_map(|(action, done)| {
        Some(Held {
            node: action.node.value.clone(),
            act: action.act.kind(),
            from_ns: done.stopped_ns?,
            to_ns: done.running_ns?,
        })
    });
    let mut held: Vec<Held> = held.collect();
    held.sort_by_key(|held| held.from_ns);
    held
}

/// The actions as results have them. `started_ns` is the zero of the axis on the sender's clock.
fn on_axis(
    context: &Context<'_>,
    started_ns: i64,
    done: &[Done],
) -> Result<Vec<ActionRecord>, Error> {
    let clock = clock::to_host(context.lab, context.sender())?;
    let offset_ns = clock.map_or(0, |clock| clock.offset_ns);
    let at = |ns: u64| ns as i64 + offset_ns - started_ns;
    let record = |(action, done): (&Action, &Done)| ActionRecord {
        node: action.node.value.clone(),
        act: action.act.kind(),
        to: match &action.act {
            Act::Migrate { to } => Some(to.value.clone()),
            _ => None,
        },
        asked_ns: at(done.asked_ns),
        done_ns: at(done.done_ns),
        stopped_ns: done.stopped_ns.map(at),
        resumed_ns: done.resumed_ns.map(at),
        running_ns: done.running_ns.map(at),
        claimed_ns: done.claimed.map(|claimed| claimed.as_nanos() as u64),
        copied: done.copied,
        gap_ns: None,
    };
    let actions = &context.measurement.actions;
    Ok(actions.iter().zip(done).map(record).collect())
}

/// Nodes that are not as they were before the measurement. They are put back however it ends.
struct Changed<'a> {
    lab: &'a Lab,
    paused: BTreeSet<&'a str>,
    /// Nodes that moved, with those on whose hosts they were.
    moved: BTreeMap<&'a str, String>,
    saved: BTreeSet<&'a str>,
}

impl<'a> Changed<'a> {
    fn new(lab: &'a Lab) -> Self {
        Changed {
            lab,
            paused: BTreeSet::new(),
            moved: BTreeMap::new(),
            saved: BTreeSet::new(),
        }
    }

    /// Lets paused nodes go on, moves others back, and removes what was saved of them. Fails with the first failure,
    /// after all was tried.
    fn put_back(&mut self) -> Result<(), Error> {
        let lab = self.lab;
        let mut result = Ok(());
        for node in std::mem::take(&mut self.paused) {
            result = result.and(lab.resume(node).map(drop));
        }
        for (node, home) in std::mem::take(&mut self.moved) {
            if lab.host_node(node).is_ok_and(|at| at != home) {
                result = result.and(lab.migrate(node, &home, &quiet).map(drop));
            }
        }
        for node in std::mem::take(&mut self.saved) {
            result = result.and(lab.drop_kept(node));
        }
        Ok(result?)
    }
}

impl Drop for Changed<'_> {
    fn drop(&mut self) {
        // The error that ends the measurement is the one to report.
        let _ = self.put_back();
    }
}

/// Does the actions at their times. After a failure nodes that stand still go on at once, since the sender waits for
/// their answers.
fn act<'a>(
    actions: &'a [Action],
    begin: Instant,
    changed: &mut Changed<'a>,
) -> Result<Vec<Done>, Error> {
    let mut done = vec![Done::default(); actions.len()];
    for (at_ns, index, is_end) in in_order(actions) {
        let due = begin + Duration::from_nanos(at_ns);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let carried_out = match is_end {
            true => end_pause(&actions[index], changed, &mut done[index]),
            false => carry_out(&actions[index], changed, &mut done[index]),
        };
        if let Err(error) = carried_out {
            for node in std::mem::take(&mut changed.paused) {
                // The first failure is the one to report.
                let _ = changed.lab.resume(node);
            }
            return Err(error.into());
        }
        done[index].done_ns = now_ns();
    }
    Ok(done)
}

fn carry_out<'a>(
    action: &'a Action,
    changed: &mut Changed<'a>,
    done: &mut Done,
) -> Result<(), latlab_host::lab::Error> {
    let (lab, node) = (changed.lab, action.node.value.as_str());
    done.asked_ns = now_ns();
    match &action.act {
        Act::Pause { .. } => {
            changed.paused.insert(node);
            lab.pause(node)?;
            done.stopped_ns = Some(now_ns());
        }
        Act::Migrate { to } => {
            let home = lab.host_node(node)?;
            changed.moved.entry(node).or_insert(home);
            done.moved(&lab.migrate(node, &to.value, &quiet)?);
        }
        Act::Snapshot => {
            changed.saved.insert(node);
            done.stood(lab.keep(node, &quiet)?);
        }
        Act::Restore => lab.go_back(node, &quiet)?,
    }
    Ok(())
}

fn end_pause<'a>(
    action: &'a Action,
    changed: &mut Changed<'a>,
    done: &mut Done,
) -> Result<(), latlab_host::lab::Error> {
    let node = action.node.value.as_str();
    done.resumed_ns = Some(now_ns());
    changed.lab.resume(node)?;
    changed.paused.remove(node);
    done.running_ns = Some(now_ns());
    Ok(())
}

/// Progress is not shown: a measurement runs beside it.
fn quiet(_: &Step<'_>) {}

/// The begins of the actions and the ends of pauses by time: nanoseconds, which one, whether its end.
fn in_order(actions: &[Action]) -> Vec<(u64, usize, bool)> {
    let moments = actions.iter().enumerate().flat_map(|(index, action)| {
        let end = matches!(action.act, Act::Pause { .. }).then(|| (action.end().0, index, true));
        [Some((action.at.value.0, index, false)), end]
    });
    let mut moments: Vec<_> = moments.flatten().collect();
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
            act: Act::Pause {
                lasts: Nanos(lasts),
            },
        };
        let order = in_order(&[action(50, 10), action(10, 40)]);
        assert_eq!(
            order,
            [(10, 1, false), (50, 1, true), (50, 0, false), (60, 0, true)]
        );
    }
}
