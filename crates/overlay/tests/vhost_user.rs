//! vhost-user ports and what their guests do: right, wrong, and with intent.

mod vm;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use latlab_model::overlay::{Interrupts, Switches};
use latlab_model::units::Nanos;
use latlab_overlay::endpoints::{DropReason, Receive};
use latlab_overlay::frames::{Batch, Frame};
use latlab_overlay::rings::driver::{Buffer, Guest};
use vhost::vhost_user::VhostUserFrontend;
use vhost::{VhostBackend, VhostUserDirtyLogRegion, VhostUserMemoryRegionInfo};
use vm::{EVENTS, Hub, LOGGED, MEMORY, OFFLOADS, PLAIN, SIZE, Vm, frame};

/// `from` sends, `to` has everything, in order, unchanged.
fn exchange(hub: &mut Hub, from: &mut Vm, to: &mut Vm, frames: u32) {
    for number in 0..frames {
        let bytes = 60 + (number as usize * 37) % 1400;
        from.send(&frame(number, bytes));
        let mut came = None;
        hub.until("a frame between neighbours", |_| {
            came = to.receive();
            came.is_some()
        });
        let (header, body) = came.unwrap();
        assert_eq!(header[..10], [0; 10]);
        assert_eq!(body, frame(number, bytes));
    }
}

#[test]
fn frames_go_from_guest_to_guest_unchanged() {
    for features in [PLAIN, EVENTS, OFFLOADS] {
        let (mut hub, mut a, mut b) = Hub::pair("plain", features);
        exchange(&mut hub, &mut a, &mut b, 200);
        exchange(&mut hub, &mut b, &mut a, 200);
        assert_eq!(hub.counters[0].received.frames.load(Relaxed), 200);
    }
}

/// An attack on a guest's own rings: its name, its steps, and the reported fault.
type Attack = (&'static str, fn(&mut Vm), &'static str);

const ATTACKS: &[Attack] = &[
    (
        "a loop",
        |vm| {
            vm.from_guest
                .describe(&vm.guest, 0, Buffer::read(Guest::START, 8).then(1));
            vm.from_guest
                .describe(&vm.guest, 1, Buffer::read(Guest::START, 8).then(0));
            vm.from_guest.offer(&vm.guest, 0);
        },
        "without an end",
    ),
    (
        "an address that wraps",
        |vm| {
            vm.from_guest
                .describe(&vm.guest, 0, Buffer::read(u64::MAX - 8, 64));
            vm.from_guest.offer(&vm.guest, 0);
        },
        "outside of the guest",
    ),
    (
        "a buffer outside (CVE-2018-1059)",
        |vm| {
            let end = Guest::START + MEMORY;
            vm.from_guest
                .describe(&vm.guest, 0, Buffer::read(end - 20, 64));
            vm.from_guest.offer(&vm.guest, 0);
        },
        "outside of the guest",
    ),
    (
        "no bytes (CVE-2020-10725)",
        |vm| {
            vm.from_guest.describe(&vm.guest, 0, Buffer::read(0, 0));
            vm.from_guest.offer(&vm.guest, 0);
        },
        "of no bytes",
    ),
    (
        "a giant chain",
        |vm| {
            for head in 0..SIZE - 1 {
                let buffer = Buffer::read(Guest::START, 0x10_0000).then(head + 1);
                vm.from_guest.describe(&vm.guest, head, buffer);
            }
            vm.from_guest.offer(&vm.guest, 0);
        },
        "longer than any frame",
    ),
    (
        "a head outside (CVE-2020-10723)",
        |vm| vm.from_guest.offer(&vm.guest, u16::MAX),
        "outside of its table",
    ),
    (
        "an index that jumps",
        |vm| vm.from_guest.jump(&vm.guest, 30_000),
        "index jumped",
    ),
    (
        "the other ring's index jumps",
        |vm| vm.to_guest.jump(&vm.guest, 30_000),
        "index jumped",
    ),
    (
        "buffers to receive in nowhere",
        |vm| {
            for head in 0..SIZE {
                vm.to_guest
                    .describe(&vm.guest, head, Buffer::write(u64::MAX - 4, 2048));
            }
        },
        "outside of the guest",
    ),
    (
        "buffers to receive in over its own rings",
        |vm| {
            for head in 0..SIZE {
                vm.to_guest
                    .describe(&vm.guest, head, Buffer::write(Guest::START, 4096));
            }
        },
        "ring 0",
    ),
    (
        "a truncated memory",
        |vm| vm.guest.file().set_len(0).unwrap(),
        "truncated",
    ),
    (
        "half a memory",
        |vm| vm.guest.file().set_len(1 << 20).unwrap(),
        "truncated",
    ),
];

