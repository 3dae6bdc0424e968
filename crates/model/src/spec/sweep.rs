//! `sweep:` of a measurement: one of its parameters takes several values, and each makes a measurement of its own. Over
//! them a report has the curve of the load.

use super::name::dashed;
use super::reader::{Object, items};
use super::yaml::{Yaml, steps};
use crate::diagnostic::{Diagnostics, Mark, shown};
use crate::results::SweepPoint;

pub(super) const KEY: &str = "sweep";
/// Values of one sweep: a curve has no use for more.
const MAX_VALUES: usize = 64;
/// Keys that say what is measured and where. The others are parameters.
const NOT_SWEPT: [&str; 6] = ["name", "probe", KEY, "from", "to", "on"];
const EXAMPLE: &str = "for example `sweep: {program.connections: [1, 10, 100]}`";

/// The measurements that an item of `measurements` stands for: itself, or one for each value of its sweep, named
/// `NAME-VALUE`. None if its sweep is wrong.
pub(super) fn expand(item: &Yaml, errors: &mut Diagnostics) -> Vec<(Yaml, Option<SweepPoint>)> {
    let Some(sweep) = item.get(KEY) else {
        return vec![(item.clone(), None)];
    };
    let Some(name) = item.get("name").and_then(Yaml::scalar) else {
        let message = "a measurement with a `sweep` has no `name`";
        let hint = "give it one: its measurements are called `NAME-VALUE`";
        errors.add(sweep.at, message, hint);
        return Vec::new();
    };
    let what = format!("`sweep` of measurement `{}`", shown(name));
    let Some((parameter, values)) = read(sweep, &what, errors) else {
        return Vec::new();
    };
    let mut all = Vec::new();
    for value in values {
        match at_value(item, name, &parameter, value) {
            Ok(measurement) => all.push(measurement),
            Err(why) => {
                let message = format!("{what} does not fit the measurement: {why}");
                errors.add(sweep.at, message, EXAMPLE);
                return Vec::new();
            }
        }
    }
    all
}

/// The measurement with the parameter at one value.
fn at_value(
    item: &Yaml,
    name: &str,
    parameter: &str,
    value: &Yaml,
) -> Result<(Yaml, Option<SweepPoint>), String> {
    let text = value.scalar().unwrap_or_default();
    let called = Yaml::text(value.at, format!("{name}-{}", dashed(text)));
    let mut tree = item.clone();
    tree.remove(KEY);
    let path = steps(parameter);
    let program = item.get("program").filter(|it| it.scalar().is_some());
    if let (["program", _, ..], Some(program)) = (&path[..], program) {
        // `program: redis` is short for `program: {name: redis}`.
        let none = Yaml::map(program.at, Vec::new());
        tree.set(&["program"], &none, program.at)?;
        tree.set(&["program", "name"], program, program.at)?;
    }
    tree.set(&path, value, value.at)?;
    tree.set(&["name"], &called, value.at)?;
    let point = SweepPoint {
        sweep: name.to_owned(),
        parameter: parameter.to_owned(),
        value: text.to_owned(),
    };
    Ok((tree, Some(point)))
}

/// The parameter's path and its values.
fn read<'y>(sweep: &'y Yaml, what: &str, errors: &mut Diagnostics) -> Option<(String, &'y [Yaml])> {
    let o = Object::new(sweep, what, errors);
    if !o.is_mapping() {
        return None;
    }
    let mut entries = o.entries();
    let (Some((path, values)), None) = (entries.next(), entries.next()) else {
        errors.add(sweep.at, format!("{what} is not of one parameter"), EXAMPLE);
        return None;
    };
    let first = steps(&path).first().copied().unwrap_or_default();
    if first.is_empty() || NOT_SWEPT.contains(&first) {
        let message = format!("{what} names `{}`, which is no parameter", shown(&path));
        errors.add(path.at, message, EXAMPLE);
        return None;
    }
    let all = items(values, &format!("the values of {what}"), EXAMPLE, errors)?;
    check(all, what, values.at, errors).then(|| (path.value.to_string(), all))
}

