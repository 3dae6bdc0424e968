//! A profile for tuned (`/etc/tuned/NAME/tuned.conf`), whose bootloader plug-in puts the parameters on
//! the kernel's command line and whose `tuned-adm verify` says whether they are in force.

use std::fmt::Write as _;

use super::parameters::{Parameter, command_line};
use crate::profile::{Cores, Profile, Wanted};

/// The text of `tuned.conf`: the boot parameters, and those knobs that tuned knows under the names of
/// the kernel. The others are `latlab tune apply`'s alone.
pub fn tuned_conf(profile: &Profile, cores: &Cores, parameters: &[Parameter]) -> String {
    let mut text = format!(
        "# latlab's profile `{}`. Housekeeping on CPU {}; {}.\n[main]\nsummary={}\n",
        profile.name,
        cores.housekeeping,
        if cores.isolated.is_empty() {
            "nothing is isolated".into()
        } else {
            format!("isolated: CPU {}", cores.isolated)
        },
        profile.about
    );
    section(&mut text, "sysctl", &sysctls(profile));
    section(&mut text, "vm", &huge_pages(profile));
    section(&mut text, "cpu", &governor(profile));
    let line = command_line(parameters);
    if !line.is_empty() {
        section(&mut text, "bootloader", &[("cmdline_latlab", line)]);
    }
    text
}

fn section(text: &mut String, name: &str, lines: &[(&'static str, String)]) {
    if lines.is_empty() {
        return;
    }
    // Writing to a string does not fail.
    let _ = write!(text, "\n[{name}]\n");
    for (key, value) in lines {
        let _ = writeln!(text, "{key}={value}");
    }
}

type Lines = Vec<(&'static str, String)>;

fn sysctls(profile: &Profile) -> Lines {
    const MS: u64 = 1_000_000;
    let get = |name: &str| profile.knobs.get(name);
    let mut lines = Lines::new();
    let switches = [
        ("timer-migration", "kernel.timer_migration"),
        ("nmi-watchdog", "kernel.nmi_watchdog"),
        ("soft-watchdog", "kernel.soft_watchdog"),
        ("numa-balancing", "kernel.numa_balancing"),
    ];
    for (knob, key) in switches {
        if let Some(Wanted::Switch(on)) = get(knob) {
            lines.push((key, u8::from(*on).to_string()));
        }
    }
    if let Some(Wanted::Switch(false)) = get("rt-throttling") {
        lines.push(("kernel.sched_rt_runtime_us", "-1".into()));
    }
    for (knob, key) in [
        ("swappiness", "vm.swappiness"),
        ("netdev-backlog", "net.core.netdev_max_backlog"),
    ] {
        if let Some(Wanted::Number(number)) = get(knob) {
            lines.push((key, number.to_string()));
        }
    }
    let durations = [
        ("dirty-writeback", "vm.dirty_writeback_centisecs", 10 * MS),
        ("vm-stat-interval", "vm.stat_interval", 1000 * MS),
        ("busy-poll", "net.core.busy_poll", 1000),
        ("busy-read", "net.core.busy_read", 1000),
    ];
    for (knob, key, unit) in durations {
        if let Some(Wanted::Duration(duration)) = get(knob) {
            lines.push((key, (duration.0 / unit).to_string()));
        }
    }
    lines
}

fn huge_pages(profile: &Profile) -> Lines {
    match profile.knobs.get("thp") {
        Some(Wanted::Word(word)) => vec![("transparent_hugepages", (*word).into())],
        _ => Lines::new(),
    }
}

fn governor(profile: &Profile) -> Lines {
    let mut lines = Lines::new();
    if let Some(Wanted::Word(word)) = profile.knobs.get("governor") {
        lines.push(("governor", (*word).into()));
    }
    if let Some(Wanted::Duration(latency)) = profile.knobs.get("cpu-dma-latency") {
        lines.push(("force_latency", (latency.0 / 1000).to_string()));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::parameters;
    use super::*;
    use crate::units::CpuList;

    #[test]
    fn units_are_the_kernels_and_the_line_is_whole() {
        let profile = Profile::builtin("realtime").expect("a profile");
        let cores = Cores {
            housekeeping: CpuList::new(vec![0]),
            isolated: CpuList::new(vec![1]),
        };
        let parameters = parameters(&profile, &cores).expect("parameters");
        let text = tuned_conf(&profile, &cores, &parameters);
        for line in [
            "kernel.timer_migration=0",
            "kernel.sched_rt_runtime_us=-1",
            "vm.dirty_writeback_centisecs=6000",
            "vm.stat_interval=120",
            "transparent_hugepages=never",
            "force_latency=0",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} in\n{text}");
        }
        let boot = text
            .lines()
            .find(|l| l.starts_with("cmdline_latlab="))
            .expect("a line");
        assert_eq!(
            boot,
            format!("cmdline_latlab={}", command_line(&parameters))
        );
    }

    #[test]
    fn a_profile_that_wants_nothing_has_no_sections() {
        let profile = Profile::builtin("default").expect("a profile");
        let cores = Cores::shared(&CpuList::new(vec![0, 1]));
        let text = tuned_conf(&profile, &cores, &[]);
        assert_eq!(text.matches('[').count(), 1, "{text}");
    }
}
