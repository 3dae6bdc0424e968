//! Options of a reader of facts.

use std::collections::BTreeSet;

use latlab_model::spec::Lab;
use latlab_model::units::CpuList;

use super::catalogue;
use crate::dirs::Dirs;

#[derive(Debug, Clone)]
pub struct ReadOptions {
    /// The capabilities to prove, by the constants of [`Facts`](latlab_model::facts::Facts). Nothing is said of the others.
    pub prove: BTreeSet<String>,
    /// Fill in `Facts::machine` and the tools' versions, which planning does not need; and fetch
    /// a kernel if KVM is to be proven and there is none (see `fetches_kernel`).
    pub detail: bool,
    /// Fill in at least what placing a lab's nodes depends on: CPUs, memory nodes, interfaces.
    pub placement: bool,
    pub refresh: bool,
    pub dirs: Dirs,
    pub cpus: CpusInUse,
}

/// The CPUs that placement keeps off; [`cpus_in_use`](crate::lab::cpus_in_use) reads them.
#[derive(Debug, Clone, Default)]
pub struct CpusInUse {
    pub taken: Vec<u32>,
    /// In the partition of quiet CPUs, and given to no lab: the tuning of a user made them so.
    pub quiet: CpuList,
}

impl ReadOptions {
    pub fn everything(cpus: CpusInUse) -> ReadOptions {
        ReadOptions {
            prove: catalogue::ENTRIES.iter().map(|e| e.name.into()).collect(),
            detail: true,
            placement: true,
            refresh: false,
            dirs: Dirs::from_env(),
            cpus,
        }
    }

    /// Only what planning and making this lab depend on.
    pub fn for_lab(lab: &Lab, cpus: CpusInUse) -> ReadOptions {
        ReadOptions {
            prove: lab.capabilities().into_iter().map(Into::into).collect(),
            detail: false,
            placement: lab.is_placed(),
            refresh: false,
            dirs: Dirs::from_env(),
            cpus,
        }
    }
}