#[test]
fn a_hostile_guest_stops_only_its_own_rings() {
    let mut hub = Hub::new("hostile", 3);
    let mut a = Vm::connect(&hub.socket(0), PLAIN);
    let mut b = Vm::connect(&hub.socket(1), PLAIN);
    for (what, attack, said) in ATTACKS {
        let mut hostile = Vm::connect(&hub.socket(2), PLAIN);
        attack(&mut hostile);
        let lost = hub.counters[1].dropped(DropReason::NoBuffer);
        // The hostile guest is sent everything too.
        exchange(&mut hub, &mut a, &mut b, SIZE.into());
        assert_eq!(
            hub.counters[1].dropped(DropReason::NoBuffer),
            lost,
            "{what}"
        );
        let trouble = hub.port(2).trouble().unwrap_or_default();
        assert!(trouble.contains(said), "{what}: {trouble}");
        drop(hostile);
        hub.until("it hung up", |hub| !hub.port(2).connected());
        // The next guest at the same port is served as ever.
        let mut next = Vm::connect(&hub.socket(2), PLAIN);
        next.send(&frame(1, 60));
        hub.until(what, |_| b.receive().is_some());
        assert!(a.receive().is_some());
        drop(next);
        hub.until("it hung up too", |hub| !hub.port(2).connected());
    }
}

/// A guest may offer as many buffers as its ring has entries, each of one byte: nothing to receive in.
#[test]
fn a_guest_whose_buffers_are_of_one_byte_is_given_up() {
    const MANY: u16 = 1024;
    let mut hub = Hub::new("tiny", 3);
    let [mut a, mut b, mut hostile] = [0, 1, 2].map(|id| Vm::connect(&hub.socket(id), PLAIN));
    hostile.resize(MANY);
    for head in 0..MANY {
        let buffer = Buffer::write(Guest::START + (2 << 20) + u64::from(head), 1);
        hostile.to_guest.describe(&hostile.guest, head, buffer);
        hostile.to_guest.offer(&hostile.guest, head);
    }
    for number in 0..100 {
        a.send(&frame(number, 1400));
        hub.until("the neighbour receives", |_| b.receive().is_some());
    }
    let trouble = hub.port(2).trouble().unwrap_or_default();
    assert!(trouble.contains("too small for any frame"), "{trouble}");
    assert_eq!(hub.counters[2].received.frames.load(Relaxed), 0);
}

/// A page of a disk's or of FUSE's file may take any time to arrive, and a dispatcher would block on it.
#[test]
fn a_guest_whose_memory_is_a_file_of_a_disk_is_refused() {
    let mut hub = Hub::new("disk", 1);
    let vm = Vm::connect(&hub.socket(0), PLAIN);
    let path =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("memory-{}", std::process::id()));
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)
        .unwrap();
    std::fs::remove_file(&path).unwrap();
    file.set_len(MEMORY).unwrap();
    let mut region = vm.region();
    region.mmap_handle = file.as_raw_fd();
    assert!(vm.monitor.set_mem_table(&[region]).is_err());
    // The connection ends before its reason is noted.
    hub.until("the reason is told", |hub| {
        let trouble = hub.port(0).trouble().unwrap_or_default();
        trouble.contains("its file is not memory")
    });
}

