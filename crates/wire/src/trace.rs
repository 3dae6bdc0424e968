//! Records that the BPF programs write for user space: one a packet and tap, one a kernel event, one each
//! time that the hypervisor took a CPU away, one a sampled stack.
//!
//! All are written by `crates/trace/bpf/*.bpf.c` into shared memory, in this machine's byte order; `bpf/latlab.h` has
//! the same layouts in C and a test compares the two. All times are `CLOCK_MONOTONIC` in nanoseconds.
//!
//! ```text
//!          0         8          12     14    16      20         24      28      32
//! tap    | time_ns | sequence | flow | cpu | check | steal_ns | task  | bytes |
//!          0         8          16    18     19      20   24  32     48
//! event  | time_ns | steal_ns | cpu | kind | detail | a  | b | text |
//!          0          8          16          24    26  32
//! stolen | since_ns | until_ns | stolen_ns | cpu | 0 |
//!          0         8    16   24   32   40        48    52             56            60  64     80       336
//! stack  | time_ns | ip | sp | bp | lr | process, | cpu | kernel_bytes | stack_bytes | 0 | name | kernel | stack |
//!                                        task
//! ```

pub const TAP_RECORD_BYTES: usize = 32;
pub const EVENT_BYTES: usize = 48;
pub const STOLEN_BYTES: usize = 32;
pub const TEXT_BYTES: usize = 16;
/// Frames of the kernel in a sample of a stack, and bytes of the user's part at most.
pub const KERNEL_FRAMES: usize = 32;
pub const STACK_BYTES: usize = 8192;
pub const STACK_SAMPLE_BYTES: usize = 80 + 8 * KERNEL_FRAMES + STACK_BYTES;

/// The number of a record that tells of a whole softirq; see [`Event::from_ring`].
pub const WHOLE_SOFTIRQ: u8 = 32;

/// How many of the slowest packets of a trial are explained: as many as the paper draws (Daichendt 2022, 6.2.1).
pub const WORST_PACKETS: usize = 5000;
/// How long before and after such a packet's time events are kept.
pub const WINDOW_MARGIN_NS: u64 = 200_000;

/// The time around a packet of which events are kept.
#[must_use]
pub fn around(in_ns: u64, latency_ns: u64) -> (u64, u64) {
    let from = in_ns.saturating_sub(WINDOW_MARGIN_NS);
    (from, in_ns + latency_ns + WINDOW_MARGIN_NS)
}

/// Ranges of time that touch, as one; in order.
#[must_use]
pub fn joined(ranges: impl IntoIterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    let mut sorted: Vec<(u64, u64)> = ranges.into_iter().collect();
    sorted.sort_unstable();
    let mut all: Vec<(u64, u64)> = Vec::new();
    for (from, to) in sorted {
        match all.last_mut() {
            Some((_, end)) if from <= *end => *end = to.max(*end),
            _ => all.push((from, to)),
        }
    }
    all
}

/// One packet as one tap saw it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TapRecord {
    /// When. 0 in a record that was never completed.
    pub time_ns: u64,
    /// The packet's number in its flow.
    pub sequence: u32,
    pub flow: u16,
    pub cpu: u16,
    /// The header's intended time, folded; equal at every tap.
    pub check: u32,
    /// Low half of the time that the hypervisor had taken from this CPU until then.
    pub steal_ns: u32,
    /// The task in whose context the tap ran; 0 when the CPU was idle.
    pub task: u32,
    /// Length of the frame, without its check sequence.
    pub bytes: u32,
}

impl TapRecord {
    /// Reads a record; `bytes` must be [`TAP_RECORD_BYTES`] long.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> TapRecord {
        TapRecord {
            time_ns: u64_at(bytes, 0),
            sequence: u32_at(bytes, 8),
            flow: u16_at(bytes, 12),
            cpu: u16_at(bytes, 14),
            check: u32_at(bytes, 16),
            steal_ns: u32_at(bytes, 20),
            task: u32_at(bytes, 24),
            bytes: u32_at(bytes, 28),
        }
    }
}

/// Time that a hypervisor took from one CPU: how much between two readings of its counter. Where
/// within them is not known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stolen {
    /// The reading before; the time was not yet taken then.
    pub since_ns: u64,
    /// The reading that found it.
    pub until_ns: u64,
    pub stolen_ns: u64,
    pub cpu: u16,
}

