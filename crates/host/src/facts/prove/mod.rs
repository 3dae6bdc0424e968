//! Proofs: each capability is tried, in the way the labs will use it, and the trial leaves nothing.
//!
//! Trials that may go on at the same time are separate *proofs*, each on a thread of its own that
//! enters fresh namespaces and ends there. A thread that hangs in the kernel cannot be stopped, so
//! nobody waits for it beyond the proof's timeout: what it has not reported by then counts as not
//! proven, and what it may still hold vanishes with the process.
//!
//! A refusal for want of privilege says nothing about the machine. It is an answer for root, who
//! will meet it again, and "needs root to prove" for everybody else.

mod child;
mod control;
mod devices;
mod files;
mod kernel;
mod kvm;
mod links;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use latlab_model::facts::Facts;

pub(super) use child::output;
pub use kvm::fetches_kernel;

use super::ReadOptions;

/// Why an ordinary user learns little; `doctor` knows it by these words.
pub const NEEDS_ROOT: &str = "needs root to prove";

/// How long a proof may take. They take milliseconds; but the first may load modules, one after the
/// other, and an emulated machine with its disk elsewhere needs seconds for that.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long the boot of a guest may take, with the fetching of its kernel over a slow line.
const BOOT_TIMEOUT: Duration = Duration::from_secs(600);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It works; how that was seen.
    Works(String),
    Fails(String),
    /// It could not be tried; why.
    Unproven(String),
}

/// One thread's worth of trials.
struct Proof {
    covers: &'static [&'static str],
    /// Tries what is wanted of that, reporting each as soon as it is known.
    run: fn(&Report),
    /// How long it is waited for.
    timeout: Duration,
}

const fn proof(covers: &'static [&'static str], run: fn(&Report)) -> Proof {
    Proof {
        covers,
        run,
        timeout: TIMEOUT,
    }
}

const PROOFS: &[Proof] = &[
    Proof {
        timeout: BOOT_TIMEOUT,
        ..proof(&[Facts::KVM], kvm::run)
    },
    proof(links::COVERS, links::run),
    proof(&[Facts::MASQUERADE], links::masquerade),
    proof(control::COVERS, control::run),
    proof(&[Facts::OVERLAYFS], files::run),
    proof(kernel::NAMESPACES, kernel::namespaces),
    proof(kernel::BPF, kernel::bpf),
    proof(kernel::CALLS, kernel::calls),
    proof(devices::COVERS, devices::run),
];

struct Report {
    options: Arc<ReadOptions>,
    sender: Sender<(&'static str, Outcome)>,
}

impl Report {
    fn wants(&self, name: &str) -> bool {
        self.options.prove.contains(name)
    }

    fn note(&self, name: &'static str, outcome: Outcome) {
        // Nobody listens any more once the timeout is over.
        let _ = self.sender.send((name, outcome));
    }

    /// Tries `name` if it is wanted; `how` says what a success showed.
    fn try_one<T, E: Refusal>(
        &self,
        name: &'static str,
        how: &str,
        trial: impl FnOnce() -> Result<T, E>,
    ) {
        if self.wants(name) {
            self.note(name, outcome(&trial(), how));
        }
    }

    /// Reports the same refusal for everything the proof covers.
    fn refuse_all(&self, covers: &[&'static str], error: &impl Refusal) {
        for name in covers {
            self.note(name, refused(error));
        }
    }
}

/// An error that may carry an errno.
trait Refusal: Display {
    fn errno(&self) -> Option<i32>;
}

impl Refusal for io::Error {
    fn errno(&self) -> Option<i32> {
        self.raw_os_error()
    }
}

impl Refusal for crate::sys::Error {
    fn errno(&self) -> Option<i32> {
        self.source.raw_os_error()
    }
}

impl Refusal for latlab_netlink::Error {
    fn errno(&self) -> Option<i32> {
        latlab_netlink::Error::errno(self)
    }
}

impl Refusal for crate::cgroup::Error {
    fn errno(&self) -> Option<i32> {
        match self {
            crate::cgroup::Error::Io { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }
}

/// For refusals in words, by a tool.
impl Refusal for String {
    fn errno(&self) -> Option<i32> {
        None
    }
}

fn outcome<T, E: Refusal>(result: &Result<T, E>, how: &str) -> Outcome {
    match result {
        Ok(_) => Outcome::Works(how.into()),
        Err(error) => refused(error),
    }
}

fn refused(error: &impl Refusal) -> Outcome {
    let privilege = matches!(error.errno(), Some(libc::EPERM | libc::EACCES));
    if privilege && !is_root() {
        Outcome::Unproven(NEEDS_ROOT.into())
    } else {
        Outcome::Fails(error.to_string())
    }
}

pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Tries what is wanted and waits for the answers, for each proof not longer than its timeout.
pub(super) fn prove(options: &ReadOptions) -> BTreeMap<&'static str, Outcome> {
    run_proofs(PROOFS, options)
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
    // If no thread can be had, the channel closes at once and everything is unproven.
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

    fn wanted(names: &[&str]) -> ReadOptions {
        ReadOptions {
            prove: names.iter().map(ToString::to_string).collect(),
            ..ReadOptions::everything()
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
    fn a_proof_that_hangs_costs_only_what_it_did_not_answer() {
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
