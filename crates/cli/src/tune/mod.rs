//! `latlab tune`: one file per verb. `choose.rs` selects the profile and its CPUs, `inside.rs` runs a verb in a node.

mod apply;
pub mod args;
mod choose;
mod export;
mod inside;
mod plan;
mod show;
mod verify;
mod watch;

use args::Tune;
pub use export::cores_of;

use crate::failure::Outcome;

pub fn run(verb: &Tune) -> Outcome {
    match verb {
        Tune::Show(a) => show::run(a),
        Tune::Plan(a) => plan::run(a),
        Tune::Apply(a) => apply::run(a),
        Tune::Verify(a) => verify::run(a),
        Tune::Revert(a) => apply::revert(a),
        Tune::Watch(a) => watch::run(a),
        Tune::Export(a) => export::run(a),
    }
}
