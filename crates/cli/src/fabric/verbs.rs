//! The verbs of `latlab fabric`.

use super::{change, join, show};
use crate::args::Fabric;
use crate::failure::Outcome;

pub fn run(args: &Fabric) -> Outcome {
    match args {
        Fabric::Join(args) => join::run(args),
        Fabric::Show(args) => show::run(args),
        Fabric::Move(args) => change::relocate(args),
        Fabric::Remove(args) => change::remove(args),
    }
}
