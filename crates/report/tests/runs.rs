//! Whole run directories and their summaries, also of damaged ones.

mod synthetic;

use std::collections::BTreeSet;
use std::fs;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use latlab_model::results::{
    Counters, Manifest, QUANTILES, RunState, Severity, Summary, TrialOutcome, Verdict,
    samples_needed,
};
use latlab_report::{analyse, compare, conclude};
use latlab_samples::table::{self, Stretch};
use latlab_samples::{RunDir, Sample, SampleReader};
use synthetic::{Plan, Scratch};

fn codes(summary: &Summary) -> BTreeSet<&str> {
    summary
        .notes
        .iter()
        .map(|note| note.code.as_str())
        .collect()
}

fn edit_manifest(run: &RunDir, edit: impl FnOnce(&mut Manifest)) {
    let mut manifest = run.read_manifest().unwrap();
    edit(&mut manifest);
    run.write_manifest(&manifest).unwrap();
}

/// The first trial of a cell, by the order of running.
fn trial_of(run: &RunDir, cell: &str) -> u32 {
    run.read_manifest()
        .unwrap()
        .order
        .iter()
        .find(|planned| planned.cell == cell)
        .unwrap()
        .trial
}

const CELL: &str = "rr-udp/kind=container/link=veth";

#[test]
fn concluding_twice_changes_not_a_byte() {
    let scratch = Scratch::new("twice");
    let run = Plan::small().write(scratch.path().join("run"));
    let files = || {
        [
            run.summary_path(),
            run.report_path(),
            run.root().join("latency.hlog"),
        ]
        .map(|path| fs::read(path).unwrap())
    };
    let summary = conclude(&run).unwrap();
    let first = files();
    conclude(&run).unwrap();
    assert!(first == files());
    assert_eq!(run.read_summary().unwrap(), summary);
}

#[test]
fn numbers_are_those_of_the_samples() {
    let scratch = Scratch::new("numbers");
    let run = Plan::small().write(scratch.path().join("run"));
    let summary = analyse(&run).unwrap().summary;
    let cell = summary.cells.iter().find(|cell| cell.id == CELL).unwrap();
    let mut all = Vec::new();
    for trial in summary.trials.iter().filter(|trial| trial.cell == CELL) {
        let samples =
            SampleReader::open(run.root().join(RunDir::samples_name(trial.trial))).unwrap();
        all.extend(
            samples
                .read_all()
                .unwrap()
                .iter()
                .filter_map(|sample| sample.latency_ns),
        );
    }
    all.sort_unstable();
    let latency = cell.latency.as_ref().unwrap();
    assert_eq!(latency.samples, all.len() as u64);
    assert_eq!(
        (latency.min_ns, latency.max_ns),
        (all[0] as f64, all[all.len() - 1] as f64)
    );
    for (quantile, p) in latency.quantiles.iter().zip(QUANTILES) {
        let h = (all.len() - 1) as f64 * p;
        let (low, part) = (h.floor() as usize, h.fract());
        let next = all[(low + 1).min(all.len() - 1)];
        let expected = all[low] as f64 + part * (next - all[low]) as f64;
        let enough = all.len() as u64 >= samples_needed(p);
        assert_eq!(quantile.value_ns, enough.then_some(expected), "{p}");
        assert_eq!(quantile.ci95_ns.is_some(), enough);
    }
}

#[test]
fn p9999_of_a_thousand_samples_is_not_enough() {
    let scratch = Scratch::new("enough");
    let plan = Plan {
        replicates: 1,
        ..Plan::small()
    };
    let summary = analyse(&plan.write(scratch.path().join("run")))
        .unwrap()
        .summary;
    for cell in &summary.cells {
        let quantiles = &cell.latency.as_ref().unwrap().quantiles;
        let known = quantiles
            .iter()
            .filter(|quantile| quantile.value_ns.is_some())
            .count();
        assert_eq!(known, 3, "p50, p90 and p99 of 1,000 samples");
        assert!(quantiles.iter().all(|quantile| quantile.ci95_ns.is_none()));
    }
    assert!(codes(&summary).is_superset(&["few-samples", "few-replicates"].into()));
    let verdicts = summary
        .cells
        .iter()
        .filter_map(|cell| cell.comparison.as_ref());
    assert!(verdicts.clone().count() > 0);
    assert!(
        verdicts
            .clone()
            .all(|c| c.verdict == Verdict::TooFewReplicates && c.p_value.is_none())
    );
}

