//! Disturbances of the CPUs: interrupts, power saving, the kernel's own work and
//! configuration. See [`latlab_model::facts::Quiet`].

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;

use latlab_model::facts::{CgroupTree, IdleState, Interrupt, Power, Quiet};
use latlab_model::units::CpuList;

use super::machine::Source;
use super::texts;
use crate::sys::proc;

const CPU: &str = "sys/devices/system/cpu";

/// Options of the kernel's configuration that decide what can be quieted, without `CONFIG_`.
const OPTIONS: &[&str] = &[
    "CPUSETS",
    "CPU_FREQ",
    "CPU_IDLE",
    "CPU_ISOLATION",
    "HARDLOCKUP_DETECTOR",
    "HUGETLBFS",
    "HZ",
    "INTEL_IOMMU",
    "IRQ_REMAP",
    "KSM",
    "KVM",
    "NO_HZ_FULL",
    "NO_HZ_IDLE",
    "NUMA",
    "OSNOISE_TRACER",
    "PREEMPT",
    "PREEMPT_DYNAMIC",
    "PREEMPT_NONE",
    "PREEMPT_RT",
    "PREEMPT_VOLUNTARY",
    "RCU_NOCB_CPU",
    "RT_GROUP_SCHED",
    "SCHED_SMT",
    "SOFTLOCKUP_DETECTOR",
    "TIMERLAT_TRACER",
    "TRANSPARENT_HUGEPAGE",
    "VIRT_CPU_ACCOUNTING_GEN",
];

/// Longest configuration read; a distribution's is below 300 KB.
const MAX_CONFIGURATION_BYTES: u64 = 4 << 20;

pub(super) fn configuration(source: &Source, release: &str) -> BTreeMap<String, String> {
    let mut text = String::new();
    if let Ok(file) = File::open(source.path("proc/config.gz")) {
        let unpacked = flate2::read::GzDecoder::new(file);
        // A broken one says less.
        let _ = unpacked
            .take(MAX_CONFIGURATION_BYTES)
            .read_to_string(&mut text);
    }
    let files = [
        format!("boot/config-{release}"),
        format!("lib/modules/{release}/config"),
    ];
    for file in files {
        if text.is_empty() {
            text = source.text(&file);
        }
    }
    options(&text)
}

fn options(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(|line| {
        let (name, value) = line.strip_prefix("CONFIG_")?.split_once('=')?;
        OPTIONS
            .contains(&name)
            .then(|| (name.to_owned(), value.to_owned()))
    });
    pairs.collect()
}

pub(super) fn interrupts(source: &Source) -> Vec<Interrupt> {
    let numbers = source.numbered("proc/irq", "");
    let read = |(number, at): (&u32, &String)| {
        let list = |file: &str| texts::cpu_list(&source.text(&format!("{at}/{file}")));
        let actions = source.line(&format!("sys/kernel/irq/{number}/actions"));
        let actions = actions.unwrap_or_default();
        // Without sysfs's list, each handler has a directory.
        let owners: Vec<String> = if actions.is_empty() {
            source
                .names(at)
                .into_iter()
                .filter(|name| source.path(&format!("{at}/{name}")).is_dir())
                .collect()
        } else {
            actions.split(',').map(Into::into).collect()
        };
        Interrupt {
            number: *number,
            owners,
            affinity: list("smp_affinity_list"),
            effective: list("effective_affinity_list"),
            // -1 where the device is near none.
            numa_node: source
                .number(&format!("{at}/node"))
                .and_then(|n| n.try_into().ok()),
        }
    };
    numbers.iter().map(read).collect()
}

