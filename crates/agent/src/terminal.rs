//! Runs a command at a terminal of the node: its standard input brings keys and sizes
//! ([`latlab_wire::terminal`]), its standard output takes what the terminal shows.
//!
//! The terminal is the node's own, so a program inside finds it by its name. When the person's end goes away,
//! so does the terminal, and the kernel hangs up what runs at it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::Child;
use std::sync::Arc;
use std::time::Duration;

use latlab_wire::terminal::{Input, Inputs, Size};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::os;
use crate::session::command_of;

/// Exit status after the person's end went away: a shell's for SIGHUP.
const HUNG_UP: i32 = 129;
/// How long a terminal without bytes is waited for after its command's end: the kernel hands over what was
/// written last in the background.
const LAST_BYTES: Duration = Duration::from_millis(100);

/// Runs it to its end; its exit status, as a shell says it.
pub fn run(columns: &str, rows: &str, command: &[&str]) -> Result<u8, String> {
    let (Ok(columns), Ok(rows), Some((program, arguments))) =
        (columns.parse(), rows.parse(), command.split_first())
    else {
        return Err("terminal wants columns, rows and a command".into());
    };
    let failed = |what: &str| {
        let what = what.to_owned();
        move |error: Errno| format!("{what}: {}", io::Error::from(error))
    };
    let terminal = open(Size { columns, rows }).map_err(failed("open a terminal"))?;
    let peer = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let peer = ioctl_tiocgptpeer(&terminal, peer).map_err(failed("open a terminal"))?;
    let mut child = match start(program, arguments, &peer) {
        Ok(child) => child,
        Err(error) => {
            eprintln!("latlab-agent: run {program}: {error}\r");
            let is_there = error.kind() != io::ErrorKind::NotFound;
            return Ok(if is_there { 126 } else { 127 });
        }
    };
    drop(peer);
    let terminal = Arc::new(terminal);
    let keys = Arc::clone(&terminal);
    std::thread::spawn(move || {
        // Either way the terminal goes with this process.
        let _ = take_input(&keys);
        std::process::exit(HUNG_UP);
    });
    show(&terminal, &child).map_err(failed("read the terminal"))?;
    let status = child
        .wait()
        .map_err(|e| format!("wait for {program}: {e}"))?;
    let signalled = status.signal().map_or(1, |signal| 128 + signal);
    Ok(status.code().unwrap_or(signalled) as u8)
}

fn open(size: Size) -> rustix::io::Result<OwnedFd> {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&terminal)?;
    unlockpt(&terminal)?;
    tcsetwinsize(&terminal, winsize(size))?;
    Ok(terminal)
}

fn winsize(size: Size) -> Winsize {
    Winsize {
        ws_row: size.rows,
        ws_col: size.columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

fn start(program: &str, arguments: &[&str], peer: &OwnedFd) -> io::Result<Child> {
    let mut command = command_of(program);
    command.args(arguments).stdin(peer.try_clone()?);
    command.stdout(peer.try_clone()?).stderr(peer.try_clone()?);
    os::at_its_terminal(&mut command);
    command.spawn()
}

/// Hands on keys and sizes until the input ends.
fn take_input(terminal: &OwnedFd) -> io::Result<()> {
    let mut inputs = Inputs::default();
    let mut bytes = [0; 1 << 12];
    let mut stdin = io::stdin().lock();
    let mut keys_into = File::from(terminal.try_clone()?);
    loop {
        match stdin.read(&mut bytes)? {
            0 => return Ok(()),
            count => inputs.push(&bytes[..count]),
        }
        while let Some(input) = inputs.take() {
            match input {
                Input::Keys(keys) => keys_into.write_all(&keys)?,
                Input::Size(size) => tcsetwinsize(terminal, winsize(size))?,
            }
        }
    }
}

/// Hands on what the terminal shows, until its command ended and everything was shown.
fn show(terminal: &OwnedFd, child: &Child) -> rustix::io::Result<()> {
    let ended = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let (last, mut over) = (Timespec::try_from(LAST_BYTES).ok(), false);
    let mut bytes = [0; 1 << 14];
    loop {
        let mut ready = [
            PollFd::new(terminal, PollFlags::IN),
            PollFd::from_borrowed_fd(ended.as_fd(), PollFlags::IN),
        ];
        let watched = if over { 1 } else { 2 };
        let count = match poll(&mut ready[..watched], last.as_ref().filter(|_| over)) {
            Err(Errno::INTR) => continue,
            polled => polled?,
        };
        let shown = !ready[0].revents().is_empty();
        over |= !ready[1].revents().is_empty();
        if shown {
            match rustix::io::read(terminal, &mut bytes) {
                // EIO: every process closed it.
                Ok(0) | Err(Errno::IO) => return Ok(()),
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(errno) => return Err(errno),
                Ok(count) => {
                    let mut stdout = io::stdout().lock();
                    let written = stdout.write_all(&bytes[..count]);
                    if written.and_then(|()| stdout.flush()).is_err() {
                        std::process::exit(HUNG_UP);
                    }
                }
            }
        } else if over && count == 0 {
            return Ok(());
        }
    }
}
