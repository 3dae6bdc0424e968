//! Readers of the texts the kernel and tools publish. Every function is pure and takes the
//! text itself, so that tests read machines that we do not own. None panics on any text (they are
//! fuzzed). Unknown lines are passed over, because kernels add some.

mod cards;
mod cgroups;
mod cpuinfo;
mod cpus;
mod distribution;
mod hypervisor;
mod memory;
mod modules;
mod tools;

pub use cards::{CardEvidence, card_maker};
pub use cgroups::cgroup_layout;
pub use cpuinfo::{CpuInfo, cpuinfo};
pub use cpus::{cpu_list, cpu_mask, status_cpu_list, steal_since_boot};
pub use distribution::{kernel_flavour, os_release};
pub use hypervisor::{Evidence, hypervisor};
pub use memory::{cache_size, chosen, meminfo};
pub use modules::can_be_loaded;
pub use tools::tool_version;
