//! The record of a trial in the run directory: what was measured, or why nothing was.

use latlab_model::results::{NodeStart, Trace, Trial, TrialOutcome, WorkloadResult};
use latlab_model::spec::Measurement;
use latlab_samples::{RunDir, SampleWriter, table};

use super::error::Error;
use crate::error::{self, one_line};
use crate::measured::{Kept, Measured, Recorded, Written};

/// A trial to be made.
#[derive(Debug, Clone, Copy)]
pub struct Order<'a> {
    pub number: u32,
    /// The identifier of its cell.
    pub cell: &'a str,
    pub replicate: u32,
    /// Attempts that were discarded before.
    pub repeats: u32,
    pub measurement: &'a Measurement,
    /// Seed of its traffic's randomness.
    pub seed: u64,
    /// Start times of its lab's nodes; the first trial of a visit has them.
    pub starts: &'a [NodeStart],
}

/// Why a trial gave no result, and what its programs wrote.
#[derive(Debug, Default)]
pub struct Failure {
    pub reason: String,
    kept: Kept,
}

impl Failure {
    /// Without output.
    pub fn new(reason: impl Into<String>) -> Failure {
        Failure {
            reason: reason.into(),
            kept: Kept::default(),
        }
    }
}

impl From<error::Error> for Failure {
    fn from(mut error: error::Error) -> Failure {
        Failure {
            kept: error.take_kept(),
            reason: one_line(&error),
        }
    }
}

/// The time now, RFC 3339.
pub fn now() -> String {
    let now = jiff::Timestamp::now();
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Writes a trial's files, its record last. `started` is RFC 3339.
pub fn write(
    dir: &RunDir,
    order: &Order<'_>,
    started: String,
    result: Result<Measured, Failure>,
) -> Result<Trial, Error> {
    let number = order.number;
    let (mut measured, outcome) = match result {
        Ok(measured) => (measured, TrialOutcome::Measured),
        Err(Failure { reason, kept }) => {
            let measured = Measured {
                kept,
                ..Measured::default()
            };
            (measured, TrialOutcome::Failed { reason })
        }
    };
    dir.create_trial(number)?;
    let workload = write_outputs(dir, number, &mut measured)?;
    let samples = write_samples(dir, number, &measured)?;
    let stolen = match measured.stolen {
        Some(stretches) => {
            let name = RunDir::stolen_name(number);
            table::write_stretches(dir.place(&name), &stretches)?;
            Some(name)
        }
        None => None,
    };
    let trace = measured.trace;
    let trace = trace.map(|recorded| write_trace(dir, number, recorded));
    let trace = trace.transpose()?;
    let trial = Trial {
        trial: number,
        cell: order.cell.to_owned(),
        replicate: order.replicate,
        started,
        outcome,
        repeats: order.repeats,
        discarded: false,
        counters: measured.counters,
        floor: measured.floor,
        clock: measured.clock,
        stream: measured.stream,
        workload,
        checks: measured.checks,
        intruders: measured.intruders,
        nodes: measured.nodes,
        samples,
        stolen,
        trace,
        actions: measured.actions,
        starts: order.starts.to_vec(),
        sensors: Vec::new(),
    };
    dir.write_trial(&trial)?;
    Ok(trial)
}

/// Keeps what the programs of a workload wrote, also in a trial that failed.
fn write_outputs(
    dir: &RunDir,
    number: u32,
    measured: &mut Measured,
) -> Result<Option<WorkloadResult>, Error> {
    let mut workload = measured.workload.take();
    let mut nodes = workload.iter_mut().flat_map(|result| &mut result.nodes);
    let kept = &measured.kept;
    for (index, program) in kept.programs.iter().enumerate() {
        let [output, errors] = write_output(dir, number, &program.node, program)?;
        let server = match kept.servers.get(index) {
            Some(server) => {
                let name = format!("{}.server", server.node);
                Some(write_output(dir, number, &name, server)?)
            }
            None => None,
        };
        if let Some(record) = nodes.next() {
            (record.output, record.errors, record.server) = (output, errors, server);
        }
    }
    // Servers whose clients never began.
    for server in kept.servers.iter().skip(kept.programs.len()) {
        write_output(dir, number, &format!("{}.server", server.node), server)?;
    }
    Ok(workload)
}

fn write_output(
    dir: &RunDir,
    number: u32,
    name: &str,
    written: &Written,
) -> Result<[String; 2], Error> {
    let names = RunDir::output_names(number, name);
    dir.write(&names[0], &written.output)?;
    dir.write(&names[1], &written.errors)?;
    Ok(names)
}

/// Writes one sample a packet or transaction, if there are any.
fn write_samples(dir: &RunDir, number: u32, measured: &Measured) -> Result<Option<String>, Error> {
    let timed = measured.trace.as_ref().map(|trace| &trace.timed);
    if measured.samples.is_empty() && (timed.is_none() || measured.counters.sent == 0) {
        return Ok(None);
    }
    let mut writer = SampleWriter::create(dir.place(&RunDir::samples_name(number)))?;
    writer.push_batch(&measured.samples)?;
    let mut written = Ok(());
    if let Some(timed) = timed {
        timed.each_sample(|sample| {
            if written.is_ok() {
                written = writer.push(&sample);
            }
        });
    }
    written?;
    writer.finish()?;
    Ok(Some(RunDir::samples_name(number)))
}

fn write_trace(dir: &RunDir, number: u32, recorded: Recorded) -> Result<Trace, Error> {
    let mut trace = recorded.trace;
    trace.passages = RunDir::passages_name(number);
    let mut writer = table::PassageWriter::create(dir.place(&trace.passages))?;
    let mut written = Ok(());
    recorded.timed.each_passage(|passage| {
        if written.is_ok() {
            written = writer.push(passage);
        }
    });
    written?;
    writer.finish()?;
    if !recorded.events.is_empty() {
        let name = RunDir::events_name(number);
        table::write_events(dir.place(&name), &recorded.events)?;
        trace.events = Some(name);
    }
    if !recorded.stacks.is_empty() {
        let name = RunDir::stacks_name(number);
        table::write_stacks(dir.place(&name), &recorded.stacks)?;
        trace.stacks = Some(name);
    }
    Ok(trace)
}