fn check(values: &[Yaml], what: &str, at: Mark, errors: &mut Diagnostics) -> bool {
    if !(2..=MAX_VALUES).contains(&values.len()) {
        let message = format!("{what} has {} values", values.len());
        errors.add(at, message, format!("from 2 to {MAX_VALUES}"));
        return false;
    }
    for (index, value) in values.iter().enumerate() {
        let Some(text) = value.scalar() else {
            let message = format!("{what} has a value that is {}", value.kind());
            errors.add(value.at, message, EXAMPLE);
            return false;
        };
        if values[..index].iter().any(|v| v.scalar() == Some(text)) {
            let message = format!("{what} has the value `{}` twice", shown(text));
            errors.add(value.at, message, "remove one");
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::super::study::Study;
    use super::*;

    const STUDY: &str = "name: s\nlab: l.yaml\nmeasurements:\n  \
        - {name: load, probe: rr, from: a, to: b, sweep: {rate: [100, 1000]}}\n  \
        - {name: other, probe: rr, from: a, to: b}\n";

    #[test]
    fn each_value_makes_a_measurement() {
        let study = Study::parse(STUDY).unwrap();
        let found: Vec<_> = study
            .measurements
            .iter()
            .map(|m| (m.name.value.as_str(), m.pace, m.sweep.clone()))
            .collect();
        let point = |value: &str| {
            Some(SweepPoint {
                sweep: "load".into(),
                parameter: "rate".into(),
                value: value.into(),
            })
        };
        assert_eq!(
            found,
            [
                ("load-100", Some(100), point("100")),
                ("load-1000", Some(1000), point("1000")),
                ("other", None, None),
            ]
        );
    }

    #[test]
    fn values_with_units_and_of_words_make_names() {
        let named = |probe: &str, values: &str| {
            let item = format!("{{name: m, from: a, {probe}, sweep: {{{values}}}}}");
            let study = format!("name: s\nlab: l.yaml\nmeasurements: [{item}]\n");
            let study = Study::parse(&study.replace("from: a, probe: workload", "probe: workload"));
            let study = study.unwrap_or_else(|e| panic!("{}", e.render("s")));
            let of = |m: &super::super::Measurement| {
                let point = m.sweep.clone().unwrap();
                (m.name.value.clone(), point.value)
            };
            study.measurements.iter().map(of).collect::<Vec<_>>()
        };
        let udp = "probe: stream, protocol: udp, to: b";
        let fio = "probe: workload, on: a, program: fio";
        let npb = "probe: workload, on: [a, b], program: npb";
        for (probe, values, expected) in [
            (
                udp,
                "bitrate: [100Mbit, 1Gbit]",
                [("m-100mbit", "100Mbit"), ("m-1gbit", "1Gbit")],
            ),
            (
                udp,
                "duration: [0.5s, 1s]",
                [("m-0-5s", "0.5s"), ("m-1s", "1s")],
            ),
            (
                fio,
                "program.block_size: [4KiB, 64KiB]",
                [("m-4kib", "4KiB"), ("m-64kib", "64KiB")],
            ),
            (
                fio,
                "program.engine: [libaio, io_uring]",
                [("m-libaio", "libaio"), ("m-io-uring", "io_uring")],
            ),
            (npb, "program.class: [S, W]", [("m-s", "S"), ("m-w", "W")]),
        ] {
            let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
            assert_eq!(named(probe, values), expected, "{values}");
        }
    }

    #[test]
    fn a_parameter_of_a_program_is_set_within_it() {
        let study = STUDY.replace(
            "probe: rr, from: a, to: b, sweep: {rate: [100, 1000]}",
            "probe: workload, on: a, program: redis, sweep: {program.connections: [1, 8]}",
        );
        let study = Study::parse(&study).unwrap();
        let names: Vec<_> = study.measurements.iter().map(|m| &*m.name.value).collect();
        assert_eq!(names, ["load-1", "load-8", "other"]);
        assert_ne!(
            study.measurements[0].workload,
            study.measurements[1].workload
        );
    }
}
