//! A hostile guest against a ring. Each case is one attack; vulnerabilities of other devices carry their CVE numbers.

use super::chain::{Chain, Direction};
use super::deliver::{Buffers, Delivery, Outgoing};
use super::driver::{Buffer, Driver, Guest};
use super::fault::Fault;
use super::queue::{Position, Queue, Setup, SetupError};

const SIZE: u16 = 8;

struct Bench {
    guest: Guest,
    driver: Driver,
    queue: Queue,
    chain: Chain,
}

fn bench() -> Bench {
    let guest = Guest::new(1 << 20).unwrap();
    let driver = Driver::new(Guest::START, SIZE);
    let queue = Queue::new(driver.setup(), guest.memory(), None).unwrap();
    Bench {
        guest,
        driver,
        queue,
        chain: Chain::default(),
    }
}

impl Bench {
    fn describe(&self, index: u16, buffer: Buffer) {
        self.driver.describe(&self.guest, index, buffer);
    }

    /// The device's result for the chain from `head`.
    fn send(&mut self, head: u16) -> Result<u16, Fault> {
        self.driver.offer(&self.guest, head);
        assert_eq!(self.queue.ready(), Ok(1));
        self.chain.clear();
        self.queue.pop(Direction::FromGuest, &mut self.chain)
    }

    fn receive(&mut self, bytes: u32) -> Result<Delivery, Fault> {
        let rest = vec![7; bytes as usize].leak();
        let frame = Outgoing {
            header: [0; 12],
            header_bytes: 12,
            head: rest,
            rest: &[],
            bytes,
        };
        let delivery = Buffers::default().deliver(&mut self.queue, true, frame, None);
        self.queue.publish();
        delivery
    }
}

const BUFFER: u64 = Guest::START + 0x1_0000;

#[test]
fn a_correct_chain_is_followed_and_used() {
    let mut it = bench();
    it.describe(3, Buffer::read(BUFFER, 12).then(5));
    it.describe(5, Buffer::read(BUFFER + 4096, 60));
    it.guest.write(BUFFER + 4096, b"frame");
    assert_eq!(it.send(3), Ok(3));
    assert_eq!(it.chain.bytes(), 72);
    let mut word = [0; 5];
    it.chain.pieces()[1].place.read(&mut word);
    assert_eq!(&word, b"frame");
    it.queue.push(3, 0);
    assert_eq!(
        it.driver.used(&it.guest),
        None,
        "not before it is published"
    );
    it.queue.publish();
    assert_eq!(it.driver.used(&it.guest), Some((3, 0)));
}

#[test]
fn a_chain_in_an_indirect_table_is_followed() {
    let mut it = bench();
    let table = [
        Buffer::read(BUFFER, 12).then(1),
        Buffer::read(BUFFER + 64, 60),
    ];
    it.guest
        .write(BUFFER + 4096, &table.map(Buffer::bytes).concat());
    it.describe(0, Buffer::table(BUFFER + 4096, 32));
    assert_eq!(it.send(0), Ok(0));
    assert_eq!(it.chain.bytes(), 72);
}

#[test]
fn a_loop_ends() {
    let mut it = bench();
    it.describe(0, Buffer::read(BUFFER, 1).then(1));
    it.describe(1, Buffer::read(BUFFER, 1).then(0));
    assert_eq!(it.send(0), Err(Fault::Loop));
}

#[test]
fn a_loop_in_a_table_ends() {
    let mut it = bench();
    let table = [
        Buffer::read(BUFFER, 1).then(1),
        Buffer::read(BUFFER, 1).then(0),
    ];
    it.guest.write(BUFFER, &table.map(Buffer::bytes).concat());
    it.describe(0, Buffer::table(BUFFER, 32));
    assert_eq!(it.send(0), Err(Fault::Loop));
}

#[test]
fn a_table_that_describes_itself_is_refused() {
    let mut it = bench();
    it.guest.write(BUFFER, &Buffer::table(BUFFER, 16).bytes());
    it.describe(0, Buffer::table(BUFFER, 16));
    assert_eq!(it.send(0), Err(Fault::Indirect));
}

