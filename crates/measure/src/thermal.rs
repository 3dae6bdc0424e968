//! Times that the CPUs were slowed because they were too hot (Intel; kernel: `drivers/thermal/intel/therm_throt.c`).

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

pub(crate) const CPUS: &str = "/sys/devices/system/cpu";

/// Counters of a CPU: its core's and its package's.
const COUNTERS: [&str; 2] = ["core_throttle_count", "package_throttle_count"];

/// The sum over some CPUs, or all; `None` where the kernel does not count, as in a virtual machine.
pub(crate) fn throttled(cpus: &Path, wanted: Option<&BTreeSet<u32>>) -> Option<u64> {
    let entries = fs::read_dir(cpus).ok()?.flatten();
    let mut sum = None;
    for entry in entries {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("cpu"));
        let Some(cpu) = number.and_then(|number| number.parse().ok()) else {
            continue;
        };
        if wanted.is_some_and(|wanted| !wanted.contains(&cpu)) {
            continue;
        }
        for counter in COUNTERS {
            let file = entry.path().join("thermal_throttle").join(counter);
            let text = fs::read_to_string(file).unwrap_or_default();
            if let Ok(count) = text.trim().parse::<u64>() {
                *sum.get_or_insert(0) += count;
            }
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn machine(counts: &[(u32, [u64; 2])]) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("latlab-thermal-{}", std::process::id()));
        for (cpu, counts) in counts {
            let counters = directory.join(format!("cpu{cpu}/thermal_throttle"));
            fs::create_dir_all(&counters).unwrap();
            for (name, count) in COUNTERS.iter().zip(counts) {
                fs::write(counters.join(name), format!("{count}\n")).unwrap();
            }
        }
        for other in ["cpufreq", "cpu7", "online"] {
            fs::create_dir(directory.join(other)).unwrap();
        }
        directory
    }

    #[test]
    fn throttling_is_summed_over_the_cpus_that_are_watched() {
        let machine = machine(&[(0, [3, 5]), (1, [2, 5])]);
        let sum = |wanted: Option<&[u32]>| {
            let wanted = wanted.map(|wanted| wanted.iter().copied().collect());
            throttled(&machine, wanted.as_ref())
        };
        assert_eq!(sum(None), Some(15));
        assert_eq!(sum(Some(&[1])), Some(7));
        // A CPU without counters, and none.
        assert_eq!(sum(Some(&[7])), None);
        assert_eq!(throttled(Path::new("/nowhere"), None), None);
        fs::remove_dir_all(machine).unwrap();
    }
}
