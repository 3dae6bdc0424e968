//! The hosts of a trial, each of which watches itself.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdin, ChildStdout};

use latlab_measure::run::Failure;
use latlab_measure::watch::Watched;

use crate::hosts::record::Host;
use crate::hosts::remote::{Answer, each};
use crate::part::{READY, WatchAnswer};

pub struct Watches(Vec<Watch>);

/// The watch of one host; it ends with this.
struct Watch {
    host: String,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Watches {
    /// Begins on all hosts. Errors: a host that cannot.
    pub fn begin(hosts: &[Host], lab: &str) -> Result<Watches, Failure> {
        let begun = each(hosts, |host| Watch::begin(host, lab));
        Ok(Watches(begun.into_iter().collect::<Result<_, _>>()?))
    }

    /// Ends on all hosts: what was seen, each by its host, and a node that died.
    pub fn end(self) -> Result<(Watched, Option<String>), Failure> {
        let mut all = (Watched::default(), None);
        for found in each(self.0, Watch::end) {
            let (host, found) = found?;
            for mut check in found.watched.checks {
                check.question = format!("{}, on host {host}", check.question);
                all.0.checks.push(check);
            }
            for mut intruder in found.watched.intruders {
                intruder.name = format!("{} on host {host}", intruder.name);
                all.0.intruders.push(intruder);
            }
            all.1 = all.1.or(found.dead);
        }
        Ok(all)
    }
}

impl Watch {
    fn begin(host: &Host, lab: &str) -> Result<Watch, Failure> {
        let failed = |reason: String| Failure::new(format!("host `{}`: {reason}", host.name));
        let started = host.start(&["part", "watch", lab]);
        let mut child = started.map_err(|error| failed(error.to_string()))?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let Some(stdout) = stdout else {
            unreachable!("it is a pipe");
        };
        let mut stdout = BufReader::new(stdout);
        let mut line = String::new();
        stdout.read_line(&mut line).ok();
        if line.trim() != READY {
            drop(stdin);
            return Err(failed(Answer::of(child.wait_with_output()).reason()));
        }
        Ok(Watch {
            host: host.name.clone(),
            child,
            stdin,
            stdout,
        })
    }

    fn end(mut self) -> Result<(String, WatchAnswer), Failure> {
        drop(self.stdin.take());
        let mut text = String::new();
        self.stdout.read_to_string(&mut text).ok();
        match serde_json::from_str(&text) {
            Ok(answer) => {
                self.child.wait().ok();
                Ok((self.host, answer))
            }
            Err(_) => {
                let reason = Answer::of(self.child.wait_with_output()).reason();
                Err(Failure::new(format!("host `{}`: {reason}", self.host)))
            }
        }
    }
}
