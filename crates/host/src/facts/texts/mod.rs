//! Readers of the texts the kernel and tools publish. Every function is pure and takes the
//! text itself, so that tests read machines that we do not own. None panics on any text (they are
//! fuzzed). Unknown lines are passed over, because kernels add some.

mod cards;
mod cpuinfo;
mod hypervisor;
mod modules;

use std::collections::BTreeMap;

use latlab_model::units::CpuList;

pub use cards::{CardEvidence, card_maker};
pub use cpuinfo::{CpuInfo, cpuinfo};
pub use hypervisor::{Evidence, hypervisor};
pub use modules::can_be_loaded;

use crate::sys::proc;

/// Bytes by name from `/proc/meminfo`, or from a memory node's, whose lines begin `Node 0`.
///
/// Most lines are in kB; the few that count (`HugePages_Total`) have no unit and are returned as they are.
pub fn meminfo(text: &str) -> BTreeMap<&str, u64> {
    let line = |line| -> Option<(&str, u64)> {
        let (name, value) = str::split_once(line, ':')?;
        let name = name.rsplit(' ').next()?;
        let mut words = value.split_whitespace();
        let number: u64 = words.next()?.parse().ok()?;
        let factor = if words.next() == Some("kB") { 1024 } else { 1 };
        Some((name, number.checked_mul(factor)?))
    };
    text.lines().filter_map(line).collect()
}

/// The value of `key` in an os-release file, without its quotes (os-release(5)).
pub fn os_release(text: &str, key: &str) -> Option<String> {
    let lines = text.lines().map(str::trim_start);
    let value = lines
        .filter_map(|line| line.split_once('='))
        .rfind(|(name, _)| *name == key)?
        .1
        .trim_end();
    let quoted = |quote| value.strip_prefix(quote)?.strip_suffix(quote);
    let value = quoted('"').or_else(|| quoted('\'')).unwrap_or(value);
    let mut out = String::with_capacity(value.len());
    let mut escaped = false;
    for c in value.chars() {
        if c == '\\' && !escaped {
            escaped = true;
        } else {
            out.push(c);
            escaped = false;
        }
    }
    (!out.is_empty()).then_some(out)
}

/// The chosen one of a list such as `always [madvise] never`.
pub fn chosen(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0)
}

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

/// `v1`, `v2`, `hybrid` (version 2 mounted beside controllers on version 1) or `none`, from `/proc/self/mountinfo`.
pub fn cgroup_layout(mountinfo: &str) -> &'static str {
    let (mut own, mut unified) = (false, false);
    for mount in proc::mounts(mountinfo.as_bytes()) {
        match mount.kind.as_str() {
            "cgroup2" => unified = true,
            // A hierarchy with a name only lists processes.
            "cgroup" => {
                let mut options = mount.super_options.split(',');
                own |= !options.any(|option| option.starts_with("name="));
            }
            _ => {}
        }
    }
    match (own, unified) {
        (true, true) => "hybrid",
        (true, false) => "v1",
        (false, true) => "v2",
        (false, false) => "none",
    }
}

/// The flavour of a distribution's kernel, from its release: `standard`, `rt` or `cloud`.
pub fn kernel_flavour(release: &str) -> &'static str {
    let mut words = release.split('-');
    match words.find_map(|word| ["rt", "cloud"].into_iter().find(|known| *known == word)) {
        Some(flavour) => flavour,
        None => "standard",
    }
}

