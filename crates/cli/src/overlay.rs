//! `latlab overlay`: a client of the overlay's control socket.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use latlab_host::dirs::Dirs;

use crate::args::Overlay;
use crate::failure::{AT_FAULT, Failure, Outcome};

/// A daemon answers at once; one that does not has died in the middle.
const PATIENCE: Duration = Duration::from_secs(60);

pub fn run(args: &Overlay) -> Outcome {
    // With a socket given, what would be the lab is the command's first word.
    let mut command = args.command.clone();
    let socket = match (&args.control, &args.lab) {
        (Some(socket), first) => {
            command.splice(0..0, first.clone());
            socket.clone()
        }
        (None, Some(lab)) => of_lab(lab)?,
        (None, None) => return Err(Failure::new("no daemon is named", "name a lab")),
    };
    let mut client = Client::connect(&socket)?;
    if !command.is_empty() {
        return client.say(&line(&command));
    }
    for line in std::io::stdin().lines() {
        let code = client.say(&line?)?;
        if code != ExitCode::SUCCESS {
            return Ok(code);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The words as one line; a command given as a single argument is one already.
fn line(words: &[String]) -> String {
    let quoted = |word: &String| match word.contains(char::is_whitespace) {
        true => format!("\"{word}\""),
        false => word.clone(),
    };
    match words {
        [line] => line.clone(),
        words => words.iter().map(quoted).collect::<Vec<_>>().join(" "),
    }
}

/// The control socket of a lab's daemon.
fn of_lab(name: &str) -> Result<PathBuf, Failure> {
    let (lab, link) = match name.split_once('/') {
        Some((lab, link)) => (lab, Some(link)),
        None => (name, None),
    };
    let all = Dirs::from_env().run(lab).join("overlay");
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

/// A conversation.
struct Client {
    stream: UnixStream,
    answers: BufReader<UnixStream>,
}

impl Client {
    fn connect(socket: &Path) -> Result<Client, Failure> {
        let connect = || -> std::io::Result<Client> {
            let stream = UnixStream::connect(socket)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            Ok(Client {
                answers: BufReader::new(stream.try_clone()?),
                stream,
            })
        };
        connect().map_err(|error| {
            let hint = match error.kind() {
                std::io::ErrorKind::PermissionDenied => "its owner may, and root".to_owned(),
                _ => {
                    "is the daemon running? start it with `latlab-overlay --control SOCKET`".into()
                }
            };
            Failure::new(format!("cannot reach {}: {error}", socket.display()), hint)
        })
    }

    /// Says a line and prints the answer.
    fn say(&mut self, line: &str) -> Outcome {
        writeln!(self.stream, "{line}")?;
        let mut out = std::io::stdout().lock();
        loop {
            let mut answer = String::new();
            if self.answers.read_line(&mut answer)? == 0 {
                let hint = "look whether it still runs";
                return Err(Failure::new("the daemon hung up", hint));
            }
            if let Some(data) = answer.strip_prefix(' ') {
                out.write_all(data.as_bytes())?;
                continue;
            }
            let answer = answer.trim_end();
            if answer == "ok" {
                return Ok(ExitCode::SUCCESS);
            }
            return Ok(refused(line, answer));
        }
    }
}

/// Shows what the daemon said, below the line it is about: `error COLUMN: MESSAGE (HINT)`.
fn refused(line: &str, answer: &str) -> ExitCode {
    let said = answer.strip_prefix("error ").unwrap_or(answer);
    let (column, said) = said.split_once(": ").unwrap_or(("1", said));
    let (message, hint) = match said
        .strip_suffix(')')
        .and_then(|said| said.rsplit_once(" ("))
    {
        Some((message, hint)) => (message, hint),
        None => (said, ""),
    };
    eprintln!("error: {message}");
    if let Ok(column) = column.parse::<usize>() {
        if column > 1 {
            eprintln!("  {line}\n  {}^", " ".repeat(column - 1));
        }
    }
    if !hint.is_empty() {
        eprintln!("  hint: {hint}");
    }
    ExitCode::from(AT_FAULT)
}
