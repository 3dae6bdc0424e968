//! What this machine offers, for the planner, for `latlab doctor`, and for the record of every run.
//!
//! Reading is cheap and proving is not, so the caller says what must be proven: `doctor` wants
//! everything, `deploy` only what its lab uses (see [`ReadOptions::for_lab`]), and neither presumes
//! anything: a capability is in the facts because it was tried, now or, where trying takes seconds,
//! the last time, with the verdict kept.
//!
//! Proofs change nothing: they run in fresh namespaces and leave with them. The kernel may load a
//! module on the way, as it would for the lab itself.

pub mod catalogue;
mod machine;
mod needs;
mod nics;
mod observed;
mod prove;
mod quiet;
pub mod texts;
pub mod tools;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use latlab_model::facts::{Capability, Facts, Machine};
use latlab_model::results::HostBrief;
use latlab_model::spec::Lab;
use latlab_model::units::CpuList;

use crate::dirs::Dirs;
use catalogue::{Circumstances, Entry};
use machine::Source;
use prove::Outcome;
pub use prove::{NEEDS_ROOT, fetches_kernel};
use tools::Ask;

/// What can go wrong with facts in a file. Reading a machine does not fail.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read facts from {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// The file is not a description of a machine.
    #[error("{} does not describe a machine: {source}", path.display())]
    Parse {
        path: PathBuf,
        /// What is wrong with it, with line and column.
        source: serde_json::Error,
    },
    /// The file was written by another version of latlab.
    #[error("{} has format `{format}`, not `{}`", path.display(), Facts::FORMAT)]
    Format { path: PathBuf, format: String },
    /// The file cannot be written.
    #[error(transparent)]
    Write(#[from] crate::sys::Error),
}

#[derive(Debug, Clone)]
pub struct ReadOptions {
    /// The capabilities to prove, by the constants of [`Facts`]. Nothing is said of the others.
    pub prove: BTreeSet<String>,
    /// Fill in [`Facts::machine`] and the tools' versions, which planning does not need; and fetch
    /// a kernel if KVM is to be proven and there is none (see [`fetches_kernel`]).
    pub detail: bool,
    /// Fill in at least what placing a lab's nodes depends on: CPUs, memory nodes, interfaces.
    pub placement: bool,
    /// Prove again what was proven before and kept.
    pub refresh: bool,
    pub dirs: Dirs,
}

impl ReadOptions {
    pub fn everything() -> ReadOptions {
        ReadOptions {
            prove: catalogue::ENTRIES.iter().map(|e| e.name.into()).collect(),
            detail: true,
            placement: true,
            refresh: false,
            dirs: Dirs::from_env(),
        }
    }

    /// Only what planning and making this lab depend on.
    pub fn for_lab(lab: &Lab) -> ReadOptions {
        ReadOptions {
            prove: needs::of(lab).into_iter().map(Into::into).collect(),
            detail: false,
            placement: lab.is_placed(),
            refresh: false,
            dirs: Dirs::from_env(),
        }
    }
}

/// The CPUs that the kernel runs on now, whoever may use them.
pub fn online_cpus() -> CpuList {
    machine::online(&Source::here())
}

pub fn read(options: &ReadOptions) -> Facts {
    let source = Source::here();
    // Whoever asks for nothing must still keep off what others were given.
    let cpus_taken = crate::lab::taken_cpus(&options.dirs);
    let placement = options.placement || !cpus_taken.is_empty();
    // Tools that must be asked, and proofs, are waited for at the same time.
    std::thread::scope(|scope| {
        let proofs = scope.spawn(|| prove::prove(options));
        let tools = scope.spawn(|| read_tools(options));
        let machine = match (options.detail, placement) {
            (true, _) => read_machine(&source, options),
            (false, true) => Machine {
                processors: machine::processors(&source),
                nics: nics::read(&source),
                ..Machine::default()
            },
            (false, false) => Machine::default(),
        };
        let (brief, family) = read_brief(&source);
        let mut facts = Facts {
            format: Facts::FORMAT.into(),
            brief,
            cpus: machine::allowed(&source),
            interfaces: nics::names(&source),
            cpus_quiet: quiet_cpus(&cpus_taken),
            cpus_taken,
            tools: tools.join().unwrap_or_default(),
            machine,
            ..Facts::default()
        };
        let mut outcomes = proofs.join().unwrap_or_default();
        let seen = observed::all(&source, &options.prove);
        outcomes.extend(seen);
        conclude(&mut facts, &source, family, outcomes);
        facts
    })
}

/// The CPUs in the partition of quiet ones that no lab was given: a person's tuning made them so.
fn quiet_cpus(taken: &[u32]) -> CpuList {
    let partition = crate::tuning::partition_cpus(&crate::tuning::Root::default());
    CpuList::new(
        partition
            .iter()
            .filter(|cpu| !taken.contains(cpu))
            .collect(),
    )
}

