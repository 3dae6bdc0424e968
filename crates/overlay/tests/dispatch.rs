//! When a guest has to kick: a real daemon, and a driver that kicks only if it is asked to.

mod common;
mod vm;

use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use common::run;
use vm::{PLAIN, Vm};

const FRAMES: u32 = 1000;
const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];

/// Sends a frame as a driver does; true if that took a kick.
fn send(from: &mut Vm, to_other: bool, number: u32) -> bool {
    let [own, other] = match to_other {
        true => MACS,
        false => [MACS[1], MACS[0]],
    };
    let body = [&other[..], &own, &[0x88, 0xb5], &number.to_be_bytes()].concat();
    from.send(&body);
    // The frame must be out before the wish is read.
    fence(Ordering::SeqCst);
    let at = from.guest.location();
    let used = from.from_guest.setup().used - at.user + at.guest;
    let wants = from.guest.read(used, 2)[0] & 1 == 0;
    if wants {
        from.kick.write(1).unwrap();
    }
    wants
}

/// Waits for this frame, and takes nothing else.
fn wait_for(guest: &mut Vm, number: u32) {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some((_, frame)) = guest.receive() {
            assert_eq!(frame[14..18], number.to_be_bytes(), "in order");
            return;
        }
        assert!(Instant::now() < end, "frame {number} did not come");
        std::thread::yield_now();
    }
}

/// Frames one by one, each when the last one has come; with answers or without. Returns the kicks.
fn kicks(guests: &mut [Vm; 2], answered: bool) -> u32 {
    let [a, b] = guests;
    let mut kicks = 0;
    for number in 0..FRAMES {
        kicks += u32::from(send(a, true, number));
        wait_for(b, number);
        if answered {
            kicks += u32::from(send(b, false, number));
            wait_for(a, number);
        }
    }
    kicks
}

#[test]
fn who_sends_on_is_gathered_and_who_waits_for_answers_is_not() {
    run("overlay-gathering", |world| {
        let sockets = ["a", "b"].map(|name| world.path(&format!("{name}.sock")));
        let mut config = String::from("add network lan vni 7\n");
        for (name, socket) in ["a", "b"].iter().zip(&sockets) {
            config += &format!(
                "add interface {name} network lan vhost-user {} kick-coalesce 5ms\n",
                socket.display()
            );
        }
        let daemon = world.daemon("control", &config);
        let mut guests = sockets.each_ref().map(|socket| Vm::connect(socket, PLAIN));
        // Both are known from here on.
        assert!(
            kicks(&mut guests, true) > FRAMES,
            "who waits is not gathered"
        );
        let few = kicks(&mut guests, false);
        assert!(few < FRAMES / 4, "{few} kicks, gathered");
        assert!(
            kicks(&mut guests, true) > FRAMES,
            "the next question is one"
        );
        daemon.tell("set dispatch mode guest");
        let many = kicks(&mut guests, false);
        assert!(many > FRAMES / 2, "{many} kicks, guest-driven");
        daemon.tell("set dispatch mode adaptive");
        daemon.tell("set interface a kick-coalesce 0s");
        let many = kicks(&mut guests, false);
        assert!(many > FRAMES / 2, "{many} kicks, switched off");
        assert_eq!(daemon.counter("b", "dropped_no_buffer"), 0);
    });
}
