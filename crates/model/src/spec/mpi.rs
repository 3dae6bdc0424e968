//! The programs of `probe: workload` that latlab has as sources: NPB's kernels, and microbenchmarks of MPI.

use std::ops::RangeInclusive;

use super::parameter::number;
use super::reader::{Object, words};
use crate::diagnostic::Diagnostics;
use crate::units::Bytes;

/// Kernels of the NAS Parallel Benchmarks, as specified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Npb {
    /// In the order that they run in.
    pub kernels: Vec<Kernel>,
    pub class: Class,
    /// Ranks in each node.
    pub processes: u32,
}

/// Messages between two ranks and between all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MpiMicro {
    pub sizes: Vec<Bytes>,
    /// Ranks in each node.
    pub processes: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// Embarrassingly parallel.
    Ep,
    /// Integer sort.
    Is,
    /// Conjugate gradient.
    Cg,
    /// Multigrid.
    Mg,
    /// Fourier transform.
    Ft,
}
words!(Kernel, "a kernel of NPB", { "ep" => Ep, "is" => Is, "cg" => Cg, "mg" => Mg, "ft" => Ft });

/// The problem's size: sample, workstation, or the smallest of the report's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    S,
    W,
    A,
}
words!(Class, "a class of NPB", { "S" => S, "W" => W, "A" => A });

/// Grids are halved along each of three axes.
pub(super) const MAX_NPB_RANKS: usize = 8;
const NPB_PROCESSES: RangeInclusive<u32> = 1..=4;
const MICRO_PROCESSES: RangeInclusive<u32> = 1..=64;
/// Sums are of doubles.
const MESSAGE_UNIT: u64 = 8;
const MESSAGES: RangeInclusive<u64> = MESSAGE_UNIT..=16 << 20;
const MAX_SIZES: usize = 8;
/// A small message and a large one.
const SIZES: [Bytes; 2] = [Bytes(MESSAGE_UNIT), Bytes(1 << 20)];

pub(super) fn npb(o: &mut Object<'_>, errors: &mut Diagnostics) -> Npb {
    let given = o.list::<Kernel>("kernels", errors);
    let mut kernels: Vec<Kernel> = Vec::new();
    for kernel in given {
        if kernels.contains(&kernel.value) {
            let message = format!(
                "`kernels` of {} has `{}` twice",
                o.what,
                kernel.value.word()
            );
            errors.add(kernel.at, message, "remove one of them");
        } else {
            kernels.push(kernel.value);
        }
    }
    if kernels.is_empty() {
        kernels = Kernel::ALL.to_vec();
    }
    Npb {
        kernels,
        class: o.value("class", errors).unwrap_or(Class::S),
        processes: number(o, "processes", 1, &NPB_PROCESSES, errors),
    }
}

pub(super) fn micro(o: &mut Object<'_>, errors: &mut Diagnostics) -> MpiMicro {
    let given = o.list::<Bytes>("sizes", errors);
    let mut sizes: Vec<Bytes> = Vec::new();
    for size in given {
        let value = size.value;
        if !MESSAGES.contains(&value.0) || value.0 % MESSAGE_UNIT != 0 {
            let message = format!("`sizes` of {} has {value}", o.what);
            let end = Bytes(*MESSAGES.end());
            let hint = format!("multiples of {MESSAGE_UNIT} bytes, a double, up to {end}");
            errors.add(size.at, message, hint);
        } else if sizes.last().is_some_and(|before| *before >= value) {
            let message = format!("`sizes` of {} do not rise: {value}", o.what);
            errors.add(size.at, message, "from the smallest to the largest");
        } else if sizes.len() == MAX_SIZES {
            let message = format!("`sizes` of {} has more than {MAX_SIZES}", o.what);
            errors.add(size.at, message, "remove some: each has figures of its own");
            break;
        } else {
            sizes.push(value);
        }
    }
    if sizes.is_empty() {
        sizes = SIZES.to_vec();
    }
    MpiMicro {
        sizes,
        processes: number(o, "processes", 1, &MICRO_PROCESSES, errors),
    }
}