/// Headers that cannot be: the frame is dropped, the ring goes on.
#[test]
fn a_wrong_header_costs_the_frame_only() {
    let (mut hub, mut a, mut b) = Hub::pair("header", OFFLOADS);
    // CVE-2024-11614: the checksum would be written beyond the packet.
    let beyond = [1, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0];
    let unknown = [1, 0x77, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    let no_size = [1, 1, 0, 0, 0, 0, 34, 0, 16, 0, 0, 0];
    let not_negotiated = [1, 5, 0, 0, 0, 1, 34, 0, 6, 0, 0, 0];
    for header in [beyond, unknown, no_size, not_negotiated] {
        a.send_with(header, &frame(0, 200));
    }
    // CVE-2022-2132: the chain ends inside the header.
    a.from_guest
        .describe(&a.guest, 60, Buffer::read(Guest::START, 7));
    a.from_guest.offer(&a.guest, 60);
    a.send(&[0; 13]);
    hub.until("all dropped", |hub| {
        hub.counters[0].dropped(DropReason::Malformed) == 6
    });
    exchange(&mut hub, &mut a, &mut b, 10);
}

/// CVE-2022-2132 again: a header in several pieces is read as one.
#[test]
fn a_header_in_pieces_is_one() {
    let (mut hub, mut a, mut b) = Hub::pair("pieces", PLAIN);
    let at = Guest::START + (3 << 20);
    a.guest.write(at, &[0; 12]);
    a.guest.write(at + 12, &frame(9, 100));
    for (head, (from, len)) in (0..).zip([(0, 5), (5, 6), (11, 3), (14, 98)]) {
        let piece = Buffer::read(at + from, len);
        let piece = if head < 3 {
            piece.then(head + 1)
        } else {
            piece
        };
        a.from_guest.describe(&a.guest, head, piece);
    }
    a.from_guest.offer(&a.guest, 0);
    let mut came = None;
    hub.until("the frame", |_| {
        came = b.receive();
        came.is_some()
    });
    assert_eq!(came.unwrap().1, frame(9, 100));
}

/// DPDK's commit 285e6b8b18: a checksum's place was checked, and read again to be used. Here a guest
/// rewrites header and addresses all the time; what was checked and decided about is what is sent.
#[test]
fn memory_that_changes_meanwhile_is_read_once() {
    const AT: u64 = Guest::START + (3 << 20);
    const BYTES: usize = 200;
    let (mut hub, mut a, mut b) = Hub::pair("rewritten", OFFLOADS);
    for head in 0..SIZE {
        let buffer = Buffer::read(AT, 12 + BYTES as u32);
        a.from_guest.describe(&a.guest, head, buffer);
    }
    let inside = [1, 0, 0, 0, 0, 0, 34, 0, 16, 0, 0, 0];
    let beyond = [1, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0];
    let content = |header: [u8; 12], host: u8| {
        let mut content = [&header[..], &frame(0, BYTES)].concat();
        content[12 + 6..12 + 12].fill(host);
        content
    };
    let contents = [
        content(inside, 2),
        content(inside, 4),
        content(beyond, 6),
        content([0; 12], 8),
    ];
    let file = a.guest.file().try_clone().unwrap();
    let (end, mut sent, mut seen) = (AtomicBool::new(false), VecDeque::new(), 0);
    let latest = Instant::now() + Duration::from_secs(90);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !end.load(Relaxed) && Instant::now() < latest {
                for content in &contents {
                    file.write_all_at(content, AT - Guest::START).unwrap();
                }
            }
        });
        let mut head = 0;
        hub.until("thousands of both sorts", |hub| {
            for _ in 0..16 {
                a.from_guest.offer(&a.guest, head);
                head = (head + 1) % SIZE;
            }
            hub.pass_with(|batch| sent.extend(batch.frames().iter().map(Frame::source)));
            while a.from_guest.used(&a.guest).is_some() {}
            while let Some((header, body)) = b.receive() {
                assert_eq!(sent.pop_front().unwrap(), body[6..12]);
                let place = |at| usize::from(u16::from_le_bytes([header[at], header[at + 1]]));
                assert!(header[0] == 0 || place(6) + place(8) + 2 <= BYTES);
                seen += 1;
            }
            seen > 20_000 && hub.counters[0].dropped(DropReason::Malformed) > 2_000
        });
        end.store(true, Relaxed);
    });
}

