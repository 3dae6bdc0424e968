//! A run directory that other users may write, with links, pipes and second names where latlab as root writes
//! and reads: nothing outside of it is changed or read, and no pipe blocks.

mod synthetic;

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use latlab_report::{RunDir, analyse, conclude};
use latlab_samples::RunDirError;
use synthetic::{Plan, Scratch};

const KEPT: &str = "only root may write this";

/// A run, and a file outside of it.
struct Bench {
    scratch: Scratch,
    run: RunDir,
    victim: PathBuf,
}

impl Bench {
    fn new(name: &str) -> Bench {
        let scratch = Scratch::new(name);
        let run = Plan::small().write(scratch.path().join("run"));
        let victim = scratch.path().join("victim");
        fs::write(&victim, KEPT).unwrap();
        Bench {
            scratch,
            run,
            victim,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.run.root().join(name)
    }

    #[track_caller]
    fn assert_kept(&self) {
        assert_eq!(fs::read_to_string(&self.victim).unwrap(), KEPT);
    }
}

fn is_plain(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|m| m.is_file() && m.nlink() == 1)
}

#[test]
fn links_in_the_place_of_results_and_of_their_temporary_files_are_replaced_not_followed() {
    let results = [
        "manifest.json",
        "summary.json",
        "report.html",
        "latency.hlog",
    ];
    for hard in [false, true] {
        let bench = Bench::new("planted");
        let manifest = bench.run.read_manifest().unwrap();
        let plant = |name: &str| {
            let path = bench.path(name);
            fs::remove_file(&path).ok();
            if hard {
                fs::hard_link(&bench.victim, &path).unwrap();
            } else {
                symlink(&bench.victim, &path).unwrap();
            }
        };
        results
            .iter()
            .for_each(|name| plant(&format!(".{name}.new")));
        conclude(&bench.run).unwrap();
        bench.run.write_manifest(&manifest).unwrap();
        bench.assert_kept();
        for name in results {
            assert!(is_plain(&bench.path(name)), "{name}");
            plant(name);
        }
        bench.run.write_manifest(&manifest).unwrap();
        conclude(&bench.run).unwrap();
        bench.assert_kept();
        // Files that a run writes once, and those that an interrupted write may leave.
        for name in ["study.yaml", ".reserve", "trials/0001/samples.parquet"] {
            plant(name);
            bench.run.write(name, b"new").unwrap();
            assert!(is_plain(&bench.path(name)), "{name}");
        }
        bench.assert_kept();
    }
}

#[test]
fn directories_of_a_run_that_are_links_are_not_written_into() {
    let bench = Bench::new("linked");
    let elsewhere = bench.scratch.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let trial = bench.run.read_trial(1).unwrap().unwrap();
    for place in ["trials/0001", "trials"] {
        let place = bench.path(place);
        fs::rename(&place, place.with_extension("away")).unwrap();
        symlink(&elsewhere, &place).unwrap();
        assert!(bench.run.write_trial(&trial).is_err());
        assert!(bench.run.checksums().is_err() || place.ends_with("0001"));
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
        fs::remove_file(&place).unwrap();
        fs::rename(place.with_extension("away"), &place).unwrap();
    }
    bench.run.write_trial(&trial).unwrap();
}

#[test]
fn a_run_directory_that_is_a_link_is_refused_and_one_that_is_swapped_stays_the_one_that_was_opened()
{
    let bench = Bench::new("swapped");
    let link = bench.scratch.path().join("link");
    symlink(bench.run.root(), &link).unwrap();
    for path in [link.clone(), link.join("")] {
        let error = RunDir::open(&path).unwrap_err();
        assert!(matches!(error, RunDirError::Link { .. }), "{error}");
    }
    for taken in [link.clone(), bench.run.root().to_path_buf()] {
        let error = RunDir::create(&taken).unwrap_err();
        assert!(matches!(error, RunDirError::Taken { .. }), "{error}");
    }
    let nowhere = bench.scratch.path().join("nowhere");
    symlink(bench.scratch.path().join("not-there"), &nowhere).unwrap();
    assert!(RunDir::create(&nowhere).is_err());

    let (other, away) = (
        bench.scratch.path().join("other"),
        bench.scratch.path().join("away"),
    );
    fs::create_dir(&other).unwrap();
    fs::rename(bench.run.root(), &away).unwrap();
    symlink(&other, bench.run.root()).unwrap();
    conclude(&bench.run).unwrap();
    assert_eq!(fs::read_dir(&other).unwrap().count(), 0);
    assert!(away.join("report.html").is_file());
}

#[test]
fn files_are_read_inside_the_run_directory_and_pipes_do_not_block() {
    let bench = Bench::new("outside");
    let samples = bench.path("trials/0001/samples.parquet");
    let outside = bench.scratch.path().join("samples.parquet");
    fs::rename(&samples, &outside).unwrap();
    symlink(&outside, &samples).unwrap();
    let whole = |run: &RunDir| {
        let (sender, receiver) = std::sync::mpsc::channel();
        let run = run.clone();
        std::thread::spawn(move || {
            let summary = analyse(&run).map(|analysis| analysis.summary);
            sender.send(Box::new(summary)).unwrap();
        });
        let summary = receiver.recv_timeout(Duration::from_secs(60));
        let summary = (*summary.expect("it answers")).unwrap();
        !serde_json::to_string(&summary)
            .unwrap()
            .contains("cannot open")
    };
    assert!(!whole(&bench.run), "a link led out of the run");
    fs::remove_file(&samples).unwrap();
    fs::rename(&outside, bench.path("trials/elsewhere.parquet")).unwrap();
    symlink("../elsewhere.parquet", &samples).unwrap();
    assert!(whole(&bench.run), "a link within it is followed");
    for name in [
        "trials/0001/samples.parquet",
        "trials/0002/trial.json",
        "study.yaml",
    ] {
        let path = bench.path(name);
        fs::remove_file(&path).ok();
        let made = Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
    }
    whole(&bench.run);
    fs::remove_file(bench.path("manifest.json")).unwrap();
    let made = Command::new("mkfifo")
        .arg(bench.path("manifest.json"))
        .status();
    assert!(made.unwrap().success());
    assert!(RunDir::open(bench.run.root()).is_err());
}
