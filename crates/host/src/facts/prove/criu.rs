//! CRIU: proven by a dump and a restore, as [`borrowed`](crate::borrowed) does and remembers. What is not here is not
//! fetched for that.

use std::fs;

use latlab_model::facts::Facts;

use super::report::{NEEDS_ROOT, Outcome, Report, is_root};
use crate::borrowed::{self, Tool, VERDICT_FILE};
use crate::facts::options::ReadOptions;
use crate::programs;

pub(super) fn run(report: &Report) {
    report.note(Facts::CRIU, criu(&report.options));
}

fn criu(options: &ReadOptions) -> Outcome {
    let cache = options.dirs.cache();
    let Some(tool) = borrowed::find(Tool::Criu, cache) else {
        return Outcome::Fails("there is no CRIU 4.2 or later".into());
    };
    if !is_root() {
        return Outcome::Unproven(NEEDS_ROOT.into());
    }
    let Some(agent) = programs::agent() else {
        return Outcome::Unproven("latlab-agent is not beside latlab".into());
    };
    if options.refresh {
        // Absent is as good as removed.
        let _ = fs::remove_file(cache.join(VERDICT_FILE));
    }
    match borrowed::prove(&tool, &agent, cache) {
        Ok(verdict) if verdict.works => Outcome::Works(verdict.reason),
        Ok(verdict) => Outcome::Fails(verdict.reason),
        Err(error) => Outcome::Unproven(error.to_string()),
    }
}