pub(super) fn power(source: &Source, online: &CpuList) -> Power {
    let mut governors: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for cpu in online.iter() {
        if let Some(name) = source.line(&format!("{CPU}/cpu{cpu}/cpufreq/scaling_governor")) {
            governors.entry(name).or_default().push(cpu);
        }
    }
    let first = online.iter().next().unwrap_or_default();
    let states = source.numbered(&format!("{CPU}/cpu{first}/cpuidle"), "state");
    let state = |at: &String| {
        Some(IdleState {
            name: source.line(&format!("{at}/name"))?,
            exit_latency_us: source.number(&format!("{at}/latency"))?,
            disabled: source.number(&format!("{at}/disable")) == Some(1),
        })
    };
    let known = |path: String| source.line(&path).filter(|name| name != "none");
    Power {
        frequency_driver: known(format!("{CPU}/cpu{first}/cpufreq/scaling_driver")),
        governors: governors
            .into_iter()
            .map(|(name, cpus)| (name, CpuList::new(cpus)))
            .collect(),
        idle_driver: known(format!("{CPU}/cpuidle/current_driver")),
        idle_governor: known(format!("{CPU}/cpuidle/current_governor")),
        idle_states: states.values().filter_map(state).collect(),
    }
}

pub(super) fn quiet(source: &Source, command_line: &str) -> Quiet {
    let flag = |path: &str| source.number(path).map(|n| n == 1);
    let mask = |path: &str| texts::cpu_mask(&source.line(path)?);
    let flaws = format!("{CPU}/vulnerabilities");
    let mitigations = source.names(&flaws).into_iter();
    Quiet {
        rt_runtime_us: source
            .line("proc/sys/kernel/sched_rt_runtime_us")
            .and_then(|text| text.parse().ok()),
        rt_period_us: source.number("proc/sys/kernel/sched_rt_period_us"),
        nmi_watchdog: flag("proc/sys/kernel/nmi_watchdog"),
        soft_watchdog: flag("proc/sys/kernel/soft_watchdog"),
        timer_migration: flag("proc/sys/kernel/timer_migration"),
        vm_stat_interval_s: source.number("proc/sys/vm/stat_interval"),
        ksm: flag("sys/kernel/mm/ksm/run"),
        rcu_nocbs: rcu_nocbs(command_line),
        workqueues: mask("sys/devices/virtual/workqueue/cpumask"),
        default_interrupts: mask("proc/irq/default_smp_affinity"),
        irqbalance: runs(source, "irqbalance"),
        smt: source.line(&format!("{CPU}/smt/control")),
        mitigations: mitigations
            .filter_map(|name| {
                let what = source.line(&format!("{flaws}/{name}"))?;
                Some((name, what))
            })
            .collect(),
    }
}

/// RCU has no file with the CPUs that it serves elsewhere; the command line says it.
fn rcu_nocbs(command_line: &str) -> Option<CpuList> {
    let mut words = command_line.split_whitespace();
    texts::cpu_list(words.find_map(|word| word.strip_prefix("rcu_nocbs="))?)
}

/// Whether a process of that name runs; `None` when processes cannot be listed.
fn runs(source: &Source, name: &str) -> Option<bool> {
    let processes = source.numbered("proc", "");
    let is_it = |at: &String| source.line(&format!("{at}/comm")).as_deref() == Some(name);
    (!processes.is_empty()).then(|| processes.values().any(is_it))
}

