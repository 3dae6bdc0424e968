//! Remedies of the causes.

use super::cause::Cause;
use super::softirq::{HRTIMER, NET_RX, NET_TX, RCU, TIMER};

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Remedy {
    pub words: &'static str,
    /// The knobs of `latlab tune` and the boot parameters, the best first; none if no setting of this machine
    /// helps.
    pub knobs: &'static [&'static str],
}

const fn turn(words: &'static str, knobs: &'static [&'static str]) -> Option<Remedy> {
    Some(Remedy { words, knobs })
}

/// The remedy of a cause; `None` if it is no disturbance, or unknown.
#[must_use]
pub fn remedy(cause: &Cause) -> Option<Remedy> {
    match cause {
        Cause::Waiting { task, .. } if task.starts_with("kworker/") => {
            turn("work queues kept off its core", &["workqueues", "cpuset"])
        }
        Cause::Waiting {
            realtime: false, ..
        } => turn(
            "exclusive cores, or a real-time policy for the device",
            &["cpuset", "isolcpus", "threads"],
        ),
        Cause::Waiting { realtime: true, .. } => turn(
            "exclusive cores; move the real-time task away",
            &["cpuset", "kernel-threads", "rt-throttling"],
        ),
        Cause::HardIrq(_) => turn(
            "interrupt affinity",
            &["irq-affinity", "irq-default", "irqbalance"],
        ),
        Cause::SoftIrq(NET_TX | NET_RX) => turn(
            "interrupt affinity and RPS of the other link",
            &["irq-affinity", "rps", "threaded-napi"],
        ),
        Cause::SoftIrq(TIMER | HRTIMER) => {
            turn("timers elsewhere", &["timer-migration", "nohz_full"])
        }
        Cause::SoftIrq(RCU) => turn("RCU callbacks elsewhere", &["rcu_nocbs"]),
        Cause::SoftIrq(_) => turn("exclusive cores", &["cpuset", "isolcpus"]),
        Cause::Tick => turn("no periodic tick", &["nohz_full"]),
        Cause::Timer(_) => turn(
            "exclusive cores, away from the task that sets the timer",
            &["cpuset", "timer-migration"],
        ),
        Cause::Ipi(_) => turn(
            "exclusive cores; kernel threads and work queues elsewhere",
            &["cpuset", "kernel-threads", "workqueues"],
        ),
        Cause::Nmi => turn("no NMI watchdog", &["nmi-watchdog"]),
        Cause::PageFault => turn("locked memory, huge pages", &["memory-lock", "huge-pages"]),
        Cause::Throttled => turn("the CPU limit of its cgroup", &[]),
        Cause::IdleExit => turn(
            "shallow idle states, or polling instead of interrupts",
            &["idle-states", "cpu-dma-latency", "busy-poll"],
        ),
        Cause::Steal => turn("none here: pin the vCPUs on the host underneath", &[]),
        Cause::Hwlat { .. } => turn(
            "none here: quiet CPUs on the host underneath, or in its firmware",
            &[],
        ),
        Cause::Running
        | Cause::Delivery
        | Cause::Queueing
        | Cause::Stopped
        | Cause::Held(_)
        | Cause::Asleep(_)
        | Cause::OwnCode
        | Cause::SystemCall(_)
        | Cause::OwnOrStall { .. }
        | Cause::Unexplained
        | Cause::NotRecorded => None,
    }
}

impl Remedy {
    /// For a column of a table: `exclusive cores: cpuset, isolcpus`.
    #[must_use]
    pub fn text(&self) -> String {
        match self.knobs {
            [] => self.words.to_owned(),
            knobs => format!("{}: {}", self.words, knobs.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::profile::catalogue;

    #[test]
    fn every_named_knob_is_in_the_catalogue() {
        let waiting = |task: &str, realtime| Cause::Waiting {
            task: task.into(),
            realtime,
        };
        let mut causes = vec![
            waiting("hog", false),
            waiting("hog", true),
            waiting("kworker/0:1", false),
            Cause::HardIrq("eth0".into()),
            Cause::Tick,
            Cause::Timer("f".into()),
            Cause::Ipi(2),
            Cause::Nmi,
            Cause::PageFault,
            Cause::Throttled,
            Cause::IdleExit,
            Cause::Steal,
            Cause::Hwlat { period_us: 10_000 },
        ];
        causes.extend((0..10).map(Cause::SoftIrq));
        for cause in causes {
            let remedy = remedy(&cause).unwrap();
            for knob in remedy.knobs {
                let mut all = catalogue::KNOBS.iter().chain(catalogue::BOOT);
                let is_known = all.any(|(name, _)| name == knob);
                assert!(is_known, "{knob} against {cause}");
            }
        }
        assert_eq!(remedy(&Cause::Unexplained), None);
    }
}