/// What every reader wants beside the numbers, and the distribution's family. Acceleration is
/// filled in when the proofs are through.
fn read_brief(source: &Source) -> (HostBrief, String) {
    let (cpu, cores, virtual_machine) = machine::model(source);
    let (distribution, family) = machine::distribution(source);
    let brief = HostBrief {
        cpu,
        cores,
        memory_bytes: machine::memory(source).total_bytes,
        kernel: machine::kernel(source).release,
        distribution,
        hypervisor: machine::hypervisor(source, virtual_machine),
        cgroup: machine::cgroup_layout(source).into(),
        clocksource: machine::clock(source).source,
        ..HostBrief::default()
    };
    (brief, family)
}

fn read_machine(source: &Source, options: &ReadOptions) -> Machine {
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
    let labs = options.dirs.labs();
    let directories = [labs.as_path(), options.dirs.cache(), &here];
    let mut kernel = machine::kernel(source);
    kernel.configuration = quiet::configuration(source, &kernel.release);
    let processors = machine::processors(source);
    let online = processors.online.clone().unwrap_or_default();
    let interrupts = quiet::interrupts(source);
    Machine {
        memory: machine::memory(source),
        power: quiet::power(source, &online),
        quiet: quiet::quiet(source, &kernel.command_line),
        cgroup: quiet::cgroup(source),
        clock: machine::clock(source),
        nics: nics::with_interrupts(nics::read(source), source, &interrupts),
        processors,
        kernel,
        interrupts,
        storage: machine::storage(&directories),
        guest_kernels: machine::guest_kernels(&options.dirs),
    }
}

fn read_tools(options: &ReadOptions) -> BTreeMap<String, String> {
    let ask = match (options.detail, options.refresh) {
        (false, _) => Ask::Nobody,
        (true, false) => Ask::Unknown,
        (true, true) => Ask::Everybody,
    };
    tools::read(options.dirs.cache(), ask)
}

/// Turns what the trials showed into capabilities, with costs and remedies for those that failed.
fn conclude(
    facts: &mut Facts,
    source: &Source,
    family: String,
    outcomes: BTreeMap<&'static str, Outcome>,
) {
    // Looked at only if something is missing: the lists of modules are long.
    let circumstances = std::cell::LazyCell::new(|| circumstances(facts, source, family));
    let mut capabilities = BTreeMap::new();
    let mut unproven = BTreeMap::new();
    for (name, outcome) in outcomes {
        let entry = Entry::of(name);
        let capability = match outcome {
            Outcome::Unproven(why) => {
                unproven.insert(name.to_owned(), why);
                continue;
            }
            Outcome::Works(reason) => Capability {
                works: true,
                reason,
                costs: String::new(),
                remedy: None,
            },
            Outcome::Fails(reason) => Capability {
                works: false,
                reason,
                costs: entry.map_or("", |entry| entry.costs).into(),
                remedy: entry.and_then(|entry| circumstances.remedy(entry)),
            },
        };
        capabilities.insert(name.to_owned(), capability);
    }
    drop(circumstances);
    facts.capabilities = capabilities;
    facts.unproven = unproven;
    let (acceleration, reason) = match facts.capabilities.get(Facts::KVM) {
        Some(kvm) if kvm.works => ("kvm", None),
        Some(kvm) => ("tcg", Some(kvm.reason.clone())),
        None => ("unknown", facts.unproven.get(Facts::KVM).cloned()),
    };
    facts.brief.acceleration = acceleration.into();
    facts.brief.acceleration_reason = reason;
}

fn circumstances(facts: &Facts, source: &Source, family: String) -> Circumstances {
    let release = facts.brief.kernel.clone();
    let list = |name: &str| source.text(&format!("lib/modules/{release}/{name}"));
    Circumstances {
        modules: machine::kernel(source).modules,
        module_lists: (list("modules.dep"), list("modules.builtin")),
        family,
        virtual_machine: facts.brief.hypervisor.is_some(),
        kvm_device: source.path("dev/kvm").exists(),
        nft: tools::find("nft").is_some(),
        processors: facts.brief.cores,
        cgroup: facts.brief.cgroup.clone(),
        release,
    }
}

/// Writes facts to a file, for planning on another machine.
pub fn save(facts: &Facts, path: &Path) -> Result<(), Error> {
    let mut bytes =
        serde_json::to_vec_pretty(facts).expect("facts are made of strings and numbers");
    bytes.push(b'\n');
    Ok(crate::sys::file::write_atomically(path, &bytes, 0o644)?)
}

/// Reads facts from a file that [`save`] or `latlab doctor --format json` wrote, or a person.
pub fn load(path: &Path) -> Result<Facts, Error> {
    let text = fs::read_to_string(path).map_err(|source| Error::Read {
        path: path.to_owned(),
        source,
    })?;
    let facts: Facts = serde_json::from_str(&text).map_err(|source| Error::Parse {
        path: path.to_owned(),
        source,
    })?;
    if facts.format.is_empty() || facts.format == Facts::FORMAT {
        return Ok(facts);
    }
    Err(Error::Format {
        path: path.to_owned(),
        format: facts.format,
    })
}
