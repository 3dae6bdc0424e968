//! Papers: their documents fit their studies, and a run stands beside its published figures.

mod common;
mod made_up;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::process::Stdio;

use common::{enter, signal, tool, until};
use latlab_model::paper::{Paper, PaperName, Quantity, Select};
use latlab_model::results::{PaperComparison, PaperVerdict};
use latlab_model::spec::{LabSource, Probe, Study};

fn study(name: &str) -> Study {
    let path = format!("{}/../../studies/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let study = Study::parse(&text).unwrap();
    assert!(matches!(study.lab, LabSource::Inline(_)));
    study
}

/// The first thing that a selection asks of its study, and the study does not have.
fn misfit(select: &Select, study: &Study) -> Option<String> {
    for (factor, level) in &select.levels {
        let known = study
            .factors
            .iter()
            .find(|known| known.name.value == *factor);
        let Some(known) = known else {
            return Some(format!("no factor `{factor}`"));
        };
        if !known.levels.iter().any(|known| known.label == *level) {
            return Some(format!("factor `{factor}` has no level `{level}`"));
        }
    }
    if matches!(select.quantity, Some(Quantity::Start(_))) {
        return None;
    }
    let mut measurements = study.measurements.iter();
    let wanted = select.measurement.as_deref();
    let found = measurements.find(|m| wanted.is_none_or(|wanted| m.name.value == wanted));
    let Some(found) = found else {
        return Some(format!("no measurement `{wanted:?}`"));
    };
    let has_times = !matches!(found.probe, Probe::Stream | Probe::Workload);
    let quantity = match &select.quantity {
        Some(Quantity::Spread(of)) => Some(&**of),
        other => other.as_ref(),
    };
    match quantity {
        None => Some("no quantity".into()),
        Some(Quantity::Metric(_)) if has_times => Some("a metric of a measurement of times".into()),
        Some(Quantity::Metric(_)) => None,
        Some(_) => (!has_times).then(|| "times of a measurement without".into()),
    }
}

#[test]
fn every_figure_of_a_paper_is_measured_by_its_study() {
    for name in PaperName::ALL {
        let paper = Paper::built_in(*name).unwrap();
        let studies: BTreeMap<&str, Study> = paper
            .studies
            .iter()
            .map(|s| (s.as_str(), study(s)))
            .collect();
        for (of, study) in &studies {
            assert_eq!(
                study.paper,
                Some(*name),
                "{of} does not say whose study it is"
            );
        }
        for table in &paper.tables {
            for row in &table.rows {
                for column in &table.columns {
                    let select = column.select.and(&row.select);
                    let place = format!("{name}: {}: {}: {}", table.title, row.name, column.name);
                    let of = select
                        .study
                        .as_deref()
                        .unwrap_or_else(|| panic!("{place}: no study"));
                    let study = studies.get(of).unwrap_or_else(|| panic!("{place}: `{of}`"));
                    assert_eq!(misfit(&select, study), None, "{place}");
                }
            }
        }
    }
}

#[test]
fn a_run_of_a_papers_study_has_all_of_its_figures() {
    let runs = made_up::Runs::new("paper");
    for name in PaperName::ALL {
        for study in Paper::built_in(*name).unwrap().studies {
            let run = runs.write(&study, 3);
            let paper = run.read_summary().unwrap().paper.unwrap();
            for table in &paper.tables {
                for row in &table.rows {
                    for value in &row.values {
                        // A row may have a column of another study.
                        let is_found = value.measured.is_some()
                            || value.reason.iter().any(|why| why.ends_with("was not run"));
                        assert!(
                            is_found,
                            "{study}: {}: {}: {value:?}",
                            table.title, row.name
                        );
                    }
                }
            }
        }
    }
}

/// A study with the name and the cells of the real one, which would take minutes.
const BOOT: &str = r#"name: boot
paper: dhar2016
lab:
  name: NAME
  topology:
    nodes:
      client: {kind: native}
      guest: {kind: container, count: 1}
    links: [{type: bridge, endpoints: ["client:eth0", "guest:eth0"]}]
factors:
  guest: {path: topology.nodes.guest, levels: [{kind: container}]}
  count: {path: topology.nodes.guest.count, levels: [1, 2]}
measurements: [{name: echo, probe: rr, protocol: udp, from: client, to: guest-1, duration: 100ms}]
replicates: 3
"#;

#[test]
fn a_run_stands_beside_its_paper_and_can_be_compared_later() {
    enter(
        "a_run_stands_beside_its_paper_and_can_be_compared_later",
        |bench| {
            let study = bench.file("boot", BOOT);
            let runs = bench.root().join("runs");
            let said = bench
                .latlab(&["run", &study, "--runs", runs.to_str().unwrap()])
                .good();
            assert!(
                said.out.contains("Trinity College Dublin, 2016"),
                "{said:#?}"
            );
            assert!(said.out.contains("Tables 5.1 and 5.2"), "{said:#?}");
            let run = fs::read_dir(&runs).unwrap().next().unwrap().unwrap().path();
            let run = run.to_str().unwrap();

            let said = bench
                .latlab(&["paper", "dhar2016", "--from", run, "--format", "json"])
                .good();
            let paper: PaperComparison = serde_json::from_str(&said.out).unwrap();
            let table = paper
                .tables
                .iter()
                .find(|t| t.title == "Time to come up")
                .unwrap();
            let one = &table.rows[0];
            assert_eq!(
                (one.name.as_str(), one.measured_unit.as_str()),
                ("1 guest", "ns")
            );
            let container = &one.values[0];
            assert!(
                container.measured.is_some_and(|ns| ns > 1e6),
                "{container:#?}"
            );
            assert!(container.measured_ci95.is_some() && container.ratio.is_none());
            let vm = &one.values[1];
            assert_eq!(vm.verdict, Some(PaperVerdict::CannotBeTold));
            assert!(vm.measured.is_none() && vm.reason.is_some(), "{vm:#?}");
            assert!(paper.absent.iter().any(|absent| absent.name == "Shutdown"));

            let csv = bench
                .latlab(&["paper", "dhar2016", "--from", run, "--format", "csv"])
                .good();
            let fields = |line: &str| line.split(',').count();
            assert!(csv.out.lines().count() > 10 && csv.out.lines().all(|l| fields(l) >= 14));

            bench
                .latlab(&["paper", "felter2014", "--from", run])
                .refused(
                    2,
                    "is a run of study `boot`",
                    "the studies of felter2014 are",
                );
            bench
                .latlab(&["paper", "felter"])
                .refused(2, "no paper `felter`", "felter2014");
        },
    );
}

/// Under the name of a study inside the program, in whose place a file of that name is read.
const SMALL: &str = "name: overlay\nlab:\n  name: NAME\n  topology:\n    \
    nodes: {a: {kind: native}, b: {kind: native}}\n    links: [{endpoints: ['a:eth0', 'b:eth0']}]\n\
    measurements: [{probe: rr, from: a, to: b, duration: 100ms}]\nreplicates: 1\n";

#[test]
fn a_paper_that_is_interrupted_between_two_studies_begins_no_other() {
    const NAME: &str = "a_paper_that_is_interrupted_between_two_studies_begins_no_other";
    enter(NAME, |bench| {
        let studies = Paper::built_in(PaperName::Cui2013).unwrap().studies;
        assert_eq!(studies, ["overlay", "mpi"]);
        let [first, second] = ["overlay", "mpi"].map(|name| bench.root().join("files").join(name));
        let small = SMALL.replace("NAME", &bench.name("small"));
        fs::write(first, &small).unwrap();
        // The second study cannot be read before it is written, and so not begin before the signal.
        tool(&["mkfifo", second.to_str().unwrap()]);
        let runs = bench.root().join("runs");
        let mut paper = bench.command(&["paper", "cui2013", "--runs"]);
        let paper = paper.arg(&runs).stdout(Stdio::null());
        let mut paper = paper.stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(paper.stderr.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("report: ") {
            line.clear();
            assert_ne!(said.read_line(&mut line).unwrap(), 0, "it has ended");
        }
        signal(paper.id(), "INT");
        until("it waits for the second study, or has ended", || {
            let mut options = File::options();
            options.write(true).custom_flags(libc::O_NONBLOCK);
            match options.open(&second) {
                Ok(mut study) => study.write_all(small.as_bytes()).is_ok(),
                Err(_) => paper.try_wait().unwrap().is_some(),
            }
        });
        let mut rest = String::new();
        said.read_to_string(&mut rest).unwrap();
        assert_eq!(paper.wait().unwrap().code(), Some(130), "{rest}");
        assert_eq!(fs::read_dir(&runs).unwrap().count(), 1, "{rest}");
    });
}
