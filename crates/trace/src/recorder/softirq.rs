//! Locations of the kernel's softirq accounts, which make a program at softirq entry unnecessary
//! (`bpf/softirq.h`).
//!
//! The variables are per CPU, and their names changed: `__preempt_count` and `irq_stat.__softirq_pending`
//! moved into `pcpu_hot` in Linux 6.2, and are separate variables since 6.15. They have no symbols on most
//! kernels; BTF gives the distance of each from the runqueue (see also [`crate::steal`]).

use std::collections::BTreeMap;

use libbpf_rs::btf::types::{Composite, DataSec, MemberAttr, Struct, Var};
use libbpf_rs::btf::{Btf, BtfType, ReferencesType};

/// Kinds of softirqs, as in `latlab.h`.
const SOFTIRQS: usize = 10;

/// `struct soft_words`: distances from the runqueue, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Words {
    are_known: bool,
    depth: i64,
    pending: i64,
    begun: i64,
    thread: i64,
}

impl Words {
    /// The accounts of the running kernel.
    pub fn of_this_kernel() -> Words {
        // Other architectures keep them elsewhere.
        if cfg!(target_arch = "x86_64") {
            Words::found().unwrap_or_default()
        } else {
            Words::default()
        }
    }

    fn found() -> Option<Words> {
        let btf = Btf::from_vmlinux().ok()?;
        // Under PREEMPT_RT the softirq count is in the task, and not in the preemption count.
        let task: Struct<'_> = btf.type_by_name("task_struct")?;
        if member_offset(&btf, *task, "softirq_disable_cnt").is_some() {
            return None;
        }
        let variables = variables(&btf)?;
        let at = |name: &str| variables.get(name).map(|(offset, _)| *offset);
        let inside = |name: &str, member: &str| {
            let (offset, kind) = variables.get(name)?;
            Some(offset + member_offset(&btf, *kind, member)?.0)
        };
        let queue = at("runqueues")?;
        let depth = at("__preempt_count").or_else(|| inside("pcpu_hot", "preempt_count"))?;
        let pending = at("__softirq_pending")
            .or_else(|| inside("pcpu_hot", "softirq_pending"))
            .or_else(|| inside("irq_stat", "__softirq_pending"))?;
        let (_, counters) = member_offset(&btf, variables.get("kstat")?.1, "softirqs")?;
        let array: libbpf_rs::btf::types::Array<'_> = counters.try_into().ok()?;
        (array.capacity() == SOFTIRQS).then_some(())?;
        Some(Words {
            are_known: true,
            depth: depth - queue,
            pending: pending - queue,
            begun: inside("kstat", "softirqs")? - queue,
            thread: at("ksoftirqd")? - queue,
        })
    }

    /// No program is needed at softirq entry.
    pub fn are_known(&self) -> bool {
        self.are_known
    }

    /// The layout of `latlab.h`.
    pub fn to_bytes(self) -> [u8; 40] {
        let known = i64::from(self.are_known);
        let words = [known, self.depth, self.pending, self.begun, self.thread];
        let mut bytes = [0; 40];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }
}

/// Every per-CPU variable: offset and type.
fn variables<'a>(btf: &'a Btf<'a>) -> Option<BTreeMap<String, (i64, BtfType<'a>)>> {
    let section: DataSec<'_> = btf.type_by_name(".data..percpu")?;
    let one = |offset: u32, variable: Var<'_>| {
        let name = variable.name()?.to_str()?.to_owned();
        let kind = btf.type_by_id(variable.referenced_type_id())?;
        Some((name, (i64::from(offset), kind)))
    };
    let all = section
        .iter()
        .filter_map(|entry| one(entry.offset, btf.type_by_id(entry.ty)?));
    Some(all.collect())
}

/// Offset and type of a structure's member, also of a nameless structure inside of it.
fn member_offset<'a>(
    btf: &'a Btf<'a>,
    kind: BtfType<'a>,
    name: &str,
) -> Option<(i64, BtfType<'a>)> {
    let composite: Composite<'a> = kind.skip_mods_and_typedefs().try_into().ok()?;
    composite.iter().find_map(|member| {
        let MemberAttr::Normal { offset } = member.attr else {
            return None;
        };
        let kind = btf.type_by_id::<BtfType<'a>>(member.ty)?;
        let (inner, kind) = match member.name {
            Some(own) if own == name => (0, kind.skip_mods_and_typedefs()),
            Some(_) => return None,
            None => member_offset(btf, kind, name)?,
        };
        Some((i64::from(offset / 8) + inner, kind))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_lie_in_the_programs_settings_in_their_order() {
        let words = Words {
            are_known: true,
            depth: -8,
            pending: 2,
            begun: 3,
            thread: 4,
        };
        let bytes = words.to_bytes();
        let word = |at: usize| i64::from_ne_bytes(bytes[8 * at..][..8].try_into().unwrap());
        assert_eq!([0, 1, 2, 3, 4].map(word), [1, -8, 2, 3, 4]);
        assert!(!Words::default().are_known());
    }
}