pub(super) fn cgroup(source: &Source) -> CgroupTree {
    let mut tree = CgroupTree::default();
    for mount in proc::mounts(source.text("proc/self/mountinfo").as_bytes()) {
        let at = mount.point.display().to_string();
        match mount.kind.as_str() {
            "cgroup2" if tree.unified.is_none() => {
                let controllers = source.text(&format!(
                    "{}/cgroup.controllers",
                    at.trim_start_matches('/')
                ));
                tree.unified_controllers = controllers.split_whitespace().map(Into::into).collect();
                tree.unified = Some(at);
            }
            "cgroup" => {
                let options = mount.super_options.split(',');
                let controllers =
                    options.filter(|o| !matches!(*o, "rw" | "ro") && !o.contains('='));
                for controller in controllers {
                    tree.own
                        .entry(controller.into())
                        .or_insert_with(|| at.clone());
                }
            }
            _ => {}
        }
    }
    tree
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_options_that_matter_are_kept() {
        let text = "# CONFIG_NO_HZ_IDLE is not set\nCONFIG_NO_HZ_FULL=y\nCONFIG_HZ=250\n\
            CONFIG_LOCALVERSION=\"\"\nCONFIG_X\n";
        let found: Vec<String> = options(text)
            .iter()
            .map(|(k, v)| format!("{k}={v}"))
            .collect();
        assert_eq!(found, ["HZ=250", "NO_HZ_FULL=y"]);
    }

    #[test]
    fn rcu_is_asked_on_the_command_line() {
        let list = rcu_nocbs("quiet rcu_nocbs=2-3,6 rcu_nocb_poll").unwrap();
        assert_eq!(list.to_string(), "2-3,6");
        assert_eq!(rcu_nocbs("quiet rcu_nocb_poll"), None);
        assert_eq!(rcu_nocbs("rcu_nocbs=x"), None);
    }

    /// This machine has interrupts and cgroups, whatever it is.
    #[test]
    fn this_machine_is_read() {
        let source = Source::here();
        let interrupts = interrupts(&source);
        assert!(
            interrupts
                .iter()
                .any(|i| !i.owners.is_empty() && i.affinity.is_some())
        );
        let tree = cgroup(&source);
        assert!(tree.unified.is_some() || !tree.own.is_empty());
        assert!(quiet(&source, "").irqbalance.is_some());
    }

    /// A machine that we do not own.
    #[test]
    fn another_machine_is_read_from_its_files() {
        let root = std::env::temp_dir().join(format!("latlab-quiet-{}", std::process::id()));
        let files = [
            ("proc/irq/7/smp_affinity_list", "0-3\n"),
            ("proc/irq/7/effective_affinity_list", "2\n"),
            ("proc/irq/7/node", "1\n"),
            ("proc/irq/9/eth0-rx-0/x", ""),
            ("proc/irq/9/smp_affinity_list", "1\n"),
            ("proc/irq/9/node", "-1\n"),
            ("proc/irq/default_smp_affinity", "00000001,0000000f\n"),
            ("sys/kernel/irq/7/actions", "nvme0q1,timer\n"),
            (
                "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
                "powersave\n",
            ),
            (
                "sys/devices/system/cpu/cpu0/cpufreq/scaling_driver",
                "intel_pstate\n",
            ),
            (
                "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor",
                "performance\n",
            ),
            (
                "sys/devices/system/cpu/cpuidle/current_driver",
                "intel_idle\n",
            ),
            ("sys/devices/system/cpu/cpu0/cpuidle/state10/name", "C10\n"),
            (
                "sys/devices/system/cpu/cpu0/cpuidle/state10/latency",
                "890\n",
            ),
            ("sys/devices/system/cpu/cpu0/cpuidle/state10/disable", "1\n"),
            ("sys/devices/system/cpu/cpu0/cpuidle/state2/name", "C1E\n"),
            ("sys/devices/system/cpu/cpu0/cpuidle/state2/latency", "10\n"),
            ("sys/devices/system/cpu/smt/control", "on\n"),
            ("proc/sys/kernel/sched_rt_runtime_us", "-1\n"),
            ("proc/77/comm", "irqbalance\n"),
        ];
        for (path, text) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let source = Source::below(&root);
        let found = interrupts(&source);
        let shown: Vec<String> = found
            .iter()
            .map(|i| format!("{} {:?} {:?}", i.number, i.owners, i.numa_node))
            .collect();
        assert_eq!(
            shown,
            [
                "7 [\"nvme0q1\", \"timer\"] Some(1)",
                "9 [\"eth0-rx-0\"] None"
            ]
        );
        assert_eq!(found[0].effective.as_ref().unwrap().to_string(), "2");
        let power = power(&source, &CpuList::new(vec![0, 1]));
        assert_eq!(power.governors["performance"].to_string(), "1");
        assert_eq!(
            (
                power.frequency_driver.as_deref(),
                power.idle_driver.as_deref()
            ),
            (Some("intel_pstate"), Some("intel_idle"))
        );
        let states: Vec<&str> = power.idle_states.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(
            (states, power.idle_states[1].disabled),
            (vec!["C1E", "C10"], true)
        );
        let quiet = quiet(&source, "rcu_nocbs=1");
        assert_eq!(
            (quiet.irqbalance, quiet.rt_runtime_us),
            (Some(true), Some(-1))
        );
        assert_eq!(quiet.default_interrupts.unwrap().to_string(), "0-3,32");
        assert_eq!(quiet.smt.as_deref(), Some("on"));
        std::fs::remove_dir_all(root).unwrap();
    }
}
