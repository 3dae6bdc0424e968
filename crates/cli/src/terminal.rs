//! The person's terminal, handed to a command inside a node: `latlab exec --tty` and `latlab shell`.
//!
//! The terminal is raw meanwhile, so that every key reaches the command, and is as it was on every way out: the
//! guard that restores it is dropped before an error is printed. What the command sends is passed on as it
//! comes, escape sequences included, as ssh and `docker exec -t` do: a person who opens a terminal into a node
//! trusts it with the terminal.

use std::io::{self, IsTerminal, Read, Write};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use latlab_host::lab::Lab;
use latlab_host::nodes::session::{Command, Signaller};
use latlab_wire::terminal::{Input, Size};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH};
use signal_hook::iterator::Signals;

use crate::failure::{Failure, Outcome};
use crate::pipes::{copy, not_run};

/// Most that the agent says about itself that is kept.
const KEPT_BYTES: u64 = 4096;

/// Whether there is one on both sides.
pub fn is_there() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Runs a command at the person's terminal; its exit code.
pub fn run(lab: &Lab, node: &str, command: &Command) -> Outcome {
    if !is_there() {
        return Err(Failure::new(
            "standard input or output is not a terminal",
            "leave out --tty to use pipes",
        ));
    }
    let size = size();
    let mut inside = vec![lab.agent(node), "terminal".into()];
    inside.extend([size.columns.to_string(), size.rows.to_string(), "--".into()]);
    inside.extend(command.argv.iter().cloned());
    let mut command = Command {
        argv: inside,
        ..command.clone()
    };
    if let Ok(kind) = std::env::var("TERM") {
        command.env.entry("TERM".into()).or_insert(kind);
    }
    let mut session = lab.start(node, &command).map_err(not_run)?;
    let raw = Raw::begin()?;
    let input = session
        .take_stdin()
        .map(|stdin| Arc::new(Mutex::new(stdin)));
    if let Some(input) = input {
        pass_signals(session.signaller(), Arc::clone(&input))?;
        // Not joined: a terminal's read cannot be interrupted, and the process ends anyway.
        std::thread::spawn(move || pass_keys(&input));
    }
    let said = session.take_stderr().map(|stream| {
        std::thread::spawn(move || {
            let mut text = Vec::new();
            stream.take(KEPT_BYTES).read_to_end(&mut text).ok();
            text
        })
    });
    let shown = session.take_stdout();
    let shown = shown.map(|s| std::thread::spawn(move || copy(s, io::stdout())));
    let exit = session.wait();
    if let Some(thread) = shown {
        thread.join().ok();
    }
    let said = said
        .and_then(|thread| thread.join().ok())
        .unwrap_or_default();
    drop(raw);
    io::stderr().write_all(&said).ok();
    let exit = exit.map_err(|e| not_run(lab.unusable(node, e)))?;
    Ok(ExitCode::from(exit.shell_code() as u8))
}

/// The terminal without lines, echo and keys of its own; restored when this is dropped.
struct Raw(Termios);

impl Raw {
    fn begin() -> io::Result<Raw> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        Ok(Raw(before))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing. What it still has to show is not waited for: it may be stuck.
        tcsetattr(io::stdin(), OptionalActions::Now, &self.0).ok();
    }
}

type Inlet = Arc<Mutex<Box<dyn Write + Send>>>;

fn send(inlet: &Inlet, input: &Input) -> io::Result<()> {
    let mut inlet = inlet.lock().unwrap_or_else(PoisonError::into_inner);
    inlet.write_all(&input.encode())?;
    inlet.flush()
}

/// Sizes go in as they change; a signal from outside ends the command's terminal.
fn pass_signals(signal: Signaller, inlet: Inlet) -> io::Result<()> {
    let mut signals = Signals::new([SIGWINCH, SIGINT, SIGTERM, SIGHUP, SIGQUIT])?;
    std::thread::spawn(move || {
        for number in &mut signals {
            // Either fails only if the command has just ended.
            if number == SIGWINCH {
                send(&inlet, &Input::Size(size())).ok();
            } else {
                signal(number).ok();
            }
        }
    });
    Ok(())
}

fn pass_keys(inlet: &Inlet) {
    let mut buffer = [0; 1 << 12];
    while let Ok(count @ 1..) = io::stdin().read(&mut buffer) {
        if send(inlet, &Input::Keys(buffer[..count].to_vec())).is_err() {
            return;
        }
    }
}

/// The terminal's size; the usual one where it does not say.
fn size() -> Size {
    let found = tcgetwinsize(io::stdout()).ok();
    let found = found.filter(|size| size.ws_col > 0 && size.ws_row > 0);
    found.map_or(
        Size {
            columns: 80,
            rows: 24,
        },
        |size| Size {
            columns: size.ws_col,
            rows: size.ws_row,
        },
    )
}
