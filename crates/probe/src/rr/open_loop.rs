//! Requests at a fixed rate, whether or not answers come.
//!
//! A closed loop sends nothing while it waits, so it samples an outage once. Here every request that is due meanwhile
//! is sent, and its time counts from when it was due: an outage shows in as many transactions as it touched.

use latlab_wire::samples::{Record, StoppedBy, flags};

use super::datagram::Datagram;
use super::transaction::{Tally, Transport};
use crate::error::{Error, Result};
use crate::net;
use crate::setup::Poll;
use crate::time;

const NS_PER_S: u128 = 1_000_000_000;

#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Requests in a second.
    pub rate: u64,
    pub count: u64,
    /// Time for answers after the last request.
    pub timeout_ns: u64,
}

impl Pace {
    /// Computed from the number and not by adding intervals, so that rounding does not add up.
    fn due_ns(self, number: u64) -> u64 {
        (u128::from(number) * NS_PER_S / u128::from(self.rate)) as u64
    }
}

/// Sends all requests and takes their answers. `records` holds those of the warm-up, and has room for the others.
pub fn measure(
    datagram: &mut Datagram,
    records: &mut Vec<Record>,
    pace: Pace,
    tally: &mut Tally,
) -> (StoppedBy, Result<()>) {
    let mut paced = Paced {
        datagram,
        records,
        tally,
        missing: 0,
    };
    match paced.run(pace) {
        Ok(()) => (StoppedBy::Count, Ok(())),
        Err(error) => (StoppedBy::Peer, Err(error)),
    }
}

struct Paced<'a> {
    datagram: &'a mut Datagram,
    records: &'a mut Vec<Record>,
    tally: &'a mut Tally,
    /// Requests that were sent and not answered yet.
    missing: u64,
}

impl Paced<'_> {
    fn run(&mut self, pace: Pace) -> Result<()> {
        let begin_ns = time::now_ns();
        for number in 0..pace.count {
            let due_ns = begin_ns + pace.due_ns(number);
            self.take_until(due_ns, false)?;
            let sequence = self.records.len() as u32;
            let sent = self.datagram.send(sequence, self.tally)?;
            self.missing += u64::from(sent);
            self.records.push(Record {
                sequence,
                // Until its answer comes.
                flags: flags::LOST | if sent { 0 } else { flags::NOT_SENT },
                start_ns: due_ns,
                ..Record::default()
            });
        }
        self.take_until(time::now_ns() + pace.timeout_ns, true)
    }

    /// Takes answers until a time; where there is no more to be sent, until all are there.
    fn take_until(&mut self, until_ns: u64, is_last: bool) -> Result<()> {
        loop {
            while let Some((answered, received_ns)) = self.datagram.take(self.tally)? {
                self.answer(answered, received_ns);
            }
            let now_ns = time::now_ns();
            if now_ns >= until_ns || (is_last && self.missing == 0) {
                return Ok(());
            }
            if self.datagram.poll() == Poll::Block {
                self.wait(until_ns - now_ns)?;
            }
        }
    }

    fn wait(&self, at_most_ns: u64) -> Result<()> {
        net::wait_for_input(self.datagram.socket(), at_most_ns)
            .map_err(|errno| Error::machine("wait for an answer", errno))
    }

    fn answer(&mut self, answered: Option<u32>, received_ns: u64) {
        let record = answered.and_then(|sequence| self.records.get_mut(sequence as usize));
        match record {
            None => self.tally.unmatched += 1,
            Some(record) if record.has(flags::WARM_UP) => self.tally.late += 1,
            Some(record) if record.has(flags::LOST) => {
                record.flags &= !flags::LOST;
                record.end_ns = received_ns;
                self.missing = self.missing.saturating_sub(1);
            }
            Some(_) => self.tally.duplicates += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_does_not_drift() {
        let pace = Pace {
            rate: 3,
            count: 7,
            timeout_ns: 0,
        };
        let due: Vec<u64> = (0..4).map(|number| pace.due_ns(number)).collect();
        assert_eq!(due, [0, 333_333_333, 666_666_666, 1_000_000_000]);
    }
}
