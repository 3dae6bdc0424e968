//! The loop of a dispatcher thread.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Instant;

use latlab_model::overlay::Yield;
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::fs::Timespec;

use super::handle::Order;
use super::pass::{Pass, TURN};
use super::stream::Stream;
use super::urgency::Urgency;
use super::{Input, InputKey, Manner, Pace, sys};
use crate::endpoints::Counters;
use crate::watchdog::Beat;

/// Looks at the ports that are polled before the sleeping ones are asked for as well.
const LOOKS: u32 = 64;

/// Looks that find nothing before the clock is asked again: that takes as long as a look.
const TIMELESS: u32 = 8;

/// Key of the wake-up of control itself.
pub(super) const CONTROL: u64 = u64::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Its guest will wake us.
    Asleep,
    /// Its guest did; what that brought so far.
    Awake(u64),
    /// Its guest need not: it is looked at again at this time.
    Gathering(u64),
    /// It is looked at all the time.
    Polled,
}

struct Port {
    input: Input,
    pace: Pace,
    state: State,
    stream: Stream,
    /// When its guest is to be told that it has its memory back.
    tell_at: Option<u64>,
}

impl Port {
    /// Its guest has woken us, and need not again for now.
    fn wake(&mut self) {
        self.input.receive.disarm();
        self.state = State::Awake(0);
    }

    /// A look has brought so many frames, and nothing is left if it is empty.
    fn has_brought(&mut self, came: u64, is_empty: bool, now: u64) {
        let wait = self.input.receive.gathers();
        let wait = wait.filter(|_| self.pace.is_adaptive());
        let answers = self.input.counters.sent.frames.load(Ordering::Relaxed);
        let mut brought = came;
        match (self.state, wait) {
            (State::Gathering(_), Some(wait)) => {
                if self.pace.gathered(came, wait, now) {
                    return self.poll();
                }
                if is_empty && self.stream.gathered(came, answers) {
                    self.state = State::Gathering(now + wait);
                    return;
                }
                brought = 0;
            }
            (State::Awake(before), _) => brought += before,
            _ => {}
        }
        // What was gathered is counted already, and the end of gathering is no wake-up.
        let was_woken = matches!(self.state, State::Awake(_));
        let gathers = wait.filter(|_| was_woken && is_empty && self.stream.woke(answers));
        // A port that is never empty is as good as one whose wake-ups bring much.
        let is_over = is_empty && (gathers.is_some() || !self.input.receive.arm());
        self.state = State::Awake(brought);
        if !is_over && brought < TURN {
            return;
        }
        if was_woken && self.pace.woke(brought, now) {
            return self.poll();
        }
        self.state = match (is_over, gathers) {
            (true, Some(wait)) => State::Gathering(now + wait),
            (true, None) => State::Asleep,
            (false, _) => State::Awake(0),
        };
    }

    /// From now on it is looked at all the time.
    fn poll(&mut self) {
        count_change(&self.input.counters);
        self.input.receive.disarm();
        self.state = State::Polled;
    }
}

/// A dispatcher, on its own thread.
pub(super) struct Worker {
    pub pass: Pass,
    pub orders: Receiver<Order>,
    pub has_orders: Arc<AtomicBool>,
    pub epoll: OwnedFd,
    pub start: Instant,
    manner: Manner,
    /// What the watchdog is told.
    beat: Arc<Beat>,
    urgency: Urgency,
    /// Whether the thread is a real-time one.
    is_realtime: bool,
    ports: Vec<Port>,
    events: Vec<epoll::Event>,
    quiet_since: Option<u64>,
}

