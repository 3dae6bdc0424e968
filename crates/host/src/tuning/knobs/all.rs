use super::knob::Knob;
use super::{
    busy_poll, busy_read, compaction, cpu_dma_latency, cpuset, dirty_writeback, governor,
    halt_poll, huge_pages, idle_states, irq_affinity, irq_default, irqbalance, kernel_threads, ksm,
    memory_lock, netdev_backlog, nic_coalescing, nic_offloads, nic_queues, nmi_watchdog,
    numa_balancing, qdisc, resume_latency, rps, rt_throttling, socket_buffers, soft_watchdog,
    swappiness, thp, thp_defrag, threaded_napi, threads, timer_migration, unevictable_compaction,
    vm_stat_interval, watchdog_cpus, workqueues, xps,
};

/// Every knob, in the order in which they are applied.
pub const ALL: &[&Knob] = &[
    &kernel_threads::KNOB,
    &cpuset::KNOB,
    &irqbalance::KNOB,
    &irq_default::KNOB,
    &irq_affinity::KNOB,
    &workqueues::KNOB,
    &rps::KNOB,
    &xps::KNOB,
    &timer_migration::KNOB,
    &rt_throttling::KNOB,
    &nmi_watchdog::KNOB,
    &soft_watchdog::KNOB,
    &watchdog_cpus::KNOB,
    &numa_balancing::KNOB,
    &threads::KNOB,
    &thp::KNOB,
    &thp_defrag::KNOB,
    &ksm::KNOB,
    &huge_pages::KNOB,
    &compaction::KNOB,
    &unevictable_compaction::KNOB,
    &memory_lock::KNOB,
    &swappiness::KNOB,
    &dirty_writeback::KNOB,
    &vm_stat_interval::KNOB,
    &governor::KNOB,
    &idle_states::KNOB,
    &resume_latency::KNOB,
    &cpu_dma_latency::KNOB,
    &halt_poll::KNOB,
    &busy_poll::KNOB,
    &busy_read::KNOB,
    &socket_buffers::KNOB,
    &netdev_backlog::KNOB,
    &qdisc::KNOB,
    &nic_queues::KNOB,
    &nic_coalescing::KNOB,
    &nic_offloads::KNOB,
    &threaded_napi::KNOB,
];

impl Knob {
    pub fn named(name: &str) -> Option<&'static Knob> {
        ALL.iter().find(|knob| knob.name == name).copied()
    }
}

#[cfg(test)]
mod tests {
    use latlab_model::profile::catalogue;

    use super::*;

    #[test]
    fn every_knob_is_in_the_catalogue_in_the_same_order() {
        let here: Vec<&str> = ALL.iter().map(|k| k.name).collect();
        let there: Vec<&str> = catalogue::KNOBS.iter().map(|(name, _)| *name).collect();
        assert_eq!(here, there);
        for knob in ALL {
            for text in [knob.about, knob.evidence, knob.risk] {
                assert!(text.len() > 10, "{}: `{text}`", knob.name);
            }
        }
    }
}
