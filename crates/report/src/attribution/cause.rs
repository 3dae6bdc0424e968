//! The causes: what a device can be doing instead of carrying a packet on.

use std::fmt;

use latlab_model::results::Hwlat;

/// What an instant of a packet's way was spent on.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// The device works on this packet.
    Running,
    /// The kernel hands the packet to the device.
    Delivery,
    /// The device works on packets that came before.
    Queueing,
    /// The device could run and another task has its CPU.
    Waiting {
        task: String,
        /// It runs with a real-time policy.
        realtime: bool,
    },
    /// A hardirq with a number.
    HardIrq(String),
    /// A softirq, by the kernel's number.
    SoftIrq(u32),
    /// The scheduler's periodic tick.
    Tick,
    /// Another timer: the function it calls.
    Timer(String),
    /// An interrupt from another CPU.
    Ipi(u8),
    Nmi,
    /// Memory that was not there when it was touched.
    PageFault,
    /// The device's task is stopped by a signal or a debugger.
    Stopped,
    /// The device's cgroup has used up its share of CPU time.
    Throttled,
    /// The device's task sleeps although there is a packet for it.
    Asleep,
    /// The device's task was woken and its idle CPU comes back.
    IdleExit,
    /// The hypervisor underneath has the CPU.
    Steal,
    /// What is underneath the kernel has the CPU and does not tell, as it does every so often.
    Hwlat {
        /// From one time to the next.
        period_us: u32,
    },
    /// The device's virtual CPU is outside its guest.
    VmExit,
    /// Work on one packet took far longer than usual and nothing was seen to happen.
    Unexplained,
    /// Nothing was recorded of this time.
    NotRecorded,
}

/// The kernel's softirqs, in the order of their numbers.
const SOFT: [&str; 10] = [
    "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU",
];

impl Cause {
    /// The kind alone, for tables and colours: `wait`, `hard-irq`, ...
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Cause::Running => "running",
            Cause::Delivery => "delivery",
            Cause::Queueing => "queueing",
            Cause::Waiting { .. } => "wait",
            Cause::HardIrq(_) => "hard-irq",
            Cause::SoftIrq(_) => "soft-irq",
            Cause::Tick => "tick",
            Cause::Timer(_) => "timer",
            Cause::Ipi(_) => "ipi",
            Cause::Nmi => "nmi",
            Cause::PageFault => "page-fault",
            Cause::Stopped => "stopped",
            Cause::Throttled => "throttled",
            Cause::Asleep => "asleep",
            Cause::IdleExit => "idle-exit",
            Cause::Steal => "steal",
            Cause::Hwlat { .. } => "hwlat",
            Cause::VmExit => "vm-exit",
            Cause::Unexplained => "unexplained",
            Cause::NotRecorded => "not-recorded",
        }
    }

    /// Something that comes upon a task, does little, and goes.
    #[must_use]
    pub fn is_interrupt(&self) -> bool {
        matches!(
            self,
            Cause::HardIrq(_)
                | Cause::SoftIrq(_)
                | Cause::Tick
                | Cause::Timer(_)
                | Cause::Ipi(_)
                | Cause::Nmi
                | Cause::PageFault
        )
    }

    /// Somebody or something else has the CPU that the device wants.
    #[must_use]
    pub fn takes_the_processor(&self) -> bool {
        let is_taken = matches!(
            self,
            Cause::Waiting { .. } | Cause::Steal | Cause::Hwlat { .. } | Cause::VmExit
        );
        self.is_interrupt() || is_taken
    }

    /// Part of what a device does on an undisturbed machine: no reason by itself.
    #[must_use]
    pub fn is_ordinary(&self) -> bool {
        matches!(self, Cause::Running | Cause::Delivery | Cause::Queueing)
    }
}

impl From<&Hwlat> for Cause {
    fn from(seen: &Hwlat) -> Self {
        Cause::Hwlat {
            period_us: (seen.period_ns / 1_000) as u32,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Running => f.write_str("running in the device"),
            Cause::Delivery => f.write_str("handed over by the kernel"),
            Cause::Queueing => f.write_str("queueing behind earlier packets"),
            Cause::Waiting { task, realtime } => {
                let policy = if *realtime { ", real time" } else { "" };
                write!(f, "waiting for a CPU: {task}{policy}")
            }
            Cause::HardIrq(name) => write!(f, "hard interrupt: {name}"),
            Cause::SoftIrq(number) => {
                let name = SOFT.get(*number as usize).copied().unwrap_or("unknown");
                write!(f, "soft interrupt: {name}")
            }
            Cause::Tick => f.write_str("timer tick"),
            Cause::Timer(name) => write!(f, "timer: {name}"),
            Cause::Ipi(kind) => {
                let name = match kind {
                    2 => "reschedule",
                    3 | 4 => "function call",
                    5 => "irq work",
                    6 => "platform",
                    7 => "thermal",
                    _ => "unknown",
                };
                write!(f, "inter-processor interrupt: {name}")
            }
            Cause::Nmi => f.write_str("non-maskable interrupt"),
            Cause::PageFault => f.write_str("page fault"),
            Cause::Stopped => f.write_str("stopped by a signal"),
            Cause::Throttled => f.write_str("cgroup CPU throttling"),
            Cause::Asleep => f.write_str("asleep in the device"),
            Cause::IdleExit => f.write_str("idle exit"),
            Cause::Steal => f.write_str("hypervisor steal"),
            Cause::Hwlat { period_us } => {
                let ms = f64::from(*period_us) / 1e3;
                write!(f, "hypervisor or firmware, every {ms:.1} ms")
            }
            Cause::VmExit => f.write_str("VM exit"),
            Cause::Unexplained => f.write_str("unexplained"),
            Cause::NotRecorded => f.write_str("not recorded"),
        }
    }
}
