//! The verbs of `latlab tune`.

use super::args::Tune;
use super::{apply, export, plan, show, verify, watch};
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
