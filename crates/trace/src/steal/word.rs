//! Where the kernel keeps the time that a hypervisor took from it.
//!
//! KVM tells its guest exactly, in a variable a CPU. The kernel passes it on in `/proc/stat` in
//! steps of a hundredth of a second, which says nothing about a packet; so the recorders read the
//! variable itself. It has no symbol on most kernels, but the kernel's types say where in a
//! CPU's stretch of memory it lies, and the runqueue, which can be reached from any task, is in
//! the same stretch.

use std::sync::LazyLock;

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{DataSec, Var};

/// Bytes from a CPU's runqueue to the variable; 0 where there is none.
pub(crate) fn from_run_queue() -> i64 {
    static DISTANCE: LazyLock<i64> = LazyLock::new(|| distance().unwrap_or(0));
    *DISTANCE
}

fn distance() -> Option<i64> {
    let btf = Btf::from_vmlinux().ok()?;
    let section: DataSec<'_> = btf.type_by_name(".data..percpu")?;
    let (mut steal, mut queue) = (None, None);
    for entry in section.iter() {
        let name = btf.type_by_id::<Var<'_>>(entry.ty)?.name()?.to_owned();
        match name.to_str()? {
            "steal_time" => steal = Some(i64::from(entry.offset)),
            "runqueues" => queue = Some(i64::from(entry.offset)),
            _ => {}
        }
    }
    Some(steal? - queue?)
}
