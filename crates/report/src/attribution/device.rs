//! The device under test: a program, or the kernel.

use std::cmp::Reverse;

use latlab_wire::trace::Event;

use super::survey::Survey;
use super::timeline;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Device {
    /// A program: this task forwards the packets.
    Task {
        /// Thread id on the host.
        pid: u32,
        /// Empty if no event has it.
        name: String,
    },
    /// The kernel itself, in the context in which a packet arrives.
    Kernel,
}

/// The device, and the time and CPU of the first packet that came out in its context. A program is the task
/// in whose context packets come out. The kernel forwards packets in the context of the sender or of an
/// interrupted task, so either no task stands out, or the sender does.
pub fn identify(survey: &Survey, events: &[Event]) -> (Device, (u64, u16)) {
    let most = survey
        .contexts
        .iter()
        .max_by_key(|&(task, context)| (context.packets, Reverse(*task)));
    let Some((&pid, context)) = most else {
        return (Device::Kernel, (0, 0));
    };
    let name = timeline::name_of(events, pid);
    let is_kernel = name.starts_with("ksoftirqd/") || name.starts_with("napi/");
    let stands_out = context.packets * 10 >= survey.packets * 9;
    let is_own = context.own * 10 >= context.packets * 9;
    let device = if pid != 0 && !is_kernel && stands_out && is_own {
        Device::Task { pid, name }
    } else {
        Device::Kernel
    };
    (device, context.first)
}
