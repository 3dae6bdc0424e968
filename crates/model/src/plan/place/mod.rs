//! Which CPUs and which memory everything of a lab uses: from a lab and a machine's facts to a
//! [`Blueprint`](super::Blueprint), with a reason for every choice (HVNet's, Daichendt 2022, 4.2).
//!
//! The rules, in the order in which they win:
//!
//! 1. The host keeps at least one core, that of the lowest CPU: it boots the machine and serves
//!    its timers, and much that cannot be moved stays there.
//! 2. No core is given twice, over all labs that are up. A core has one user: its other threads idle,
//!    or belong to the same user; they are never split.
//! 3. A node's cores are on one memory node with its memory and its network interface, if any choice
//!    for all nodes together allows it ([`solve`]); of one kind, fast ones first; below one cache.
//! 4. A VM's virtual CPUs have a core each, its other threads run elsewhere.
//! 5. With a profile that isolates, a node that asks for no core of its own shares the lab's pool: all
//!    that is left. Where there are cores enough, the host keeps one on each memory node.
//!
//! | file | its part |
//! |---|---|
//! | `asks` | what each node wants |
//! | `topology` | the machine's cores |
//! | `ground` | which of them can be given, and what the lab names |
//! | `tuning` | the profile that the machine's knobs are turned by |
//! | `solve` | who gets which |
//! | `placer` | all of that in order |
//! | `nearest` | when they do not suffice: the nearest that would |
//! | `decided` | who got which, as data |
//! | `why` | the blueprint with its sentences |

mod asks;
mod decided;
mod ground;
mod nearest;
mod onto;
mod placer;
mod solve;
mod topology;
mod tuning;
mod why;

pub use asks::Profiles;
pub(super) use onto::node_plans;
pub use placer::place;
pub(super) use tuning::tuning;