#[test]
fn a_large_segment_stays_whole_or_is_cut_for_who_does_not_take_it() {
    for (features, pieces) in [(OFFLOADS, 1), (PLAIN, 3)] {
        let mut hub = Hub::new("gso", 2);
        let mut a = Vm::connect(&hub.socket(0), OFFLOADS);
        let mut b = Vm::connect(&hub.socket(1), features);
        let (header, sent) = large_segment();
        a.send_with(header, &sent);
        let mut bytes = 0;
        for _ in 0..pieces {
            let mut came = None;
            hub.until("a piece", |_| {
                came = b.receive();
                came.is_some()
            });
            let (_, body) = came.unwrap();
            bytes += body.len() - 54;
        }
        assert_eq!(bytes, 3000);
        assert!(b.receive().is_none());
    }
}

/// TCP over IPv4 with 3000 bytes, to be cut into pieces of 1000.
fn large_segment() -> ([u8; 12], Vec<u8>) {
    let mut frame = vec![0; 54 + 3000];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
    frame[14] = 0x45;
    frame[16..18].copy_from_slice(&3040u16.to_be_bytes());
    frame[22] = 64;
    frame[23] = 6;
    frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    frame[46] = 5 << 4;
    ([1, 1, 54, 0, 0xe8, 0x03, 34, 0, 16, 0, 0, 0], frame)
}

#[test]
fn a_guest_goes_on_when_the_daemon_was_killed() {
    let (mut hub, mut a, mut b) = Hub::pair("restart", EVENTS);
    for _ in 0..3 {
        exchange(&mut hub, &mut a, &mut b, 50);
        hub.restart(0);
        // Sent without a daemon.
        a.send(&frame(77, 99));
        a.reconnect(&hub.socket(0), EVENTS);
        let mut came = None;
        hub.until("what was sent meanwhile", |_| {
            came = b.receive();
            came.is_some()
        });
        assert_eq!(came.unwrap().1, frame(77, 99));
        exchange(&mut hub, &mut b, &mut a, 50);
    }
}

/// QEMU with `server=on`: the daemon calls, and calls again when the monitor comes back.
#[test]
fn a_monitor_that_listens_is_called_again_and_again() {
    let mut hub = Hub::calling("called", 2);
    let [one, two] = [0, 1].map(|id| UnixListener::bind(hub.socket(id)).unwrap());
    let mut a = Vm::called(&one, EVENTS);
    for _ in 0..3 {
        let mut b = Vm::called(&two, EVENTS);
        exchange(&mut hub, &mut a, &mut b, 20);
        exchange(&mut hub, &mut b, &mut a, 20);
    }
    let calls = hub.socket(1);
    drop(two);
    std::fs::remove_file(&calls).unwrap();
    // No process listens for a while; the other guest does not notice. A frame may still reach the ring of the guest
    // that hung up: only the next ones find the port down.
    hub.until("dropped", |hub| {
        let down = hub.counters[1].dropped(DropReason::Down) > 0;
        if !down {
            a.send(&frame(1, 60));
        }
        down
    });
    let two = UnixListener::bind(&calls).unwrap();
    let mut b = Vm::called(&two, EVENTS);
    exchange(&mut hub, &mut a, &mut b, 20);
}

/// Memory is plugged in and out, rings are stopped and started, while frames flow: by rings that are returned
/// after each poll, and by those that are kept between polls.
#[test]
fn memory_changes_under_running_rings() {
    for kept in [false, true] {
        memory_changes(kept);
    }
}

fn memory_changes(kept: bool) {
    let mut hub = Hub::new("plug", 2);
    if kept {
        (0..2).for_each(|port| hub.sleeps(port).disarm());
    }
    let mut a = Vm::connect(&hub.socket(0), PLAIN);
    let mut b = Vm::connect(&hub.socket(1), PLAIN);
    let more = Guest::new(1 << 20).unwrap();
    let region = VhostUserMemoryRegionInfo {
        guest_phys_addr: Guest::START + (1 << 30),
        memory_size: 1 << 20,
        userspace_addr: Guest::USER + (1 << 30),
        mmap_offset: 0,
        mmap_handle: more.file().as_raw_fd(),
    };
    let own = a.region();
    let mut other = a.monitor.clone();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..100 {
                other.add_mem_region(&region).unwrap();
                other.remove_mem_region(&region).unwrap();
                other.set_mem_table(&[own]).unwrap();
            }
            done.store(true, Relaxed);
        });
        while !done.load(Relaxed) {
            exchange(&mut hub, &mut a, &mut b, 50);
        }
    });
    // A dispatcher that stops polling arms its ports.
    (0..2).for_each(|port| _ = hub.sleeps(port).arm());
}

