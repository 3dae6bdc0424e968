//! The knobs, one per file. A knob names its items on a machine (which [`super::items`] reads, writes, compares and
//! restores), the values they get for a wanted value, the evidence, and the risk.
//!
//! A new knob is one file here with its unit test, a line in `all.rs`, and one in `latlab_model::profile::catalogue`.

mod all;
mod busy_poll;
mod busy_read;
mod compaction;
mod cpu_dma_latency;
mod cpuset;
mod dirty_writeback;
mod files;
mod governor;
mod halt_poll;
mod huge_pages;
mod idle_states;
mod irq_affinity;
mod irq_default;
mod irqbalance;
mod kernel_threads;
mod knob;
mod ksm;
mod memory_lock;
mod netdev_backlog;
mod nic_coalescing;
mod nic_offloads;
mod nic_queues;
mod nmi_watchdog;
mod numa_balancing;
mod prelude;
mod qdisc;
mod resume_latency;
mod rps;
mod rt_throttling;
mod socket_buffers;
mod soft_watchdog;
mod swappiness;
mod thp;
mod thp_defrag;
mod threaded_napi;
mod threads;
mod timer_migration;
mod unevictable_compaction;
mod values;
mod vm_stat_interval;
mod watchdog_cpus;
mod workqueues;
mod xps;

pub use all::ALL;
pub use cpuset::partition_cpus;
pub use knob::{Knob, KnobError, Machine, Mapping, Targets};

#[cfg(test)]
mod testing;