#[test]
fn differences_are_found_where_there_are_some() {
    let summary = synthetic::summary();
    for cell in &summary.cells {
        match cell.levels["kind"].as_str() {
            "native" => assert!(cell.comparison.is_none()),
            "vm" => {
                let comparison = cell.comparison.as_ref().unwrap();
                assert_eq!(comparison.verdict, Verdict::Worse);
                let (low, high) = comparison.ratio_ci95.unwrap();
                assert!(20.0 < low && low < comparison.ratio && comparison.ratio < high);
            }
            _ => assert!(cell.comparison.is_some()),
        }
    }
    assert!(codes(&summary).contains("emulated"));
}

#[test]
fn the_histogram_log_holds_every_trial() {
    let scratch = Scratch::new("hlog");
    let run = Plan::small().write(scratch.path().join("run"));
    let analysis = analyse(&run).unwrap();
    let log = histograms(&analysis.hlog);
    assert_eq!(log.len(), analysis.summary.trials.len());
    for trial in &analysis.summary.trials {
        let tag = format!("{}#{}", trial.cell, trial.replicate);
        let (_, found) = log.iter().find(|entry| entry.0 == tag).unwrap();
        assert_eq!(found.len(), trial.counters.received);
        let exact = trial.spread_ns.unwrap().median;
        let median = found.value_at_quantile(0.5) as f64;
        assert!(
            (median / exact - 1.0).abs() < 2e-3,
            "{tag}: {median} against {exact}"
        );
    }
}

/// The histograms of a log with their tags.
fn histograms(log: &[u8]) -> Vec<(String, Histogram<u64>)> {
    // The customary column titles are unknown to the parser.
    let titles = log
        .split_inclusive(|&byte| byte == b'\n')
        .filter(|line| !line.starts_with(b"\""));
    let plain: Vec<u8> = titles.flatten().copied().collect();
    let mut deserializer = Deserializer::new();
    let mut all = Vec::new();
    for entry in IntervalLogIterator::new(&plain) {
        if let LogEntry::Interval(interval) = entry.unwrap() {
            let bytes = STANDARD.decode(interval.encoded_histogram()).unwrap();
            let histogram = deserializer.deserialize(&mut bytes.as_slice()).unwrap();
            all.push((interval.tag().unwrap().as_str().to_owned(), histogram));
        }
    }
    all
}

#[test]
fn damaged_and_missing_trials_are_reported_not_fatal() {
    let scratch = Scratch::new("damage");
    let run = Plan::small().write(scratch.path().join("run"));
    let cells = ["veth", "bridge"].map(|link| format!("packets/kind=native/link={link}"));
    let [truncated, garbage] = cells.clone().map(|cell| trial_of(&run, &cell));
    let gone = trial_of(&run, CELL);
    let no_samples = trial_of(&run, "rr-udp/kind=native/link=veth");

    let whole = fs::read(run.root().join(RunDir::samples_name(truncated))).unwrap();
    fs::write(
        run.root().join(RunDir::samples_name(truncated)),
        &whole[..whole.len() / 2],
    )
    .unwrap();
    fs::write(run.trial_path(garbage), "{\"trial\": tru").unwrap();
    fs::remove_dir_all(run.trial_dir(gone)).unwrap();
    fs::remove_file(run.root().join(RunDir::samples_name(no_samples))).unwrap();

    let summary = conclude(&run).unwrap();
    assert!(codes(&summary).is_superset(&["checksum", "unreadable", "incomplete"].into()));
    let trial = |number| summary.trials.iter().find(|trial| trial.trial == number);
    assert!(
        trial(truncated)
            .unwrap()
            .failed
            .as_ref()
            .unwrap()
            .contains("truncated")
    );
    assert!(
        trial(garbage)
            .unwrap()
            .failed
            .as_ref()
            .unwrap()
            .contains("trial.json")
    );
    assert!(trial(no_samples).unwrap().failed.is_some());
    assert!(trial(gone).is_none());
    let replicates = |id: &str| {
        summary
            .cells
            .iter()
            .find(|cell| cell.id == id)
            .unwrap()
            .replicates
    };
    assert_eq!(
        [
            replicates(&cells[0]),
            replicates(&cells[1]),
            replicates(CELL)
        ],
        [3, 3, 3]
    );
}