#[test]
fn a_table_of_half_descriptors_none_or_with_a_successor_is_refused() {
    for bytes in [0, 15, 17, u32::MAX] {
        let mut it = bench();
        it.describe(0, Buffer::table(BUFFER, bytes));
        assert_eq!(it.send(0), Err(Fault::Indirect), "{bytes}");
    }
    let mut it = bench();
    it.describe(0, Buffer::table(BUFFER, 16).then(1));
    assert_eq!(it.send(0), Err(Fault::Indirect));
}

#[test]
fn a_misaligned_or_outside_table_is_refused() {
    let mut it = bench();
    it.describe(0, Buffer::table(BUFFER + 1, 16));
    assert_eq!(it.send(0), Err(Fault::Indirect));
    let mut it = bench();
    it.describe(0, Buffer::table(Guest::START + (1 << 20) - 16, 32));
    assert_eq!(it.send(0), Err(Fault::Address));
}

/// CVE-2020-10723: a ring index cut to sixteen bits passed the check.
#[test]
fn heads_and_successors_outside_of_the_table_are_refused() {
    for head in [SIZE, SIZE + 1, u16::MAX] {
        assert_eq!(bench().send(head), Err(Fault::Index), "{head}");
    }
    let mut it = bench();
    it.describe(0, Buffer::read(BUFFER, 1).then(SIZE));
    assert_eq!(it.send(0), Err(Fault::Index));
    let mut it = bench();
    it.guest
        .write(BUFFER, &Buffer::read(BUFFER, 1).then(1).bytes());
    it.describe(0, Buffer::table(BUFFER, 16));
    assert_eq!(it.send(0), Err(Fault::Index));
}

/// CVE-2018-1059: only a buffer's first byte was checked to be the guest's.
#[test]
fn a_buffer_that_begins_inside_and_ends_outside_is_refused() {
    let end = Guest::START + (1 << 20);
    for (address, len) in [
        (end - 1, 2),
        (end, 1),
        (Guest::START - 1, 2),
        (0, 1),
        (Guest::USER, 1),
        (u64::MAX, 1),
    ] {
        let mut it = bench();
        it.describe(0, Buffer::read(address, len));
        assert_eq!(it.send(0), Err(Fault::Address), "{address:#x} {len}");
    }
}

#[test]
fn an_address_that_wraps_is_refused() {
    let mut it = bench();
    it.describe(0, Buffer::write(u64::MAX - 3, 8));
    it.driver.offer(&it.guest, 0);
    assert_eq!(it.receive(60), Err(Fault::Address));
}

/// CVE-2020-10725: a length of zero gave an unchecked address.
#[test]
fn a_buffer_of_no_bytes_is_refused() {
    let mut it = bench();
    it.describe(0, Buffer::read(BUFFER, 0));
    assert_eq!(it.send(0), Err(Fault::Empty));
    let mut it = bench();
    it.describe(0, Buffer::write(0xdead_0000_0000, 0));
    it.driver.offer(&it.guest, 0);
    assert_eq!(it.receive(60), Err(Fault::Empty));
}

#[test]
fn a_giant_chain_is_refused_before_it_is_followed_to_its_end() {
    let mut it = bench();
    for index in 0..7 {
        it.describe(index, Buffer::read(BUFFER, 0x8000).then(index + 1));
    }
    assert_eq!(it.send(0), Err(Fault::Giant));
    let mut it = bench();
    it.describe(0, Buffer::read(Guest::START, u32::MAX));
    assert_eq!(it.send(0), Err(Fault::Giant));
}

#[test]
fn buffers_of_the_wrong_direction_are_refused() {
    let mut it = bench();
    it.describe(0, Buffer::write(BUFFER, 100));
    assert_eq!(it.send(0), Err(Fault::Direction));
    let mut it = bench();
    it.describe(0, Buffer::read(BUFFER, 100));
    it.driver.offer(&it.guest, 0);
    assert_eq!(it.receive(60), Err(Fault::Direction));
}

#[test]
fn an_index_that_jumps_is_refused() {
    for jump in [SIZE + 1, 0x7fff, u16::MAX] {
        let mut it = bench();
        it.driver.jump(&it.guest, jump);
        assert_eq!(it.queue.ready(), Err(Fault::IndexJump), "{jump}");
    }
    // More than the ring has, with those that were taken and not given back.
    let mut it = bench();
    it.describe(0, Buffer::read(BUFFER, 100));
    it.send(0).unwrap();
    it.queue.push(0, 0);
    it.driver.jump(&it.guest, SIZE + 1);
    assert_eq!(it.queue.look(), Err(Fault::IndexJump));
}