#[test]
fn frames_of_a_disabled_ring_are_discarded() {
    let (mut hub, mut a, mut b) = Hub::pair("disabled", PLAIN);
    a.monitor.set_vring_enable(1, false).unwrap();
    a.send(&frame(1, 60));
    hub.until("it is given back", |_| {
        a.from_guest.used(&a.guest).is_some()
    });
    a.monitor.set_vring_enable(1, true).unwrap();
    exchange(&mut hub, &mut a, &mut b, 5);
}

#[test]
fn written_pages_are_noted_while_a_guest_migrates() {
    let (mut hub, mut a, mut b) = Hub::pair("log", PLAIN);
    exchange(&mut hub, &mut a, &mut b, 1);
    let log = Guest::new(4096).unwrap();
    let noted = |b: &Vm, bytes: u64| {
        let region = VhostUserDirtyLogRegion {
            mmap_size: bytes,
            mmap_offset: 0,
            mmap_handle: log.file().as_raw_fd(),
        };
        b.monitor.set_log_base(0, Some(region)).unwrap();
        b.monitor.set_features(LOGGED).unwrap();
        let mut addresses = b.addresses(0);
        addresses.flags = 1;
        addresses.log_addr = Some(Guest::START + (2 << 20));
        b.monitor.set_vring_addr(0, &addresses).unwrap();
    };
    noted(&b, 4096);
    exchange(&mut hub, &mut a, &mut b, 10);
    let mut bits = vec![0; 4096];
    log.file()
        .try_clone()
        .unwrap()
        .read_exact(&mut bits)
        .unwrap();
    let is_dirty = |at: u64| bits[(at / 4096 / 8) as usize] & 1 << (at / 4096 % 8) != 0;
    // The second frame lies in the second buffer; the ring is logged where the monitor said.
    assert!(is_dirty(Guest::START + (1 << 20) + 8192));
    assert!(is_dirty(Guest::START + (2 << 20)));
    assert!(!is_dirty(Guest::START + (3 << 20)));
    // CVE-2020-10722: a log that is too short for the memory.
    noted(&b, 1);
    exchange(&mut hub, &mut a, &mut b, 10);
    // And one that the monitor takes away.
    noted(&b, 4096);
    log.file().set_len(0).unwrap();
    hub.until("a lost log stops the ring", |hub| {
        let down = hub.counters[1].dropped(DropReason::Down) > 0;
        if !down {
            a.send(&frame(1, 60));
        }
        down
    });
}

#[test]
fn early_interrupts_come_with_the_first_frame_and_again_at_the_end() {
    let mut counts = Vec::new();
    for when in [Interrupts::Batch, Interrupts::Early] {
        let (mut hub, mut a, b) = Hub::pair("interrupts", PLAIN);
        hub.port(1).set(Switches {
            interrupts: when,
            ..Switches::default()
        });
        (0..20).for_each(|number| a.send(&frame(number, 60)));
        hub.until("all", |hub| hub.counters[1].sent.frames.load(Relaxed) == 20);
        counts.push(hub.counters[1].interrupts.load(Relaxed));
        assert_eq!(b.interrupts(), counts[counts.len() - 1]);
    }
    assert_eq!(counts, [1, 2]);
}

#[test]
fn the_completion_of_a_large_segment_is_delayed_and_may_be_suppressed() {
    let (mut hub, mut a, _b) = Hub::pair("coalesce", EVENTS);
    let wait = Some(Switches::default().tx_coalesce.0);
    for (number, wants, told) in [(0, 0, 1), (1, 2, 1), (2, 2, 2)] {
        let before = hub.counters[0].interrupts.load(Relaxed);
        a.from_guest.want(&a.guest, wants);
        a.send(&frame(number, LARGE));
        assert_eq!(hub.pass(), 1);
        assert_eq!(hub.pass(), 0, "and again, as before a dispatcher sleeps");
        assert_eq!(hub.sleeps(0).completion_due(), wait);
        assert_eq!(hub.counters[0].interrupts.load(Relaxed), before);
        hub.sleeps(0).notify();
        assert_eq!(hub.sleeps(0).completion_due(), None);
        let now = hub.counters[0].interrupts.load(Relaxed);
        assert_eq!(now, told, "frame {number}, which wants {wants}");
    }
}

