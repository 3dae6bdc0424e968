//! Sets of CPUs, as lists and as masks, and time that the hypervisor took from all.

use latlab_model::units::CpuList;

/// A list of CPUs; empty lists and the kernel's `(null)` are `None`.
pub fn cpu_list(text: &str) -> Option<CpuList> {
    CpuList::parse(text)
}

/// CPUs from a mask as the kernel writes it: hexadecimal, a comma between groups of 32.
pub fn cpu_mask(text: &str) -> Option<CpuList> {
    let mut cpus = Vec::new();
    let groups: Vec<&str> = text.trim().split(',').collect();
    for (index, group) in groups.iter().rev().enumerate() {
        let bits = u32::from_str_radix(group, 16).ok()?;
        let first = u32::try_from(index).ok()?.checked_mul(32)?;
        cpus.extend(
            (0..32)
                .filter(|bit| bits >> bit & 1 == 1)
                .map(|bit| first + bit),
        );
    }
    (!cpus.is_empty()).then(|| CpuList::new(cpus))
}

/// The list after `key:` in a status file, for example `Cpus_allowed_list` of `/proc/self/status`.
pub fn status_cpu_list(text: &str, key: &str) -> Option<CpuList> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    cpu_list(lines.find(|(name, _)| *name == key)?.1)
}

/// The share of CPU time that the hypervisor took away since boot, from `/proc/stat`.
pub fn steal_since_boot(stat: &str) -> Option<f64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    // user nice system idle iowait irq softirq steal; guest time is part of user already.
    let ticks: Vec<u64> = line
        .split_whitespace()
        .take(8)
        .map_while(|word| word.parse().ok())
        .collect();
    let steal = *ticks.get(7)?;
    let total = ticks
        .iter()
        .try_fold(0u64, |sum, ticks| sum.checked_add(*ticks))?;
    (total > 0).then(|| steal as f64 / total as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allowed_cpus_are_read_from_a_status_file() {
        let status = "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t0-3,8-11\n";
        let list = status_cpu_list(status, "Cpus_allowed_list").unwrap();
        assert_eq!(list.to_string(), "0-3,8-11");
        assert_eq!(status_cpu_list(status, "Mems_allowed_list"), None);
        assert_eq!(cpu_list(" (null)\n"), None);
        assert_eq!(cpu_list("\n"), None);
    }

    #[test]
    fn masks_have_their_lowest_group_last() {
        let list = |text| cpu_mask(text).map(|list| list.to_string());
        assert_eq!(list("3\n").as_deref(), Some("0-1"));
        assert_eq!(
            list("00000001,80000000,0000000f").as_deref(),
            Some("0-3,63-64")
        );
        for bad in ["", "0", "x", "1,,1", "100000000"] {
            assert_eq!(list(bad), None, "{bad}");
        }
    }

    #[test]
    fn steal_is_a_share_of_all_time_but_guests() {
        let stat = "cpu  10 0 10 70 0 0 0 10 99 99\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(steal_since_boot(stat), Some(0.1));
        for bad in [
            "",
            "cpu  1 2 3",
            "cpu  0 0 0 0 0 0 0 0",
            "cpu0 1 1 1 1 1 1 1 1",
        ] {
            assert_eq!(steal_since_boot(bad), None, "{bad}");
        }
    }
}
