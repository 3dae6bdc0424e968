//! The knobs inside a tuned guest: the same code that turns the host's, run where they are.
//!
//! latlab itself and the profile are given to the guest as a directory; once its agent answers, the knobs
//! are turned and looked at from the inside, with a journal of the guest's own. They go with the guest, so
//! nothing of them is to be undone here. What the agent starts later runs in the guest's own partition of
//! quiet CPUs, if it has one.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use latlab_model::plan::{NodePlan, Plan};
use latlab_model::profile::Profile;
use latlab_wire::channel::{Exec, ExitStatus, TUNED_DIRECTORY as DIRECTORY};
use serde_json::Value;

use super::deployed::Lab;
use super::error::Error;
use crate::nodes::session;
use crate::nodes::vm::channel::{Channel, Finished};
use crate::nodes::vm::{Access, Share};

const PROGRAM: &str = "latlab";
const PROFILE: &str = "profile.yaml";
/// Under software emulation the program takes seconds to be read and run.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The profile of a guest, and how it gets there.
pub(super) struct Inside {
    profile: Profile,
}

impl Inside {
    /// For a node whose guest is to be tuned.
    pub fn of(plan: &Plan, node: &NodePlan) -> Option<Inside> {
        plan.inside(node).map(|profile| Inside { profile })
    }

    /// Puts into the node's own directory what the guest needs, before it boots.
    pub fn share(&self, node_dir: &Path, agent: &Path) -> Result<Share, session::Error> {
        let source = node_dir.join("inside");
        let failed = |what: &Path| {
            let what = what.display().to_string();
            move |error: std::io::Error| session::Error::Other(format!("{what}: {error}"))
        };
        fs::create_dir_all(&source).map_err(failed(&source))?;
        let program = program(agent);
        fs::copy(&program, source.join(PROGRAM)).map_err(failed(&program))?;
        let profile = source.join(PROFILE);
        fs::write(&profile, self.profile.document()).map_err(failed(&profile))?;
        Ok(Share::new(source, DIRECTORY, Access::Everybody))
    }

    /// Turns the guest's knobs and sees that they are in force.
    pub fn apply(&self, channel: &Channel) -> Result<(), session::Error> {
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
                Err(session::Error::Other(reason))
            }
            (None, ExitStatus::Code(0)) => Ok(()),
            (None, _) => Err(failure(&applied)),
        }
    }
}

/// latlab itself: the running program, or the one beside the agent where a test runs.
fn program(agent: &Path) -> PathBuf {
    let own = std::env::current_exe().ok();
    let own = own.filter(|path| path.file_name().is_some_and(|name| name == PROGRAM));
    own.unwrap_or_else(|| agent.with_file_name(PROGRAM))
}

fn run(channel: &Channel, arguments: &[&str]) -> Result<Finished, session::Error> {
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
fn failure(finished: &Finished) -> session::Error {
    let said = String::from_utf8_lossy(&finished.stderr);
    let first = said.lines().next().unwrap_or("it said nothing");
    let first = first.trim_start_matches("latlab: ");
    session::Error::Other(format!("latlab inside the guest: {first}"))
}

impl Lab {
    /// Runs a verb of `latlab tune` inside a tuned guest: what it printed, and its exit code. Fails when the node is
    /// no such guest, or does not answer.
    pub fn tune_inside(&self, node: &str, arguments: &[&str]) -> Result<(Vec<u8>, i32), Error> {
        let (_, plan) = self.node(node)?;
        if Inside::of(self.plan(), plan).is_none() {
            return Err(Error::Tuning {
                profile: plan.tuning.clone().unwrap_or_else(|| "default".into()),
                reason: format!("node `{node}` has no knobs of its own: it is no tuned VM"),
                hint: "the host's knobs are shown without `--lab` and `--node`".into(),
            });
        }
        let channel = self.channel(node)?;
        let failed = |source| self.unusable(node, source);
        let finished = run(&channel, arguments).map_err(failed)?;
        match finished.status {
            ExitStatus::Code(code) if code < 2 => Ok((finished.stdout, code.into())),
            _ => Err(failed(failure(&finished))),
        }
    }

    pub(super) fn drift_inside(&self) -> Result<usize, Error> {
        let mut drift = 0;
        for node in &self.plan().nodes {
            if Inside::of(self.plan(), node).is_some() {
                let (said, _) = self.tune_inside(&node.name, &["verify", "--format", "json"])?;
                let found: Value = serde_json::from_slice(&said).unwrap_or_default();
                drift += found["drift"].as_array().map_or(1, Vec::len);
            }
        }
        Ok(drift)
    }
}