/// Bytes from a cache's size file: `32K`, `16M`.
pub fn cache_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text.get(digits.len()..)? {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// The version in what a tool prints when asked for it: the first number with a dot in it that
/// begins a word, or follows a `v` or a hyphen (`nftables v1.0.6`, `iproute2-6.1.0`).
pub fn tool_version(output: &str) -> Option<String> {
    let words = output.lines().take(4).flat_map(str::split_whitespace);
    words.filter_map(version_in).next().map(Into::into)
}

fn version_in(word: &str) -> Option<&str> {
    let starts = |(at, c): (usize, char)| {
        let before = word.get(..at)?;
        let begins = before.is_empty() || before == "v" || before.ends_with(['-', '(']);
        (c.is_ascii_digit() && begins).then_some(at)
    };
    let version = word.get(word.char_indices().find_map(starts)?..)?;
    let version = version.trim_end_matches([',', '.', ';', ')']);
    version.contains('.').then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_bytes_and_counts_as_they_are() {
        let text = "MemTotal:       24684096 kB\nMemAvailable:   24199572 kB\n\
            HugePages_Total:       7\nHugepagesize:       2048 kB\nDirectMap1G: x kB\nodd\n";
        let memory = meminfo(text);
        assert_eq!(memory["MemTotal"], 24_684_096 << 10);
        assert_eq!(memory["HugePages_Total"], 7);
        assert_eq!(memory["Hugepagesize"], 2 << 20);
        assert!(!memory.contains_key("DirectMap1G"));
        assert_eq!(
            meminfo("Node 1 MemTotal:  131072 kB\n")["MemTotal"],
            1 << 27
        );
        assert!(meminfo("Big: 18446744073709551615 kB").is_empty());
    }

    #[test]
    fn distributions_quote_as_they_like() {
        let debian = "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nID=debian\n";
        assert_eq!(
            os_release(debian, "PRETTY_NAME").as_deref(),
            Some("Debian GNU/Linux 12 (bookworm)")
        );
        assert_eq!(os_release(debian, "ID").as_deref(), Some("debian"));
        assert_eq!(
            os_release("# NAME=no\nNAME='Arch \\$1'\n", "NAME").as_deref(),
            Some("Arch $1")
        );
        for bad in ["", "ID", "ID=", "ID=\"\"", "ID=\\"] {
            assert_eq!(os_release(bad, "ID"), None, "{bad}");
        }
        assert_eq!(os_release("ID=\"", "ID").as_deref(), Some("\""));
    }

    #[test]
    fn the_chosen_one_is_in_brackets() {
        assert_eq!(chosen("always [madvise] never\n"), Some("madvise"));
        assert_eq!(chosen("always madvise never"), None);
        assert_eq!(chosen("]x["), None);
    }

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

    #[test]
    fn the_cgroup_layout_follows_from_the_mounts() {
        let v2 = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        let cpu = "32 31 0:29 / /sys/fs/cgroup/cpu rw shared:5 - cgroup cgroup rw,cpu\n";
        let named = "33 31 0:30 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n";
        assert_eq!(cgroup_layout(v2), "v2");
        assert_eq!(cgroup_layout(&format!("{v2}{named}")), "v2");
        assert_eq!(cgroup_layout(&format!("{cpu}{named}")), "v1");
        assert_eq!(cgroup_layout(&format!("{cpu}{named}{v2}")), "hybrid");
        assert_eq!(
            cgroup_layout("22 27 0:21 / /proc rw - proc proc rw\nx\n"),
            "none"
        );
        assert_eq!(cgroup_layout(""), "none");
    }

    #[test]
    fn a_kernels_release_tells_its_flavour() {
        assert_eq!(kernel_flavour("6.1.0-37-amd64"), "standard");
        assert_eq!(kernel_flavour("6.1.0-37-rt-amd64"), "rt");
        assert_eq!(kernel_flavour("6.1.0-37-cloud-amd64"), "cloud");
        assert_eq!(kernel_flavour("art"), "standard");
    }

    #[test]
    fn cache_sizes_have_units() {
        assert_eq!(cache_size("32K\n"), Some(32 << 10));
        assert_eq!(cache_size("260M"), Some(260 << 20));
        for bad in [
            "",
            "K",
            "1T",
            "99999999999999999999K",
            "18446744073709551615G",
        ] {
            assert_eq!(cache_size(bad), None, "{bad}");
        }
    }

    #[test]
    fn each_tool_says_its_version_its_own_way() {
        for (said, version) in [
            ("crun version 1.8.1\ncommit: f8a0", "1.8.1"),
            ("runc version 1.1.5+ds1\n", "1.1.5+ds1"),
            (
                "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)",
                "7.2.22",
            ),
            ("nftables v1.0.6 (Lester Gooch #5)", "1.0.6"),
            ("iperf 3.12 (cJSON 1.7.15)\nLinux vm 6.18", "3.12"),
            ("sockperf, version 3.7-no.git\n", "3.7-no.git"),
            (
                "stress-ng, version 0.15.06 (gcc 12.2.0, x86_64 Linux 6.18)",
                "0.15.06",
            ),
            ("ip utility, iproute2-6.1.0, libbpf 1.1.2", "6.1.0"),
            (
                "Debian 'dpkg-deb' package archive backend version 1.21.22 (amd64).",
                "1.21.22",
            ),
            ("apt 2.6.1 (amd64)", "2.6.1"),
        ] {
            assert_eq!(tool_version(said).as_deref(), Some(version), "{said}");
        }
        for nothing in ["", "usage: tool [options]", "x86_64", "é1.2"] {
            assert_eq!(tool_version(nothing), None, "{nothing}");
        }
    }
}
