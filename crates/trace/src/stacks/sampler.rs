//! Attaches the sampler to threads and reads its samples.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, IntoRawFd};

use latlab_bpf::said;
use latlab_samples::table::Stack;
use latlab_wire::trace::{STACK_SAMPLE_BYTES, StackSample};
use libbpf_rs::{Link, Object};

use super::files::Files;
use super::names::{Names, printable};
use super::unwind::Process;
use crate::error::Error;
use crate::object;
use crate::sys::{Shared, cpu_clock};

const WHAT: &str = "the stack sampler";
/// Samples at most: 1.1 GB of them.
const MAX_SAMPLES: u64 = 1 << 17;

pub struct Sampler {
    // The links go before the programs.
    links: Vec<Link>,
    object: Object,
    samples: Shared,
    state: Shared,
    room: u64,
}

/// The samples of a window.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sampled {
    /// In the order of time, all with hop 0.
    pub stacks: Vec<Stack>,
    /// Samples for which there was no room.
    pub lost: u32,
}

impl Sampler {
    /// Loads the program with room for a number of samples, or fewer. Fails when the kernel cannot run it.
    pub fn load(room: u64) -> Result<Sampler, Error> {
        if !crate::has_types() {
            return Err(Error::NoTypes);
        }
        let room = room.clamp(1, MAX_SAMPLES);
        let object = load(room as u32)?;
        let map = |suffix: &str, length| object::map(WHAT, &object, suffix, length);
        let samples = map("samples", room as usize * STACK_SAMPLE_BYTES)?;
        let state = map(".bss", 8)?;
        Ok(Sampler {
            links: Vec::new(),
            object,
            samples,
            state,
            room,
        })
    }

    /// Samples the threads of a process, and those that they start later, `rate` times in a second of their
    /// running. A thread that ends meanwhile is passed over.
    pub fn watch(&mut self, process: u32, rate: u32) -> Result<(), Error> {
        let program = self
            .object
            .progs_mut()
            .next()
            .ok_or_else(|| object::refused(WHAT, "it has no program".into()))?;
        for thread in threads(process) {
            let failed = |reason: String| Error::Attach {
                what: WHAT,
                to: format!("thread {thread}"),
                reason,
            };
            let clock = match cpu_clock(thread, 1_000_000_000 / u64::from(rate.max(1))) {
                Err(rustix::io::Errno::SRCH) => continue,
                opened => opened.map_err(|error| failed(error.to_string()))?,
            };
            let link = program.attach_perf_event(clock.as_raw_fd());
            self.links.push(link.map_err(|error| failed(said(&error)))?);
            // libbpf closes the descriptor with the link.
            let _closed_by_link = clock.into_raw_fd();
        }
        Ok(())
    }

    /// Watches no thread any more, and forgets the samples.
    pub fn suspend(&mut self) {
        self.links.clear();
        self.state.store(0, 0);
        self.state.store(4, 0);
    }

    /// Stops, and names the functions. The processes should still be there: the code of one that has ended has
    /// no names.
    #[must_use]
    pub fn finish(mut self) -> Sampled {
        self.links.clear();
        let taken = self.state.load(0);
        let samples = (0..taken.min(self.room)).map(|place| {
            let bytes = self
                .samples
                .copy(place as usize * STACK_SAMPLE_BYTES, STACK_SAMPLE_BYTES);
            StackSample::from_bytes(&bytes)
        });
        let (mut files, mut names) = (Files::default(), Names::new());
        let mut processes: HashMap<u32, Process> = HashMap::new();
        let mut stacks: Vec<Stack> = Vec::new();
        for sample in samples.filter(|sample| sample.time_ns != 0) {
            let process = processes
                .entry(sample.process)
                .or_insert_with(|| Process::read(sample.process, &mut files));
            stacks.push(Stack {
                time_ns: sample.time_ns,
                hop: 0,
                cpu: sample.cpu,
                process: sample.process,
                task: sample.task,
                frames: folded(&sample, process, &files, &mut names),
            });
        }
        stacks.sort_by_key(|stack| stack.time_ns);
        Sampled {
            stacks,
            lost: u32::try_from(taken.saturating_sub(self.room)).unwrap_or(u32::MAX),
        }
    }
}

/// The thread's name and the functions, the outermost first, as flamegraph.pl reads them.
fn folded(sample: &StackSample, process: &mut Process, files: &Files, names: &mut Names) -> String {
    let mut frames = vec![printable(&sample.name())];
    let user = process.unwound(sample);
    if user.is_cut {
        frames.push("[truncated]".into());
    }
    let user = user.addresses.iter().rev();
    frames.extend(user.map(|&address| names.of_user(process, files, address)));
    let kernel = sample.kernel.iter().rev();
    frames.extend(kernel.map(|&address| names.of_kernel(address)));
    frames.join(";")
}

fn threads(process: u32) -> Vec<u32> {
    let entries = std::fs::read_dir(format!("/proc/{process}/task"));
    let names = entries.into_iter().flatten().flatten();
    names
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// The namespace in which this process has its number; 0 if it cannot be read.
fn pid_namespace() -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino())
}

fn load(room: u32) -> Result<Object, Error> {
    const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/stacks.bpf.o"));
    let constants = |value: &mut [u8]| {
        value[..8].copy_from_slice(&u64::from(room).to_ne_bytes());
        value[8..16].copy_from_slice(&pid_namespace().to_ne_bytes());
    };
    object::load(WHAT, OBJECT, ("samples", room), constants)
}