impl Stolen {
    /// Reads a record; `bytes` must be [`STOLEN_BYTES`] long.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Stolen {
        Stolen {
            since_ns: u64_at(bytes, 0),
            until_ns: u64_at(bytes, 8),
            stolen_ns: u64_at(bytes, 16),
            cpu: u16_at(bytes, 24),
        }
    }
}

/// A thread's stack at one instant: the kernel's part as addresses, of the user's part the registers and a copy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StackSample {
    /// 0 in a sample that was never completed.
    pub time_ns: u64,
    /// The user's registers; all 0 for a kernel thread.
    pub ip: u64,
    pub sp: u64,
    pub bp: u64,
    /// The return address, on architectures with a register for it.
    pub lr: u64,
    /// The process's number where latlab runs.
    pub process: u32,
    /// The thread's number on the machine, as in the other records.
    pub task: u32,
    pub cpu: u16,
    pub name: [u8; TEXT_BYTES],
    /// The innermost first.
    pub kernel: Vec<u64>,
    /// Bytes from `sp` on.
    pub stack: Vec<u8>,
}

impl StackSample {
    /// Reads a sample; `bytes` must be [`STACK_SAMPLE_BYTES`] long.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> StackSample {
        const KERNEL: usize = 80;
        const STACK: usize = KERNEL + 8 * KERNEL_FRAMES;
        let frames = (u32_at(bytes, 52) as usize / 8).min(KERNEL_FRAMES);
        let length = (u32_at(bytes, 56) as usize).min(STACK_BYTES);
        let mut name = [0; TEXT_BYTES];
        name.copy_from_slice(&bytes[64..KERNEL]);
        StackSample {
            time_ns: u64_at(bytes, 0),
            ip: u64_at(bytes, 8),
            sp: u64_at(bytes, 16),
            bp: u64_at(bytes, 24),
            lr: u64_at(bytes, 32),
            process: u32_at(bytes, 40),
            task: u32_at(bytes, 44),
            cpu: u32_at(bytes, 48) as u16,
            name,
            kernel: (0..frames)
                .map(|at| u64_at(bytes, KERNEL + 8 * at))
                .collect(),
            stack: bytes[STACK..STACK + length].to_vec(),
        }
    }

    /// The thread's name, up to its terminating zero.
    #[must_use]
    pub fn name(&self) -> String {
        let end = self.name.iter().position(|&byte| byte == 0);
        String::from_utf8_lossy(&self.name[..end.unwrap_or(TEXT_BYTES)]).into_owned()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum EventKind {
    /// A CPU goes from one task (`a`) to another; see [`Event::switch`].
    Switch = 1,
    /// Task `a` became runnable on CPU `b`.
    Wakeup = 2,
    /// The handler of interrupt `a` begins.
    IrqEntry = 3,
    IrqExit = 4,
    /// Softirq `a` begins; `detail` is 1 if it began before, at an unknown time.
    SoftirqEntry = 5,
    SoftirqExit = 6,
    /// An interrupt without a number begins: `detail` is a [`vector`], and of the local timer's `a` says for
    /// how many ns it was due.
    VectorEntry = 7,
    VectorExit = 8,
    /// A timer's function at address `b` begins.
    HrtimerEntry = 9,
    /// The function ends. No longer written: the next one's beginning, or the interrupt's end, tells as much.
    HrtimerExit = 10,
    /// Task `a` touched address `b`, which was not there; `detail` is 1 inside the kernel.
    FaultEntry = 11,
    /// The page is there now.
    FaultExit = 12,
    /// Packets were taken from devices: `a`.
    NapiPoll = 13,
    /// A handler of a non-maskable interrupt ended after `b` ns.
    Nmi = 14,
    /// A vCPU (task `a`) left its guest.
    VmExit = 15,
    /// The vCPU entered its guest.
    VmEntry = 16,
    /// Task `a` ends a slow system call, or leaves the CPU in it; see [`Event::call`].
    Call = 17,
}

impl EventKind {
    /// Every kind, in the order of their numbers.
    pub const ALL: [EventKind; 17] = [
        EventKind::Switch,
        EventKind::Wakeup,
        EventKind::IrqEntry,
        EventKind::IrqExit,
        EventKind::SoftirqEntry,
        EventKind::SoftirqExit,
        EventKind::VectorEntry,
        EventKind::VectorExit,
        EventKind::HrtimerEntry,
        EventKind::HrtimerExit,
        EventKind::FaultEntry,
        EventKind::FaultExit,
        EventKind::NapiPoll,
        EventKind::Nmi,
        EventKind::VmExit,
        EventKind::VmEntry,
        EventKind::Call,
    ];

    #[must_use]
    pub fn from_number(number: u8) -> Option<EventKind> {
        EventKind::ALL
            .into_iter()
            .find(|kind| *kind as u8 == number)
    }
}

/// Interrupts that have no number.
pub mod vector {
    pub const LOCAL_TIMER: u8 = 1;
    /// Another CPU asks to look at the runqueue.
    pub const RESCHEDULE: u8 = 2;
    /// Another CPU has a function called here, and everywhere.
    pub const CALL_FUNCTION: u8 = 3;
    /// The same, here alone.
    pub const CALL_FUNCTION_SINGLE: u8 = 4;
    /// Work put off by an interrupt.
    pub const IRQ_WORK: u8 = 5;
    pub const PLATFORM: u8 = 6;
    pub const THERMAL: u8 = 7;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    pub time_ns: u64,
    /// Time that the hypervisor had taken from this CPU until then; 0 where it does not say.
    pub steal_ns: u64,
    pub cpu: u16,
    pub kind: EventKind,
    /// See the kinds.
    pub detail: u8,
    pub a: u32,
    pub b: u64,
    /// A name, ended by a zero if it is shorter.
    pub text: [u8; TEXT_BYTES],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switch {
    pub previous: u32,
    /// Its state: 0 is able to run.
    pub state: u16,
    /// The task leaves because its cgroup used up its quota.
    pub throttled: bool,
    pub preempted: bool,
    pub next: u32,
    /// Its kernel priority: below 100 is real time.
    pub priority: u16,
    /// The system call, by the kernel's number, in which the previous task sleeps, if it does.
    pub call: Option<u16>,
}

/// The content of an event of kind [`EventKind::Call`]: the part of a call in which the task had the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// Its begin, or when the task came back to a CPU in it.
    pub begin_ns: u64,
    /// The kernel's number of it.
    pub number: u16,
}

impl Event {
    /// Reads an event; `bytes` must be [`EVENT_BYTES`] long. `None` for a kind that does not exist.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Event> {
        let mut text = [0; TEXT_BYTES];
        text.copy_from_slice(&bytes[32..48]);
        if let Some(end) = text.iter().position(|&byte| byte == 0) {
            // Remains of an earlier event behind the end.
            text[end..].fill(0);
        }
        Some(Event {
            time_ns: u64_at(bytes, 0),
            steal_ns: u64_at(bytes, 8),
            cpu: u16_at(bytes, 16),
            kind: EventKind::from_number(bytes[18])?,
            detail: bytes[19],
            a: u32_at(bytes, 20),
            b: u64_at(bytes, 24),
            text,
        })
    }

    /// Reads one record of a ring: one event, or those of a softirq in which nothing else happened, which the
    /// BPF program writes as one (its beginning, the packets it took, its end). Where the beginning was not
    /// recorded, its `detail` is 1 and its time that of the end. The local timer's interrupt has the first
    /// function that it calls in its own record.
    #[must_use]
    pub fn from_ring(bytes: &[u8]) -> [Option<Event>; 3] {
        if bytes[18] != WHOLE_SOFTIRQ {
            return Event::with_timer(bytes);
        }
        let end = Event {
            time_ns: u64_at(bytes, 0),
            steal_ns: u64_at(bytes, 8),
            cpu: u16_at(bytes, 16),
            kind: EventKind::SoftirqExit,
            detail: 0,
            a: u32_at(bytes, 20) & 0xff,
            b: 0,
            text: [0; TEXT_BYTES],
        };
        let begin = match u64_at(bytes, 24) {
            0 => Event {
                kind: EventKind::SoftirqEntry,
                detail: 1,
                ..end
            },
            time_ns => Event {
                time_ns,
                steal_ns: u64_at(bytes, 32),
                kind: EventKind::SoftirqEntry,
                ..end
            },
        };
        let polled = u32_at(bytes, 20) >> 8;
        let poll = Event {
            kind: EventKind::NapiPoll,
            a: polled,
            ..end
        };
        [Some(begin), (polled > 0).then_some(poll), Some(end)]
    }

    fn with_timer(bytes: &[u8]) -> [Option<Event>; 3] {
        let Some(event) = Event::from_bytes(bytes) else {
            return [None; 3];
        };
        let is_local = event.kind == EventKind::VectorEntry && event.detail == vector::LOCAL_TIMER;
        if !is_local || event.b == 0 {
            return [Some(event), None, None];
        }
        let text = [0; TEXT_BYTES];
        let timer = Event {
            time_ns: u64_at(bytes, 32),
            steal_ns: u64_at(bytes, 40),
            kind: EventKind::HrtimerEntry,
            detail: 0,
            a: 0,
            text,
            ..event
        };
        [
            Some(Event {
                b: 0,
                text,
                ..event
            }),
            Some(timer),
            None,
        ]
    }

    /// The text up to its terminating zero, if it has one.
    #[must_use]
    pub fn text(&self) -> String {
        let end = self.text.iter().position(|&byte| byte == 0);
        String::from_utf8_lossy(&self.text[..end.unwrap_or(TEXT_BYTES)]).into_owned()
    }

    /// Sets the text, cut to what there is room for.
    pub fn set_text(&mut self, text: &str) {
        self.text = [0; TEXT_BYTES];
        let length = text.len().min(TEXT_BYTES);
        self.text[..length].copy_from_slice(&text.as_bytes()[..length]);
    }

    #[must_use]
    pub fn switch(&self) -> Switch {
        Switch {
            previous: self.a,
            state: self.b as u16,
            throttled: self.b & (1 << 16) != 0,
            preempted: self.detail & 1 != 0,
            next: (self.b >> 33) as u32,
            priority: (self.b >> 17) as u16 & 0xff,
            // Records of older versions have zeros there.
            call: (u16::from(self.detail >> 1) | (((self.b >> 25) as u16 % 256) << 7))
                .checked_sub(1),
        }
    }

    /// The numbers of a call taken apart.
    #[must_use]
    pub fn call(&self) -> Call {
        let length = self.b & (u64::MAX >> 16);
        Call {
            begin_ns: self.time_ns.saturating_sub(length),
            number: (self.b >> 48) as u16,
        }
    }
}

