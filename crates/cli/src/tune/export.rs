//! `latlab tune export`: boot parameters in the format of the host's own tools. Only the named file is written.

use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use latlab_host::sys::file::write_atomically;
use latlab_model::boot;
use latlab_model::profile::{Cores, Profile};
use latlab_model::units::CpuList;

use super::args::Export;
use crate::failure::{Failure, Hint, Outcome};
use crate::files::{self, Machine, Source};
use crate::profiles;

pub fn run(args: &Export) -> Outcome {
    let profile = profiles::load(&args.profile)?;
    let cores = cores(args, &profile)?;
    let wrong = |(message, hint): (String, String)| Failure::new(message, hint);
    let parameters = boot::parameters(&profile, &cores).map_err(wrong)?;
    let target = &args.target;
    if target.cmdline {
        crate::print::out(&format!("{}\n", boot::command_line(&parameters)))?;
    } else if target.json {
        crate::print::out(&format!("{:#}\n", serde_json::json!(parameters)))?;
    } else if let Some(file) = &target.grub {
        write(file, &boot::drop_in(&profile.name, &parameters))?;
        crate::print::out(&format!("{}: run `update-grub` and boot\n", file.display()))?;
    } else if let Some(directory) = &target.tuned {
        fs::create_dir_all(directory).hint(format!(
            "{} must be a directory that you may write",
            directory.display()
        ))?;
        let file = directory.join("tuned.conf");
        write(&file, &boot::tuned_conf(&profile, &cores, &parameters))?;
        let name = directory.file_name().unwrap_or_default().to_string_lossy();
        crate::print::out(&format!(
            "{}: run `tuned-adm profile {name}` and boot\n",
            file.display()
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The CPU split.
fn cores(args: &Export, profile: &Profile) -> Result<Cores, Failure> {
    let machine = Machine::of(args.facts.as_deref());
    if let Some(lab) = &args.lab {
        let source = Source::read(lab)?;
        source.must_be_study(false)?;
        return Ok(boot::cores(&files::place_lab(&source, machine)?));
    }
    cores_of(profile, args.cpus.as_deref(), machine)
}

/// The division of a machine's CPUs: the profile's, or with those that a list keeps quiet.
pub fn cores_of(
    profile: &Profile,
    cpus: Option<&str>,
    machine: Machine<'_>,
) -> Result<Cores, Failure> {
    let chosen = cpus.map(|text| {
        CpuList::parse(text).ok_or_else(|| {
            let message = format!("--cpus: `{text}` is no list of CPUs");
            Failure::new(message, "for example `2-7` or `1,3`")
        })
    });
    let chosen = chosen.transpose()?;
    let online = files::cpus(machine)?;
    let wrong = |(message, hint): (String, String)| Failure::new(message, hint);
    profile.cores_of(&online, chosen.as_ref()).map_err(wrong)
}

/// Writes a file that is new, or was written by an earlier export.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let ours = |old: &str| {
        old.lines()
            .next()
            .is_some_and(|l| l.starts_with('#') && l.contains("latlab"))
    };
    match fs::read_to_string(path) {
        Ok(old) if !ours(&old) => {
            let message = format!("{} exists and is not latlab's", path.display());
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
    write_atomically(path, text.as_bytes(), 0o644).hint("its directory must exist and be writable")
}
