//! The programs that latlab knows, one file each, and commands of the user's own.

mod own;
mod sysbench_cpu;
mod work;

use latlab_model::spec::{Measurement, Program, Task, Workload};

pub(crate) use work::Work;

pub(super) fn of(workload: &Workload, measurement: &Measurement) -> Box<dyn Work> {
    match &workload.task {
        Task::Command(own) => Box::new(own::Own(own.clone())),
        Task::Program(Program::SysbenchCpu { max_prime, threads }) => {
            Box::new(sysbench_cpu::SysbenchCpu {
                max_prime: *max_prime,
                threads: *threads,
                seconds: seconds(measurement.duration.0),
                warmup_seconds: measurement.warmup.0.div_ceil(NS_PER_S),
            })
        }
    }
}

const NS_PER_S: u64 = 1_000_000_000;

/// Programs take whole seconds.
fn seconds(ns: u64) -> u64 {
    ns.div_ceil(NS_PER_S).max(1)
}