impl Switch {
    /// The numbers `b` and `detail` of the event that says this.
    #[must_use]
    pub fn packed(&self) -> (u64, u8) {
        let call = self.call.map_or(0, |call| call + 1);
        let b = u64::from(self.state)
            | u64::from(self.throttled) << 16
            | u64::from(self.priority) << 17
            | u64::from(call >> 7) << 25
            | u64::from(self.next) << 33;
        (b, u8::from(self.preempted) | ((call & 0x7f) << 1) as u8)
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut value = [0; 4];
    value.copy_from_slice(&bytes[at..at + 4]);
    u32::from_ne_bytes(value)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut value = [0; 8];
    value.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_survives_being_packed() {
        let switch = Switch {
            previous: 7,
            state: 0x4004,
            throttled: true,
            preempted: true,
            next: u32::MAX >> 1,
            priority: 139,
            call: Some(461),
        };
        let (b, detail) = switch.packed();
        let event = Event {
            time_ns: 0,
            steal_ns: 0,
            cpu: 0,
            kind: EventKind::Switch,
            detail,
            a: 7,
            b,
            text: [0; TEXT_BYTES],
        };
        assert_eq!(event.switch(), switch);
        for call in [None, Some(0), Some(126), Some(127)] {
            let switch = Switch {
                preempted: false,
                call,
                ..switch
            };
            let (b, detail) = switch.packed();
            assert_eq!(Event { b, detail, ..event }.switch(), switch);
        }
    }

    #[test]
    fn a_call_has_its_begin() {
        let event = Event {
            time_ns: 5_000_000,
            steal_ns: 0,
            cpu: 0,
            kind: EventKind::Call,
            detail: 0,
            a: 7,
            b: 318 << 48 | 4_000_000,
            text: [0; TEXT_BYTES],
        };
        let expected = Call {
            begin_ns: 1_000_000,
            number: 318,
        };
        assert_eq!(event.call(), expected);
    }

    #[test]
    fn kinds_are_read_back_and_others_refused() {
        let mut bytes = [0u8; EVENT_BYTES];
        for kind in EventKind::ALL {
            bytes[18] = kind as u8;
            assert_eq!(Event::from_bytes(&bytes).map(|e| e.kind), Some(kind));
        }
        bytes[18] = 0;
        assert_eq!(Event::from_bytes(&bytes), None);
        bytes[18] = 18;
        assert_eq!(Event::from_bytes(&bytes), None);
    }

    #[test]
    fn a_whole_soft_interrupt_is_taken_apart() {
        let mut bytes = [0xffu8; EVENT_BYTES];
        bytes[0..8].copy_from_slice(&900u64.to_ne_bytes());
        bytes[8..16].copy_from_slice(&70u64.to_ne_bytes());
        bytes[16..18].copy_from_slice(&5u16.to_ne_bytes());
        (bytes[18], bytes[19]) = (WHOLE_SOFTIRQ, 0);
        bytes[20..24].copy_from_slice(&(3u32 | 64 << 8).to_ne_bytes());
        bytes[24..32].copy_from_slice(&800u64.to_ne_bytes());
        bytes[32..40].copy_from_slice(&60u64.to_ne_bytes());
        let told = Event::from_ring(&bytes).map(|event| {
            let event = event.unwrap();
            let taken = (event.kind, event.time_ns, event.steal_ns, event.a);
            assert_eq!((event.cpu, event.text(), event.b), (5, String::new(), 0));
            taken
        });
        let expected = [
            (EventKind::SoftirqEntry, 800, 60, 3),
            (EventKind::NapiPoll, 900, 70, 64),
            (EventKind::SoftirqExit, 900, 70, 3),
        ];
        assert_eq!(told, expected);
        bytes[20..24].copy_from_slice(&1u32.to_ne_bytes());
        assert_eq!(
            Event::from_ring(&bytes)[1],
            None,
            "a timer's takes no packets"
        );
        bytes[24..32].fill(0);
        let begin = Event::from_ring(&bytes)[0].unwrap();
        assert_eq!((begin.time_ns, begin.steal_ns, begin.detail), (900, 70, 1));
        bytes[18] = EventKind::Wakeup as u8;
        let plain = Event::from_ring(&bytes);
        assert_eq!(plain, [Event::from_bytes(&bytes), None, None]);
    }

    #[test]
    fn a_local_timers_first_function_is_taken_out_of_its_record() {
        let mut bytes = [0u8; EVENT_BYTES];
        bytes[0..8].copy_from_slice(&900u64.to_ne_bytes());
        bytes[8..16].copy_from_slice(&60u64.to_ne_bytes());
        bytes[16..18].copy_from_slice(&5u16.to_ne_bytes());
        (bytes[18], bytes[19]) = (EventKind::VectorEntry as u8, vector::LOCAL_TIMER);
        bytes[20..24].copy_from_slice(&800u32.to_ne_bytes());
        let plain = Event::from_bytes(&bytes);
        assert_eq!(Event::from_ring(&bytes), [plain, None, None]);
        bytes[24..32].copy_from_slice(&0xffff_0001u64.to_ne_bytes());
        bytes[32..40].copy_from_slice(&970u64.to_ne_bytes());
        bytes[40..48].copy_from_slice(&70u64.to_ne_bytes());
        let timer = plain.map(|event| Event {
            time_ns: 970,
            steal_ns: 70,
            kind: EventKind::HrtimerEntry,
            detail: 0,
            a: 0,
            b: 0xffff_0001,
            ..event
        });
        assert_eq!(Event::from_ring(&bytes), [plain, timer, None]);
    }

    #[test]
    fn nothing_of_an_earlier_event_is_left_in_the_text() {
        let mut bytes = [b'x'; EVENT_BYTES];
        bytes[18] = EventKind::Wakeup as u8;
        bytes[34] = 0;
        let event = Event::from_bytes(&bytes).unwrap();
        assert_eq!(event.text(), "xx");
        assert_eq!(event.text[3..], [0; 13]);
    }
}
