//! Choice of the program that a measurement asks for.

use latlab_model::spec::{Measurement, Program, Task, Workload};

use super::fio::Fio;
use super::hpcc::Hpcc;
use super::mpi_compiled::Compiled;
use super::mpi_hpcc::MpiHpcc;
use super::mpi_micro::MpiMicro;
use super::netpipe::Netpipe;
use super::npb::Npb;
use super::oltp::Oltp;
use super::own::Own;
use super::redis::Redis;
use super::sysbench_cpu::SysbenchCpu;
use super::sysbench_fileio::SysbenchFileio;
use super::times::Times;
use super::work::Work;
use super::xz::Xz;

/// The program of a measurement that runs in `nodes` nodes.
pub(in crate::workload) fn of(
    workload: &Workload,
    measurement: &Measurement,
    nodes: usize,
) -> Box<dyn Work> {
    let times = Times {
        duration_ns: measurement.duration.0,
        warmup_ns: measurement.warmup.0,
    };
    let program = match &workload.task {
        Task::Command(own) => return Box::new(Own(own.clone())),
        Task::Program(program) => program.clone(),
    };
    match program {
        Program::SysbenchCpu(asked) => Box::new(SysbenchCpu { asked, times }),
        Program::SysbenchFileio(asked) => Box::new(SysbenchFileio { asked, times }),
        Program::Xz(asked) => Box::new(Xz { asked, times }),
        Program::Redis(asked) => Box::new(Redis { asked, times }),
        Program::Fio(asked) => Box::new(Fio { asked, times }),
        Program::Oltp(asked) => Box::new(Oltp { asked, times }),
        Program::Hpcc(asked) => Box::new(Hpcc { asked }),
        Program::MpiHpcc(asked) => Box::new(MpiHpcc::new(asked, nodes)),
        Program::MpiMicro(asked) => Box::new(Compiled::new(MpiMicro::new(asked, nodes))),
        Program::Netpipe => Box::new(Netpipe::new()),
        Program::Npb(asked) => Box::new(Compiled::new(Npb::new(asked, nodes))),
    }
}
