//! One trial: the measurement, the noise that its study asks for, and the checks around it.

use latlab_host::lab::Lab;
use latlab_model::spec::{Measurement, Noise, Probe};

use crate::context::Context;
use crate::error::Error;
use crate::measured::Measured;
use crate::nodes::Nodes;
use crate::watch::Watch;
use crate::{checks, forward, hardware, noise, packets, rr, stream, workload};

/// Measures once, with traffic whose randomness is of `seed`. Fails when an endpoint fails: a measurement without both
/// endpoints is dropped as a whole.
pub fn measure(lab: &Lab, measurement: &Measurement, seed: u64) -> Result<Measured, Error> {
    let failed = |source| Error::Noise {
        noise: measurement.noise.to_string(),
        source,
    };
    let noise = noise::Running::start(measurement, &lab.plan().lab).map_err(failed)?;
    let watch = Watch::begin(lab);
    let mut measured = probe(lab, measurement, seed)?;
    measured.add_watched(watch.end(lab));
    noise.end().map_err(failed)?;
    if measurement.noise != Noise::None {
        // The effect of the noise on the endpoints is the question of the study, and no fault.
        measured.checks.retain(checks::hold_beside_noise);
    }
    Ok(measured)
}

fn probe(lab: &Lab, measurement: &Measurement, seed: u64) -> Result<Measured, Error> {
    if let Some(work) = &measurement.workload {
        return workload::measure(lab, measurement, work);
    }
    let Some(ends) = &measurement.ends else {
        return Err(Error::Nothing(measurement.name.value.clone()));
    };
    let context = Context::new(lab, measurement, ends, seed)?;
    match measurement.probe {
        Probe::Rr => rr::measure(&context),
        Probe::Packets if measurement.timestamps.is_hardware() => hardware::measure(&context),
        Probe::Packets => packets::measure(&context),
        Probe::Stream => stream::measure(&context),
        Probe::Forward => forward::measure(&context),
        Probe::Workload => Err(Error::Nothing(measurement.name.value.clone())),
    }
}

/// Measures once between nodes on several machines, which others watch meanwhile. Errors: also a probe that needs both
/// ends on one machine, which the plan of a run has refused before.
pub fn measure_between_hosts<N: Nodes>(
    nodes: &N,
    measurement: &Measurement,
    seed: u64,
) -> Result<Measured, Error> {
    let Some(ends) = &measurement.ends else {
        return Err(Error::OneMachine(measurement.name.value.clone()));
    };
    let context = Context::new(nodes, measurement, ends, seed)?;
    match measurement.probe {
        Probe::Rr => rr::measure_between_hosts(&context),
        Probe::Stream => stream::measure(&context),
        Probe::Packets if measurement.timestamps.is_hardware() => hardware::measure(&context),
        _ => Err(Error::OneMachine(measurement.name.value.clone())),
    }
}
