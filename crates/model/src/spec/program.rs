//! The built-in programs of `probe: workload`: their parameters, and the tools that they need.
//!
//! Bounds keep a study from being refused in its tenth minute; what a machine can bear is seen there.

use std::ops::RangeInclusive;

use super::mpi::{MpiMicro, Npb};
use super::parameter::{number, size};
use super::reader::{Object, read, words};
use super::yaml::Yaml;
use crate::diagnostic::{Diagnostics, Spanned, hint_one_of, shown};
use crate::units::Bytes;

/// A program that latlab knows how to call, to read and to check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    SysbenchCpu(SysbenchCpu),
    SysbenchFileio(SysbenchFileio),
    Xz(Xz),
    Redis(Redis),
    Fio(Fio),
    Oltp(Oltp),
    Hpcc(Hpcc),
    /// This and what follows is one job over all nodes of the measurement.
    MpiHpcc(Hpcc),
    MpiMicro(MpiMicro),
    Netpipe,
    Npb(Npb),
}

/// Prime numbers by trial division: the rate of events and the time of each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SysbenchCpu {
    pub max_prime: u32,
    pub threads: u32,
}

/// Reads and writes of files by sysbench, as databases make them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SysbenchFileio {
    pub mode: FileMode,
    pub block_size: Bytes,
    /// Total of all files.
    pub size: Bytes,
    pub files: u32,
    pub threads: u32,
    /// Requests between two calls of fsync; 0 for none.
    pub fsync_every: u32,
    /// Where its files are made: an absolute path in the node.
    pub directory: String,
    /// Past the page cache (O_DIRECT).
    pub direct: bool,
}

/// Compression of generated text, again and again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Xz {
    pub size: Bytes,
    /// Preset, 0 to 9.
    pub level: u32,
    /// As many as there are CPUs without one.
    pub threads: Option<u32>,
}

/// A Redis server in memory, asked by redis-benchmark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redis {
    pub connections: u32,
    /// Requests that a connection sends before it waits for answers.
    pub pipeline: u32,
    pub value_size: Bytes,
    /// Keys that requests choose from at random.
    pub keys: u32,
}

/// Reads and writes of a file by fio.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fio {
    pub rw: Access,
    pub block_size: Bytes,
    /// Requests in flight.
    pub depth: u32,
    pub size: Bytes,
    /// Where its file is made: an absolute path in the node.
    pub directory: String,
    pub engine: Engine,
    /// Past the page cache (O_DIRECT).
    pub direct: bool,
}

/// MariaDB, asked by sysbench's mix of reads and writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Oltp {
    pub threads: u32,
    pub tables: u32,
    /// Rows of each table.
    pub table_size: u32,
    /// Where the database is made; in memory without one.
    pub directory: Option<String>,
}

/// HPC Challenge: Linpack, STREAM, RandomAccess and the network's tests of one program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hpcc {
    /// Ranks in each node.
    pub processes: u32,
    /// Order of Linpack's matrix; the other tests take their sizes from it.
    pub n: u32,
}

/// The pattern of fio's requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
    RandRead,
    RandWrite,
    /// Half reads, half writes.
    ReadWrite,
    RandRw,
}
words!(Access, "a pattern of access", {
    "read" => Read, "write" => Write, "randread" => RandRead, "randwrite" => RandWrite,
    "readwrite" => ReadWrite, "randrw" => RandRw,
});

impl Access {
    pub fn reads(self) -> bool {
        !matches!(self, Access::Write | Access::RandWrite)
    }

    pub fn writes(self) -> bool {
        !matches!(self, Access::Read | Access::RandRead)
    }
}

/// The pattern of sysbench's requests, by its own words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileMode {
    Read,
    Rewrite,
    RandRead,
    RandWrite,
    /// Three reads for two writes.
    RandRw,
}
words!(FileMode, "a mode of sysbench fileio", {
    "seqrd" => Read, "seqrewr" => Rewrite, "rndrd" => RandRead, "rndwr" => RandWrite, "rndrw" => RandRw,
});

impl FileMode {
    pub fn reads(self) -> bool {
        !matches!(self, FileMode::Rewrite | FileMode::RandWrite)
    }