#[test]
fn a_run_without_a_single_trial_is_summarised() {
    let scratch = Scratch::new("empty");
    let run = Plan::small().write(scratch.path().join("run"));
    fs::remove_dir_all(run.root().join("trials")).unwrap();
    edit_manifest(&run, |manifest| {
        manifest.state = RunState::Incomplete {
            reason: "the disk is full".to_owned(),
        };
        manifest.checksums.clear();
    });
    let summary = conclude(&run).unwrap();
    assert!(summary.trials.is_empty() && summary.cells.iter().all(|cell| cell.latency.is_none()));
    let note = summary
        .notes
        .iter()
        .find(|note| note.code == "incomplete")
        .unwrap();
    assert!(
        note.text.contains("the disk is full. 0 of 48"),
        "{}",
        note.text
    );
}

#[test]
fn a_garbage_manifest_is_an_error_with_its_place() {
    let scratch = Scratch::new("manifest");
    let run = Plan::small().write(scratch.path().join("run"));
    let text = fs::read_to_string(run.manifest_path()).unwrap();
    fs::write(run.manifest_path(), &text[..text.len() / 3]).unwrap();
    let error = conclude(&run).unwrap_err().to_string();
    assert!(
        error.contains("manifest.json") && error.contains("line"),
        "{error}"
    );
}

#[test]
fn every_mutilation_of_the_documents_is_survived() {
    let scratch = Scratch::new("mutilated");
    let plan = Plan {
        replicates: 1,
        samples: 30,
        links: vec!["veth"],
        kinds: vec!["native"],
        measurements: vec!["rr-udp"],
        ..Plan::small()
    };
    let run = plan.write(scratch.path().join("run"));
    let manifest = fs::read(run.manifest_path()).unwrap();
    for (index, path) in [run.manifest_path(), run.trial_path(1)].iter().enumerate() {
        let whole = fs::read(path).unwrap();
        for at in (0..whole.len()).step_by(19) {
            let mut broken = whole.clone();
            broken[at] = b"}9\"-e"[at % 5];
            fs::write(path, &broken).unwrap();
            let result = analyse(&run);
            assert!(
                index == 0 || result.is_ok(),
                "a broken trial is never fatal"
            );
        }
        fs::write(run.manifest_path(), &manifest).unwrap();
    }
}

#[test]
fn faults_are_named_in_the_honesty_box() {
    let scratch = Scratch::new("faults");
    let plan = Plan {
        faults: true,
        samples: 2_000,
        ..Plan::small()
    };
    let run = plan.write(scratch.path().join("run"));
    edit_manifest(&run, |manifest| manifest.checksums.clear());

    // One file measured once and filed twice.
    let [original, copy] = ["native", "container"]
        .map(|kind| trial_of(&run, &format!("rr-udp/kind={kind}/link=bridge")));
    fs::copy(
        run.root().join(RunDir::samples_name(original)),
        run.root().join(RunDir::samples_name(copy)),
    )
    .unwrap();

    let mut duplicated = run.read_trial(original).unwrap().unwrap();
    duplicated.counters.duplicated = 3;
    duplicated.counters.corrupted = 2;
    duplicated.counters.reordered = 4;
    run.write_trial(&duplicated).unwrap();

    let summary = analyse(&run).unwrap().summary;
    let expected = [
        "emulated",
        "no-kvm",
        "overloaded",
        "failed",
        "lost",
        "clock",
        "identical",
        "duplicated",
        "corrupted",
        "reordered",
        "few-samples",
    ];
    let found = codes(&summary);
    for code in expected {
        assert!(found.contains(code), "no note {code} among {found:?}");
    }
    assert!(summary.notes.is_sorted_by_key(|note| note.severity));
    let overloaded = summary
        .notes
        .iter()
        .find(|note| note.code == "overloaded")
        .unwrap();
    assert!(overloaded.text.contains("involuntary-switches") && !overloaded.cells.is_empty());
    let failed = summary
        .trials
        .iter()
        .find(|trial| trial.trial == 12)
        .unwrap();
    assert!(failed.failed.as_ref().unwrap().contains("agent"));
}

