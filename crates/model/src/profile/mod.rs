//! A profile: which knobs of the machine to turn, and to what.
//!
//! A profile says *what for* and not *where*: CPUs are named by their part (`housekeeping`,
//! `isolated`), so that the same file serves every machine. Placement, `--cpus` or the profile's own
//! `cores` decide which CPUs have which part. Its knobs are a map, so that
//! one can be wanted alone or left out of the whole, which is how the effect of each is measured.
//!
//! ```yaml
//! name: mine
//! about: As isolated, but the network stack spins
//! extends: isolated        # or another profile's name; this one's lines win
//! cores: isolated          # shared, isolated (which ones is placement's choice), or a list: 2-7
//! knobs:
//!   busy-read: 50us
//!   thp: leave             # what the parent wants is not wanted
//! boot:                    # for the kernel's command line
//!   nohz_full: isolated
//! ```

pub mod catalogue;
mod check;
mod document;
mod read;
mod value;

pub use catalogue::known_knob;
pub use check::Cores;
pub use document::{Isolation, PLACEMENT, Profile};
pub use read::Find;
pub use value::{CpuChoice, Kind, Policy, ThreadPolicy, Wanted, fits};

#[cfg(test)]
mod tests;