    pub fn writes(self) -> bool {
        !matches!(self, FileMode::Read | FileMode::RandRead)
    }
}

/// How fio gives requests to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    Libaio,
    IoUring,
    /// One request at a time, whatever the depth.
    Psync,
}
words!(Engine, "an engine of fio", { "libaio" => Libaio, "io_uring" => IoUring, "psync" => Psync });

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramName {
    SysbenchCpu,
    SysbenchFileio,
    Xz,
    Redis,
    Fio,
    Oltp,
    Hpcc,
    MpiHpcc,
    MpiMicro,
    Netpipe,
    Npb,
}
words!(ProgramName, "a built-in program", {
    "sysbench-cpu" => SysbenchCpu, "sysbench-fileio" => SysbenchFileio, "xz" => Xz, "redis" => Redis, "fio" => Fio,
    "oltp" => Oltp, "hpcc" => Hpcc, "mpi-hpcc" => MpiHpcc, "mpi-micro" => MpiMicro, "netpipe" => Netpipe, "npb" => Npb,
});

impl ProgramName {
    /// The files that it needs, each with the package that has it.
    pub fn tools(self) -> &'static [(&'static str, &'static str)] {
        match self {
            ProgramName::SysbenchCpu | ProgramName::SysbenchFileio => &[("sysbench", "sysbench")],
            ProgramName::Xz => &[("xz", "xz-utils")],
            ProgramName::Redis => &[
                ("redis-server", "redis-server"),
                ("redis-benchmark", "redis-tools"),
            ],
            ProgramName::Fio => &[("fio", "fio")],
            ProgramName::Oltp => &[
                ("mariadbd", "mariadb-server-core"),
                ("mariadb", "mariadb-client-core"),
                ("sysbench", "sysbench"),
            ],
            ProgramName::Hpcc | ProgramName::MpiHpcc => {
                &[("hpcc", "hpcc"), ("mpirun", "openmpi-bin")]
            }
            // Compiled in each node, by the compiler that `mpicc` calls.
            ProgramName::MpiMicro | ProgramName::Npb => &[
                ("gcc", "gcc"),
                ("mpi.h", "libopenmpi-dev"),
                ("mpirun", "openmpi-bin"),
            ],
            ProgramName::Netpipe => &[("NPopenmpi", "netpipe-openmpi"), ("mpirun", "openmpi-bin")],
        }
    }

    /// Whether it is a client and a server, which may be in two nodes.
    pub fn has_server(self) -> bool {
        matches!(self, ProgramName::Redis | ProgramName::Oltp)
    }

    /// Whether it runs for the time that it is given, or takes the time that it takes.
    pub fn is_timed(self) -> bool {
        self != ProgramName::Hpcc && !self.is_joint()
    }

    /// Whether all nodes of a measurement run one job together, and talk over the links that join them.
    pub fn is_joint(self) -> bool {
        matches!(
            self,
            ProgramName::MpiHpcc | ProgramName::MpiMicro | ProgramName::Netpipe | ProgramName::Npb
        )
    }
}

impl Program {
    pub fn name(&self) -> ProgramName {
        match self {
            Program::SysbenchCpu(_) => ProgramName::SysbenchCpu,
            Program::SysbenchFileio(_) => ProgramName::SysbenchFileio,
            Program::Xz(_) => ProgramName::Xz,
            Program::Redis(_) => ProgramName::Redis,
            Program::Fio(_) => ProgramName::Fio,
            Program::Oltp(_) => ProgramName::Oltp,
            Program::Hpcc(_) => ProgramName::Hpcc,
            Program::MpiHpcc(_) => ProgramName::MpiHpcc,
            Program::MpiMicro(_) => ProgramName::MpiMicro,
            Program::Netpipe => ProgramName::Netpipe,
            Program::Npb(_) => ProgramName::Npb,
        }
    }

    /// The directory of the node that its files are made in; one in memory without.
    pub fn directory(&self) -> Option<&str> {
        match self {
            Program::Fio(fio) => Some(&fio.directory),
            Program::SysbenchFileio(fileio) => Some(&fileio.directory),
            Program::Oltp(oltp) => oltp.directory.as_deref(),
            _ => None,
        }
    }
}

