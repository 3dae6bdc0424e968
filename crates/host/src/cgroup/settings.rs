//! Limits as the kernel's files take them.

use super::limits::{Controller, Limits};
use crate::sys::devices::{self, Device};

/// Period over which a CPU quota is counted, in microseconds; the kernel's own default.
const CPU_PERIOD_US: u64 = 100_000;

/// The smallest quota the kernel accepts, in microseconds for a period.
const CPU_QUOTA_MIN_US: u64 = 1_000;

/// Sizes of huge pages, with the files that limit them in version 1 and in version 2 (kernel: cgroup-v1/hugetlb).
const HUGE_PAGES: [(u64, &str, &str); 2] = [
    (2 << 20, "hugetlb.2MB.limit_in_bytes", "hugetlb.2MB.max"),
    (1 << 30, "hugetlb.1GB.limit_in_bytes", "hugetlb.1GB.max"),
];

pub(super) struct Setting {
    pub(super) file: &'static str,
    pub(super) value: String,
    /// The file exists only on some kernels and its absence takes nothing away.
    pub(super) optional: bool,
}

/// The values to write, in order, for what `limits` says about `controller`.
pub(super) fn settings(controller: Controller, unified: bool, limits: &Limits) -> Vec<Setting> {
    let set = |file, value: String| Setting {
        file,
        value,
        optional: false,
    };
    let maybe = |file, value: String| Setting {
        file,
        value,
        optional: true,
    };
    match controller {
        Controller::Cpuset => {
            let list = limits
                .cpuset
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default();
            let memory = limits.memory_nodes.iter();
            let mut settings = vec![set("cpuset.cpus", list)];
            settings.extend(memory.map(|nodes| set("cpuset.mems", nodes.to_string())));
            settings
        }
        Controller::Cpu => {
            let quota = quota_us(limits.cpus.unwrap_or_default());
            if unified {
                vec![set("cpu.max", format!("{quota} {CPU_PERIOD_US}"))]
            } else {
                vec![
                    set("cpu.cfs_period_us", CPU_PERIOD_US.to_string()),
                    set("cpu.cfs_quota_us", quota.to_string()),
                ]
            }
        }
        Controller::Memory => {
            let bytes = limits.memory_bytes.unwrap_or_default().to_string();
            if unified {
                vec![
                    set("memory.max", bytes),
                    maybe("memory.swap.max", "0".to_owned()),
                ]
            } else {
                vec![
                    set("memory.limit_in_bytes", bytes.clone()),
                    maybe("memory.memsw.limit_in_bytes", bytes),
                ]
            }
        }
        Controller::Pids => vec![set("pids.max", limits.pids.unwrap_or_default().to_string())],
        Controller::Devices if unified => Vec::new(),
        // Everything is allowed in a new group; one rule a write.
        Controller::Devices => std::iter::once(set("devices.deny", "a".to_owned()))
            .chain(
                allowed_devices(limits)
                    .iter()
                    .map(|device| set("devices.allow", device.rule())),
            )
            .collect(),
        Controller::Hugetlb => {
            let wanted = limits.huge_pages.iter();
            let of = |size: u64| wanted.clone().filter(move |own| own.page_bytes == size);
            let all = HUGE_PAGES.iter().map(|(size, v1, v2)| {
                let bytes: u64 = of(*size).map(|own| own.bytes).sum();
                maybe(if unified { v2 } else { v1 }, bytes.to_string())
            });
            all.collect()
        }
        Controller::Cpuacct | Controller::Freezer => Vec::new(),
    }
}

pub(super) fn allowed_devices(limits: &Limits) -> Vec<Device> {
    let own = limits.devices.iter().flatten();
    devices::COMMON.iter().chain(own).copied().collect()
}

/// The quota for a period, never below what the kernel accepts. `check` bounds the number of
/// CPUs, so the product fits.
pub(super) fn quota_us(cpus: f64) -> u64 {
    ((cpus * CPU_PERIOD_US as f64).round() as u64).max(CPU_QUOTA_MIN_US)
}

#[cfg(test)]
mod tests {
    use latlab_model::units::CpuList;

    use super::*;
    use crate::cgroup::HugePages;

    #[test]
    fn the_same_limits_in_the_files_of_both_versions() {
        let limits = Limits {
            memory_nodes: None,
            partition: false,
            cpus: Some(0.5),
            cpuset: Some(CpuList::new(vec![1])),
            memory_bytes: Some(64 << 20),
            pids: Some(9),
            devices: Some(Vec::new()),
            huge_pages: Some(HugePages {
                page_bytes: 2 << 20,
                bytes: 64 << 20,
            }),
        };
        let lines = |unified| -> Vec<String> {
            Controller::LIMITING
                .into_iter()
                .flat_map(|c| settings(c, unified, &limits))
                .map(|s| format!("{}={}", s.file, s.value))
                .collect()
        };
        assert_eq!(
            lines(true),
            [
                "cpuset.cpus=1",
                "cpu.max=50000 100000",
                "memory.max=67108864",
                "memory.swap.max=0",
                "pids.max=9"
            ]
        );
        assert_eq!(
            lines(false),
            [
                "cpuset.cpus=1",
                "cpu.cfs_period_us=100000",
                "cpu.cfs_quota_us=50000",
                "memory.limit_in_bytes=67108864",
                "memory.memsw.limit_in_bytes=67108864",
                "pids.max=9"
            ]
        );
        let devices = settings(Controller::Devices, false, &limits);
        let rules: Vec<_> = devices
            .iter()
            .map(|s| format!("{}={}", s.file, s.value))
            .collect();
        assert_eq!(rules[..2], ["devices.deny=a", "devices.allow=c 1:3 rwm"]);
        assert!(settings(Controller::Devices, true, &limits).is_empty());
        let pages = |unified| {
            let all = settings(Controller::Hugetlb, unified, &limits).into_iter();
            all.map(|s| format!("{}={}", s.file, s.value))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            pages(true),
            ["hugetlb.2MB.max=67108864", "hugetlb.1GB.max=0"]
        );
        assert_eq!(pages(false)[0], "hugetlb.2MB.limit_in_bytes=67108864");
        assert_eq!(quota_us(0.01), 1_000);
        assert_eq!(quota_us(1.5), 150_000);
    }
}
