//! `latlab explain`: the causes of a run's slowest packets. Needs neither root nor the measuring machine.

use std::path::Path;

use latlab_report::csv_row;
use latlab_report::explain::{
    self, Choice, Code, ExplainError, Explanation, pcapng, perfetto, terminal,
};

use crate::args::Explain;
use crate::failure::{Failure, Outcome};
use crate::format::Format;
use crate::report;

const HINT: &str =
    "only measurements with `probe: forward` can be explained; `latlab run forwarder` has one";

pub fn run(args: &Explain) -> Outcome {
    let dir = report::open(&args.run)?;
    let choice = Choice {
        cell: args.cell.clone(),
        trial: args.trial,
    };
    let explained = explain::explain(&dir, &choice).map_err(failed)?;
    if let Some(path) = &args.perfetto {
        let trace = perfetto::trace(&dir, &choice).map_err(failed)?;
        write(path, trace.to_string().as_bytes())?;
    }
    if let Some(path) = &args.pcapng {
        let file = pcapng::file(&dir, &choice).map_err(failed)?;
        write(path, &file)?;
    }
    write_folded(args, &explained)?;
    let text = match args.format {
        Format::Table => {
            let all: Vec<String> = explained
                .iter()
                .map(|one| terminal::render(one, args.worst))
                .collect();
            all.join("\n")
        }
        Format::Json => {
            let all: Vec<_> = explained
                .iter()
                .map(|one| one.to_json(args.worst))
                .collect();
            serde_json::to_string_pretty(&all)? + "\n"
        }
        Format::Csv => csv(&explained),
    };
    crate::print::document(&text)
}

/// Writes the sampled stacks for flamegraph.pl.
fn write_folded(args: &Explain, explained: &[Explanation]) -> Result<(), Failure> {
    if args.folded.is_none() && args.folded_slow.is_none() {
        return Ok(());
    }
    let mut all = Code::default();
    explained
        .iter()
        .filter_map(|one| one.code.as_ref())
        .for_each(|code| all.join(code));
    if all.samples() == 0 {
        let hint = "sample them: `sampling: {rate: 1000}` of a measurement with `probe: forward`";
        return Err(Failure::new("no stack was sampled", hint));
    }
    if let Some(path) = &args.folded {
        write(path, all.all().lines().as_bytes())?;
    }
    if let Some(path) = &args.folded_slow {
        write(path, all.slow.lines().as_bytes())?;
    }
    Ok(())
}

fn failed(error: ExplainError) -> Failure {
    match error {
        ExplainError::Nothing { ref trials, .. } if !trials.is_empty() => {
            let of_cell = |(cell, trials): (&String, &Vec<u32>)| {
                let numbers: Vec<String> = trials.iter().map(u32::to_string).collect();
                format!("{} of cell {cell}", numbers.join(", "))
            };
            let all: Vec<String> = trials.iter().map(of_cell).collect();
            let hint = format!("trials with `probe: forward`: {}", all.join("; "));
            Failure::of(error, hint)
        }
        ExplainError::Nothing { .. } => Failure::of(error, HINT),
        _ => Failure::of(
            error,
            "the run directory is incomplete; was it copied completely?",
        ),
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    std::fs::write(path, bytes).map_err(|error| {
        let message = format!("cannot write {}: {error}", path.display());
        Failure::new(message, "name a file in a directory that exists")
    })
}

fn csv(explained: &[Explanation]) -> String {
    let mut out = csv_row(&[
        "cell",
        "device",
        "trial",
        "flow",
        "seq",
        "in_ns",
        "latency_ns",
        "first",
        "first_ns",
    ]);
    for one in explained {
        for (packet, trial) in one.attribution.worst.iter().zip(&one.of_trial) {
            out += &csv_row(&[
                one.cell.clone(),
                one.hop.device.clone(),
                trial.to_string(),
                packet.passage.flow.to_string(),
                packet.passage.sequence.to_string(),
                packet.passage.in_ns.to_string(),
                packet.latency_ns().to_string(),
                packet.first.to_string(),
                packet.first_ns.to_string(),
            ]);
        }
    }
    out
}