impl Worker {
    pub fn new(
        pass: Pass,
        (orders, has_orders): (Receiver<Order>, Arc<AtomicBool>),
        epoll: OwnedFd,
        start: Instant,
        manner: Manner,
        beat: Arc<Beat>,
    ) -> Worker {
        Worker {
            urgency: Urgency::new(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)),
            manner,
            beat,
            is_realtime: false,
            pass,
            orders,
            has_orders,
            epoll,
            start,
            ports: Vec::new(),
            events: Vec::with_capacity(64),
            quiet_since: None,
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Whether there are orders. An exchange at every look would wait for all that was written to guests.
    fn is_asked(&self) -> bool {
        self.has_orders.load(Ordering::Relaxed) && self.has_orders.swap(false, Ordering::Acquire)
    }

    /// Works until it is told to stop.
    pub fn run(mut self) {
        let (mut looks, mut now, mut timeless) = (0, self.now(), 0);
        loop {
            if self.is_asked() && !self.obey() {
                return;
            }
            if timeless == 0 {
                now = self.now();
                timeless = TIMELESS;
                let is_urgent = self.urgency.worked(now);
                self.hurry(is_urgent);
            }
            let mut worked = 0;
            for at in 0..self.ports.len() {
                worked += self.look(at, now);
            }
            looks += 1;
            let has_time_passed = self.between_looks(worked, now, looks % LOOKS == 0);
            timeless = if has_time_passed { 0 } else { timeless - 1 };
        }
    }

    /// What is done between two looks, of which the first brought so many frames; true if time has passed with it, or
    /// with the frames.
    fn between_looks(&mut self, worked: u64, now: u64, now_and_then: bool) -> bool {
        let is_idle = |port: &Port| matches!(port.state, State::Asleep | State::Gathering(_));
        if self.ports.iter().all(is_idle) {
            self.sleep_on();
        } else if worked == 0 {
            return self.rest(now, now_and_then);
        } else {
            self.quiet_since = None;
            if now_and_then {
                self.wait(Some(0));
            }
        }
        true
    }

    /// Looks at a port, if it is its time; returns the frames that came.
    fn look(&mut self, at: usize, now: u64) -> u64 {
        let port = &mut self.ports[at];
        let receive = port.input.receive.as_mut();
        match port.state {
            State::Asleep => 0,
            State::Polled => {
                self.beat.looks_at(port.input.key.0);
                let frames = self.pass.run(receive, now) as u64;
                if !port.pace.polled(frames, now) {
                    count_change(&port.input.counters);
                    port.state = match receive.arm() {
                        true => State::Awake(0),
                        false => State::Asleep,
                    };
                }
                frames
            }
            State::Gathering(until) if now < until => 0,
            State::Awake(_) | State::Gathering(_) => {
                self.beat.looks_at(port.input.key.0);
                let (came, is_empty) = self.pass.run_out(receive, now);
                port.has_brought(came, is_empty, now);
                came
            }
        }
    }

    /// What is done while ports are polled and none has anything (Cui 2013, 5.1.7).
    ///
    /// System calls only now and then: a frame that comes meanwhile would wait for them. True if there was one.
    fn rest(&mut self, now: u64, now_and_then: bool) -> bool {
        let quiet = now - *self.quiet_since.get_or_insert(now);
        match self.manner.idle {
            Yield::Timed { sleep } => self.sleep(sleep.0),
            Yield::Adaptive { sleep, after } if quiet >= after.0 => self.sleep(sleep.0),
            Yield::Immediate | Yield::Adaptive { .. } if now_and_then => {
                self.wait(Some(0));
                std::thread::yield_now();
            }
            Yield::Immediate | Yield::Adaptive { .. } => {
                std::hint::spin_loop();
                return false;
            }
        }
        true
    }

    /// Sleeps until a frame comes, or an order, or a port is to be looked at.
    fn sleep_on(&mut self) {
        let before = self.now();
        self.urgency.worked(before);
        self.wait(None);
        let now = self.now();
        let is_urgent = self.urgency.slept(now);
        self.hurry(is_urgent);
    }

    /// Tells guests what they are owed, where it is time; returns when the next is to be told.
    fn tell(&mut self, now: u64) -> Option<u64> {
        let mut next = None;
        for port in &mut self.ports {
            let receive = &mut port.input.receive;
            // What it is owed since does not put it off.
            let latest = receive.owes().map(|wait| now + wait);
            port.tell_at = latest.map(|latest| port.tell_at.unwrap_or(latest));
            if port.tell_at.is_some_and(|at| at <= now) {
                receive.tell();
                port.tell_at = None;
            }
            next = [next, port.tell_at].into_iter().flatten().min();
        }
        next
    }

    /// Makes the thread a real-time one, or one like others.
    fn hurry(&mut self, is_urgent: bool) {
        let wanted = is_urgent && self.manner.realtime;
        if wanted != self.is_realtime {
            self.is_realtime = wanted;
            if sys::set_realtime(wanted).is_err() {
                // Not allowed here: as good as not wanted.
                (self.manner.realtime, self.is_realtime) = (false, false);
            }
        }
    }

    /// Sleeps for some nanoseconds, or until a frame comes on any port.
    fn sleep(&mut self, nanos: u64) {
        let polled = |port: &&mut Port| port.state == State::Polled;
        let mut has_frames = false;
        for port in self.ports.iter_mut().filter(polled) {
            has_frames |= port.input.receive.arm();
        }
        self.wait(Some(if has_frames { 0 } else { nanos }));
        for port in self.ports.iter_mut().filter(polled) {
            port.input.receive.disarm();
        }
    }

    /// Waits until a port or control has something, at most so many nanoseconds, and until a guest is to be told or a port
    /// to be looked at.
    fn wait(&mut self, nanos: Option<u64>) {
        let now = self.now();
        let until_told = self.tell(now).map(|at| at - now);
        let looks = self.ports.iter().filter_map(|port| match port.state {
            State::Gathering(until) => Some(until.saturating_sub(now)),
            _ => None,
        });
        let nanos = [nanos, until_told, looks.min()].into_iter().flatten().min();
        let timeout = nanos.map(|nanos| Timespec {
            tv_sec: i64::try_from(nanos / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(nanos % 1_000_000_000).unwrap_or_default(),
        });
        self.events.clear();
        let is_long = nanos != Some(0);
        if is_long {
            self.beat.sleeps();
        }
        // Interrupted or not: what matters is looked at again anyway.
        let _ = epoll::wait(
            &self.epoll,
            spare_capacity(&mut self.events),
            timeout.as_ref(),
        );
        if is_long {
            self.beat.wakes();
        }
        for event in &self.events {
            let key = event.data.u64();
            if key == CONTROL {
                self.has_orders.store(true, Ordering::Release);
                continue;
            }
            let woken = |port: &&mut Port| u64::from(port.input.key.0) == key;
            if let Some(port) = self.ports.iter_mut().find(woken) {
                if port.input.receive.is_gone() {
                    // It was told; its descriptor is ready for ever.
                    let _ = epoll::delete(&self.epoll, port.input.receive.wakeup());
                    port.state = State::Asleep;
                    continue;
                }
                match port.state {
                    State::Asleep => port.wake(),
                    // It had made up its mind before it was asked not to.
                    State::Gathering(_) => {
                        port.input.receive.arm();
                        port.wake();
                    }
                    State::Awake(_) | State::Polled => {}
                }
            }
        }
    }

    /// Does what control asks for; false when that is to stop.
    fn obey(&mut self) -> bool {
        while let Ok(order) = self.orders.try_recv() {
            match order {
                Order::Install(snapshot) => self.pass.install(snapshot),
                Order::Attach(input) => self.attach(*input),
                Order::Detach(key, taken) => drop(taken.send(self.detach(key))),
                Order::SetMode(key, mode) => {
                    let now = self.now();
                    let wanted = |port: &&mut Port| port.input.key == key;
                    if let Some(port) = self.ports.iter_mut().find(wanted) {
                        port.input.mode = mode;
                        port.pace = Pace::new(mode, now);
                        start(port);
                    }
                }
                Order::SetManner(manner) => self.manner = manner,
                Order::Matrix(answer) => drop(answer.send(self.pass.decider().matrix().clone())),
                Order::Hits(answer) => drop(answer.send(self.pass.decider().hits_and_misses())),
                Order::Sync(done) => drop(done.send(())),
                Order::Stop => return false,
            }
        }
        true
    }

    fn attach(&mut self, input: Input) {
        let key = epoll::EventData::new_u64(u64::from(input.key.0));
        let wakeup = input.receive.wakeup();
        // Without it the port would be deaf when it sleeps; then it is polled.
        let can_wake = epoll::add(&self.epoll, wakeup, key, epoll::EventFlags::IN).is_ok();
        let mode = match can_wake {
            true => input.mode,
            false => latlab_model::overlay::Mode::VmmDriven,
        };
        let mut port = Port {
            pace: Pace::new(mode, self.now()),
            input,
            state: State::Asleep,
            stream: Stream::default(),
            tell_at: None,
        };
        self.beat
            .add(port.input.key.0, &port.input.name, &port.input.counters);
        start(&mut port);
        self.ports.push(port);
    }

    fn detach(&mut self, key: InputKey) -> Option<Input> {
        let at = self.ports.iter().position(|port| port.input.key == key)?;
        let port = self.ports.remove(at);
        self.beat.remove(key.0);
        let _ = epoll::delete(&self.epoll, port.input.receive.wakeup());
        Some(port.input)
    }
}

/// Puts a port into the state that its pace begins with.
fn start(port: &mut Port) {
    port.state = if port.input.receive.is_gone() {
        State::Asleep
    } else if port.pace.is_polling() {
        port.input.receive.disarm();
        State::Polled
    } else if port.input.receive.arm() {
        State::Awake(0)
    } else {
        State::Asleep
    };
}

fn count_change(counters: &Counters) {
    counters.mode_changes.fetch_add(1, Ordering::Relaxed);
}
