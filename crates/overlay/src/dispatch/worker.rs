//! The loop of a dispatcher thread.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use latlab_model::overlay::{Mode, Yield};
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::fs::Timespec;

use super::input::{Input, InputKey};
use super::pass::Pass;
use super::port_state::{Phase, Poll, PortState, Woken};
use super::request::{CONTROL, Request, Requests};
use super::rt_budget::RtBudget;
use super::snapshot::DispatchPolicy;
use super::sys;
use crate::endpoints::Counters;
use crate::watchdog::Beat;

/// Rounds over the polled ports between two checks of the armed ones.
const ROUNDS_PER_WAIT: u32 = 64;

/// Empty rounds between two readings of the clock, which takes as long as a poll.
const ROUNDS_PER_CLOCK: u32 = 8;

struct Port {
    input: Input,
    state: PortState,
    /// When the pending completion interrupt is due.
    notify_at: Option<u64>,
}

impl Port {
    fn start(&mut self) {
        let receive = &mut self.input.receive;
        if receive.is_gone() {
            self.state.phase = Phase::Armed;
        } else if self.state.start(|| receive.arm()) {
            receive.disarm();
        }
    }

    /// Polls the port if that is due; returns the number of frames.
    fn poll(&mut self, pass: &mut Pass, beat: &Beat, now: u64) -> u64 {
        let receive = self.input.receive.as_mut();
        match self.state.phase {
            Phase::Armed => 0,
            Phase::Coalescing(until) if now < until => 0,
            Phase::Polling => {
                beat.looks_at(self.input.key.0);
                let frames = pass.run(receive, now) as u64;
                if self.state.after_busy_poll(frames, now, || receive.arm()) {
                    count_mode_change(&self.input.counters);
                }
                frames
            }
            Phase::Draining(_) | Phase::Coalescing(_) => {
                beat.looks_at(self.input.key.0);
                let (frames, is_empty) = pass.drain(receive, now);
                let poll = Poll {
                    frames,
                    is_empty,
                    sent: self.input.counters.sent.frames.load(Ordering::Relaxed),
                    window: receive.coalesce_window(),
                };
                if self.state.after_poll(poll, now, || receive.arm()) {
                    count_mode_change(&self.input.counters);
                    receive.disarm();
                }
                frames
            }
        }
    }
}

pub(super) struct Worker {
    pass: Pass,
    requests: Requests,
    epoll: OwnedFd,
    start: Instant,
    policy: DispatchPolicy,
    beat: Arc<Beat>,
    budget: RtBudget,
    is_realtime: bool,
    ports: Vec<Port>,
    events: Vec<epoll::Event>,
    idle_since: Option<u64>,
}

