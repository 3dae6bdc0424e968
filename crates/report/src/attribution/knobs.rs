//! Which knob addresses which cause.

use super::Cause;

/// The knob that addresses a cause, in the words of the kernel's own documentation; `None` where there
/// is nothing to turn.
#[must_use]
pub fn knob(cause: &Cause) -> Option<&'static str> {
    match cause {
        Cause::Waiting {
            realtime: false, ..
        } => Some("exclusive cores (cpuset partition), or SCHED_FIFO for the device"),
        Cause::Waiting { realtime: true, .. } => {
            Some("exclusive cores (cpuset partition); move the real-time task away")
        }
        Cause::HardIrq(_) => Some("IRQ affinity"),
        Cause::SoftIrq(2 | 3) => Some("IRQ affinity and RPS of the other link"),
        Cause::SoftIrq(1 | 8) => Some("timer migration"),
        Cause::SoftIrq(9) => Some("rcu_nocbs"),
        Cause::SoftIrq(_) => Some("exclusive cores (isolcpus, cpuset partition)"),
        Cause::Tick => Some("nohz_full"),
        Cause::Timer(_) => Some("timer migration; exclusive cores for whoever sets the timer"),
        Cause::Ipi(_) => Some("exclusive cores; kernel-thread and workqueue masks"),
        Cause::Nmi => Some("NMI watchdog off"),
        Cause::PageFault => Some("memory locking, huge pages"),
        Cause::Throttled => Some("the CPU limit of its control group"),
        Cause::IdleExit => Some("idle states (PM QoS), polling instead of interrupts"),
        Cause::Steal => Some("none here: pin the virtual processors on the host underneath"),
        Cause::VmExit => Some("halt polling, posted interrupts"),
        Cause::Running
        | Cause::Delivery
        | Cause::Queueing
        | Cause::Stopped
        | Cause::Asleep
        | Cause::Unexplained
        | Cause::NotRecorded => None,
    }
}
