//! One trial: the measurement, the noise that its study asks for, and the checks around it.

use latlab_host::lab::Lab;
use latlab_model::spec::{Measurement, Noise, Probe};

use crate::context::Context;
use crate::error::Error;
use crate::guard::Guard;
use crate::measured::Measured;
use crate::{checks, forward, noise, packets, rr, stream, workload};

/// Measures once. Fails when an endpoint fails: a measurement without both endpoints is dropped as a whole.
pub fn measure(lab: &Lab, measurement: &Measurement) -> Result<Measured, Error> {
    let noise =
        noise::Running::start(measurement, &lab.plan().lab).map_err(|source| Error::Noise {
            noise: measurement.noise.to_string(),
            source,
        })?;
    let tuning = checks::of_tuning(lab);
    let guard = Guard::begin(lab);
    let watch = checks::Watch::begin(lab);
    let mut measured = probe(lab, measurement)?;
    measured.checks.extend(watch.end(lab));
    measured.checks.extend(tuning);
    measured.intruders = guard.end();
    drop(noise);
    if measurement.noise != Noise::None {
        // The effect of the noise on the endpoints is the question of the study, and no fault.
        measured.checks.retain(checks::hold_beside_noise);
    }
    Ok(measured)
}

fn probe(lab: &Lab, measurement: &Measurement) -> Result<Measured, Error> {
    if let Some(work) = &measurement.workload {
        return workload::measure(lab, measurement, work);
    }
    let Some(ends) = &measurement.ends else {
        return Err(Error::Nothing(measurement.name.value.clone()));
    };
    let context = Context::new(lab, measurement, ends)?;
    match measurement.probe {
        Probe::Rr => rr::measure(&context),
        Probe::Packets => packets::measure(&context),
        Probe::Stream => stream::measure(&context),
        Probe::Forward => forward::measure(&context),
        Probe::Workload => Err(Error::Nothing(measurement.name.value.clone())),
    }
}
