//! `latlab tune export`: what only a boot can set, as the host's own tools take it. Nothing of the
//! machine is changed but the file that was asked for.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use latlab_host::sys::file::write_atomically;
use latlab_model::boot;
use latlab_model::profile::{Cores, Profile};
use latlab_model::units::CpuList;

use super::say;
use crate::failure::{Failure, Hint, Outcome};
use crate::files::{self, Machine, Source};
use crate::profiles;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latlab tune export isolated --cmdline
  latlab tune export realtime --cpus 2-7 --grub /etc/default/grub.d/90-latlab.cfg   (then: update-grub, boot)
  latlab tune export isolated --lab labs/isolated.yaml --facts machine.json --cmdline
  latlab tune export realtime --tuned /etc/tuned/latlab-realtime   (then: tuned-adm profile latlab-realtime)

Evidence and risk of each parameter are comments in the GRUB file; `--json` prints them too.")]
pub struct Export {
    /// A built-in profile, a profile's file, or the name of one in /etc/latlab/profiles.
    pub profile: String,
    /// Processors to keep quiet, instead of the profile's or the usual choice.
    #[arg(long, value_name = "LIST", conflicts_with = "lab")]
    pub cpus: Option<String>,
    /// Keep those quiet that this lab would be given.
    #[arg(long, value_name = "FILE")]
    pub lab: Option<PathBuf>,
    /// For the machine described here (made by `latlab doctor --format json`), not this one.
    #[arg(long, value_name = "FILE")]
    pub facts: Option<PathBuf>,
    #[command(flatten)]
    pub target: Target,
}

/// What to write.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct Target {
    /// Print the parameters as one line.
    #[arg(long)]
    pub cmdline: bool,
    /// Print the parameters with evidence and risk as JSON.
    #[arg(long)]
    pub json: bool,
    /// Write a drop-in for GRUB (`/etc/default/grub.d/NAME.cfg`).
    #[arg(long, value_name = "FILE")]
    pub grub: Option<PathBuf>,
    /// Write a profile for tuned: this directory, with its tuned.conf.
    #[arg(long, value_name = "DIR")]
    pub tuned: Option<PathBuf>,
}

pub fn run(args: &Export) -> Outcome {
    let profile = profiles::load(&args.profile)?;
    let cores = match cores(args, &profile)? {
        Ok(cores) => cores,
        Err(code) => return Ok(code),
    };
    let wrong = |(message, hint): (String, String)| Failure::new(message, hint);
    let parameters = boot::parameters(&profile, &cores).map_err(wrong)?;
    let target = &args.target;
    if target.cmdline {
        say(&format!("{}\n", boot::command_line(&parameters)))?;
    } else if target.json {
        say(&format!("{:#}\n", serde_json::json!(parameters)))?;
    } else if let Some(file) = &target.grub {
        write(file, &boot::drop_in(&profile.name, &parameters))?;
        say(&format!("{}: run `update-grub` and boot\n", file.display()))?;
    } else if let Some(directory) = &target.tuned {
        fs::create_dir_all(directory)
            .map_err(anyhow::Error::from)
            .hint(format!(
                "{} must be a directory that you may write",
                directory.display()
            ))?;
        let file = directory.join("tuned.conf");
        write(&file, &boot::tuned_conf(&profile, &cores, &parameters))?;
        let name = directory.file_name().unwrap_or_default().to_string_lossy();
        say(&format!(
            "{}: run `tuned-adm profile {name}` and boot\n",
            file.display()
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The division of the processors; an exit code when the lab's mistakes were printed.
fn cores(args: &Export, profile: &Profile) -> Result<Result<Cores, ExitCode>, Failure> {
    let machine = Machine::of(args.facts.as_deref());
    if let Some(lab) = &args.lab {
        let source = Source::read(lab)?;
        source.must_be_study(false)?;
        return match files::place_lab(&source, machine) {
            Ok(blueprint) => Ok(Ok(boot::cores(&blueprint))),
            Err(unusable) => unusable.outcome().map(Err),
        };
    }
    let chosen = args.cpus.as_deref().map(|text| {
        CpuList::parse(text).ok_or_else(|| {
            let message = format!("--cpus: `{text}` is no list of processors");
            Failure::new(message, "for example `2-7` or `1,3`")
        })
    });
    let chosen = chosen.transpose()?;
    let online = files::processors(machine)?;
    let wrong = |(message, hint): (String, String)| Failure::new(message, hint);
    profile
        .cores_of(&online, chosen.as_ref())
        .map(Ok)
        .map_err(wrong)
}

/// Writes a file that is new, or was written by this before.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let ours = |old: &str| {
        old.lines()
            .next()
            .is_some_and(|l| l.starts_with('#') && l.contains("latlab"))
    };
    match fs::read_to_string(path) {
        Ok(old) if !ours(&old) => {
            let message = format!("{} is there already, and is not latlab's", path.display());
            return Err(Failure::new(
                message,
                "name another file, or move that one away",
            ));
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            let message = format!("cannot read {}: {error}", path.display());
            return Err(Failure::new(message, "name a file that may be written"));
        }
        _ => {}
    }
    write_atomically(path, text.as_bytes(), 0o644)
        .map_err(anyhow::Error::from)
        .hint("its directory must be there, and be yours to write in")
}
