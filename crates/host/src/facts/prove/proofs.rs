//! All proofs, each on a thread of its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use latlab_model::facts::Facts;

use super::report::{Outcome, Report};
use super::verdicts::Verdicts;
use super::{control, criu, devices, files, kernel, kvm, links};
use crate::facts::options::ReadOptions;

/// How long a proof may take. They take milliseconds; but the first may load modules, one after the
/// other, and an emulated machine with its disk elsewhere needs seconds for that.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long the boot of a guest may take, with the fetching of its kernel over a slow line.
const BOOT_TIMEOUT: Duration = Duration::from_secs(600);

/// How long a dump and a restore may take, with the waits of their own for a network that does not answer.
const CRIU_TIMEOUT: Duration = Duration::from_secs(120);

/// One thread's worth of trials.
struct Proof {
    covers: &'static [&'static str],
    run: fn(&Report),
    timeout: Duration,
    /// Whether it is about nothing but the running kernel, which goes on to do what it did once.
    of_kernel: bool,
}

const fn proof(covers: &'static [&'static str], run: fn(&Report)) -> Proof {
    Proof {
        covers,
        run,
        timeout: TIMEOUT,
        of_kernel: false,
    }
}

const fn of_kernel(covers: &'static [&'static str], run: fn(&Report)) -> Proof {
    Proof {
        of_kernel: true,
        ..proof(covers, run)
    }
}

const PROOFS: &[Proof] = &[
    Proof {
        timeout: BOOT_TIMEOUT,
        ..proof(&[Facts::KVM], kvm::run)
    },
    of_kernel(links::COVERS, links::run),
    proof(&[Facts::MASQUERADE], links::masquerade),
    of_kernel(control::COVERS, control::run),
    of_kernel(&[Facts::OVERLAYFS], files::run),
    proof(&[Facts::LOOP], files::loop_device),
    proof(&[Facts::IO_URING], files::io_uring),
    Proof {
        timeout: CRIU_TIMEOUT,
        ..proof(&[Facts::CRIU], criu::run)
    },
    of_kernel(&[Facts::NAMESPACES], kernel::namespaces),
    of_kernel(kernel::BPF, kernel::bpf),
    proof(&[Facts::VHOST_NET], devices::run),
    proof(&[Facts::VFIO], devices::vfio),
];

/// Tries what is wanted and waits for the answers, for each proof not longer than its timeout. A reader that does without
/// detail is content with what worked in this boot.
pub(in crate::facts) fn prove(options: &ReadOptions) -> BTreeMap<&'static str, Outcome> {
    let of_kernel = PROOFS.iter().filter(|proof| proof.of_kernel);
    let lasting: Vec<&str> = of_kernel.flat_map(|proof| proof.covers).copied().collect();
    let mut options = options.clone();
    if !lasting.iter().any(|name| options.prove.contains(*name)) {
        return run_proofs(PROOFS, &options);
    }
    let verdicts = Verdicts::load(&options.dirs);
    let mut known = BTreeMap::new();
    if !options.detail {
        known.extend(lasting.iter().filter_map(|name| {
            let outcome = verdicts.of(name)?;
            options.prove.take(*name).map(|_| (*name, outcome))
        }));
    }
    let mut outcomes = run_proofs(PROOFS, &options);
    let tried = outcomes.iter().filter(|(name, _)| lasting.contains(*name));
    verdicts.keep(&options.dirs, tried);
    outcomes.extend(known);
    outcomes
}

fn run_proofs(proofs: &[Proof], options: &ReadOptions) -> BTreeMap<&'static str, Outcome> {
    let started = Instant::now();
    let options = Arc::new(options.clone());
    let wanted = &options.prove;
    let running: Vec<_> = proofs
        .iter()
        .filter(|proof| proof.covers.iter().any(|name| wanted.contains(*name)))
        .map(|proof| (proof, start(proof, &options)))
        .collect();
    let mut outcomes = BTreeMap::new();
    for (proof, answers) in running {
        let silence = collect(&answers, started + proof.timeout, &mut outcomes);
        for name in proof.covers {
            let unproven = || Outcome::Unproven(silence.into());
            outcomes.entry(*name).or_insert_with(unproven);
        }
    }
    outcomes.retain(|name, _| wanted.contains(*name));
    outcomes
}

fn start(proof: &Proof, options: &Arc<ReadOptions>) -> Receiver<(&'static str, Outcome)> {
    let (sender, answers) = mpsc::channel();
    let report = Report {
        options: options.clone(),
        sender,
    };
    let run = proof.run;
    // If no thread starts, the channel closes at once and everything is unproven.
    let _ = std::thread::Builder::new()
        .name("proof".into())
        .spawn(move || run(&report));
    answers
}

/// Takes answers until the proof ends; returns what to say of those that did not come.
fn collect(
    answers: &Receiver<(&'static str, Outcome)>,
    deadline: Instant,
    outcomes: &mut BTreeMap<&'static str, Outcome>,
) -> &'static str {
    loop {
        match answers.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok((name, outcome)) => {
                outcomes.insert(name, outcome);
            }
            Err(RecvTimeoutError::Timeout) => return "no answer in time",
            Err(RecvTimeoutError::Disconnected) => return "the trial broke off",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::options::CpusInUse;

    fn wanted(names: &[&str]) -> ReadOptions {
        ReadOptions {
            prove: names.iter().map(ToString::to_string).collect(),
            ..ReadOptions::everything(CpusInUse::default())
        }
    }

    fn answer_half_then_hang(report: &Report) {
        report.note("quick", Outcome::Works("seen".into()));
        report.note("not asked", Outcome::Works("seen".into()));
        std::thread::sleep(Duration::from_secs(60));
        report.note("slow", Outcome::Works("too late".into()));
    }

    fn break_off(_: &Report) {}

    #[test]
    fn a_proof_that_hangs_costs_only_its_own_answers() {
        let proofs = [
            Proof {
                timeout: Duration::from_millis(50),
                ..proof(&["quick", "slow", "not asked"], answer_half_then_hang)
            },
            proof(&["broken"], break_off),
        ];
        let wanted = wanted(&["quick", "slow", "broken", "unknown to all"]);
        let outcomes = run_proofs(&proofs, &wanted);
        let unproven = |why: &str| Outcome::Unproven(why.into());
        assert_eq!(outcomes.len(), 3, "{outcomes:?}");
        assert_eq!(outcomes["quick"], Outcome::Works("seen".into()));
        assert_eq!(outcomes["slow"], unproven("no answer in time"));
        assert_eq!(outcomes["broken"], unproven("the trial broke off"));
    }

    #[test]
    fn nothing_wanted_starts_nothing() {
        let proofs = [proof(&["never"], |_| std::process::abort())];
        let none = run_proofs(&proofs, &wanted(&[]));
        assert!(none.is_empty());
    }

    #[test]
    fn no_capability_is_tried_twice() {
        let mut seen = std::collections::BTreeSet::new();
        let mut all = PROOFS.iter().flat_map(|proof| proof.covers);
        assert!(all.all(|name| seen.insert(name)));
    }
}
