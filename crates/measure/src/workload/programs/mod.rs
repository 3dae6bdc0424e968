//! The programs that latlab knows, one file each, and commands of the user's own.

mod fio;
mod hpcc;
mod mpi;
mod mpi_compiled;
mod mpi_hpcc;
mod mpi_micro;
mod netpipe;
mod npb;
mod oltp;
mod own;
mod redis;
mod sysbench;
mod sysbench_cpu;
mod sysbench_fileio;
mod times;
mod work;
mod xz;

use latlab_model::spec::{Measurement, Program, Task, Workload};

use mpi_compiled::Compiled;
use times::Times;
pub(crate) use work::Work;
pub(super) use work::{Evidence, Files, Peers, Place};

/// The program of a measurement that runs in `nodes` nodes.
pub(super) fn of(workload: &Workload, measurement: &Measurement, nodes: usize) -> Box<dyn Work> {
    let times = Times {
        duration_ns: measurement.duration.0,
        warmup_ns: measurement.warmup.0,
    };
    let program = match &workload.task {
        Task::Command(own) => return Box::new(own::Own(own.clone())),
        Task::Program(program) => program.clone(),
    };
    match program {
        Program::SysbenchCpu(asked) => Box::new(sysbench_cpu::SysbenchCpu { asked, times }),
        Program::SysbenchFileio(asked) => {
            Box::new(sysbench_fileio::SysbenchFileio { asked, times })
        }
        Program::Xz(asked) => Box::new(xz::Xz { asked, times }),
        Program::Redis(asked) => Box::new(redis::Redis { asked, times }),
        Program::Fio(asked) => Box::new(fio::Fio { asked, times }),
        Program::Oltp(asked) => Box::new(oltp::Oltp { asked, times }),
        Program::Hpcc(asked) => Box::new(hpcc::Hpcc { asked }),
        Program::MpiHpcc(asked) => Box::new(mpi_hpcc::MpiHpcc::new(asked, nodes)),
        Program::MpiMicro(asked) => Box::new(Compiled::new(mpi_micro::MpiMicro::new(asked, nodes))),
        Program::Netpipe => Box::new(netpipe::Netpipe::new()),
        Program::Npb(asked) => Box::new(Compiled::new(npb::Npb::new(asked, nodes))),
    }
}