const PRIMES: RangeInclusive<u32> = 3..=10_000_000;
const THREADS: RangeInclusive<u32> = 1..=1024;
const LEVELS: RangeInclusive<u32> = 0..=9;
/// The digest and the text of a node are made before it begins, within minutes.
const TEXTS: RangeInclusive<u64> = 64 << 10..=4 << 30;
/// The limit of files that Debian gives a process.
const CONNECTIONS: RangeInclusive<u32> = 1..=1000;
const PIPELINES: RangeInclusive<u32> = 1..=1000;
const VALUES: RangeInclusive<u64> = 1..=1 << 20;
const KEYS: RangeInclusive<u32> = 1..=100_000_000;
/// A checksum stands in front of each block.
const BLOCKS: RangeInclusive<u64> = 512..=16 << 20;
const DEPTHS: RangeInclusive<u32> = 1..=4096;
const FILES: RangeInclusive<u64> = 1 << 20..=1 << 40;
/// sysbench opens all of them at once.
const FILE_COUNTS: RangeInclusive<u32> = 1..=512;
const FSYNC_INTERVALS: RangeInclusive<u32> = 0..=1_000_000;
const TABLES: RangeInclusive<u32> = 1..=100;
const ROWS: RangeInclusive<u32> = 100..=10_000_000;
const PROCESSES: RangeInclusive<u32> = 1..=256;
const ORDERS: RangeInclusive<u32> = 100..=100_000;
/// Kept over a reboot, and on a disk, by the Filesystem Hierarchy Standard.
const DIRECTORY: &str = "/var/tmp";

/// A word, or a mapping of its name and parameters.
pub(super) fn read_program(
    yaml: &Yaml,
    of: &Object<'_>,
    errors: &mut Diagnostics,
) -> Option<Program> {
    let what = format!("`program` of {}", of.what);
    let bare = Yaml::map(yaml.at, Vec::new());
    let (mut o, name) = if yaml.scalar().is_some() {
        let name = read::<ProgramName>(yaml, &what, errors);
        (Object::new(&bare, what, errors), name)
    } else {
        let mut o = Object::new(yaml, what, errors);
        let named = o.require("name", errors).is_some();
        let name = named.then(|| o.get::<ProgramName>("name", errors));
        if !named {
            let missing = format!("{} has no `name`", o.what);
            errors.add(o.at, missing, hint_one_of("", ProgramName::WORDS));
        }
        (o, name.flatten())
    };
    // Parameters are those of a program.
    let name = name?;
    let program = parameters(name.value, &mut o, errors);
    o.finish(errors);
    Some(program)
}

fn parameters(name: ProgramName, o: &mut Object<'_>, errors: &mut Diagnostics) -> Program {
    match name {
        ProgramName::SysbenchCpu => Program::SysbenchCpu(SysbenchCpu {
            max_prime: number(o, "max_prime", 10_000, &PRIMES, errors),
            threads: number(o, "threads", 1, &THREADS, errors),
        }),
        ProgramName::SysbenchFileio => Program::SysbenchFileio(sysbench_fileio(o, errors)),
        ProgramName::Xz => Program::Xz(Xz {
            size: size(o, "size", 16 << 20, &TEXTS, errors),
            level: number(o, "level", 2, &LEVELS, errors),
            threads: threads_or_all(o, errors),
        }),
        ProgramName::Redis => Program::Redis(Redis {
            connections: number(o, "connections", 50, &CONNECTIONS, errors),
            pipeline: number(o, "pipeline", 10, &PIPELINES, errors),
            value_size: size(o, "value_size", 50, &VALUES, errors),
            keys: number(o, "keys", 100_000, &KEYS, errors),
        }),
        ProgramName::Fio => Program::Fio(fio(o, errors)),
        ProgramName::Oltp => Program::Oltp(Oltp {
            threads: number(o, "threads", 4, &THREADS, errors),
            tables: number(o, "tables", 1, &TABLES, errors),
            table_size: number(o, "table_size", 10_000, &ROWS, errors),
            directory: directory(o, errors),
        }),
        ProgramName::Hpcc => Program::Hpcc(hpcc(o, errors)),
        ProgramName::MpiHpcc => Program::MpiHpcc(hpcc(o, errors)),
        ProgramName::MpiMicro => Program::MpiMicro(super::mpi::micro(o, errors)),
        ProgramName::Netpipe => Program::Netpipe,
        ProgramName::Npb => Program::Npb(super::mpi::npb(o, errors)),
    }
}

