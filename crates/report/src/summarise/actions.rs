//! Actions on nodes within the measured windows: rows by cell, node and act.

use latlab_model::results::{ActionRecord, Actions, Cell, TrialSummary};

use super::range::range;

/// Packets that waited for a node arrive within it, after the node goes on.
const AFTERMATH_NS: i64 = 1_000_000_000;

/// One row for each cell, node and act, in the order of the cells.
pub(super) fn of(cells: &[Cell], trials: &[TrialSummary]) -> Vec<Actions> {
    let rows = cells.iter().flat_map(|cell| {
        let of_cell = trials.iter().filter(|trial| trial.cell == cell.id);
        let measured = of_cell.filter(|trial| trial.failed.is_none());
        let all: Vec<&ActionRecord> = measured.flat_map(|trial| &trial.actions).collect();
        let mut kinds: Vec<_> = all.iter().map(|one| (&one.node, one.act)).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let rows = kinds.into_iter().filter_map(|(node, act)| {
            let of_kind = all.iter().filter(|one| (&one.node, one.act) == (node, act));
            row(&cell.id, &of_kind.copied().collect::<Vec<_>>())
        });
        rows.collect::<Vec<_>>()
    });
    rows.collect()
}

fn row(cell: &str, all: &[&ActionRecord]) -> Option<Actions> {
    let first = all.first()?;
    let range_of = |value: &dyn Fn(&ActionRecord) -> Option<u64>| {
        let values = all.iter().filter_map(|one| value(one));
        range(values.map(|value| value as i64).collect())
    };
    let was_forced = |one: &&&ActionRecord| one.copied.is_some_and(|copied| copied.was_forced);
    Some(Actions {
        cell: cell.to_owned(),
        node: first.node.clone(),
        act: first.act,
        count: all.len(),
        gap: range_of(&|one| one.gap_ns),
        stood: range_of(&ActionRecord::stood_ns),
        claimed: range_of(&|one| one.claimed_ns),
        took: range_of(&|one| Some(one.done_ns.abs_diff(one.asked_ns)))?,
        copied: range_of(&|one| Some(one.copied?.bytes)),
        passes: range_of(&|one| Some(one.copied?.passes)),
        forced: all.iter().filter(was_forced).count(),
    })
}

/// Notes for each action the longest time between arrivals, in order of time, that it is to blame for. Silence that begins
/// after the next order is the next action's.
pub(super) fn note_gaps(actions: &mut [ActionRecord], arrivals: &[i64]) {
    let orders: Vec<i64> = actions.iter().map(|action| action.asked_ns).collect();
    for action in actions {
        let (from, done) = (action.asked_ns, action.done_ns);
        let later = orders
            .iter()
            .copied()
            .filter(|at| *at > from && *at >= done);
        let to = later.fold(done.saturating_add(AFTERMATH_NS), i64::min);
        let meets = |pair: &&[i64]| pair[0] <= to && pair[1] >= from;
        let gaps = arrivals.windows(2).filter(meets);
        action.gap_ns = gaps.map(|pair| pair[1].abs_diff(pair[0])).max();
    }
}

#[cfg(test)]
mod tests {
    use latlab_model::results::{ActionKind, Copied};

    use super::*;

    fn action(asked_ns: i64, done_ns: i64) -> ActionRecord {
        ActionRecord {
            node: "v".into(),
            act: ActionKind::Migrate,
            to: Some("w".into()),
            asked_ns,
            done_ns,
            stopped_ns: Some(asked_ns + 10),
            resumed_ns: None,
            running_ns: Some(done_ns - 5),
            claimed_ns: Some(7),
            copied: Some(Copied {
                bytes: 100,
                passes: 3,
                was_forced: asked_ns == 0,
            }),
            gap_ns: None,
        }
    }

    #[test]
    fn a_gap_belongs_to_the_action_that_it_overlaps() {
        const MS: i64 = 1_000_000;
        let arrivals: Vec<i64> = [0, 10, 400, 410, 5000, 5001, 5200].map(|at| at * MS).into();
        let mut actions = [
            action(20 * MS, 390 * MS),
            action(5001 * MS, 5100 * MS),
            action(9000 * MS, 9100 * MS),
        ];
        note_gaps(&mut actions, &arrivals);
        // From 410 ms on nothing came for long: that is within a second after the first one was done.
        let gaps = actions.each_ref().map(|action| action.gap_ns);
        assert_eq!(
            gaps,
            [Some(4590), Some(199), None].map(|gap| gap.map(|ms| ms * MS as u64))
        );
    }

    #[test]
    fn silence_after_the_next_order_belongs_to_the_next_action() {
        const MS: i64 = 1_000_000;
        let steady = (0..1000).map(|at| at * 10);
        let silent = |at: &i64| (100..150).contains(at) || (610..1010).contains(at);
        let arrivals: Vec<i64> = steady.filter(|at| !silent(at)).map(|at| at * MS).collect();
        let mut actions = [
            action(95 * MS, 140 * MS),
            action(595 * MS, 1000 * MS),
            // Within another one.
            action(700 * MS, 800 * MS),
        ];
        note_gaps(&mut actions, &arrivals);
        let gaps = actions.each_ref().map(|action| action.gap_ns);
        assert_eq!(gaps, [60, 410, 410].map(|ms| Some(ms * MS as u64)));
    }

    #[test]
    fn a_row_has_all_actions_of_its_kind() {
        let (first, second) = (action(0, 100), action(1000, 1300));
        let row = row("c", &[&first, &second]).unwrap();
        assert_eq!((row.count, row.forced, row.gap), (2, 1, None));
        let stood = row.stood.unwrap();
        assert_eq!((stood.smallest, stood.largest), (85.0, 285.0));
        assert_eq!((row.took.smallest, row.took.largest), (100.0, 300.0));
        assert_eq!(row.copied.unwrap().median, 100.0);
    }
}