impl Worker {
    pub fn new(
        pass: Pass,
        requests: Requests,
        epoll: OwnedFd,
        start: Instant,
        policy: DispatchPolicy,
        beat: Arc<Beat>,
    ) -> Worker {
        Worker {
            budget: RtBudget::new(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)),
            policy,
            beat,
            is_realtime: false,
            pass,
            requests,
            epoll,
            start,
            ports: Vec::new(),
            events: Vec::with_capacity(64),
            idle_since: None,
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Runs until control stops it.
    pub fn run(mut self) {
        let (mut rounds, mut now, mut rounds_to_clock) = (0, self.now(), 0);
        loop {
            if self.requests.take_pending() && !self.serve_requests() {
                return;
            }
            if rounds_to_clock == 0 {
                now = self.now();
                rounds_to_clock = ROUNDS_PER_CLOCK;
                let is_within = self.budget.charge(now);
                self.set_realtime(is_within);
            }
            let mut frames = 0;
            for port in &mut self.ports {
                frames += port.poll(&mut self.pass, &self.beat, now);
            }
            if self.pass.is_holding() {
                self.pass.release(now);
            }
            rounds += 1;
            let has_time_passed = self.between_rounds(frames, now, rounds % ROUNDS_PER_WAIT == 0);
            rounds_to_clock = if has_time_passed {
                0
            } else {
                rounds_to_clock - 1
            };
        }
    }

    /// Sleeps, rests or checks for wakeups after a round that brought `frames` frames. True if time has passed, with
    /// that or with the frames.
    fn between_rounds(&mut self, frames: u64, now: u64, is_wait_due: bool) -> bool {
        if self.ports.iter().all(|port| port.state.is_idle()) {
            self.sleep_until_woken();
        } else if frames == 0 {
            return self.rest(now, is_wait_due);
        } else {
            self.idle_since = None;
            if is_wait_due {
                self.wait(Some(0));
            }
        }
        true
    }

    /// Yields the CPU while polled ports are empty (Cui 2013, 5.1.7). System calls are rare: a frame that arrives
    /// meanwhile would wait for them. True if there was one.
    fn rest(&mut self, now: u64, is_wait_due: bool) -> bool {
        let idle = now - *self.idle_since.get_or_insert(now);
        match self.policy.idle {
            Yield::Timed { sleep } => self.sleep(sleep.0),
            Yield::Adaptive { sleep, after } if idle >= after.0 => self.sleep(sleep.0),
            Yield::Immediate | Yield::Adaptive { .. } if is_wait_due => {
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

    /// Sleeps until a frame or a request comes, or a poll is due.
    fn sleep_until_woken(&mut self) {
        let before = self.now();
        self.budget.charge(before);
        self.wait(None);
        let now = self.now();
        let is_within = self.budget.refill(now);
        self.set_realtime(is_within);
    }

    /// Sends the completion interrupts that are due; returns the time of the next.
    fn notify_due(&mut self, now: u64) -> Option<u64> {
        let mut next = None;
        for port in &mut self.ports {
            let receive = &mut port.input.receive;
            // Later completions do not postpone the deadline.
            let latest = receive.completion_due().map(|wait| now + wait);
            port.notify_at = latest.map(|latest| port.notify_at.unwrap_or(latest));
            if port.notify_at.is_some_and(|at| at <= now) {
                receive.notify();
                port.notify_at = None;
            }
            next = [next, port.notify_at].into_iter().flatten().min();
        }
        next
    }

    fn set_realtime(&mut self, is_within_budget: bool) {
        let wanted = is_within_budget && self.policy.realtime;
        if wanted != self.is_realtime {
            self.is_realtime = wanted;
            if sys::set_realtime(wanted).is_err() {
                // Not permitted here: as if it were not configured.
                (self.policy.realtime, self.is_realtime) = (false, false);
            }
        }
    }

    /// Sleeps for `nanos`, or until a frame arrives on any port.
    fn sleep(&mut self, nanos: u64) {
        let is_polled = |port: &&mut Port| port.state.phase == Phase::Polling;
        let mut has_frames = false;
        for port in self.ports.iter_mut().filter(is_polled) {
            has_frames |= port.input.receive.arm();
        }
        self.wait(Some(if has_frames { 0 } else { nanos }));
        for port in self.ports.iter_mut().filter(is_polled) {
            port.input.receive.disarm();
        }
    }

    /// Waits for wakeups, at most `nanos` and at most until a completion interrupt or a poll is due.
    fn wait(&mut self, nanos: Option<u64>) {
        let now = self.now();
        let until_notify = self.notify_due(now).map(|at| at - now);
        let polls = self
            .ports
            .iter()
            .filter_map(|port| port.state.next_poll(now));
        let until_release = self.pass.until_release(now);
        let nanos = [nanos, until_notify, polls.min(), until_release]
            .into_iter()
            .flatten()
            .min();
        let timeout = nanos.map(|nanos| Timespec {
            tv_sec: i64::try_from(nanos / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(nanos % 1_000_000_000).unwrap_or_default(),
        });
        self.events.clear();
        let is_long = nanos != Some(0);
        if is_long {
            self.beat.sleeps();
        }
        // An interrupted wait is repeated by the loop.
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
                self.requests.is_pending.store(true, Ordering::Release);
                continue;
            }
            let is_it = |port: &&mut Port| u64::from(port.input.key.0) == key;
            if let Some(port) = self.ports.iter_mut().find(is_it) {
                let receive = &mut port.input.receive;
                if receive.is_gone() {
                    // The descriptor of a device that is gone stays readable.
                    let _ = epoll::delete(&self.epoll, receive.wakeup());
                    port.state.phase = Phase::Armed;
                    continue;
                }
                match port.state.after_wakeup() {
                    Woken::Ignored => {}
                    Woken::Disarm => receive.disarm(),
                    Woken::Rearm => {
                        receive.arm();
                        receive.disarm();
                    }
                }
            }
        }
    }

    /// Serves control's requests; false after a stop.
    fn serve_requests(&mut self) -> bool {
        while let Ok(request) = self.requests.queue.try_recv() {
            match request {
                Request::Install(snapshot) => self.pass.install(snapshot),
                Request::Attach(input) => self.attach(*input),
                Request::Detach(key, taken) => drop(taken.send(self.detach(key))),
                Request::SetMode(key, mode) => self.set_mode(key, mode),
                Request::SetPolicy(policy) => self.policy = policy,
                Request::Matrix(answer) => drop(answer.send(self.pass.decider().matrix().clone())),
                Request::Hits(answer) => drop(answer.send(self.pass.decider().hits_and_misses())),
                Request::Sync(done) => drop(done.send(())),
                Request::Stop => return false,
            }
        }
        true
    }

    fn set_mode(&mut self, key: InputKey, mode: Mode) {
        let now = self.now();
        if let Some(port) = self.ports.iter_mut().find(|port| port.input.key == key) {
            port.input.mode = mode;
            port.state.set_mode(mode, now);
            port.start();
        }
    }

    fn attach(&mut self, input: Input) {
        let key = epoll::EventData::new_u64(u64::from(input.key.0));
        let wakeup = input.receive.wakeup();
        // A port without a wakeup is polled.
        let can_wake = epoll::add(&self.epoll, wakeup, key, epoll::EventFlags::IN).is_ok();
        let mode = if can_wake {
            input.mode
        } else {
            Mode::VmmDriven
        };
        let mut port = Port {
            state: PortState::new(mode, self.now()),
            input,
            notify_at: None,
        };
        self.beat
            .add(port.input.key.0, &port.input.name, &port.input.counters);
        port.start();
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

fn count_mode_change(counters: &Counters) {
    counters.mode_changes.fetch_add(1, Ordering::Relaxed);
}