/// A frame of which a guest may be told later.
const LARGE: usize = 6000;

#[test]
fn other_completions_are_sent_at_the_next_poll() {
    let (mut hub, mut a, _b) = Hub::pair("next-look", PLAIN);
    a.send(&frame(0, LARGE));
    hub.pass();
    assert_eq!(a.interrupts(), 0);
    a.send(&frame(1, LARGE));
    hub.pass();
    assert_eq!(a.interrupts(), 1, "more");
    hub.sleeps(0).notify();
    assert_eq!(a.interrupts(), 1);
    for (frames, bytes) in [(1, 60), (12, LARGE), (33, 200)] {
        (0..frames).for_each(|number| a.send(&frame(number, bytes)));
        let receiver = hub.sleeps(0);
        assert_eq!(receiver.receive(&mut Batch::new(64)), frames as usize);
        receiver.complete();
        assert_eq!(receiver.completion_due(), None, "{frames} of {bytes}");
        assert_eq!(a.interrupts(), 0);
        hub.pass();
        assert_eq!(a.interrupts(), 1, "{frames} of {bytes}");
    }
    a.send(&frame(0, 60));
    assert_eq!(hub.pass(), 1);
    assert_eq!(a.interrupts(), 0);
    assert!(!hub.sleeps(0).arm());
    assert_eq!(a.interrupts(), 1, "before the dispatcher sleeps");
    hub.port(0).set(Switches {
        tx_coalesce: Nanos(0),
        ..Switches::default()
    });
    a.send(&frame(2, LARGE));
    assert_eq!(hub.pass(), 1);
    assert_eq!(hub.pass(), 0);
    assert_eq!(a.interrupts(), 1, "nothing is to wait");
}

#[test]
fn pending_completions_are_sent_on_a_stop_and_by_the_next_daemon() {
    let (mut hub, mut a, _b) = Hub::pair("owed", PLAIN);
    a.send(&frame(1, LARGE));
    hub.pass();
    assert_eq!(a.interrupts(), 0);
    a.monitor.get_vring_base(1).unwrap();
    assert_eq!(a.interrupts(), 1);
    a.start(1);
    a.interrupts();
    a.send(&frame(2, LARGE));
    hub.pass();
    assert_eq!(a.interrupts(), 0);
    hub.restart(0);
    a.interrupts();
    a.reconnect(&hub.socket(0), PLAIN);
    assert!(a.interrupts() > 0);
}

#[test]
fn without_cut_through_every_byte_is_copied_twice() {
    let (mut hub, mut a, mut b) = Hub::pair("bounce", PLAIN);
    hub.port(0).set(Switches {
        cut_through: false,
        ..Switches::default()
    });
    exchange(&mut hub, &mut a, &mut b, 20);
    let bytes = hub.counters[0].received.bytes.load(Relaxed);
    assert_eq!(hub.copied(0), bytes);
    assert_eq!(hub.copied(1), bytes);
}

#[test]
fn a_sleeping_dispatcher_is_woken_by_a_kick() {
    let mut hub = Hub::new("sleep", 1);
    let mut a = Vm::connect(&hub.socket(0), EVENTS);
    hub.pass();
    let readable = |receiver: &dyn Receive| {
        let wakeup = receiver.wakeup();
        let mut fds = [rustix::event::PollFd::new(
            &wakeup,
            rustix::event::PollFlags::IN,
        )];
        let now = rustix::event::Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        rustix::event::poll(&mut fds, Some(&now)).unwrap() > 0
    };
    hub.sleeps(0).disarm();
    assert!(!hub.sleeps(0).arm());
    assert!(!readable(hub.sleeps(0)));
    a.send(&frame(1, 60));
    a.kick.write(1).unwrap();
    assert!(readable(hub.sleeps(0)));
    hub.sleeps(0).disarm();
    assert!(!readable(hub.sleeps(0)));
    assert_eq!(hub.pass(), 1);
    assert_eq!(hub.counters[0].kicks.load(Relaxed), 1);
    a.send(&frame(2, 60));
    assert!(hub.sleeps(0).arm(), "it is there already");
}

