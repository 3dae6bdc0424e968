//! Proofs: each capability is tried, in the way the labs will use it, and the trial leaves nothing.
//!
//! Trials that may go on at the same time are separate *proofs*, each on a thread of its own that
//! enters fresh namespaces and ends there. A thread that hangs in the kernel cannot be stopped, so
//! the proof's timeout bounds the wait: capabilities not reported by then count as not
//! proven, and objects still held vanish with the process.
//!
//! A refusal for want of privilege says nothing about the machine. It is an answer for root, who
//! will meet it again, and "needs root to prove" for other users.

mod control;
mod criu;
mod devices;
mod files;
mod kernel;
mod kvm;
mod links;
mod proofs;
pub(super) mod report;
mod verdicts;

pub use kvm::fetches_kernel;
pub(super) use proofs::prove;
pub use report::NEEDS_ROOT;
