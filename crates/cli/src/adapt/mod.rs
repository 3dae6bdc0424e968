//! `latlab adapt`: changes ways and carriers of overlay daemons, and which ports have streams, as their traffic asks for.
//!
//! ```text
//! daemons and probes ─ watch ─► samples ─ latlab_model::adapt ─► decisions ─ change ─► daemons
//! streams' supervisor ────────► counts ──────────┘                   └─ streams ─────► supervisor
//! ```
//!
//! One process watches all daemons, so no two owners can disagree. It keeps no state: while it is gone, everything stays
//! as it is.

mod change;
mod daemons;
mod hosts;
mod overlay;
mod probes;
mod running;
mod streams;
mod told;
mod verb;
mod watch;

pub use verb::run;