fn hpcc(o: &mut Object<'_>, errors: &mut Diagnostics) -> Hpcc {
    Hpcc {
        processes: number(o, "processes", 1, &PROCESSES, errors),
        n: number(o, "n", 1000, &ORDERS, errors),
    }
}

fn fio(o: &mut Object<'_>, errors: &mut Diagnostics) -> Fio {
    let fio = Fio {
        rw: o.value("rw", errors).unwrap_or(Access::RandRead),
        block_size: size(o, "block_size", 4 << 10, &BLOCKS, errors),
        depth: number(o, "depth", 128, &DEPTHS, errors),
        size: size(o, "size", 256 << 20, &FILES, errors),
        directory: directory(o, errors).unwrap_or_else(|| DIRECTORY.to_owned()),
        engine: o.value("engine", errors).unwrap_or(Engine::Libaio),
        direct: o.value("direct", errors).unwrap_or(true),
    };
    check_blocks(o, (fio.block_size, fio.size), 1, errors);
    fio
}

fn sysbench_fileio(o: &mut Object<'_>, errors: &mut Diagnostics) -> SysbenchFileio {
    let fileio = SysbenchFileio {
        mode: o.value("mode", errors).unwrap_or(FileMode::RandRw),
        block_size: size(o, "block_size", 16 << 10, &BLOCKS, errors),
        size: size(o, "size", 256 << 20, &FILES, errors),
        files: number(o, "files", 1, &FILE_COUNTS, errors),
        threads: number(o, "threads", 1, &THREADS, errors),
        fsync_every: number(o, "fsync_every", 100, &FSYNC_INTERVALS, errors),
        directory: directory(o, errors).unwrap_or_else(|| DIRECTORY.to_owned()),
        direct: o.value("direct", errors).unwrap_or(true),
    };
    check_blocks(o, (fileio.block_size, fileio.size), fileio.files, errors);
    fileio
}

/// A file is of whole blocks, and a block of whole sectors.
fn check_blocks(
    o: &Object<'_>,
    (block, size): (Bytes, Bytes),
    files: u32,
    errors: &mut Diagnostics,
) {
    let unit = block.0.max(1).saturating_mul(u64::from(files.max(1)));
    if block.0 % 512 == 0 && size.0 % unit == 0 {
        return;
    }
    let of = match files {
        1 => String::new(),
        files => format!(" in each of {files} files"),
    };
    let message = format!("`size` of {} is no number of whole blocks{of}", o.what);
    let hint = "blocks are of whole sectors of 512 bytes, for example `block_size: 4KiB` and `size: 256MiB`";
    let at = o.key_at("block_size").or(o.key_at("size"));
    errors.add(at.unwrap_or(o.at), message, hint);
}

/// A number of threads; `None` for `all`.
fn threads_or_all(o: &mut Object<'_>, errors: &mut Diagnostics) -> Option<u32> {
    let is_all = o.take("threads").and_then(Yaml::scalar) == Some("all");
    (!is_all).then(|| number(o, "threads", 1, &THREADS, errors))
}

/// An absolute path without steps back. Shell lines have it in single quotes.
fn directory(o: &mut Object<'_>, errors: &mut Diagnostics) -> Option<String> {
    let given: Spanned<String> = o.get("directory", errors)?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@".contains(c);
    let steps_back = given.split('/').any(|step| step == "..");
    if !given.starts_with('/') || steps_back || !given.chars().all(is_plain) {
        let message = format!("`directory` of {} is `{}`", o.what, shown(&given));
        let hint =
            "an absolute path in the node of letters, digits and `._-+@`, such as `/var/tmp`";
        errors.add(given.at, message, hint);
    }
    Some(given.value)
}