/// QEMU enables rings before it acknowledges any feature.
#[test]
fn rings_are_enabled_before_features_are_acknowledged() {
    let hub = Hub::new("qemu", 1);
    let mut raw = UnixStream::connect(hub.socket(0)).unwrap();
    let enable = [18u32, 1, 8, 0, 1].map(u32::to_le_bytes).concat();
    let status = [40u32, 1, 0].map(u32::to_le_bytes).concat();
    raw.write_all(&[enable, status].concat()).unwrap();
    let mut reply = [0; 20];
    raw.read_exact(&mut reply).unwrap();
    assert!(hub.port(0).connected());
}

/// Requests that the crate does not know: RARP, MTU, status.
#[test]
fn a_guest_that_came_from_elsewhere_is_announced() {
    let mut hub = Hub::new("rarp", 2);
    let mut b = Vm::connect(&hub.socket(1), PLAIN);
    let mut raw = UnixStream::connect(hub.socket(0)).unwrap();
    let message = |request: u32, number: u64| {
        let header = [request, 1, 8].map(u32::to_le_bytes).concat();
        [&header[..], &number.to_le_bytes()].concat()
    };
    raw.write_all(&message(39, 15)).unwrap();
    raw.write_all(&message(20, 1500)).unwrap();
    raw.write_all(&message(19, u64::from_le_bytes([2, 0, 0, 0, 0, 9, 0, 0])))
        .unwrap();
    raw.write_all(&[40u32, 1, 0].map(u32::to_le_bytes).concat())
        .unwrap();
    let mut reply = [0; 20];
    raw.read_exact(&mut reply).unwrap();
    assert_eq!(reply[12], 15, "the status is as it was set");
    let mut came = None;
    hub.until("the announcement", |_| {
        came = b.receive();
        came.is_some()
    });
    let body = came.unwrap().1;
    assert_eq!(
        body[..14],
        [255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 9, 0x80, 0x35]
    );
    assert_eq!(body.len(), 60);
}

/// CVE-2019-14818 and CVE-2020-10726: descriptors and memory that stay behind with every message.
#[test]
fn wrong_messages_end_the_connection_and_leave_nothing_open() {
    let mut hub = Hub::new("garbage", 2);
    let garbage: &[&[u8]] = &[
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        &[0xff; 64],
        &[1, 0, 0],
        &[5, 0, 0, 0, 1, 0, 0, 0, 0xff, 0xff, 0, 0],
        &[
            8, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 1, 0, 0,
        ],
        &[39, 0, 0, 0, 1, 0, 0, 0, 200, 0, 0, 0],
    ];
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let settle = |hub: &mut Hub| hub.until("hung up", |hub| !hub.port(0).connected());
    let mut before = None;
    for _ in 0..3 {
        for bytes in garbage {
            let mut raw = UnixStream::connect(hub.socket(0)).unwrap();
            let _ = raw.write_all(bytes);
            drop(raw);
            std::thread::sleep(Duration::from_millis(5));
            settle(&mut hub);
        }
        for _ in 0..10 {
            let vm = Vm::connect(&hub.socket(0), PLAIN);
            // Files where eventfds belong, and rings that are not there.
            let file = File::open("/dev/null").unwrap();
            let wrong = VhostUserMemoryRegionInfo {
                mmap_handle: file.as_raw_fd(),
                ..vm.region()
            };
            assert!(vm.monitor.set_mem_table(&[wrong]).is_err());
            drop(vm);
            settle(&mut hub);
        }
        let now = *before.get_or_insert_with(open);
        // Tests beside this one open some too, for a while.
        hub.until("as many are open as before", |_| open() <= now);
    }
    let mut a = Vm::connect(&hub.socket(0), PLAIN);
    let mut b = Vm::connect(&hub.socket(1), PLAIN);
    exchange(&mut hub, &mut a, &mut b, 5);
}