#[test]
fn a_sound_run_has_nothing_serious_to_confess() {
    let scratch = Scratch::new("sound");
    let plan = Plan {
        kinds: vec!["native", "container"],
        ..Plan::small()
    };
    let summary = analyse(&plan.write(scratch.path().join("run")))
        .unwrap()
        .summary;
    let serious: Vec<_> = summary
        .notes
        .iter()
        .filter(|n| n.severity != Severity::Info)
        .collect();
    assert!(serious.is_empty(), "{serious:?}");
}

#[test]
fn counters_that_do_not_add_up_are_named() {
    let scratch = Scratch::new("counters");
    let run = Plan::small().write(scratch.path().join("run"));
    let number = trial_of(&run, CELL);
    let mut trial = run.read_trial(number).unwrap().unwrap();
    trial.counters.received -= 1;
    run.write_trial(&trial).unwrap();
    let summary = analyse(&run).unwrap().summary;
    assert!(codes(&summary).is_superset(&["counters", "checksum"].into()));
}

#[test]
fn a_failed_trial_stays_out_of_the_statistics() {
    let scratch = Scratch::new("failed");
    let run = Plan::small().write(scratch.path().join("run"));
    let number = trial_of(&run, CELL);
    let mut trial = run.read_trial(number).unwrap().unwrap();
    trial.outcome = TrialOutcome::Failed {
        reason: "the server died".to_owned(),
    };
    run.write_trial(&trial).unwrap();
    let summary = analyse(&run).unwrap().summary;
    let cell = summary.cells.iter().find(|cell| cell.id == CELL).unwrap();
    assert_eq!(cell.replicates, 3);
    assert_eq!(cell.latency.as_ref().unwrap().samples, 3_000);
}

#[test]
fn a_run_compared_with_itself_shows_no_difference() {
    let scratch = Scratch::new("itself");
    let plan = Plan {
        measurements: vec!["rr-udp", "packets", "stream-tcp"],
        ..Plan::small()
    };
    let run = plan.write(scratch.path().join("run"));
    let analysis = analyse(&run).unwrap();
    let comparison = compare(&analysis, &analysis, false).unwrap();
    assert_eq!(comparison.cells.len(), 18);
    for cell in &comparison.cells {
        assert_eq!(
            (cell.ratio, cell.verdict),
            (1.0, Verdict::NoDifference),
            "{}",
            cell.id
        );
        assert_eq!(cell.p_value, Some(1.0));
        assert!(cell.tails.iter().all(|tail| tail.ratio == 1.0));
    }
    assert!(comparison.differences.is_empty() && comparison.left_out.is_empty());
    let table = compare::render(&comparison, latlab_report::terminal::Look::default());
    assert!(table.contains("No difference found in 18 cells"), "{table}");
    assert!(
        table.lines().all(|line| line.chars().count() <= 100),
        "{table}"
    );
    assert_eq!(compare::csv(&comparison).lines().count(), 19);
}

#[test]
fn the_same_study_run_again_agrees() {
    let scratch = Scratch::new("again");
    let one = analyse(&Plan::small().write(scratch.path().join("one"))).unwrap();
    let two = Plan {
        seed: 8,
        ..Plan::small()
    }
    .write(scratch.path().join("two"));
    let comparison = compare(&one, &analyse(&two).unwrap(), false).unwrap();
    assert_eq!(comparison.different().count(), 0);
}

#[test]
fn a_slower_second_run_is_found() {
    let scratch = Scratch::new("slower");
    let one = analyse(&Plan::small().write(scratch.path().join("one"))).unwrap();
    // The same cells over links that are slower by a third and more.
    let plan = Plan {
        links: vec!["nat"],
        kinds: vec!["native", "container"],
        ..Plan::small()
    };
    let two = plan.write(scratch.path().join("two"));
    rename_levels(&two, "nat", "veth");
    let comparison = compare(&one, &analyse(&two).unwrap(), false).unwrap();
    assert_eq!(comparison.cells.len(), 4);
    assert!(
        comparison
            .cells
            .iter()
            .all(|cell| cell.verdict == Verdict::Worse)
    );
    assert_eq!(comparison.left_out.len(), 8);
    let table = compare::render(&comparison, latlab_report::terminal::Look::default());
    assert!(table.contains("Different: 4 of 4 cells."), "{table}");
    assert!(
        table.lines().all(|line| line.chars().count() <= 100),
        "{table}"
    );
    assert!(
        comparison
            .differences
            .iter()
            .any(|difference| difference.contains("lab differs"))
    );
}

