//! Adaptation of an overlay to its traffic (Cui 2013, 2.3.3: VADAPT).
//!
//! Pure: a [`Sample`] a second goes in, [`Decision`]s come out, and a caller carries them out. Data flows one way:
//!
//! ```text
//! samples ─► means of 5 s ─ cost ─► offers ─ rule ─► decisions
//! ```
//!
//! - [`cost`](Costs) predicts what another choice would gain, from measured round trips and capacities.
//! - [`rule`](Rule) decides whether a predicted gain may be tried now, and whether a tried one has come true.
//! - [`Placement`] advises which nodes belong together on a host. Nothing carries it out.
//! - [`Ports`] decides which servers' ports have streams, by itself: they are no objects of the overlay.
//!
//! The best configuration is NP-hard to find, also approximately (Cui 2013, 2.3.3). So one object changes at a time,
//! and each change has to prove itself.

mod adaptation;
mod cost;
mod decision;
mod placement;
mod ports;
mod rule;
mod sample;
#[cfg(test)]
mod simulation;

pub use adaptation::{Adaptation, Allowed};
pub use cost::Costs;
pub use decision::{Choice, Decision, Object, Reason, Step};
pub use placement::{Host, Placement, Shift};
pub use ports::{PortDecision, PortStep, Ports, ServerPort};
pub use rule::Rule;
pub use sample::{Leg, Pair, Sample, Traffic};
