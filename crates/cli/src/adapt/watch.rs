//! Samples: what daemons have counted within a second, by pairs of hosts, and how busy the machine was.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use latlab_measure::by_cpu;
use latlab_model::adapt::{Pair, Placement, Sample, Traffic};
use latlab_model::spec::Mac;
use latlab_model::traffic::Rate;

use super::hosts::Hosts;
use super::probes::Probes;
use crate::failure::Failure;
use crate::traffic::parse;

/// Bytes from an address to another, as one host's daemon has counted them.
type Counts = BTreeMap<(usize, Mac, Mac), u64>;

pub(super) struct Watch {
    begin: Instant,
    first: Counts,
    last: (Instant, Counts),
    ticks: Vec<[f64; 2]>,
}

impl Watch {
    pub(super) fn begin(hosts: &mut Hosts) -> Result<Watch, Failure> {
        let now = Instant::now();
        let first = counts(hosts)?;
        Ok(Watch {
            begin: now,
            last: (now, first.clone()),
            first,
            ticks: cpu_ticks(),
        })
    }

    /// Measurements since the last sample.
    pub(super) fn sample(
        &mut self,
        hosts: &mut Hosts,
        probes: &Probes,
        at: Duration,
    ) -> Result<Sample, Failure> {
        let now = Instant::now();
        let counts = counts(hosts)?;
        let (then, before) = &self.last;
        let seconds = (now - *then).as_secs_f64().max(1e-3);
        let mut traffic: BTreeMap<Pair, Traffic> = BTreeMap::new();
        for (key, bytes) in &counts {
            let (teller, source, destination) = *key;
            let Some(ends) = hosts.hosts_of(source, destination) else {
                continue;
            };
            let rate = bytes.saturating_sub(before.get(key).copied().unwrap_or(0)) as f64 / seconds;
            let of_pair = traffic.entry(Pair::new(ends[0], ends[1])).or_default();
            // Hosts on the way have counted the same frames.
            if teller == ends[0] {
                of_pair.sent += rate;
            }
            if teller == ends[1] {
                of_pair.received += rate;
            }
        }
        self.last = (now, counts);
        let ticks = cpu_ticks();
        let busiest_cpu = busiest(&self.ticks, &ticks);
        self.ticks = ticks;
        Ok(Sample {
            at,
            legs: probes.legs(),
            traffic,
            busiest_cpu,
        })
    }

    /// Advice from all traffic since the beginning.
    pub(super) fn placement(&self, hosts: &Hosts) -> Option<Placement> {
        let seconds = (self.last.0 - self.begin).as_secs_f64();
        if seconds < 1.0 {
            return None;
        }
        let mut rates = Vec::new();
        for (key, bytes) in &self.last.1 {
            let (teller, source, destination) = *key;
            let [Some(from), Some(to)] = [source, destination].map(|mac| hosts.node_of(mac)) else {
                continue;
            };
            if teller == from.host {
                let bytes = bytes.saturating_sub(self.first.get(key).copied().unwrap_or(0));
                rates.push(Rate {
                    from: from.name.clone(),
                    to: to.name.clone(),
                    bytes_per_second: bytes as f64 / seconds,
                });
            }
        }
        Placement::advise(&hosts.rooms(), &hosts.places(), &rates)
    }
}

fn counts(hosts: &mut Hosts) -> Result<Counts, Failure> {
    let mut counts = Counts::new();
    for (host, lines) in hosts.ask_all("matrix")?.into_iter().enumerate() {
        for (source, destination, [_, bytes]) in lines.iter().filter_map(|line| parse(line)) {
            *counts.entry((host, source, destination)).or_default() += bytes;
        }
    }
    Ok(counts)
}

/// Ticks of each CPU, all and idle ones, of /proc/stat (kernel: filesystems/proc, 1.7). Those of guests are in others.
fn cpu_ticks() -> Vec<[f64; 2]> {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let of_cpu = |(_, ticks): (u32, Vec<f64>)| match ticks[..] {
        [user, nice, system, idle, iowait, irq, softirq, steal, ..] => {
            let idle = idle + iowait;
            Some([user + nice + system + irq + softirq + steal + idle, idle])
        }
        _ => None,
    };
    by_cpu(&stat).filter_map(of_cpu).collect()
}

fn busiest(before: &[[f64; 2]], after: &[[f64; 2]]) -> f64 {
    let busy = before.iter().zip(after).map(|(before, after)| {
        let [all, idle] = [after[0] - before[0], after[1] - before[1]];
        if all > 0.0 { 1.0 - idle / all } else { 0.0 }
    });
    busy.fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_cpu_is_told_by_its_idle_ticks() {
        let before = [[100.0, 50.0]; 2];
        let after = [[200.0, 150.0], [200.0, 75.0]];
        assert_eq!(busiest(&before, &after), 0.75);
        assert_eq!(busiest(&after, &after), 0.0);
        assert!(!cpu_ticks().is_empty());
    }
}