#[test]
fn an_index_may_wrap_around() {
    let it = bench();
    let position = Position {
        available: u16::MAX,
        used: u16::MAX,
    };
    let mut queue = Queue::new(it.driver.setup(), it.guest.memory(), Some(position)).unwrap();
    let mut driver = it.driver;
    driver.jump(&it.guest, 1);
    assert_eq!(queue.ready(), Ok(2));
}

/// The guest changes a descriptor after its check.
#[test]
fn a_descriptor_that_changes_later_is_not_read_again() {
    let mut it = bench();
    it.describe(0, Buffer::read(BUFFER, 100));
    it.send(0).unwrap();
    it.describe(0, Buffer::read(0, u32::MAX));
    assert_eq!(it.chain.bytes(), 100);
    assert_eq!(it.chain.pieces()[0].place.bytes(), 100);
}

#[test]
fn a_frame_is_spread_over_small_buffers_and_says_how_many() {
    let mut it = bench();
    for index in 0..3 {
        it.describe(index, Buffer::write(BUFFER + 4096 * u64::from(index), 40));
        it.driver.offer(&it.guest, index);
    }
    assert_eq!(it.receive(100), Ok(Delivery::Done));
    let header = it.guest.read(BUFFER, 12);
    assert_eq!(header[10..], [3, 0]);
    let used: Vec<_> = std::iter::from_fn(|| it.driver.used(&it.guest)).collect();
    assert_eq!(used, [(0, 40), (1, 40), (2, 32)]);
}

#[test]
fn a_frame_without_enough_buffers_leaves_them() {
    let mut it = bench();
    it.describe(0, Buffer::write(BUFFER, 40));
    it.driver.offer(&it.guest, 0);
    assert_eq!(it.receive(100), Ok(Delivery::NoBuffer));
    assert_eq!(it.driver.used(&it.guest), None);
    it.describe(1, Buffer::write(BUFFER + 4096, 1000));
    it.driver.offer(&it.guest, 1);
    assert_eq!(it.receive(100), Ok(Delivery::Done));
    assert_eq!(it.driver.used(&it.guest), Some((0, 40)));
}

#[test]
fn a_frame_that_lacked_buffers_is_taken_as_soon_as_there_are_enough() {
    let mut bench = bench();
    (0..SIZE).for_each(|at| bench.describe(at, Buffer::write(BUFFER, 100)));
    assert_eq!(bench.receive(180), Ok(Delivery::NoBuffer), "there is none");
    bench.driver.offer(&bench.guest, 0);
    assert_eq!(bench.receive(180), Ok(Delivery::NoBuffer), "one is too few");
    assert_eq!(bench.receive(180), Ok(Delivery::NoBuffer), "as before");
    bench.driver.offer(&bench.guest, 1);
    assert_eq!(bench.receive(180), Ok(Delivery::Done));
    bench.driver.offer(&bench.guest, 2);
    assert_eq!(bench.receive(180), Ok(Delivery::NoBuffer));
    assert_eq!(bench.receive(80), Ok(Delivery::Done), "a smaller one fits");
    assert_eq!(bench.receive(80), Ok(Delivery::NoBuffer));
    bench.driver.jump(&bench.guest, 30_000);
    assert_eq!(bench.receive(80), Err(Fault::IndexJump));
}

#[test]
fn a_frame_does_not_take_more_chains_than_a_driver_would_need() {
    const MANY: u16 = 1024;
    let guest = Guest::new(1 << 20).unwrap();
    let mut driver = Driver::new(Guest::START, MANY);
    for head in 0..MANY {
        driver.describe(&guest, head, Buffer::write(BUFFER, 1));
        driver.offer(&guest, head);
    }
    let mut bench = Bench {
        queue: Queue::new(driver.setup(), guest.memory(), None).unwrap(),
        guest,
        driver,
        chain: Chain::default(),
    };
    let before = bench.queue.position();
    assert_eq!(bench.receive(900), Ok(Delivery::Cramped));
    assert_eq!(bench.queue.position(), before);
    assert_eq!(bench.receive(200), Ok(Delivery::Done), "this one fits");
}