/// Renames a level in all documents of a run.
fn rename_levels(run: &RunDir, from: &str, to: &str) {
    let (from, to) = (format!("link={from}"), format!("link={to}"));
    let numbers: Vec<u32> = run
        .read_manifest()
        .unwrap()
        .order
        .iter()
        .map(|p| p.trial)
        .collect();
    let trials = numbers.into_iter().map(|number| run.trial_path(number));
    for path in trials.chain([run.manifest_path()]) {
        let text = fs::read_to_string(&path).unwrap().replace(&from, &to);
        fs::write(path, text).unwrap();
    }
    edit_manifest(run, |manifest| manifest.checksums.clear());
}

#[test]
fn unlike_runs_are_refused_with_the_reason() {
    let scratch = Scratch::new("unlike");
    let run = Plan::small().write(scratch.path().join("run"));
    let one = analyse(&run).unwrap();
    let with = |edit: fn(&mut Manifest)| {
        edit_manifest(&run, edit);
        let two = analyse(&run).unwrap();
        run.write_manifest(&Manifest { ..one_manifest() }).unwrap();
        two
    };
    fn one_manifest() -> Manifest {
        Plan::small().manifest()
    }

    let other = with(|manifest| manifest.measurements[0].description.push_str(", other"));
    let unlike = compare(&one, &other, true).unwrap_err();
    assert!(!unlike.forceable && unlike.to_string().contains("rr-udp is defined differently"));

    let other = with(|manifest| manifest.host.acceleration = "kvm".to_owned());
    let unlike = compare(&one, &other, false).unwrap_err();
    assert!(
        unlike.forceable && unlike.to_string().contains("acceleration"),
        "{unlike}"
    );
    let forced = compare(&one, &other, true).unwrap();
    assert!(forced.differences[0].contains("acceleration"));

    let other = with(|manifest| manifest.host.kernel = "6.19.0".to_owned());
    let comparison = compare(&one, &other, false).unwrap();
    assert_eq!(
        comparison.differences,
        ["the kernel is 6.18.0 against 6.19.0"]
    );

    let other = with(|manifest| {
        manifest.cells.iter_mut().for_each(|cell| cell.id.push('x'));
        manifest.order.clear();
    });
    let unlike = compare(&one, &other, true).unwrap_err();
    assert!(unlike.to_string().contains("no cell"), "{unlike}");
}

#[test]
fn absurd_numbers_in_a_record_do_not_overflow() {
    let scratch = Scratch::new("absurd");
    let run = Plan::small().write(scratch.path().join("run"));
    for planned in run.read_manifest().unwrap().order {
        let mut trial = run.read_trial(planned.trial).unwrap().unwrap();
        let most = u64::MAX;
        trial.counters = Counters {
            sent: most,
            received: most,
            lost: most,
            duplicated: most,
            reordered: most,
            unmatched: most,
            corrupted: most,
        };
        trial.checks[0].limit = 0.0;
        trial.checks[0].passed = false;
        trial.started = "the day before yesterday".to_owned();
        run.write_trial(&trial).unwrap();
    }
    conclude(&run).unwrap();
    run.read_summary().unwrap();
}

#[test]
fn trials_that_disagree_are_named() {
    let scratch = Scratch::new("unstable");
    let run = Plan::small().write(scratch.path().join("run"));
    let (cell, other) = (
        trial_of(&run, CELL),
        trial_of(&run, "rr-udp/kind=vm/link=veth"),
    );
    fs::copy(
        run.root().join(RunDir::samples_name(other)),
        run.root().join(RunDir::samples_name(cell)),
    )
    .unwrap();
    let summary = analyse(&run).unwrap().summary;
    let note = summary
        .notes
        .iter()
        .find(|note| note.code == "unstable")
        .unwrap();
    assert_eq!(note.cells, [CELL]);
}

