//! Verbs about nodes that are on other hosts: the latlab there does them.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::Path;

use latlab_host::dirs::Dirs;

use super::record::{Host, Record};
use super::remote::each;
use crate::failure::{Failure, Outcome};
use crate::print;

/// The nodes of a verb that names several, by host. Where none are named each host gets no names, and chooses among its own.
pub struct Divided {
    /// Those of this machine; none: it has none of them.
    pub here: Option<Vec<String>>,
    elsewhere: Vec<(Host, Vec<String>)>,
}

impl Divided {
    /// Divides the nodes of a lab on several hosts; no names mean all of them. None: the lab is on this machine alone.
    /// Errors: a node that the lab lacks.
    pub fn of(dirs: &Dirs, lab: &str, nodes: &[String]) -> Result<Option<Divided>, Failure> {
        let Some(record) = Record::read(dirs, lab)? else {
            return Ok(None);
        };
        let all = record.nodes();
        let asked = if nodes.is_empty() { &all } else { nodes };
        let mut by_host: BTreeMap<&str, (&Host, Vec<String>)> = BTreeMap::new();
        for node in asked {
            let host = record.host_of(node)?;
            let there = by_host.entry(&host.name).or_insert((host, Vec::new()));
            if !nodes.is_empty() {
                there.1.push(node.clone());
            }
        }
        let mut divided = Divided {
            here: None,
            elsewhere: Vec::new(),
        };
        for (host, nodes) in by_host.into_values() {
            match host.ssh {
                None => divided.here = Some(nodes),
                Some(_) => divided.elsewhere.push((host.clone(), nodes)),
            }
        }
        Ok(Some(divided))
    }

    /// Has a verb done on all other hosts at once, and prints their words. Errors: hosts that could not.
    pub fn ask(&self, verb: &str, lab: &str) -> Result<(), Failure> {
        let answers = each(&self.elsewhere, |(host, nodes)| {
            let mut words = vec![verb, lab];
            words.extend(nodes.iter().map(String::as_str));
            host.ask(&words)
        });
        let mut reasons = Vec::new();
        for ((host, _), answer) in self.elsewhere.iter().zip(&answers) {
            print::out_if_read(&answer.output)?;
            if !answer.is_good() {
                reasons.push(format!("host `{}`: {}", host.name, answer.reason()));
            }
        }
        if reasons.is_empty() {
            return Ok(());
        }
        let hint = answers.iter().find_map(|answer| answer.hint());
        let hint = hint.unwrap_or("`latlab inspect` shows the hosts that answer");
        Err(Failure::new(reasons.join("; "), hint))
    }
}

/// Has latlab on the host of a node do a verb, on the caller's own output. Returns only if ssh cannot be started.
pub fn pass_on(host: &Host, words: &[&str], with_terminal: bool) -> Outcome {
    let error = host.attached(words, with_terminal).exec();
    Err(Failure::of(error, "install ssh: openssh-client"))
}

/// A directory on the host of a node.
pub fn absolute<'p>(host: &Host, directory: &'p Path) -> Result<&'p str, Failure> {
    match directory.to_str().filter(|_| directory.is_absolute()) {
        Some(text) => Ok(text),
        None => Err(Failure::new(
            format!("{} is no absolute path", directory.display()),
            format!(
                "the node is on host `{}`, and so is the directory",
                host.name
            ),
        )),
    }
}
