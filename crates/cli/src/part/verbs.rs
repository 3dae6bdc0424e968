//! The verbs of `latlab part`, in a lab that is deployed here.

use latlab_host::dirs::Dirs;
use latlab_host::lab::Lab;

use super::{attach, measure, plan, watch};
use crate::args::Part;
use crate::failure::{Failure, Outcome, explain, need_root};

pub fn run(part: &Part) -> Outcome {
    need_root("part", "it enters the nodes of a lab")?;
    match part {
        Part::Plan(args) => plan::run(args),
        Part::Attach { lab, node } => attach::run(&open(lab)?, node),
        Part::Watch { lab } => watch::run(&open(lab)?),
        Part::Quiet { lab } => watch::quiet(&open(lab)?),
        Part::Measure(args) => measure::run(&open(&args.lab)?, args),
    }
}

fn open(lab: &str) -> Result<Lab, Failure> {
    Lab::open(&Dirs::from_env(), lab).map_err(explain)
}
