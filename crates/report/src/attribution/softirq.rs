//! Numbers and names of the kernel's softirqs (`include/linux/interrupt.h`).

pub const TIMER: u32 = 1;
pub const NET_TX: u32 = 2;
pub const NET_RX: u32 = 3;
pub const HRTIMER: u32 = 8;
pub const RCU: u32 = 9;

const NAMES: [&str; 10] = [
    "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU",
];

pub fn name(number: u32) -> &'static str {
    NAMES.get(number as usize).copied().unwrap_or("unknown")
}
