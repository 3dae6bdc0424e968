//! The profile and the CPUs that the arguments choose.

use latlab_host::tuning::{self, Root};
use latlab_model::profile::{Cores, Isolation, Profile};
use latlab_model::units::CpuList;

use super::args::Choice;
use crate::failure::{Failure, Hint};
use crate::profiles;

pub fn online(root: &Root) -> Result<CpuList, Failure> {
    const FILE: &str = "/sys/devices/system/cpu/online";
    let text = root.read(FILE).hint(format!(
        "{FILE} lists this machine's CPUs: is /sys mounted?"
    ))?;
    CpuList::parse(&text)
        .ok_or_else(|| Failure::new(format!("{FILE} is no list of CPUs"), "report this"))
}

/// The value of `--cpus`.
pub fn cpus(text: &str) -> Result<CpuList, Failure> {
    CpuList::parse(text).ok_or_else(|| {
        let message = format!("`--cpus {text}` is not a list of CPUs");
        Failure::new(message, "for example `--cpus 2-7,10`")
    })
}

pub fn choose(choice: &Choice, root: &Root) -> Result<(Profile, Cores), Failure> {
    let refuse = |(message, hint): (String, String)| Failure::new(message, hint);
    let mut profile = match &choice.profile {
        Some(name) => profiles::load(name)?,
        None if choice.knob.iter().any(|k| k.contains('=')) => {
            let mut profile = Profile::empty();
            if choice.cpus.is_some() {
                profile.cores = Isolation::Isolated;
            }
            profile
        }
        None => {
            let names = Profile::builtin_names().join(", ");
            if let Some(knob) = choice.knob.first() {
                let message = format!("knob `{knob}` has no value, and no profile is named");
                let hint = format!("say `--knob {knob}=VALUE`, or name a profile: {names}");
                return Err(Failure::new(message, hint));
            }
            let hint = format!("name one of {names}, a file, or knobs: `--knob NAME=VALUE`");
            return Err(Failure::new("no profile is named", hint));
        }
    };
    for (index, knob) in choice.knob.iter().enumerate() {
        let name = name_of(knob);
        if choice.knob[..index]
            .iter()
            .any(|other| name_of(other) == name)
        {
            let message = format!("knob `{name}` is given twice");
            return Err(Failure::new(message, "leave one out"));
        }
        if let Some((name, value)) = knob.split_once('=') {
            profile.want(name, value).map_err(refuse)?;
        }
    }
    if !choice.knob.is_empty() {
        let names: Vec<&str> = choice.knob.iter().map(|k| name_of(k)).collect();
        profile.only(&names).map_err(refuse)?;
    }
    for name in &choice.without {
        profile.without(name).map_err(refuse)?;
    }
    profile.check().map_err(refuse)?;
    let chosen = choice.cpus.as_deref().map(cpus).transpose()?;
    let cores = profile.cores_of(&online(root)?, chosen.as_ref());
    Ok((profile, cores.map_err(refuse)?))
}

fn name_of(knob: &str) -> &str {
    knob.split_once('=').map_or(knob, |(name, _)| name)
}

/// A tuning error with its hint.
pub fn explain_tuning(error: tuning::Error) -> Failure {
    let hint = error.hint();
    Failure::of(error, hint)
}
