//! The scripts of a lab's nodes (HVNet's setup, experiment, teardown): `exec` and `setup` when the
//! lab comes up, `run` beside each measurement, `teardown` before it goes.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::deployed::Lab;
use super::error::Error;
use crate::nodes::session::{self, Command, Exit, Session};
use crate::sync::lock;

/// Most of what a script says that is kept for an error.
const KEPT_BYTES: usize = 64 << 10;
/// Teardown scripts are asked, not trusted, to end.
const TEARDOWN_TIMEOUT: Duration = Duration::from_secs(10);
/// The same of scripts that run beside a measurement.
const TERM_TIMEOUT: Duration = Duration::from_secs(2);
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// A script that has ended has said all, unless what it left behind may say more.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);
/// SIGTERM and SIGKILL.
const TERM: i32 = 15;
const KILL: i32 = 9;

/// Runs every node's `exec` commands, then every node's `setup`; the first failure ends it.
/// `before` is asked whether to go on.
pub(super) fn bring_up(lab: &Lab, before: &dyn Fn(&str) -> Result<(), Error>) -> Result<(), Error> {
    for node in &lab.plan().nodes {
        let commands = node.exec.iter().map(|c| ("exec", c));
        for (what, command) in commands.chain(node.setup.iter().map(|s| ("setup", s))) {
            before(&node.name)?;
            let (exit, output) = run(lab, &node.name, command, None)?;
            if !exit.success() {
                return Err(failed(&node.name, what, command, exit, output));
            }
        }
    }
    Ok(())
}

/// Runs every node's `teardown`, each bounded in time. Failures do not keep a lab from going; they
/// are returned, one line each.
pub(super) fn teardown(lab: &Lab) -> Vec<String> {
    let mut failures = Vec::new();
    for node in &lab.plan().nodes {
        let Some(script) = &node.teardown else {
            continue;
        };
        match run(lab, &node.name, script, Some(TEARDOWN_TIMEOUT)) {
            Ok((exit, _)) if exit.success() => {}
            Ok((exit, output)) => {
                failures.push(failed(&node.name, "teardown", script, exit, output).to_string());
            }
            Err(error) => failures.push(error.to_string()),
        }
    }
    failures
}

fn failed(node: &str, what: &'static str, script: &str, exit: Exit, output: String) -> Error {
    let first = script.trim().lines().next().unwrap_or_default();
    Error::Command {
        node: node.to_string(),
        what,
        command: first.chars().take(80).collect(),
        exit,
        output,
    }
}

/// Runs a script to its end; what it said too. One that takes longer than `timeout` is killed.
fn run(
    lab: &Lab,
    node: &str,
    script: &str,
    timeout: Option<Duration>,
) -> Result<(Exit, String), Error> {
    let mut session = lab.start(node, &Command::shell(script))?;
    drop(session.take_stdin());
    let outputs = [session.take_stderr(), session.take_stdout()].map(Said::by);
    let exit = match timeout {
        None => session.wait(),
        Some(timeout) => wait_at_most(&mut *session, timeout),
    };
    let exit = exit.map_err(|error| lab.unusable(node, error))?;
    Ok((exit, outputs.map(Said::text).concat()))
}

fn wait_at_most(session: &mut dyn Session, timeout: Duration) -> Result<Exit, session::Error> {
    if let Some(exit) = session.wait_for(timeout)? {
        return Ok(exit);
    }
    session.signaller()(KILL)?;
    let exit = session.wait_for(KILL_TIMEOUT)?;
    exit.ok_or_else(|| {
        let waited = timeout.as_secs();
        session::Error::Other(format!(
            "a script did not end within {waited} s, nor when it was killed"
        ))
    })
}

/// One of the outputs of a script.
struct Said {
    text: Arc<Mutex<Vec<u8>>>,
    ended: Receiver<()>,
}

impl Said {
    fn by(stream: Option<Box<dyn Read + Send>>) -> Said {
        let (sender, ended) = channel();
        let text = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&text);
        std::thread::spawn(move || {
            let _ends = sender;
            let mut buffer = [0; 4096];
            let mut stream = stream.unwrap_or_else(|| Box::new(io::empty()));
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                let mut kept = lock(&kept);
                // More is read, so that the script never blocks, and dropped.
                let room = KEPT_BYTES.saturating_sub(kept.len());
                kept.extend_from_slice(&buffer[..count.min(room)]);
            }
        });
        Said { text, ended }
    }

    /// All of it, or what came until now where a process that the script left behind still has the output.
    fn text(self) -> String {
        let _ = self.ended.recv_timeout(OUTPUT_TIMEOUT);
        String::from_utf8_lossy(&lock(&self.text)).into_owned()
    }
}

pub struct RunScripts(Vec<Box<dyn Session>>);

impl Lab {
    pub fn run_scripts(&self) -> Result<RunScripts, Error> {
        let mut running = RunScripts(Vec::new());
        for node in &self.plan().nodes {
            let Some(script) = &node.run else { continue };
            let mut session = self.start(&node.name, &Command::shell(script))?;
            drop(session.take_stdin());
            let outputs = [session.take_stdout(), session.take_stderr()];
            for mut stream in outputs.into_iter().flatten() {
                std::thread::spawn(move || io::copy(&mut stream, &mut io::sink()));
            }
            running.0.push(session);
        }
        Ok(running)
    }
}

impl Drop for RunScripts {
    fn drop(&mut self) {
        for session in &mut self.0 {
            let signal = session.signaller();
            signal(TERM).ok();
            if !matches!(session.wait_for(TERM_TIMEOUT), Ok(Some(_))) {
                signal(KILL).ok();
                session.wait_for(KILL_TIMEOUT).ok();
            }
        }
    }
}
