//! The causes: activities of a device, or of its CPU, instead of forwarding a packet.

use std::fmt;

use latlab_model::results::{ActionKind, Hwlat};
use latlab_wire::trace::vector;

use super::softirq;
use crate::lives::done;

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// The device works on this packet.
    Running,
    Delivery,
    /// The device works on packets that came before.
    Queueing,
    /// The device could run and another task has its CPU.
    Waiting {
        task: String,
        realtime: bool,
    },
    HardIrq(String),
    /// A softirq, by the kernel's number.
    SoftIrq(u32),
    Tick,
    /// Another timer, by its function.
    Timer(String),
    Ipi(u8),
    Nmi,
    /// A page that was not mapped when it was touched.
    PageFault,
    /// The device's task is stopped by a signal or a debugger.
    Stopped,
    Throttled,
    /// The device's node stands still for what is done to it.
    Held(ActionKind),
    /// The device's task sleeps although there is a packet for it, in a system call if known.
    Asleep(Option<String>),
    /// The device's task was woken and its idle CPU comes back.
    IdleExit,
    Steal,
    /// A hypervisor or firmware has the CPU without reporting it, at regular times.
    Hwlat {
        period_us: u32,
    },
    /// The device ran its own code for longer than usual.
    OwnCode,
    /// The device ran in a system call for longer than usual.
    SystemCall(String),
    /// Either the device's own code, with this probability, or a stall of its CPU without an event.
    OwnOrStall {
        own_percent: u8,
    },
    /// Work on one packet took far longer than usual without an event, and no thread watched its CPU for
    /// stalls.
    Unexplained,
    NotRecorded,
}

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
            Cause::Held(_) => "held",
            Cause::Asleep(_) => "asleep",
            Cause::IdleExit => "idle-exit",
            Cause::Steal => "steal",
            Cause::Hwlat { .. } => "hwlat",
            Cause::OwnCode => "own-code",
            Cause::SystemCall(_) => "system-call",
            Cause::OwnOrStall { .. } => "own-or-stall",
            Cause::Unexplained => "unexplained",
            Cause::NotRecorded => "not-recorded",
        }
    }

    /// Interrupts a task for a short time.
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

    /// Keeps the device from a CPU that it wants.
    #[must_use]
    pub fn takes_the_cpu(&self) -> bool {
        let is_taken = matches!(
            self,
            Cause::Waiting { .. } | Cause::Steal | Cause::Hwlat { .. }
        );
        self.is_interrupt() || is_taken
    }

    /// Part of the work of an undisturbed device: no reason by itself.
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
            Cause::HardIrq(name) => write!(f, "hardirq: {name}"),
            Cause::SoftIrq(number) => {
                let name = softirq::name(*number);
                write!(f, "softirq: {name}")
            }
            Cause::Tick => f.write_str("timer tick"),
            Cause::Timer(name) => write!(f, "timer: {name}"),
            Cause::Ipi(kind) => {
                let name = match *kind {
                    vector::RESCHEDULE => "reschedule",
                    vector::CALL_FUNCTION | vector::CALL_FUNCTION_SINGLE => "function call",
                    vector::IRQ_WORK => "irq work",
                    vector::PLATFORM => "platform",
                    vector::THERMAL => "thermal",
                    _ => "unknown",
                };
                write!(f, "inter-processor interrupt: {name}")
            }
            Cause::Nmi => f.write_str("non-maskable interrupt"),
            Cause::PageFault => f.write_str("page fault"),
            Cause::Stopped => f.write_str("stopped by a signal"),
            Cause::Throttled => f.write_str("cgroup CPU throttling"),
            Cause::Held(act) => write!(f, "stood still: the node was {}", done(*act)),
            Cause::Asleep(None) => f.write_str("asleep in the device"),
            Cause::Asleep(Some(call)) => write!(f, "asleep in the device: {call}"),
            Cause::IdleExit => f.write_str("idle exit"),
            Cause::Steal => f.write_str("hypervisor steal"),
            Cause::Hwlat { period_us } => {
                let ms = f64::from(*period_us) / 1e3;
                write!(f, "hypervisor or firmware, every {ms:.1} ms")
            }
            Cause::OwnCode => f.write_str("the device's own code"),
            Cause::SystemCall(call) => write!(f, "the device's system call: {call}"),
            Cause::OwnOrStall { own_percent } => {
                write!(
                    f,
                    "the device's own code ({own_percent} %), or a silent stall"
                )
            }
            Cause::Unexplained => f.write_str("unexplained"),
            Cause::NotRecorded => f.write_str("not recorded"),
        }
    }
}
