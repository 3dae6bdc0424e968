//! Runs a program at a given time, so that programs in many nodes begin together.
//!
//! The agent says that it is ready and sleeps until the time that its standard input names, on this node's own clock: the
//! way to a guest takes longer than the program may be late. Standard input stays open meanwhile. Its end is the
//! order to stop, which ends the program with all that it started.

use std::io::{self, BufRead, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};

use latlab_probe::{Pause, now_ns};
use latlab_wire::begin::{End, READY};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::os;

/// Runs the program once. Fails when it cannot be started; its own failure is told with its end.
pub fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let failed = |action: &str, error: io::Error| format!("{action} {program}: {error}");
    say(READY).map_err(|error| failed("announce", error))?;
    let mut line = String::new();
    io::stdin()
        .lock()
        .read_line(&mut line)
        .map_err(|error| failed("await", error))?;
    let Ok(at_ns) = line.trim().parse::<u64>() else {
        // The order to stop, before it began.
        return Ok(());
    };
    Pause::spinning(0).until(at_ns);
    let began_ns = now_ns();
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .process_group(0);
    // Its own group is not the one that is killed with this process.
    os::die_with_this_one(&mut command);
    let child = command.spawn().map_err(|error| failed("run", error))?;
    let status = finish(child).map_err(|error| failed("wait for", error))?;
    let end = End {
        began_ns,
        ended_ns: now_ns(),
        code: status.code(),
        signal: status.signal(),
    };
    say(&end.to_string()).map_err(|error| failed("report", error))
}

fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

/// Waits for the end of the program, and ends its group when standard input does.
fn finish(mut child: Child) -> io::Result<ExitStatus> {
    let pid = Pid::from_child(&child);
    let process = pidfd_open(pid, PidfdFlags::empty())?;
    let stdin = io::stdin();
    let mut is_asked_to_stop = false;
    loop {
        let mut both = [
            PollFd::new(&process, PollFlags::IN),
            PollFd::new(&stdin, PollFlags::IN),
        ];
        let watched = if is_asked_to_stop { 1 } else { 2 };
        match poll(&mut both[..watched], None) {
            Err(rustix::io::Errno::INTR) => continue,
            result => result?,
        };
        if !both[0].revents().is_empty() {
            return child.wait();
        }
        if watched == 2 && !both[1].revents().is_empty() {
            let mut more = [0; 64];
            is_asked_to_stop = rustix::io::read(&stdin, &mut more).is_ok_and(|read| read == 0);
            if is_asked_to_stop {
                // The process has not been waited for, so the number is still its own.
                kill_process_group(pid, Signal::KILL)?;
            }
        }
    }
}
