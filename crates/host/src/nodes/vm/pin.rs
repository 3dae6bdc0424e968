//! Puts a guest's threads where its blueprint says: each virtual CPU on its own, everything else
//! of QEMU apart from them (Welch 2015, table 3.3; Daichendt 2022, 5.5).
//!
//! Which thread is which is asked of QEMU, never guessed from names. A thread that QEMU starts later
//! inherits its place from the one that starts it, which is none of the virtual CPUs'.

use std::collections::BTreeSet;
use std::io;

use latlab_model::plan::NodePlace;
use latlab_model::units::CpuList;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

use super::error::Error;
use super::guest::Vm;
use crate::sys::{self, proc};

/// Pins the threads of a guest that runs. Does nothing for one that has no place of its own. Fails when QEMU does not
/// say which threads its virtual CPUs are, or the kernel refuses: then a measurement would not be what the plan says.
pub fn pin(vm: &Vm, place: &NodePlace) -> Result<(), Error> {
    let Some(emulator) = &place.emulator else {
        return Ok(());
    };
    let vcpus = vm.qmp()?.vcpu_threads()?;
    for thread in &vcpus {
        let own = place.vcpus.get(thread.vcpu as usize);
        let cpus = own.map_or_else(|| place.cores.cpus.clone(), |cpu| CpuList::new(vec![*cpu]));
        put(thread.tid, &cpus)?;
    }
    let vcpus: BTreeSet<u32> = vcpus.iter().map(|thread| thread.tid).collect();
    let mut processes = vec![vm.id().pid];
    processes.extend(vm.helpers().iter().map(|helper| helper.pid));
    for thread in processes.into_iter().flat_map(proc::threads) {
        if vcpus.contains(&thread) {
            continue;
        }
        match put(thread, &emulator.cpus) {
            // QEMU's workers come and go.
            Err(error) if error.source.raw_os_error() == Some(libc::ESRCH) => {}
            other => other?,
        }
    }
    Ok(())
}

fn put(thread: u32, cpus: &CpuList) -> Result<(), sys::Error> {
    const ACTION: &str = "pin a thread of QEMU to";
    let mut set = CpuSet::new();
    for cpu in cpus.iter() {
        if cpu as usize >= CpuSet::MAX_CPU {
            let reason = format!("CPUs from {} on cannot be named", CpuSet::MAX_CPU);
            let kind = io::ErrorKind::Unsupported;
            return Err(sys::Error::because(
                ACTION,
                format!("CPU {cpu}"),
                kind,
                reason,
            ));
        }
        set.set(cpu as usize);
    }
    let Some(pid) = i32::try_from(thread).ok().and_then(Pid::from_raw) else {
        // None would stand for ourselves.
        let kind = io::ErrorKind::InvalidInput;
        return Err(sys::Error::because(
            ACTION,
            cpus,
            kind,
            format!("{thread} is no thread"),
        ));
    };
    sched_setaffinity(Some(pid), &set).map_err(sys::Error::of(ACTION, format!("CPU {cpus}")))
}