/// Buffers over the ring itself, over each other, and the same one twice: the guest only harms itself.
#[test]
fn buffers_over_the_ring_stay_inside_the_guest() {
    let mut it = bench();
    it.describe(0, Buffer::write(Guest::START, 4096));
    it.describe(1, Buffer::write(Guest::START + 8, 4096));
    for head in [0, 0, 1, 1] {
        it.driver.offer(&it.guest, head);
    }
    for _ in 0..4 {
        // The frame overwrites the descriptors, which are garbage from then on.
        if it.receive(1000).is_err() {
            return;
        }
    }
}

/// A buffer across two adjacent regions, and one across a hole.
#[test]
fn buffers_cross_regions_but_no_holes() {
    let guest = Guest::new(1 << 20).unwrap();
    let other = Guest::new(1 << 20).unwrap();
    let mut behind = other.location();
    behind.guest += 1 << 20;
    behind.user += 1 << 20;
    let memory = guest.memory().with(behind, other.file(), 0).unwrap();
    let mut driver = Driver::new(Guest::START, SIZE);
    let mut queue = Queue::new(driver.setup(), memory.into(), None).unwrap();
    driver.describe(&guest, 0, Buffer::read(Guest::START + (1 << 20) - 10, 100));
    driver.describe(&guest, 1, Buffer::read(Guest::START + (2 << 20) - 10, 100));
    driver.offer(&guest, 0);
    driver.offer(&guest, 1);
    let mut chain = Chain::default();
    queue.ready().unwrap();
    queue.pop(Direction::FromGuest, &mut chain).unwrap();
    let lengths: Vec<usize> = chain.pieces().iter().map(|p| p.place.bytes()).collect();
    assert_eq!(lengths, [10, 90]);
    chain.clear();
    let crossing = queue.pop(Direction::FromGuest, &mut chain);
    assert_eq!(crossing, Err(Fault::Address));
}

#[test]
fn invalid_setups_are_refused() {
    let it = bench();
    let good = it.driver.setup();
    let refused = |setup: Setup| Queue::new(setup, it.guest.memory(), None).unwrap_err();
    for size in [0, 3, 12] {
        assert_eq!(
            refused(Setup { size, ..good }),
            SetupError::Size(size.into())
        );
    }
    let outside = Guest::USER + (1 << 20) - 16;
    for (setup, what) in [
        (
            Setup {
                descriptors: outside,
                ..good
            },
            "descriptors",
        ),
        (
            Setup {
                descriptors: good.descriptors + 1,
                ..good
            },
            "descriptors",
        ),
        (
            Setup {
                descriptors: u64::MAX - 15,
                ..good
            },
            "descriptors",
        ),
        (
            Setup {
                available: outside,
                ..good
            },
            "available entries",
        ),
        (
            Setup {
                used: outside,
                ..good
            },
            "used entries",
        ),
        (Setup { used: 0, ..good }, "used entries"),
    ] {
        assert_eq!(refused(setup), SetupError::Place(what));
    }
}

/// The VMM truncates its file while the rings run: zeros instead of SIGBUS, and a mark.
#[test]
fn memory_that_is_truncated_under_the_ring_is_noticed() {
    let mut it = bench();
    it.describe(0, Buffer::read(BUFFER, 100));
    it.send(0).unwrap();
    assert!(!it.queue.memory().lost());
    it.guest.file().set_len(0).unwrap();
    let mut bytes = [1; 100];
    it.chain.pieces()[0].place.read(&mut bytes);
    assert_eq!(bytes, [0; 100]);
    assert!(it.queue.memory().lost());
}

#[test]
fn interrupts_are_raised_once_per_request() {
    let mut it = bench();
    it.describe(0, Buffer::write(BUFFER, 2000));
    for _ in 0..4 {
        it.driver.offer(&it.guest, 0);
    }
    it.driver.want(&it.guest, 1);
    assert_eq!(it.receive(60), Ok(Delivery::Done));
    assert!(
        !it.queue.wants_interrupt(),
        "the guest waits for the second"
    );
    assert_eq!(it.receive(60), Ok(Delivery::Done));
    assert!(it.queue.wants_interrupt());
    assert!(!it.queue.wants_interrupt(), "told already");
}

#[test]
fn arming_detects_chains_that_came_meanwhile() {
    let mut it = bench();
    assert_eq!(it.queue.arm(), Ok(false));
    assert_eq!(it.driver.wanted(&it.guest), 0);
    it.driver.offer(&it.guest, 0);
    assert_eq!(it.queue.arm(), Ok(true));
}
