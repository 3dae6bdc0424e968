//! The orders of messages in which versions of QEMU start, stop and reset a vhost-user device, as recorded
//! from QEMU 7.2.22 and 10.0.2 with a Linux guest.

mod vm;

use std::io::Write;
use std::mem::ManuallyDrop;
use std::net::Shutdown;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use vhost::VhostBackend;
use vhost::vhost_user::VhostUserFrontend;
use vm::{EVENTS, Hub, PLAIN, Vm, frame};

const RESET_DEVICE: u32 = 34;
const SET_STATUS: u32 = 39;

/// Sends a message that the crate's monitor does not know.
fn send(vm: &Vm, request: u32, payload: &[u8]) {
    let size = u32::try_from(payload.len()).unwrap();
    let header = [request, 1, size].map(u32::to_le_bytes).concat();
    raw(vm).write_all(&[&header[..], payload].concat()).unwrap();
}

fn raw(vm: &Vm) -> ManuallyDrop<UnixStream> {
    // SAFETY: the descriptor is open as long as the monitor, and is not closed here.
    ManuallyDrop::new(unsafe { UnixStream::from_raw_fd(vm.monitor.as_raw_fd()) })
}

/// Until the end of what is returned: an answer that never comes is an error, and not the end of all tests. The
/// crate's monitor takes a socket's timeout for a reason to ask again, so the connection is cut.
#[must_use]
fn watchdog(vm: &Vm) -> Sender<()> {
    let stream = raw(vm).try_clone().unwrap();
    let (test, ended) = channel();
    std::thread::spawn(move || {
        if ended.recv_timeout(Duration::from_secs(20)) == Err(RecvTimeoutError::Timeout) {
            stream.shutdown(Shutdown::Both).unwrap();
        }
    });
    test
}

fn set_status(vm: &Vm, status: u64) {
    send(vm, SET_STATUS, &status.to_le_bytes());
}

/// Both rings carry frames.
fn carries_frames(hub: &mut Hub, a: &mut Vm, b: &mut Vm) {
    for number in 0..20 {
        a.send(&frame(number, 100));
        b.send(&frame(number, 200));
        let (mut at_a, mut at_b) = (None, None);
        hub.until("a frame each way", |_| {
            at_a = at_a.take().or_else(|| a.receive());
            at_b = at_b.take().or_else(|| b.receive());
            at_a.is_some() && at_b.is_some()
        });
        assert_eq!(at_a.unwrap().1, frame(number, 200));
        assert_eq!(at_b.unwrap().1, frame(number, 100));
    }
}

/// QEMU 9 and 10 reset the device when the guest's firmware and driver do, and ask for acknowledgements after it.
/// They send memory and interrupts' descriptors once, before the reset.
#[test]
fn a_reset_device_keeps_protocol_features_memory_and_interrupts() {
    for features in [PLAIN, EVENTS] {
        let (mut hub, mut a, mut b) = Hub::pair("reset", features);
        let _watchdog = watchdog(&a);
        carries_frames(&mut hub, &mut a, &mut b);
        for _ in 0..2 {
            send(&a, RESET_DEVICE, &[]);
            a.monitor.set_vring_enable(0, true).unwrap();
            a.monitor.set_vring_enable(1, true).unwrap();
        }
        a.monitor.set_features(features).unwrap();
        set_status(&a, 8);
        for ring in [0, 1] {
            a.monitor.set_vring_num(ring, vm::SIZE).unwrap();
            a.monitor.set_vring_base(ring, 0).unwrap();
            let addresses = a.addresses(ring);
            a.monitor.set_vring_addr(ring, &addresses).unwrap();
            a.monitor.set_vring_kick(ring, &a.kick).unwrap();
            a.monitor.set_vring_enable(ring, true).unwrap();
        }
        set_status(&a, 15);
        // The device has told of all that came before, and the guest asks for the next one.
        a.interrupts();
        a.to_guest.want(&a.guest, 20);
        carries_frames(&mut hub, &mut a, &mut b);
        assert!(a.interrupts() > 0, "the first descriptors still serve");
    }
}

/// A stopped guest is migrated by the positions of its rings. QEMU 7.2 sets the status to 0 before it asks for them,
/// QEMU 9 and 10 afterwards.
#[test]
fn a_ring_keeps_its_position_whether_the_status_is_cleared_before_or_after_the_question() {
    for status_first in [true, false] {
        let (mut hub, mut a, mut b) = Hub::pair("position", EVENTS);
        let _watchdog = watchdog(&a);
        carries_frames(&mut hub, &mut a, &mut b);
        if status_first {
            set_status(&a, 0);
        }
        let positions = [0, 1].map(|ring| a.monitor.get_vring_base(ring).unwrap());
        assert_eq!(positions, [20, 20], "status first: {status_first}");
        let again = [0, 1].map(|ring| a.monitor.get_vring_base(ring).unwrap());
        assert_eq!(again, positions);
        if !status_first {
            set_status(&a, 0);
        }
        // The guest goes on here: `stop` and `cont`, or a migration that failed.
        [0, 1].into_iter().for_each(|ring| a.start(ring));
        carries_frames(&mut hub, &mut a, &mut b);
    }
}

/// A migration's destination may be stopped before its rings were started, and is asked what it was told.
#[test]
fn a_ring_that_did_not_start_has_the_position_that_it_was_given() {
    let (mut hub, mut a, mut b) = Hub::pair("given", PLAIN);
    let _watchdog = watchdog(&a);
    carries_frames(&mut hub, &mut a, &mut b);
    set_status(&a, 0);
    a.monitor.set_vring_base(1, 0x7c9).unwrap();
    let addresses = a.addresses(1);
    a.monitor.set_vring_addr(1, &addresses).unwrap();
    assert_eq!(a.monitor.get_vring_base(1).unwrap(), 0x7c9);
    send(&a, RESET_DEVICE, &[]);
    assert_eq!(a.monitor.get_vring_base(1).unwrap(), 0);
}
