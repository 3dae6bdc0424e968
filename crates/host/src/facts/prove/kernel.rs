//! Features behind system calls: namespaces and BPF.

use std::fs::File;
use std::io::{self, Read};

use latlab_model::facts::Facts;

use super::report::Report;
use crate::sys::{bpf, feature};

pub(super) const BPF: &[&str] = &[Facts::BPF, Facts::BPF_BTF, Facts::BPF_RAW_TRACEPOINT];

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
        bpf::load(bpf::SCHED_CLS, &bpf::RETURN_0)
    });
    report.try_one(Facts::BPF_BTF, "the kernel's types were read", read_btf);
    report.try_one(
        Facts::BPF_RAW_TRACEPOINT,
        "a program was attached for a moment",
        || {
            let program = bpf::load(bpf::RAW_TRACEPOINT, &bpf::RETURN_0)?;
            bpf::attach_raw_tracepoint(TRACEPOINT, &program)
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
