//! The knobs, one a file. A knob says what it turns on a machine (its items, which are read, written,
//! compared and restored by [`super::items`]), to what it turns them for a wanted value, on what
//! evidence, and at what risk.
//!
//! A new knob is one file here with its unit test, a line in [`ALL`], and one in
//! `latlab_model::profile::catalogue`.

mod busy_poll;
mod busy_read;
mod compaction;
mod cpu_dma_latency;
mod cpuset;
mod dirty_writeback;
mod governor;
mod halt_poll;
mod huge_pages;
mod idle_states;
mod irq_affinity;
mod irq_default;
mod irqbalance;
mod kernel_threads;
mod ksm;
mod memory_lock;
mod netdev_backlog;
mod nic_coalescing;
mod nic_offloads;
mod nic_queues;
mod nmi_watchdog;
mod numa_balancing;
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

pub use cpuset::partition_cpus;
use latlab_model::profile::{Cores, Wanted};

use super::items::Item;
use super::journal::Entry;
use super::root::Root;

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

/// What a knob may look at.
#[derive(Debug, Clone, Copy)]
pub struct Machine<'m> {
    /// The kernel's files.
    pub root: &'m Root,
    /// Which processors have which part.
    pub cores: &'m Cores,
}

/// Why a knob turns nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// This machine does not have it: the reason.
    Absent(String),
    /// What is wanted cannot be: what is wrong, and what to do.
    Impossible(String, String),
}

impl From<String> for Why {
    fn from(reason: String) -> Why {
        Why::Absent(reason)
    }
}

impl From<(String, String)> for Why {
    fn from((message, hint): (String, String)) -> Why {
        Why::Impossible(message, hint)
    }
}

/// Items, each with the value that is wanted of it.
pub type Wishes = Vec<(Item, String)>;

/// How the wanted value becomes the items' values.
#[derive(Debug, Clone, Copy)]
pub enum Value {
    /// All items get the same.
    Same(fn(&Machine<'_>, &Wanted) -> Result<String, Why>),
    /// Each its own; items may be left out, and others come to them.
    Each(fn(&Machine<'_>, &Wanted) -> Result<Wishes, Why>),
    /// As `Each`, where what is wanted depends on what is there: of an item that was turned already,
    /// `again` says what it becomes when the processors are divided otherwise.
    Moving {
        /// What is to be turned.
        each: fn(&Machine<'_>, &Wanted) -> Result<Wishes, Why>,
        /// What one that was turned becomes.
        again: fn(&Machine<'_>, &Wanted, &Entry) -> Result<String, Why>,
    },
}

/// A knob.
#[derive(Debug)]
pub struct Knob {
    /// Its name in profiles.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// Where that is written down: a paper's section, a document of the kernel.
    pub evidence: &'static str,
    /// What it costs, and what may go wrong.
    pub risk: &'static str,
    /// What it turns, or why there is nothing to turn here.
    pub items: fn(&Machine<'_>) -> Result<Vec<Item>, String>,
    /// To what.
    pub value: Value,
    /// Its items come and go (threads): after the writes it is looked again.
    pub moves: bool,
}

impl Knob {
    /// The knob with this name.
    pub fn named(name: &str) -> Option<&'static Knob> {
        ALL.iter().find(|knob| knob.name == name).copied()
    }

    /// What is to be turned, and to what.
    ///
    /// # Errors
    /// That there is nothing to turn, or that the value cannot be.
    pub fn wishes(&self, machine: &Machine<'_>, wanted: &Wanted) -> Result<Wishes, Why> {
        match self.value {
            Value::Each(each) | Value::Moving { each, .. } => each(machine, wanted),
            Value::Same(value) => {
                let value = value(machine, wanted)?;
                let items = (self.items)(machine)?;
                Ok(items.into_iter().map(|i| (i, value.clone())).collect())
            }
        }
    }
}

/// What the files of knobs share.
mod prelude {
    #[cfg(test)]
    pub(super) use super::testing::{ROOT, Tree};
    pub(super) use super::values::*;
    pub(super) use super::{Knob, Machine, Value, Why, Wishes};
    pub(super) use crate::tuning::items::Item;
    pub(super) use crate::tuning::items::file::{self, Form};
    pub(super) use crate::tuning::journal::Entry;
    pub(super) use latlab_model::profile::Wanted;
}

#[cfg(test)]
mod testing;

#[cfg(test)]
mod tests {
    use latlab_model::profile::catalogue;

    use super::*;

    #[test]
    fn the_knobs_are_those_of_the_catalogue_in_its_order() {
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
