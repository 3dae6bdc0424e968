//! A command inside a node with this process's streams: they are passed on, as are signals, and its exit code.

use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use latlab_host::lab::{self, Lab};
use latlab_host::nodes::session::{Command, NotStarted};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use signal_hook::low_level::raise;

use crate::failure::{Failure, Outcome, explain};
use crate::print;

/// Runs it to its end; its exit code. Over ssh the end of the connection is a SIGHUP to the command. Errors: an output
/// that cannot be written, unless its reader is gone.
pub fn run(lab: &Lab, node: &str, command: &Command, over_ssh: bool) -> Outcome {
    let mut session = lab.start(node, command).map_err(not_run)?;
    let signal = session.signaller();
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2])?;
    let has_ended = Arc::new(AtomicBool::new(false));
    let is_over = Arc::clone(&has_ended);
    std::thread::spawn(move || {
        for number in &mut signals {
            if is_over.load(Ordering::SeqCst) {
                // Processes that the command left behind still have its outputs, and are not waited for any more.
                std::process::exit(128 + number);
            }
            // Fails only if the command has just ended.
            signal(number).ok();
        }
    });
    let is_cut = Arc::new(AtomicBool::new(false));
    if over_ssh {
        hang_up_at_the_end(Arc::clone(&is_cut));
    }
    if let Some(stdin) = session.take_stdin() {
        // Not joined: a terminal's read cannot be interrupted, and the process ends anyway.
        std::thread::spawn(move || copy(io::stdin(), stdin));
    }
    let stdout = session.take_stdout();
    let stderr = session.take_stderr();
    let outputs = [
        stdout.map(|s| std::thread::spawn(|| (copy(s, io::stdout()), "standard output"))),
        stderr.map(|s| std::thread::spawn(|| (copy(s, io::stderr()), "standard error"))),
    ];
    let exit = session.wait();
    has_ended.store(true, Ordering::SeqCst);
    let exit = exit.map_err(|e| not_run(lab.unusable(node, e)))?;
    let code = ExitCode::from(exit.shell_code() as u8);
    if is_cut.load(Ordering::SeqCst) {
        // There is no reader of what processes that the command left behind have to say.
        return Ok(code);
    }
    for thread in outputs.into_iter().flatten() {
        if let Ok((Err(error), output)) = thread.join() {
            if error.kind() != io::ErrorKind::BrokenPipe {
                return Err(print::unwritten(output, &error));
            }
        }
    }
    Ok(code)
}

/// Sends this process SIGHUP when the connection of ssh has ended, of which sshd tells a command without a terminal
/// nothing. The end of the standard error is the sign: a user may end the input, and `| head` the output, while the
/// connection goes on.
fn hang_up_at_the_end(is_cut: Arc<AtomicBool>) {
    std::thread::spawn(move || {
        let stderr = io::stderr();
        // An error and a hang-up are reported unasked.
        let mut end = [PollFd::new(&stderr, PollFlags::empty())];
        if retry_on_intr(|| poll(&mut end, None)).is_ok() {
            is_cut.store(true, Ordering::SeqCst);
            raise(SIGHUP).ok();
        }
    });
}

/// A command that did not run gets a shell's exit code, which scripts can tell from the command's own.
pub fn not_run(error: lab::Error) -> Failure {
    let code = error.not_started().map(NotStarted::shell_code);
    explain(error).with_code(code)
}

/// Copies until one side ends, flushing every piece: a user may be typing. Errors: those of the side that takes it.
pub fn copy(mut from: impl Read, mut to: impl Write) -> io::Result<()> {
    let mut buffer = [0; 1 << 14];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        to.write_all(&buffer[..count])?;
        to.flush()?;
    }
    Ok(())
}
