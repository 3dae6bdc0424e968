//! One trial: the measurement, the noise that its study asks for, and the checks around it.

use latlab_model::spec::{Noise, Probe};

use crate::context::Context;
use crate::error::Error;
use crate::guard::Guard;
use crate::measured::Measured;
use crate::{checks, forward, noise, packets, rr, stream};

/// Measures once. Fails when an endpoint fails: a measurement without both endpoints is dropped as a whole.
pub fn measure(context: &Context<'_>) -> Result<Measured, Error> {
    let measurement = context.measurement;
    let lab = &context.lab.plan().lab;
    let noise = noise::Running::start(measurement, lab).map_err(|source| Error::Noise {
        noise: measurement.noise.to_string(),
        source,
    })?;
    let tuning = checks::of_tuning(context.lab);
    let guard = Guard::begin(context.lab);
    let watch = checks::Watch::begin(context.lab);
    let mut measured = match measurement.probe {
        Probe::Rr => rr::measure(context)?,
        Probe::Packets => packets::measure(context)?,
        Probe::Stream => stream::measure(context)?,
        Probe::Forward => forward::measure(context)?,
    };
    measured.checks.extend(watch.end(context.lab));
    measured.checks.extend(tuning);
    measured.intruders = guard.end();
    drop(noise);
    if measurement.noise != Noise::None {
        // The effect of the noise on the endpoints is the question of the study, and no fault.
        measured.checks.retain(checks::hold_beside_noise);
    }
    Ok(measured)
}
