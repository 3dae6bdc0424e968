//! The decisions about the CPUs, before it is told in sentences.

use std::collections::BTreeSet;

use super::ground::Ground;
use super::solve::{Got, Threads};

/// Everything that was decided, for the sentences.
pub struct Decided<'g> {
    pub ground: &'g Ground,
    pub threads: Threads,
    /// Cores of the host, when some are isolated; all that is left otherwise.
    pub housekeeping: BTreeSet<usize>,
    /// Cores on further memory nodes were given to nodes although the host had better keep them.
    pub gave_further: bool,
    pub pool: BTreeSet<usize>,
    /// By node: what it wanted and got, if it wanted cores of its own.
    pub own: Vec<Option<Owned>>,
}

pub struct Owned {
    pub got: Got,
    pub cpus: Vec<u32>,
    /// A core for a VM's other threads.
    pub emulator: Option<usize>,
}
