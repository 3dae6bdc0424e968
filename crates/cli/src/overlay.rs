//! `latlab overlay`: queries or reconfigures an overlay daemon.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use latlab_host::dirs::Dirs;
use latlab_overlay::control::{Client, Refusal};
use latlab_overlay::tls::Credentials;

use crate::args::Overlay;
use crate::failure::{AT_FAULT, Failure, Outcome};

pub fn run(args: &Overlay) -> Outcome {
    // If a daemon is named by socket or address, the lab argument is the command's first word.
    let mut command = args.command.clone();
    if args.control.is_some() || args.connect.is_some() {
        command.splice(0..0, args.lab.clone());
    }
    let mut client = match (&args.control, args.connect, &args.lab) {
        (Some(socket), _, _) => connect(socket)?,
        (None, Some(address), _) => connect_tls(address, args)?,
        (None, None, Some(lab)) => connect(&of_lab(lab)?)?,
        (None, None, None) => return Err(Failure::new("no daemon is named", "name a lab")),
    };
    if !command.is_empty() {
        return say(&mut client, &line(&command));
    }
    for line in std::io::stdin().lines() {
        let code = say(&mut client, &line?)?;
        if code != ExitCode::SUCCESS {
            return Ok(code);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The words as one line; a command given as a single argument is one already.
fn line(words: &[String]) -> String {
    let quoted = |word: &String| {
        if word.contains(char::is_whitespace) {
            format!("\"{word}\"")
        } else {
            word.clone()
        }
    };
    match words {
        [line] => line.clone(),
        words => words.iter().map(quoted).collect::<Vec<_>>().join(" "),
    }
}

fn of_lab(name: &str) -> Result<PathBuf, Failure> {
    let (lab, link) = match name.split_once('/') {
        Some((lab, link)) => (lab, Some(link)),
        None => (name, None),
    };
    let run = Dirs::from_env().run(lab);
    let all = run.join("overlay");
    let mut links: Vec<String> = std::fs::read_dir(&all)
        .map(|entries| {
            let names = entries.flatten().map(|entry| entry.file_name());
            names.filter_map(|name| name.into_string().ok()).collect()
        })
        .unwrap_or_default();
    links.sort();
    let hint = match links.as_slice() {
        [] => "`latlab inspect` lists what is deployed; its link needs `type: overlay`".to_owned(),
        some => format!("one of {}", some.join(", ")),
    };
    match (link, links.as_slice()) {
        (Some(link), _) if links.iter().any(|known| known == link) => {
            Ok(all.join(link).join("control"))
        }
        (None, [only]) => Ok(all.join(only).join("control")),
        (_, []) if !run.exists() => {
            let message = format!("no lab `{lab}` is deployed");
            Err(Failure::new(
                message,
                "`latlab inspect` lists the deployed labs",
            ))
        }
        (None, []) => Err(Failure::new(format!("lab `{lab}` has no overlay"), hint)),
        (None, _) => Err(Failure::new(
            format!("lab `{lab}` has several overlay daemons"),
            format!("name it, as {lab}/LINK: {hint}"),
        )),
        (Some(link), _) => Err(Failure::new(
            format!("lab `{lab}` has no overlay daemon `{link}`"),
            hint,
        )),
    }
}

pub(crate) fn connect(socket: &Path) -> Result<Client, Failure> {
    Client::connect(socket).map_err(|error| {
        let hint = match error.kind() {
            ErrorKind::PermissionDenied => "its owner may, and root",
            _ => "is the daemon running? start it with `latlab-overlay --control SOCKET`",
        };
        Failure::new(format!("cannot reach {}: {error}", socket.display()), hint)
    })
}

/// Speaks with a daemon on another host.
fn connect_tls(address: SocketAddr, args: &Overlay) -> Result<Client, Failure> {
    let files = (&args.certificate, &args.key, &args.authority);
    // The arguments' own rules ask for all three.
    let (Some(certificate), Some(key), Some(authority)) = files else {
        let hint = "give --certificate, --key and --authority";
        return Err(Failure::new("no certificates are named", hint));
    };
    let credentials = Credentials::read(certificate, key, authority).map_err(|error| {
        let hint = "give PEM files to --certificate, --key and --authority";
        Failure::new(error.to_string(), hint)
    })?;
    Client::connect_tls(address, &credentials).map_err(|error| {
        let hint = match error.kind() {
            ErrorKind::ConnectionRefused | ErrorKind::TimedOut => {
                "is the daemon running? start it with `latlab-overlay --listen ADDRESS:PORT`"
            }
            ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable => {
                "there is no way there: `ip route get ADDRESS` says why"
            }
            _ => {
                "each side's authority has to have signed the other's certificate, and the \
                 daemon's has to name its address"
            }
        };
        Failure::new(format!("cannot speak with {address}: {error}"), hint)
    })
}

/// Says a line and prints the answer.
fn say(client: &mut Client, line: &str) -> Outcome {
    let answer = client
        .say(line)
        .map_err(|error| Failure::new(error.to_string(), "look whether the daemon still runs"))?;
    match answer {
        Ok(lines) => {
            for line in lines {
                crate::print::out(&format!("{line}\n"))?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(refusal) => Ok(refused(line, &refusal)),
    }
}

/// Shows what the daemon said, below the line it is about.
fn refused(line: &str, refusal: &Refusal) -> ExitCode {
    eprintln!("error: {}", refusal.message);
    if refusal.column > 1 {
        eprintln!("  {line}\n  {}^", " ".repeat(refusal.column - 1));
    }
    if !refusal.hint.is_empty() {
        eprintln!("  hint: {}", refusal.hint);
    }
    ExitCode::from(AT_FAULT)
}
