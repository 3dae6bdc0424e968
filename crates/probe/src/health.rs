//! A probe's own execution during the measured window.
//!
//! A latency measured by a program that was not running tells about the scheduler, not about the
//! network. So every report carries what the kernel knows of the probe itself: whether the CPU was
//! taken from it, by another task or by the hypervisor, and where packets were dropped on their way
//! to it. The reader of the result decides from that whether the run counts.

use std::fs;
use std::os::fd::BorrowedFd;

use latlab_wire::samples::{Health, Quantiles, Record, flags};

use crate::setup::allowed_cpus;
use crate::sys::{self, Usage, Who};

#[derive(Debug)]
pub struct Watch {
    who: Who,
    usage: Usage,
    run_wait_ns: Option<u64>,
    steal_ns: Option<u64>,
    softnet: Option<Softnet>,
}

impl Watch {
    /// Reads the counters. It reads files, so call it before the window's first timestamp.
    pub fn start(who: Who) -> Watch {
        Watch {
            who,
            usage: sys::usage(who).unwrap_or_default(),
            run_wait_ns: run_wait_ns(),
            steal_ns: steal_ns(),
            softnet: Softnet::read(),
        }
    }

    /// Reads them again and gives the differences. `sockets` are asked for their drops.
    pub fn end(&self, sockets: &[BorrowedFd<'_>]) -> Health {
        // First what this function itself would change.
        let usage = sys::usage(self.who).unwrap_or_default();
        let run_wait = run_wait_ns();
        let softnet = Softnet::read().zip(self.softnet);
        let drops = sockets.iter().map(|socket| sys::socket_drops(*socket));
        let was = &self.usage;
        Health {
            voluntary_switches: usage.voluntary_switches - was.voluntary_switches,
            involuntary_switches: usage.involuntary_switches - was.involuntary_switches,
            // The kernel scales these two so that they fit their exact sum, and may step back.
            user_ns: usage.user_ns.saturating_sub(was.user_ns),
            system_ns: usage.system_ns.saturating_sub(was.system_ns),
            minor_faults: usage.minor_faults - was.minor_faults,
            major_faults: usage.major_faults - was.major_faults,
            run_queue_wait_ns: difference(run_wait, self.run_wait_ns),
            steal_ns: difference(steal_ns(), self.steal_ns),
            socket_drops: if sockets.is_empty() {
                None
            } else {
                drops.sum()
            },
            softnet_drops: softnet.map(|(now, was)| now.dropped.wrapping_sub(was.dropped).into()),
            softnet_squeezed: softnet
                .map(|(now, was)| now.squeezed.wrapping_sub(was.squeezed).into()),
            lateness: None,
        }
    }
}

/// How late packets left, those of the warm-up apart, in short.
pub fn lateness(records: &[Record]) -> Quantiles {
    let measured = records.iter().filter(|record| !record.has(flags::WARM_UP));
    let late = measured.map(|record| record.end_ns.saturating_sub(record.start_ns));
    Quantiles::of(&mut late.collect::<Vec<u64>>())
}

fn difference(now: Option<u64>, was: Option<u64>) -> Option<u64> {
    now.zip(was).map(|(now, was)| now.saturating_sub(was))
}

/// Time the calling thread was runnable without running, since it began.
pub fn run_wait_ns() -> Option<u64> {
    // "on-CPU ns, waiting ns, time slices"; absent in kernels without scheduler information.
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Time stolen from the CPUs this thread may run on, since the machine started.
fn steal_ns() -> Option<u64> {
    sum_of_steal(&fs::read_to_string("/proc/stat").ok()?, &allowed_cpus())
}

fn sum_of_steal(stat: &str, cpus: &[u32]) -> Option<u64> {
    // USER_HZ, which is 100 wherever Linux runs that latlab supports.
    const NS_PER_TICK: u64 = 10_000_000;
    let mut total = None;
    for line in stat.lines() {
        let mut fields = line.split_ascii_whitespace();
        let cpu = fields
            .next()
            .and_then(|name| name.strip_prefix("cpu")?.parse().ok());
        let Some(cpu) = cpu else { continue };
        if cpus.contains(&cpu) {
            // user nice system idle iowait irq softirq steal
            let ticks: u64 = fields.nth(7)?.parse().ok()?;
            *total.get_or_insert(0) += ticks * NS_PER_TICK;
        }
    }
    total
}

/// The part of /proc/net/softnet_stat that tells of overload, over all CPUs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Softnet {
    // The kernel's own counters have 32 bits and wrap.
    dropped: u32,
    squeezed: u32,
}

impl Softnet {
    fn read() -> Option<Softnet> {
        Softnet::parse(&fs::read_to_string("/proc/net/softnet_stat").ok()?)
    }

    fn parse(text: &str) -> Option<Softnet> {
        let mut sum = Softnet::default();
        for line in text.lines() {
            // processed dropped squeezed ..., one line a CPU, hexadecimal
            let mut fields = line.split_ascii_whitespace().skip(1);
            let mut next = || u32::from_str_radix(fields.next()?, 16).ok();
            sum.dropped = sum.dropped.wrapping_add(next()?);
            sum.squeezed = sum.squeezed.wrapping_add(next()?);
        }
        Some(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_is_summed_over_the_cpus_asked_for() {
        let stat = "cpu  9 9 9 9 9 9 9 99 0 0\n\
                    cpu0 1 2 3 4 5 6 7 8 0 0\n\
                    cpu1 1 2 3 4 5 6 7 20 0 0\n\
                    cpu10 1 2 3 4 5 6 7 1000 0 0\n\
                    intr 5\n";
        assert_eq!(sum_of_steal(stat, &[0, 1]), Some(280_000_000));
        assert_eq!(sum_of_steal(stat, &[10]), Some(10_000_000_000));
        assert_eq!(sum_of_steal(stat, &[2]), None);
        assert_eq!(sum_of_steal("cpu0 1 2 3\n", &[0]), None);
    }

    #[test]
    fn softnet_counters_are_hexadecimal_and_wrap() {
        let text = "0000000a 00000010 00000001 00000000\n00001d46 00000001 ffffffff 00000000\n";
        assert_eq!(
            Softnet::parse(text),
            Some(Softnet {
                dropped: 17,
                squeezed: 0
            })
        );
        assert_eq!(Softnet::parse("0000000a 0000\n"), None);
    }

    #[test]
    fn lateness_of_the_early_is_zero() {
        let late = lateness(&[90, 100, 130].map(|end_ns| Record {
            start_ns: 100,
            end_ns,
            ..Record::default()
        }));
        assert_eq!((late.count, late.min_ns, late.max_ns), (3, 0, 30));
    }

    #[test]
    fn a_watch_sees_its_own_thread_wait() {
        let watch = Watch::start(Who::Thread);
        std::thread::sleep(std::time::Duration::from_millis(2));
        let health = watch.end(&[]);
        assert!(health.voluntary_switches >= 1);
        assert_eq!(health.socket_drops, None);
    }
}