/// Latency of the slowest exchanges beyond this becomes stolen time.
const LIMIT_NS: i64 = 13_000;

/// Marks the excess of the slowest exchanges as stolen, in all trials of some cells.
fn steal_from_the_slowest(run: &RunDir, cells: &[&str]) {
    let planned = run.read_manifest().unwrap().order;
    for planned in planned.iter().filter(|p| cells.contains(&p.cell.as_str())) {
        let mut trial = run.read_trial(planned.trial).unwrap().unwrap();
        let mut stretches = Vec::new();
        for sample in read_samples(run, planned.trial) {
            let latency = sample.latency_ns.unwrap_or(0);
            if latency > LIMIT_NS {
                stretches.push(Stretch {
                    cpu: 1,
                    since_ns: sample.sent_ns + 1_000,
                    until_ns: sample.sent_ns + latency - 1_000,
                    stolen_ns: latency - LIMIT_NS,
                });
            }
        }
        assert!(!stretches.is_empty());
        let name = RunDir::stolen_name(planned.trial);
        table::write_stretches(run.root().join(&name), &stretches).unwrap();
        trial.stolen = Some(name);
        run.write_trial(&trial).unwrap();
    }
}

fn read_samples(run: &RunDir, trial: u32) -> Vec<Sample> {
    let mut reader = SampleReader::open(run.root().join(RunDir::samples_name(trial))).unwrap();
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    while reader.next_batch(&mut batch).unwrap() {
        all.extend_from_slice(&batch);
    }
    all
}

#[test]
fn stolen_time_is_set_aside_beside_the_plain_figures() {
    let scratch = Scratch::new("stolen");
    let run = Plan::small().write(scratch.path().join("run"));
    let before = analyse(&run).unwrap().summary;
    let native = "rr-udp/kind=native/link=veth";
    steal_from_the_slowest(&run, &[CELL, native]);
    edit_manifest(&run, |manifest| manifest.checksums.clear());
    let after = analyse(&run).unwrap().summary;
    let cell = |summary: &Summary, id: &str| {
        let found = summary.cells.iter().find(|cell| cell.id == id);
        found.unwrap().clone()
    };

    for id in [CELL, native] {
        let (was, is) = (cell(&before, id), cell(&after, id));
        let (was, is) = (was.latency.unwrap(), is.latency.unwrap());
        assert_eq!((was.sd_ns, &was.quantiles), (is.sd_ns, &is.quantiles));
        let aside = is.steal_aside.unwrap();
        // Recomputed from the samples: values over the limit are at it now.
        let order = run.read_manifest().unwrap().order;
        let trials = order.iter().filter(|planned| planned.cell == id);
        let raw: Vec<i64> = trials
            .flat_map(|planned| read_samples(&run, planned.trial))
            .filter_map(|sample| sample.latency_ns)
            .collect();
        let all: Vec<f64> = raw.iter().map(|&ns| ns.min(LIMIT_NS) as f64).collect();
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        let squares: f64 = all.iter().map(|x| (x - mean).powi(2)).sum();
        let sd = (squares / (all.len() - 1) as f64).sqrt();
        assert!((aside.sd_ns - sd).abs() < 1e-6, "{} {sd}", aside.sd_ns);
        let over = raw.iter().filter(|&&ns| ns > LIMIT_NS);
        assert_eq!(aside.exchanges, over.count() as u64);
    }
    let tails = cell(&after, CELL).comparison.unwrap().tails_steal_aside;
    assert!(tails.iter().any(|tail| tail.of == "sd"));
    assert!(codes(&after).contains("steal-aside"));
    let shown = latlab_report::terminal::render(&after, Default::default());
    assert!(shown.contains("steal aside"), "{shown}");

    // Known for every trial, or not at all.
    let first = trial_of(&run, CELL);
    let mut trial = run.read_trial(first).unwrap().unwrap();
    trial.stolen = None;
    run.write_trial(&trial).unwrap();
    let partly = cell(&analyse(&run).unwrap().summary, CELL);
    assert_eq!(partly.latency.unwrap().steal_aside, None);
    assert!(partly.comparison.unwrap().tails_steal_aside.is_empty());
}
