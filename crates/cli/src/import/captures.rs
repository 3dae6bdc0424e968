//! Two captures of the same packets as a run. Needs neither root nor the machine that captured.

use std::path::PathBuf;
use std::process::ExitCode;

use latlab_measure::run::claim;
use latlab_samples::import::{self, ImportError, Imported, Source};

use crate::args::{ImportCaptures, MatchBy};
use crate::failure::{Failure, Hint, Outcome};
use crate::report;

const MAX_NAME: usize = 40;

pub fn run(files: &[PathBuf], args: &ImportCaptures) -> Outcome {
    let name = args.name.as_deref().unwrap_or("captures");
    must_be_a_name(name)?;
    let pairs = files.chunks(2).map(|pair| match pair {
        [before, after] => Ok([source(before), source(after)]),
        odd => Err(Failure::new(
            format!("{} is without a second capture", odd[0].display()),
            "name captures in pairs: before the device, and behind it",
        )),
    });
    let pairs = pairs.collect::<Result<_, _>>()?;
    let imported = Imported::read(import::Import {
        pairs,
        by: match args.by.unwrap_or_default() {
            MatchBy::Frame => import::By::Frame,
            MatchBy::Packet => import::By::Packet,
            MatchBy::Payload => import::By::Payload,
        },
        name: name.to_owned(),
    });
    let imported = imported.map_err(refused)?;
    let (id, dir) =
        claim(&args.runs, name).hint("name a directory that can be written with --runs")?;
    imported.write(&dir, id).map_err(|error| {
        // Nothing is lost: the captures are where they were.
        let _ = std::fs::remove_dir_all(dir.root());
        refused(error)
    })?;
    for line in imported.left_out() {
        eprintln!("latlab: left out: {line}");
    }
    report::write_and_print(&dir, args.format.unwrap_or_default())?;
    Ok(ExitCode::SUCCESS)
}

/// A path, with an interface behind the last `#` unless a file has such a name.
fn source(given: &PathBuf) -> Source {
    let text = given.to_string_lossy();
    match text.rsplit_once('#') {
        Some((path, interface)) if !given.exists() => Source {
            path: PathBuf::from(path),
            interface: Some(interface.to_owned()),
        },
        _ => Source {
            path: given.to_owned(),
            interface: None,
        },
    }
}

fn must_be_a_name(name: &str) -> Result<(), Failure> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_plain) {
        return Ok(());
    }
    let message = format!("{name:?} is no name for a study");
    Err(Failure::new(
        message,
        format!("use letters, digits, `-` and `_`, at most {MAX_NAME} of them"),
    ))
}

fn refused(error: ImportError) -> Failure {
    let hint = match &error {
        ImportError::NotACapture { .. } => "name captures of tcpdump, dumpcap or Wireshark",
        ImportError::Open { .. } | ImportError::RunDir(_) | ImportError::Samples(_) => {
            "name files that can be read, and with --runs a directory that can be written"
        }
        ImportError::Damaged { .. } => {
            "`editcap IN OUT` (Wireshark) writes the readable packets into a new file"
        }
        ImportError::NoTimes { .. } | ImportError::Empty { .. } => "capture again",
        ImportError::SeveralInterfaces { .. } | ImportError::NoInterface { .. } => {
            "name one of them by `FILE#NAME` or `FILE#NUMBER`"
        }
        ImportError::LinkType { .. } => "capture on an Ethernet interface",
        ImportError::TooMany { .. } => {
            "`editcap -c COUNT IN OUT` (Wireshark) cuts a file into several"
        }
        ImportError::Wraps { .. } | ImportError::CyclesApart { .. } => {
            "give the capturing card a clock of 64 bits (ptp4l, phc2sys), or capture with the kernel's timestamps"
        }
        ImportError::NothingInCommon { .. } => {
            "behind a router use --by packet, behind NAT --by payload; were both captured at the same time?"
        }
        ImportError::BackToFront { .. } => {
            "name the capture before the device first; the clocks of both must agree"
        }
    };
    Failure::of(error, hint)
}
