//! The set-up of every probe before it measures: the options all of them have, and the conditions
//! they ask the machine for.
//!
//! A real-time priority is for probes that sleep between events, or that have a CPU to themselves.
//! One that spins under `SCHED_FIFO` leaves the kernel's own threads on its CPU only the few percent
//! of time that real-time throttling reserves, and work that waits for those threads waits long.
//!
//! CPUs and the real-time priority are granted or the probe refuses to run, because a result under
//! other conditions than asked for misleads. Locking memory is best effort: without it the probe
//! still touches everything beforehand, page faults are counted, and the report says so.

use std::fs;
use std::net::SocketAddr;

use latlab_wire::samples::{Conditions, Probe, Ready, Record};
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::net::RecvFlags;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::args::{CpuList, Options};
use crate::error::{Error, Result};
use crate::output::{Format, Output};
use crate::{sys, time};

/// Default memory for records: enough for ten seconds at a million packets a
/// second at a source, and a quarter of a small guest's memory.
const DEFAULT_MAX_MEMORY_BYTES: u64 = 256 << 20;

/// Whether a receiver sleeps or spins while it waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Poll {
    /// Blocks in the system call: what applications do, at the price of a wake-up per message.
    Block,
    /// Asks again and again: no wake-up, a whole CPU.
    Busy,
}

impl Poll {
    pub fn take(options: &mut Options, default: Poll) -> Result<Poll> {
        let choices = [("block", Poll::Block), ("busy", Poll::Busy)];
        Ok(options.choice("poll", &choices)?.unwrap_or(default))
    }

    /// How a call that receives waits.
    pub fn flags(self) -> RecvFlags {
        match self {
            Poll::Block => RecvFlags::empty(),
            Poll::Busy => RecvFlags::DONTWAIT,
        }
    }
}

#[derive(Debug)]
pub struct Common {
    cpus: Option<CpuList>,
    pub fifo_priority: Option<u32>,
    max_memory_bytes: u64,
}

impl Common {
    pub fn take(options: &mut Options, output: &mut Output) -> Result<Common> {
        let formats = [("frames", Format::Frames), ("json", Format::Json)];
        if let Some(format) = options.choice("output", &formats)? {
            output.set_format(format);
        }
        Ok(Common {
            cpus: options.value("cpu", "a list of CPUs such as 0,2-3")?,
            // 99 is left for the thread that waits for the end, see `stop`.
            fifo_priority: options
                .number("fifo", 1, 98)?
                .map(|priority| priority as u32),
            max_memory_bytes: options
                .number("max-memory", 0, u64::MAX)?
                .unwrap_or(DEFAULT_MAX_MEMORY_BYTES),
        })
    }

    /// Asks the machine for CPUs, priority and exact timers, for this thread and those it makes.
    pub fn apply(&self) -> Result<()> {
        if let Some(CpuList(cpus)) = &self.cpus {
            let mut set = CpuSet::new();
            cpus.iter().for_each(|&cpu| set.set(cpu as usize));
            let refused = |error| Error::machine(format!("run on the CPUs {cpus:?}"), error);
            sched_setaffinity(None, &set).map_err(refused)?;
            // The kernel ignores CPUs that are missing as long as one is there.
            if let Some(cpu) = cpus.iter().find(|cpu| !allowed_cpus().contains(cpu)) {
                let missing = std::io::Error::other("no such CPU, or not allowed here");
                return Err(Error::machine(format!("run on CPU {cpu}"), missing));
            }
        }
        if let Some(priority) = self.fifo_priority {
            sys::set_fifo(priority).map_err(|error| {
                Error::machine(format!("run as SCHED_FIFO with priority {priority}"), error)
            })?;
        }
        time::ask_for_exact_timers()
    }

    /// Most records of `bytes_each` that fit the memory allowed.
    pub fn room(&self, bytes_each: u64) -> u64 {
        self.max_memory_bytes / bytes_each
    }

    /// Refuses `records` of `bytes_each` if they do not fit the memory allowed.
    pub fn check_memory(&self, records: u64, bytes_each: u64) -> Result<()> {
        let needed_bytes = records.saturating_mul(bytes_each);
        if needed_bytes > self.max_memory_bytes {
            let allowed_bytes = self.max_memory_bytes;
            return Err(Error::Memory {
                records,
                needed_bytes,
                allowed_bytes,
            });
        }
        Ok(())
    }

    /// Locks the memory the probe has and says that it is ready, where, and under which conditions.
    pub fn ready(
        &self,
        output: &mut Output,
        probe: Probe,
        local: Option<SocketAddr>,
        receive_buffer_bytes: Option<u64>,
    ) -> Result<()> {
        // By now everything is allocated: locking future memory as well would make a later
        // allocation fail where the limit is small, while locking what is there cannot hurt.
        let locked = mlockall(MlockAllFlags::CURRENT);
        let conditions = Conditions {
            cpus: allowed_cpus(),
            fifo_priority: self.fifo_priority,
            memory_not_locked: locked.err().map(|why| why.to_string()),
            clock_source: clock_source(),
            receive_buffer_bytes,
        };
        output.ready(Ready {
            probe,
            local,
            conditions,
        })
    }
}

pub fn allowed_cpus() -> Vec<u32> {
    sched_getaffinity(None)
        .map(|set| (0..1024).filter(|&cpu| set.is_set(cpu as usize)).collect())
        .unwrap_or_default()
}

fn clock_source() -> Option<String> {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    Some(fs::read_to_string(path).ok()?.trim_end().to_owned())
}

/// Room for `count` records, every page of it touched, so that filling it faults nowhere.
pub fn touched_records(count: u64) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    grow_touched(&mut records, count)?;
    Ok(records)
}

/// Makes room for `count` records in all and touches it.
pub fn grow_touched(records: &mut Vec<Record>, count: u64) -> Result<()> {
    let length = records.len();
    let count = (count as usize).max(length);
    records.try_reserve_exact(count - length).map_err(|error| {
        Error::machine(
            format!("allocate {count} records"),
            std::io::Error::other(error),
        )
    })?;
    // Not zero, which an allocator could provide without touching anything.
    let filler = Record {
        sequence: u32::MAX,
        end_ns: u64::MAX,
        ..Record::default()
    };
    records.resize(count, filler);
    std::hint::black_box(&mut *records);
    records.truncate(length);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn common(max_memory: &str) -> Common {
        let args = ["--max-memory", max_memory].map(std::ffi::OsString::from);
        let mut options = Options::parse(args.into_iter()).unwrap();
        Common::take(&mut options, &mut Output::stdout()).unwrap()
    }

    #[test]
    fn too_many_records_are_refused_with_the_memory_they_need() {
        let common = common("2400");
        assert_eq!(common.room(24), 100);
        common.check_memory(100, 24).unwrap();
        assert_eq!(
            common.check_memory(101, 24).unwrap_err().to_string(),
            "101 records need 2424 bytes of memory, 2400 are allowed; ask for fewer, \
             or give --max-memory 2424",
        );
        assert!(common.check_memory(u64::MAX, 24).is_err());
    }

    #[test]
    fn growing_keeps_what_is_there() {
        let mut records = touched_records(10).unwrap();
        records.push(Record {
            sequence: 7,
            ..Record::default()
        });
        grow_touched(&mut records, 1000).unwrap();
        assert_eq!((records.len(), records[0].sequence), (1, 7));
        assert!(records.capacity() >= 1000);
        grow_touched(&mut records, 0).unwrap();
        assert_eq!(records.len(), 1);
    }

    #[test]
    fn this_thread_may_run_somewhere() {
        assert!(!allowed_cpus().is_empty());
    }
}
