//! `latlab tune`: one file a verb; what they share is how a profile and its processors are chosen.

/// Adds a line to a text that is printed whole: a reader who has seen enough is then an error that is
/// forgiven, not a panic.
macro_rules! line {
    ($out:expr) => {
        $out.push('\n')
    };
    ($out:expr, $($text:tt)*) => {{
        $out.push_str(&format!($($text)*));
        $out.push('\n');
    }};
}

mod apply;
mod export;
mod plan;
mod show;
mod verify;
mod watch;

use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use latlab_host::dirs::Dirs;
use latlab_host::lab::{self, Lab};
use latlab_host::tuning::{self, Root};
use latlab_model::profile::{Cores, Isolation, Profile};
use latlab_model::units::CpuList;

use crate::args::Format;
use crate::failure::{Failure, Hint, Outcome};
use crate::profiles;

#[derive(Debug, Subcommand)]
pub enum Tune {
    /// Show every knob: what is in force, what latlab applied for whom, where it drifted.
    Show(Show),
    /// Show what a profile would change on this machine, why, and at what risk; change nothing.
    Plan(Plan),
    /// Turn a profile's knobs (needs root). What was there before is on the disk first.
    Apply(Apply),
    /// Compare what was applied with what is in force; exit 1 and name what drifted.
    Verify(Verify),
    /// Give back what was there before (needs root). Works after a crash, any number of times.
    Revert(Revert),
    /// Name whatever runs on processors that are to be quiet: threads, kernel threads, interrupts.
    Watch(watch::Watch),
    /// Write what only a boot can set: a kernel command line, a GRUB drop-in, a tuned profile.
    Export(export::Export),
}

const EXAMPLES: &str = "\
Examples:
  latlab tune plan isolated                     what would change, why, at what risk
  latlab tune apply isolated --cpus 2-7         keep processors 2 to 7 quiet
  latlab tune apply realtime --without thp      all of a profile but one knob
  latlab tune apply isolated --knob irq-affinity --knob cpuset
                                                only these of it
  latlab tune apply --knob swappiness=1         one knob, no profile
  latlab tune verify && latlab tune revert";

/// Which profile, on which processors, and which of its knobs.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Choice {
    /// A built-in profile (default, throughput, isolated, realtime), a profile's file, or the name of
    /// one in /etc/latlab/profiles (LATLAB_PROFILE_DIR). May be left out with `--knob NAME=VALUE`.
    pub profile: Option<String>,
    /// Processors to keep quiet, instead of the profile's or the usual choice: all but the first
    /// quarter.
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<String>,
    /// Only this knob, as the profile wants it or with this value (repeatable).
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub knob: Vec<String>,
    /// Leave this knob out (repeatable).
    #[arg(long, value_name = "NAME")]
    pub without: Vec<String>,
}

/// Where to look: the host, unless a node is named.
#[derive(Debug, Args)]
pub struct Place {
    /// Inside a tuned VM of this lab.
    #[arg(long, value_name = "LAB", requires = "node")]
    pub lab: Option<String>,
    /// Which of its nodes.
    #[arg(long, value_name = "NODE", requires = "lab")]
    pub node: Option<String>,
}

impl Place {
    /// Runs the verb inside the node, if one is named; the exit code then.
    fn inside(
        &self,
        verb: &str,
        more: &[String],
        format: Format,
    ) -> Result<Option<ExitCode>, Failure> {
        let (Some(lab), Some(node)) = (&self.lab, &self.node) else {
            return Ok(None);
        };
        let explain = |error: lab::Error| {
            let hint = error.hint();
            Failure::of(error, hint)
        };
        let lab = Lab::open(&Dirs::from_env(), lab).map_err(explain)?;
        let format = format.to_possible_value();
        let format = format.as_ref().map_or("table", |value| value.get_name());
        let mut arguments = vec![verb, "--format", format];
        arguments.extend(more.iter().map(String::as_str));
        let (out, code) = lab.tune_inside(node, &arguments).map_err(explain)?;
        crate::print::out(&String::from_utf8_lossy(&out))?;
        Ok(Some(ExitCode::from(code as u8)))
    }
}

#[derive(Debug, Args)]
pub struct Show {
    /// Only these knobs, with their evidence and risk.
    pub knobs: Vec<String>,
    #[command(flatten)]
    pub place: Place,
    /// How to print it.
    #[arg(long, short, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Debug, Args)]
pub struct Plan {
    #[command(flatten)]
    pub choice: Choice,
    /// How to print it.
    #[arg(long, short, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Debug, Args)]
pub struct Apply {
    #[command(flatten)]
    pub choice: Choice,
    /// How to print it.
    #[arg(long, short, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Debug, Args)]
pub struct Verify {
    #[command(flatten)]
    pub place: Place,
    /// How to print it.
    #[arg(long, short, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Only what a person applied is reverted; what a lab wants returns with the lab. A value that somebody else \
changed meanwhile is left alone, reported, and makes the exit code 1. After a reboot there is nothing to \
give back: nothing that is tuned outlives the kernel.")]
pub struct Revert {
    /// How to print it.
    #[arg(long, short, value_enum, default_value_t)]
    pub format: Format,
}

pub fn run(verb: &Tune) -> Outcome {
    match verb {
        Tune::Show(a) => show::run(a),
        Tune::Plan(a) => plan::run(a),
        Tune::Apply(a) => apply::run(a),
        Tune::Verify(a) => verify::run(a),
        Tune::Revert(a) => apply::revert(a),
        Tune::Watch(a) => watch::run(a),
        Tune::Export(a) => export::run(a),
    }
}

/// Prints a text whole.
fn say(text: &str) -> Result<(), Failure> {
    Ok(crate::print::out(text)?)
}

/// The kernel's files.
fn root() -> Root {
    Root::default()
}

/// The processors that are online.
fn online(root: &Root) -> Result<CpuList, Failure> {
    const FILE: &str = "/sys/devices/system/cpu/online";
    let text = root.read(FILE).map_err(anyhow::Error::from);
    let text = text.hint(format!(
        "{FILE} lists this machine's processors: is /sys mounted?"
    ))?;
    CpuList::parse(&text)
        .ok_or_else(|| Failure::new(format!("{FILE} is no list of processors"), "report this"))
}

/// The profile with the knobs that were chosen, and the processors.
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
    let chosen = match &choice.cpus {
        Some(text) => Some(CpuList::parse(text).ok_or_else(|| {
            let message = format!("`--cpus {text}` is not a list of processors");
            Failure::new(message, "for example `--cpus 2-7,10`")
        })?),
        None => None,
    };
    let cores = profile.cores_of(&online(root)?, chosen.as_ref());
    Ok((profile, cores.map_err(refuse)?))
}

fn name_of(knob: &str) -> &str {
    knob.split_once('=').map_or(knob, |(name, _)| name)
}

/// An error of tuning, with what to do.
pub fn explain(error: tuning::Error) -> Failure {
    let hint = error.hint();
    Failure::of(error, hint)
}
