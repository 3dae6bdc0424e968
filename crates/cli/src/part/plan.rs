//! The part as it is planned on this host, with the facts that it was planned with.

use std::path::Path;

use crate::args::PartPlan;
use crate::failure::Outcome;
use crate::files::{PartOf, Source, planned_part};
use crate::print;

pub fn run(args: &PartPlan) -> Outcome {
    let source = Source::read(Path::new("-"))?;
    let part = PartOf {
        host: &args.host,
        keys: &args.peer_key.iter().cloned().collect(),
        places: &args.place.iter().cloned().collect(),
    };
    let planned = planned_part(&source, &part, !args.no_isolation, &args.prove)?;
    print::document(&serde_json::to_string(&planned)?)
}
