//! Every knob and boot parameter that a profile may name, with its kind of value.
//!
//! The effect of a knob on the machine, its evidence and its risk are beside its code
//! (`latlab-host`, `tuning/knobs`); a test there holds the two lists equal.

use super::value::Kind;
use crate::diagnostic::{hint_one_of, nearest, shown};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;

const SWITCH: Kind = Kind::Switch;
const CPUS: Kind = Kind::Cpus;

const fn number(least: u64, most: u64) -> Kind {
    Kind::Number { least, most }
}

const fn duration(unit: u64, most: u64) -> Kind {
    Kind::Duration {
        unit,
        most,
        off: false,
    }
}

const fn or_off(unit: u64, most: u64) -> Kind {
    Kind::Duration {
        unit,
        most,
        off: true,
    }
}

/// Knobs that are turned while the machine runs, in the order in which they are applied; they are
/// restored in the opposite one.
pub const KNOBS: &[(&str, Kind)] = &[
    // Places of threads. Kernel threads before the partition that confines them, so that they are given back after it.
    ("kernel-threads", CPUS),
    ("cpuset", Kind::Word(&["isolated", "root"])),
    ("irqbalance", CPUS),
    ("irq-default", CPUS),
    ("irq-affinity", CPUS),
    ("workqueues", CPUS),
    ("rps", CPUS),
    ("xps", CPUS),
    // Timers, watchdogs, the scheduler.
    ("timer-migration", SWITCH),
    ("rt-throttling", or_off(US, S)),
    ("nmi-watchdog", SWITCH),
    ("soft-watchdog", SWITCH),
    ("watchdog-cpus", CPUS),
    ("numa-balancing", SWITCH),
    ("threads", Kind::Threads),
    // Memory.
    ("thp", Kind::Word(&["always", "madvise", "never"])),
    (
        "thp-defrag",
        Kind::Word(&["always", "defer", "defer+madvise", "madvise", "never"]),
    ),
    ("ksm", Kind::Word(&["off", "on", "unmerge"])),
    ("huge-pages", Kind::Size { most: 1 << 45 }),
    ("compaction", number(0, 100)),
    ("unevictable-compaction", SWITCH),
    ("memory-lock", Kind::Names),
    ("swappiness", number(0, 200)),
    ("dirty-writeback", or_off(10 * MS, 3600 * S)),
    ("vm-stat-interval", duration(S, 86_400 * S)),
    // Power.
    (
        "governor",
        Kind::Word(&[
            "performance",
            "powersave",
            "schedutil",
            "ondemand",
            "conservative",
        ]),
    ),
    ("idle-states", duration(US, S)),
    ("resume-latency", or_off(US, S)),
    ("cpu-dma-latency", duration(US, 2000 * S)),
    ("halt-poll", or_off(1, 10 * MS)),
    // The network.
    ("busy-poll", or_off(US, 10 * MS)),
    ("busy-read", or_off(US, 10 * MS)),
    ("socket-buffers", Kind::Size { most: 1 << 30 }),
    ("netdev-backlog", number(1, 1_000_000)),
    ("qdisc", Kind::Word(&["fq", "fq_codel", "pfifo_fast"])),
    ("nic-queues", number(1, 1024)),
    ("nic-coalescing", or_off(US, 10 * MS)),
    ("nic-offloads", SWITCH),
    ("threaded-napi", SWITCH),
];

/// Parameters of the kernel's command line. `on` for one that takes no value names it alone.
pub const BOOT: &[(&str, Kind)] = &[
    ("isolcpus", CPUS),
    ("nohz_full", CPUS),
    ("rcu_nocbs", CPUS),
    ("rcu_nocb_poll", SWITCH),
    ("irqaffinity", CPUS),
    ("nohz", SWITCH),
    ("skew_tick", SWITCH),
    ("nmi_watchdog", SWITCH),
    ("nowatchdog", SWITCH),
    ("nosoftlockup", SWITCH),
    ("threadirqs", SWITCH),
    ("nosmt", SWITCH),
    ("mce", Kind::Word(&["off", "ignore_ce"])),
    ("audit", SWITCH),
    ("apparmor", SWITCH),
    ("random.trust_cpu", SWITCH),
    ("idle", Kind::Word(&["poll", "halt", "nomwait"])),
    ("cpuidle.governor", Kind::Word(&["haltpoll", "menu", "teo"])),
    ("cpuidle_haltpoll.force", SWITCH),
    ("processor.max_cstate", number(0, 9)),
    ("intel_idle.max_cstate", number(0, 9)),
    (
        "intel_pstate",
        Kind::Word(&["disable", "passive", "active"]),
    ),
    ("mitigations", Kind::Word(&["off", "auto", "auto,nosmt"])),
    (
        "transparent_hugepage",
        Kind::Word(&["always", "madvise", "never"]),
    ),
    ("default_hugepagesz", Kind::Word(&["2M", "1G"])),
    ("hugepagesz", Kind::Word(&["2M", "1G"])),
    ("hugepages", number(0, 1 << 24)),
    ("iommu", Kind::Word(&["off", "pt", "on"])),
    ("intel_iommu", Kind::Word(&["off", "on"])),
    ("amd_iommu", Kind::Word(&["off", "on"])),
    ("clocksource", Kind::Word(&["tsc", "hpet", "kvm-clock"])),
    ("tsc", Kind::Word(&["reliable", "nowatchdog"])),
];

pub fn knob(name: &str) -> Option<(&'static str, Kind)> {
    KNOBS.iter().find(|(known, _)| *known == name).copied()
}

pub fn known_knob(name: &str) -> Result<(&'static str, Kind), (String, String)> {
    knob(name).ok_or_else(|| unknown_knob(name))
}

fn unknown_knob(name: &str) -> (String, String) {
    let names: Vec<&str> = KNOBS.iter().map(|(name, _)| *name).collect();
    let hint = match nearest(name, names.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("`latlab tune show` lists them; {}", hint_one_of("", &names)),
    };
    (format!("unknown knob `{}`", shown(name)), hint)
}

pub(super) fn wrong_knob(name: &str, text: &str, kind: Kind) -> (String, String) {
    let message = format!(
        "knob `{name}` must be {}, not `{}`",
        kind.expected(),
        shown(text)
    );
    (message, format!("see `latlab tune show {name}`"))
}
