//! Features behind system calls: namespaces, BPF, CPU counters, io_uring.

use std::fs::File;
use std::io::{self, Read};

use latlab_model::facts::Facts;

use super::{Outcome, Report};
use crate::sys::feature::{self, BpfProgram};

pub(super) const NAMESPACES: &[&str] = &[Facts::NAMESPACES, Facts::USER_NAMESPACES];
pub(super) const BPF: &[&str] = &[
    Facts::BPF,
    Facts::BPF_BTF,
    Facts::BPF_RINGBUF,
    Facts::BPF_RAW_TRACEPOINT,
];
pub(super) const CALLS: &[&str] = &[Facts::PERF_COUNTERS, Facts::IO_URING];

/// The namespaces of a node, with the words for a refusal.
const KINDS: &[(libc::c_int, &str)] = &[
    (libc::CLONE_NEWNS, "mount"),
    (libc::CLONE_NEWPID, "pid"),
    (libc::CLONE_NEWUTS, "uts"),
    (libc::CLONE_NEWIPC, "ipc"),
    (libc::CLONE_NEWCGROUP, "cgroup"),
    (libc::CLONE_NEWNET, "network"),
];

/// A trace point that fires seldom, so that the machine is not disturbed while it is attached.
const TRACEPOINT: &str = "sched_process_exec";

const BTF: &str = "/sys/kernel/btf/vmlinux";
const BTF_MAGIC: u16 = 0xeb9f;

pub(super) fn namespaces(report: &Report) {
    report.try_one(
        Facts::NAMESPACES,
        "a process was started in new ones",
        node_namespaces,
    );
    report.try_one(
        Facts::USER_NAMESPACES,
        "a process was started in a new one",
        || feature::try_namespaces(libc::CLONE_NEWUSER),
    );
}

fn node_namespaces() -> io::Result<()> {
    let all = KINDS.iter().fold(0, |all, (flag, _)| all | flag);
    let Err(error) = feature::try_namespaces(all) else {
        return Ok(());
    };
    let fails = |(flag, _): &&(libc::c_int, &str)| feature::try_namespaces(*flag).is_err();
    let kinds: Vec<&str> = KINDS.iter().filter(fails).map(|(_, kind)| *kind).collect();
    // Lack of privilege concerns all alike and must stay recognisable by its errno.
    if kinds.is_empty() || kinds.len() == KINDS.len() {
        return Err(error);
    }
    let kinds = kinds.join(", ");
    Err(io::Error::other(format!(
        "cannot make {kinds} namespaces: {error}"
    )))
}

pub(super) fn bpf(report: &Report) {
    report.try_one(Facts::BPF, "a classifier was loaded", || {
        feature::load_bpf(BpfProgram::SchedClassifier)
    });
    report.try_one(Facts::BPF_BTF, "the kernel's types were read", read_btf);
    report.try_one(
        Facts::BPF_RINGBUF,
        "a ring buffer was made",
        feature::make_bpf_ringbuf,
    );
    report.try_one(
        Facts::BPF_RAW_TRACEPOINT,
        "a program was attached for a moment",
        || {
            let program = feature::load_bpf(BpfProgram::RawTracepoint)?;
            feature::attach_raw_tracepoint(TRACEPOINT, &program)
        },
    );
}

fn read_btf() -> io::Result<()> {
    let with_name = |error: io::Error| io::Error::new(error.kind(), format!("{BTF}: {error}"));
    let mut magic = [0; 2];
    let mut file = File::open(BTF).map_err(with_name)?;
    file.read_exact(&mut magic).map_err(with_name)?;
    if u16::from_ne_bytes(magic) == BTF_MAGIC {
        Ok(())
    } else {
        Err(io::Error::other(format!("{BTF} is not BTF")))
    }
}

pub(super) fn calls(report: &Report) {
    if report.wants(Facts::PERF_COUNTERS) {
        report.note(Facts::PERF_COUNTERS, cycles());
    }
    report.try_one(Facts::IO_URING, "a ring was made", feature::make_io_uring);
}

/// A counter that opens and stands still, as under some hypervisors, is none.
fn cycles() -> Outcome {
    let counted = || -> io::Result<u64> {
        let mut counter = File::from(feature::open_cycle_counter()?);
        let mut count = [0; 8];
        for turn in 0..10_000u64 {
            std::hint::black_box(turn);
        }
        counter.read_exact(&mut count)?;
        Ok(u64::from_ne_bytes(count))
    };
    match counted() {
        Ok(0) => Outcome::Fails("the CPU's cycle counter stands still".into()),
        Ok(_) => Outcome::Works("cycles were counted".into()),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {
            Outcome::Fails("the CPU, or the hypervisor, offers no cycle counter".into())
        }
        Err(error) => super::refused(&error),
    }
}
