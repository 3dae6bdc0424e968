//! The knobs inside a tuned guest: the same code that turns the host's, run where they are.
//!
//! latlab itself and the profile are given to the guest as a directory; once its agent answers, the knobs
//! are turned and looked at from the inside, with a journal of the guest's own. They go with the guest, so
//! nothing of them is to be undone here. What the agent starts later runs in the guest's own partition of
//! quiet CPUs, if it has one.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use latlab_model::profile::Profile;
use latlab_wire::channel::{Exec, ExitStatus, TUNED_DIRECTORY as DIRECTORY};
use serde_json::Value;

use super::channel::{Channel, Finished};
use super::share::{Access, Share};
use crate::nodes::session::Error;

const PROGRAM: &str = "latlab";
const PROFILE: &str = "profile.yaml";
/// Under software emulation the program takes seconds to be read and run.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Puts into the node's own directory what the guest needs, before it boots.
pub(super) fn share(profile: &Profile, node_dir: &Path, agent: &Path) -> Result<Share, Error> {
    let source = node_dir.join("inside");
    let failed = |what: &Path| {
        let what = what.display().to_string();
        move |error: std::io::Error| Error::Other(format!("{what}: {error}"))
    };
    fs::create_dir_all(&source).map_err(failed(&source))?;
    let program = program(agent);
    fs::copy(&program, source.join(PROGRAM)).map_err(failed(&program))?;
    let file = source.join(PROFILE);
    fs::write(&file, profile.document()).map_err(failed(&file))?;
    Ok(Share::new(source, DIRECTORY, Access::Everybody))
}

/// Turns the guest's knobs and sees that they are in force.
pub(super) fn apply(channel: &Channel) -> Result<(), Error> {
    let profile = format!("{DIRECTORY}/{PROFILE}");
    let applied = run(channel, &["apply", &profile, "--format", "json"])?;
    let said: Value = serde_json::from_slice(&applied.stdout).unwrap_or_default();
    let knobs = said["knobs"].as_array().cloned().unwrap_or_default();
    let refused = knobs.iter().find_map(|knob| {
        let first = knob["refused"].as_array()?.first()?.clone();
        Some((knob["knob"].as_str()?.to_string(), first))
    });
    match (refused, applied.status) {
        (Some((knob, problem)), _) => {
            let text = |key: &str| problem[key].as_str().unwrap_or_default().to_string();
            let (item, reason) = (text("item"), text("reason"));
            let reason = format!("inside, knob `{knob}`: {item}: {reason}");
            Err(Error::Other(reason))
        }
        (None, ExitStatus::Code(0)) => Ok(()),
        (None, _) => Err(failure(&applied)),
    }
}

/// Runs a verb of `latlab tune` inside.
pub(crate) fn run(channel: &Channel, arguments: &[&str]) -> Result<Finished, Error> {
    let mut argv = vec![format!("{DIRECTORY}/{PROGRAM}"), "tune".into()];
    argv.extend(arguments.iter().map(ToString::to_string));
    // The image may hold a journal of the host's; the guest has one of its own.
    let env = [("LATLAB_STATE_DIR", "state"), ("LATLAB_RUN_DIR", "run")];
    let env = env.map(|(name, below)| (name.to_string(), format!("/run/latlab/{below}")));
    let exec = Exec {
        argv,
        env: env.into(),
        ..Exec::default()
    };
    Ok(channel.run(exec, b"", TIMEOUT)?)
}

/// The first error line of latlab inside.
pub(crate) fn failure(finished: &Finished) -> Error {
    let said = String::from_utf8_lossy(&finished.stderr);
    let first = said.lines().next().unwrap_or("it said nothing");
    let first = first.trim_start_matches("latlab: ");
    Error::Other(format!("latlab inside the guest: {first}"))
}

/// latlab itself: the running program, or the one beside the agent where a test runs.
fn program(agent: &Path) -> PathBuf {
    let own = std::env::current_exe().ok();
    let own = own.filter(|path| path.file_name().is_some_and(|name| name == PROGRAM));
    own.unwrap_or_else(|| agent.with_file_name(PROGRAM))
}
