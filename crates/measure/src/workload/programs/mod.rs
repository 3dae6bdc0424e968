//! The programs that latlab knows, one file each, and commands of the user's own.

mod choice;
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

pub(super) use choice::of;
pub(crate) use work::Work;
pub(super) use work::{Evidence, Files, Peers, Place};
