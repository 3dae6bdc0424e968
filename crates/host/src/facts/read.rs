//! The facts of this machine.

use std::collections::BTreeMap;
use std::path::PathBuf;

use latlab_model::facts::{Capability, Facts, Machine};
use latlab_model::results::HostBrief;
use latlab_model::units::CpuList;

use super::catalogue::{Circumstances, Entry};
use super::machine::{self, Source};
use super::options::ReadOptions;
use super::prove::report::Outcome;
use super::tools::{self, Ask};
use super::{nics, observed, prove, quiet};
use crate::programs;

/// The CPUs that the kernel runs on now, allowed to us or not.
pub fn online_cpus() -> CpuList {
    machine::online(&Source::here())
}

pub fn read(options: &ReadOptions) -> Facts {
    let source = Source::here();
    // Even a reader who asks for nothing keeps off the CPUs that others were given.
    let placement = options.placement || !options.cpus.taken.is_empty();
    // Proofs, and tools that must be asked, are waited for at the same time.
    std::thread::scope(|scope| {
        let is_proving = !options.prove.is_empty();
        let proofs = is_proving.then(|| scope.spawn(|| prove::prove(options)));
        let (brief, family) = read_brief(&source);
        let hypervisor = brief.hypervisor.as_deref();
        let mut machine = Machine::default();
        if options.detail {
            machine = read_machine(&source, options, hypervisor);
        } else {
            machine.storage = machine::storage(&[&options.dirs.labs()]);
            if placement {
                machine.memory = machine::memory(&source);
                machine.processors = machine::processors(&source);
                machine.nics = nics::read(&source, hypervisor);
            }
        }
        let (interfaces, interfaces_in_use) = nics::names(&source);
        let mut facts = Facts {
            format: Facts::FORMAT.into(),
            brief,
            cpus: machine::allowed(&source),
            interfaces,
            interfaces_in_use,
            cpus_quiet: options.cpus.quiet.clone(),
            cpus_taken: options.cpus.taken.clone(),
            tools: read_tools(options),
            machine,
            ..Facts::default()
        };
        let proven = proofs.and_then(|proofs| proofs.join().ok());
        let mut outcomes = proven.unwrap_or_default();
        let seen = observed::all(&source, &options.prove);
        outcomes.extend(seen);
        conclude(&mut facts, &source, family, outcomes);
        facts
    })
}

/// The brief for every reader, and the distribution's family. Acceleration is filled in after the proofs.
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

fn read_machine(source: &Source, options: &ReadOptions, hypervisor: Option<&str>) -> Machine {
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
        nics: nics::with_interrupts(nics::read(source, hypervisor), source, &interrupts),
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
        iommu: !source.names("sys/kernel/iommu_groups").is_empty(),
        nft: programs::find("nft").is_some(),
        processors: facts.brief.cores,
        cgroup: facts.brief.cgroup.clone(),
        release,
    }
}
