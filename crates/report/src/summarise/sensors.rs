//! Sensors of machines over a run, from the records of its trials.

use std::collections::BTreeMap;

use latlab_model::results::{Range, SensorSummary};

use super::trials::TrialData;
use crate::stats::median;

/// The state of a sensor with nothing wrong.
const GOOD: &str = "ok";

#[derive(Default)]
struct Found {
    readings: Vec<f64>,
    states: BTreeMap<String, usize>,
}

pub(super) fn of(trials: &BTreeMap<usize, TrialData>) -> Vec<SensorSummary> {
    let mut found: BTreeMap<(&str, &str, &str), Found> = BTreeMap::new();
    let records = trials.values().filter_map(|trial| trial.record.as_ref());
    for sensor in records.flat_map(|record| &record.sensors) {
        let key = (
            sensor.host.as_str(),
            sensor.name.as_str(),
            sensor.unit.as_str(),
        );
        let entry = found.entry(key).or_default();
        let values = [sensor.before, sensor.after].into_iter().flatten();
        entry
            .readings
            .extend(values.filter(|value| value.is_finite()));
        if sensor.state != GOOD {
            *entry.states.entry(sensor.state.clone()).or_default() += 1;
        }
    }
    let summaries = found
        .into_iter()
        .map(|((host, name, unit), entry)| SensorSummary {
            host: host.to_owned(),
            name: name.to_owned(),
            unit: unit.to_owned(),
            readings: range(&entry.readings),
            states: entry.states,
        });
    summaries.collect()
}

fn range(values: &[f64]) -> Option<Range> {
    Some(Range {
        median: median(values),
        smallest: values.iter().copied().min_by(f64::total_cmp)?,
        largest: values.iter().copied().max_by(f64::total_cmp)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_of_all_readings() {
        let ends = |values: &[f64]| {
            let found = range(values).unwrap();
            (found.median, found.smallest, found.largest)
        };
        assert_eq!(ends(&[61.0, 64.0, 60.0]), (61.0, 60.0, 64.0));
        // One trial has two readings, before it and after.
        assert_eq!(ends(&[64.0, 60.0]), (62.0, 60.0, 64.0));
        assert_eq!(range(&[]), None);
    }
}
