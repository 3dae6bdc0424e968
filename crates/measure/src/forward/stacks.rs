//! Sampled stacks of the devices under test, where a measurement asks for them.
//!
//! The threads in the devices' nodes are sampled, and those that they start during the window. The functions get
//! their names before the devices end: their files are found by their memory.

use std::collections::BTreeMap;
use std::error::Error;

use latlab_model::results::Trace;
use latlab_samples::table::Stack;
use latlab_trace::stacks::{Sampled, Sampler};
use latlab_wire::trace::STACK_SAMPLE_BYTES;

use crate::context::Context;
use crate::memory;
use crate::probes::window_seconds;

/// The samples take at most this part of the free memory.
const MEMORY_PART: u64 = 8;
/// Threads that run all the time, of one device.
const BUSY_THREADS: f64 = 4.0;

pub(super) struct Sampling {
    sampler: Sampler,
    /// The device of each process, by its place along the path.
    hops: BTreeMap<u32, u16>,
}

impl Sampling {
    /// Begins to sample, if asked for. Without a sampler the trial goes on, with the reason in `trace`.
    pub fn start(context: &Context<'_>, trace: &mut Trace) -> Option<Sampling> {
        let rate = context.measurement.sampling?;
        trace.sample_rate = rate;
        match Sampling::watch(context, rate) {
            Ok(sampling) => Some(sampling),
            Err(reason) => {
                trace.unknown.push(format!(
                    "{reason}: where in its code the device was is not known"
                ));
                None
            }
        }
    }

    fn watch(context: &Context<'_>, rate: u32) -> Result<Sampling, Box<dyn Error>> {
        let devices = &context.measurement.through;
        let busy = BUSY_THREADS * devices.len().max(1) as f64;
        let wanted = window_seconds(context) * f64::from(rate) * busy;
        let affordable = memory::available_bytes() / MEMORY_PART / STACK_SAMPLE_BYTES as u64;
        let mut sampling = Sampling {
            sampler: Sampler::load((wanted as u64).min(affordable))?,
            hops: BTreeMap::new(),
        };
        for (hop, node) in devices.iter().enumerate() {
            for process in context.lab.processes(&node.value)? {
                sampling.sampler.watch(process, rate)?;
                sampling.hops.insert(process, hop as u16);
            }
        }
        match sampling.hops.is_empty() {
            true => Err("no process runs in the device under test".into()),
            false => Ok(sampling),
        }
    }

    /// Stops, and names the functions. The devices must still run.
    pub fn finish(self, trace: &mut Trace) -> Vec<Stack> {
        let Sampled { mut stacks, lost } = self.sampler.finish();
        trace.samples_lost = lost;
        if stacks.is_empty() {
            let text = "no thread of the device ran when stacks were sampled";
            trace.unknown.push(text.into());
        }
        let is_one = self.hops.values().all(|&hop| hop == 0);
        // A process that was started meanwhile belongs to the device, if there is one.
        stacks.retain_mut(|stack| match self.hops.get(&stack.process) {
            Some(&hop) => {
                stack.hop = hop;
                true
            }
            None => is_one,
        });
        stacks
    }
}
