//! `probe: workload` as written: a program that runs in nodes, and the figure that its output holds.

use std::ops::RangeInclusive;

use super::mpi::MAX_NPB_RANKS;
use super::probe::Probe;
use super::program::{Program, read_program};
use super::reader::{Object, read_words};
use super::yaml::{Value, Yaml};
use crate::diagnostic::{Diagnostics, Mark, Spanned, hint_one_of, shown};
use crate::units::Nanos;
use crate::words::vocabulary;

/// A program in nodes, all of which begin at the same time.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// The nodes that it runs in, as written: a counted node stands for all of its nodes.
    pub on: Vec<Spanned<String>>,
    /// The node that asks, of a program with a server; the server's own without one.
    pub from: Option<Spanned<String>>,
    pub task: Task,
    /// Longest time from its begin to its end.
    pub timeout: Nanos,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Task {
    Program(Program),
    Command(OwnCommand),
}

/// A command of the user's own.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnCommand {
    /// Never empty; a shell line is one of `/bin/sh`.
    pub argv: Vec<String>,
    pub metric: Metric,
}

/// The figure in a command's standard output.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    pub by: Extract,
    pub unit: String,
    pub better: Better,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Extract {
    /// The group of the first match.
    Regex(String),
    /// A JSON pointer (RFC 6901) into the whole output.
    Json(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    Higher,
    Lower,
}
vocabulary!(Better, { "higher" => Higher, "lower" => Lower });
read_words!(Better, "a direction", "higher");

/// Beyond the time that a program is asked to run for.
const GRACE: Nanos = Nanos(60_000_000_000);
const TIMEOUTS: RangeInclusive<Nanos> = Nanos(100_000_000)..=Nanos(7_200_000_000_000);
/// Keys of times, which not every task follows.
const TIMES: [&str; 2] = ["duration", "warmup"];
/// A unit stands in tables.
const MAX_UNIT: usize = 16;

/// Reads the keys of a workload; `None` without nodes or without a task.
pub(super) fn read_keys(
    o: &mut Object<'_>,
    probe: Option<Probe>,
    duration: Nanos,
    errors: &mut Diagnostics,
) -> Option<Workload> {
    let is_workload = probe == Some(Probe::Workload);
    let on = o.list::<String>("on", errors);
    let program = o.take("program");
    let command = o.take("command");
    let metric = o.take("metric");
    let timeout = o.get::<Nanos>("timeout", errors);
    if !is_workload {
        return None;
    }
    let from = o.get::<String>("from", errors);
    if on.is_empty() {
        let hint = "add `on:` with a node, a list of nodes, or the name of a node with `count`";
        errors.add(o.at, format!("{} runs in no node", o.what), hint);
    }
    if let Some(t) = timeout.filter(|t| !TIMEOUTS.contains(&t.value)) {
        let message = format!("`timeout` of {} is {}", o.what, t.value);
        errors.add(t.at, message, "from 100ms to 120min");
    }
    let task = read_task(o, program, command, metric, errors)?;
    let asked = match &task {
        Task::Program(program) if program.name().is_timed() => duration.0,
        _ => 0,
    };
    if let Some(t) = timeout.filter(|t| TIMEOUTS.contains(&t.value) && t.value.0 <= asked) {
        let message = format!(
            "`timeout` of {} is {}, and its program runs for {duration}",
            o.what, t.value
        );
        let hint = "raise it, or leave it out: then it is a minute more than `duration`";
        errors.add(t.at, message, hint);
    }
    if let Some(from) = &from {
        check_from(from, &task, &o.what, errors);
    }
    Some(Workload {
        on,
        from,
        timeout: timeout.map_or(Nanos(GRACE.0 + asked), |t| t.value),
        task,
    })
}

/// A program with its own figures, or a command with a metric.
fn read_task(
    o: &Object<'_>,
    program: Option<&Yaml>,
    command: Option<&Yaml>,
    metric: Option<&Yaml>,
    errors: &mut Diagnostics,
) -> Option<Task> {
    match (program, command) {
        (Some(program), None) => {
            if let Some(at) = o.key_at("metric") {
                let message = format!("`metric` of {} belongs to a `command`", o.what);
                errors.add(at, message, "remove it: the program has figures of its own");
            }
            let program = read_program(program, o, errors)?;
            if !program.name().is_timed() {
                let why = "the program takes the time that it takes";
                refuse(&TIMES, o, why, errors);
            } else if let Program::Redis(_) = program {
                let why = "a round before the measured one warms up";
                refuse(&TIMES[1..], o, why, errors);
            }
            Some(Task::Program(program))
        }
        (None, Some(command)) => {
            let why = "its command takes the time that it takes";
            refuse(&TIMES, o, why, errors);
            let argv = read_command(command, &o.what, errors);
            Some(Task::Command(OwnCommand {
                metric: read_metric(metric, o, errors)?,
                argv: argv?,
            }))
        }
        (Some(_), Some(command)) => {
            let message = format!("{} has a program and a command", o.what);
            errors.add(command.at, message, "remove one of them");
            None
        }
        (None, None) => {
            let hint = "add `program: sysbench-cpu`, or `command:` and `metric:`";
            errors.add(o.at, format!("{} runs nothing", o.what), hint);
            None
        }
    }
}

/// A client in another node is one of a program that has a server.
fn check_from(from: &Spanned<String>, task: &Task, of: &str, errors: &mut Diagnostics) {
    let has_server = |program: &Program| program.name().has_server();
    if !matches!(task, Task::Program(program) if has_server(program)) {
        let message = format!("`from` of {of} belongs to a program with a server");
        let hint = "remove it, or use `program: redis` or `program: oltp`";
        errors.add(from.at, message, hint);
    }
}

fn refuse(keys: &[&str], o: &Object<'_>, why: &str, errors: &mut Diagnostics) {
    for key in keys {
        if let Some(at) = o.key_at(key) {
            let message = format!("`{key}` of {} has no meaning: {why}", o.what);
            errors.add(at, message, "remove it; `timeout` ends one that hangs");
        }
    }
}

/// The numbers of ranks that a job's program can divide its work among.
fn check_ranks(of: &str, program: &Program, nodes: usize, at: Mark, errors: &mut Diagnostics) {
    match program {
        Program::Npb(npb) => {
            let ranks = nodes * npb.processes as usize;
            if !ranks.is_power_of_two() || ranks > MAX_NPB_RANKS {
                let message = format!("measurement `{of}` has {ranks} ranks of npb");
                let hint = "2, 4 or 8 in all: nodes of `on` times `processes`";
                errors.add(at, message, hint);
            }
        }
        Program::Netpipe if nodes != 2 => {
            let message = format!("measurement `{of}` has {nodes} nodes for NetPIPE");
            errors.add(at, message, "name two nodes with `on`");
        }
        _ => {}
    }
}

/// A list of words, or a line for a shell.
fn read_command(yaml: &Yaml, of: &str, errors: &mut Diagnostics) -> Option<Vec<String>> {
    let hint = "for example `[sysbench, cpu, run]`, or a line for `/bin/sh`";
    let argv = match &yaml.value {
        Value::Scalar { .. } => {
            let line = yaml.scalar().unwrap_or_default().to_string();
            vec!["/bin/sh".to_string(), "-c".to_string(), line]
        }
        Value::Seq(items) => {
            let words = items.iter().map(|item| item.scalar().map(str::to_string));
            words.collect::<Option<Vec<String>>>().unwrap_or_default()
        }
        Value::Map(_) => Vec::new(),
    };
    if argv.first().is_none_or(|program| program.trim().is_empty()) {
        let message = format!("`command` of {of} must be a list of words, or a shell line");
        errors.add(yaml.at, message, hint);
        return None;
    }
    Some(argv)
}

fn read_metric(yaml: Option<&Yaml>, of: &Object<'_>, errors: &mut Diagnostics) -> Option<Metric> {
    let Some(yaml) = yaml else {
        let message = format!("{} has a command and no `metric`", of.what);
        let hint = "add `metric: {regex: 'score: ([0-9.]+)', unit: points/s, better: higher}`";
        errors.add(of.at, message, hint);
        return None;
    };
    let mut o = Object::new(yaml, format!("`metric` of {}", of.what), errors);
    let at = o.at;
    let regex = o.get::<String>("regex", errors);
    let json = o.get::<String>("json", errors);
    let unit = o.need::<String>("unit", errors);
    let better = o.need::<Better>("better", errors);
    let what = o.what.clone();
    o.finish(errors);
    if let Some(unit) = &unit {
        let length = unit.chars().count();
        if length == 0 || length > MAX_UNIT || unit.chars().any(char::is_control) {
            let message = format!("`unit` of {what} is `{}`", shown(unit));
            errors.add(
                unit.at,
                message,
                format!("1 to {MAX_UNIT} letters, such as `MB/s`"),
            );
        }
    }
    let by = match (regex, json) {
        (Some(regex), None) => checked_regex(regex, &what, errors),
        (None, Some(json)) => checked_pointer(json, &what, errors),
        _ => {
            let message = format!("{what} must have either `regex` or `json`");
            let hint = "`regex` has one group around the number, `json` is a pointer such as `/total/rate`";
            errors.add(at, message, hint);
            None
        }
    };
    Some(Metric {
        by: by?,
        unit: unit?.value,
        better: better?.value,
    })
}

fn checked_regex(regex: Spanned<String>, what: &str, errors: &mut Diagnostics) -> Option<Extract> {
    let hint = "one group around the number, for example `events per second: +([0-9.]+)`";
    match regex_lite::Regex::new(&regex.value) {
        // The whole match is a group too.
        Ok(read) if read.captures_len() == 2 => return Some(Extract::Regex(regex.value)),
        Ok(read) => {
            let groups = read.captures_len() - 1;
            let message = format!("`regex` of {what} has {groups} groups");
            errors.add(regex.at, message, hint);
        }
        Err(error) => {
            let message = format!("`regex` of {what} cannot be read: {error}");
            errors.add(regex.at, message, hint);
        }
    }
    None
}

/// A pointer is empty, for the whole document, or each of its steps begins with `/`; `~` is escaped.
fn checked_pointer(json: Spanned<String>, what: &str, errors: &mut Diagnostics) -> Option<Extract> {
    let text = json.value.as_str();
    let escaped = |rest: &str| rest.starts_with('0') || rest.starts_with('1');
    let good = text.is_empty() || text.starts_with('/');
    if good && text.split('~').skip(1).all(escaped) {
        return Some(Extract::Json(json.value));
    }
    let message = format!("`json` of {what} is no JSON pointer: `{}`", shown(&json));
    let hint = "for example `/runs/0/rate`; `~1` stands for `/`, `~0` for `~`";
    errors.add(json.at, message, hint);
    None
}

/// The nodes that a name stands for: the node of that name, or those that its `count` made, in their order.
pub fn nodes_named<'n>(name: &str, nodes: &[&'n str]) -> Vec<&'n str> {
    if let Some(node) = nodes.iter().find(|node| **node == name) {
        return vec![node];
    }
    let numbered = (1..).map(|number| format!("{name}-{number}"));
    let found = numbered.map_while(|wanted| nodes.iter().find(|node| **node == wanted));
    found.copied().collect()
}

impl Workload {
    /// The nodes of a lab that it runs in, in the order of `on`.
    pub fn nodes<'n>(&self, nodes: &[&'n str]) -> Vec<&'n str> {
        let named = self.on.iter().flat_map(|name| nodes_named(name, nodes));
        named.collect()
    }

    /// Refuses names that the lab does not have, and nodes that are named twice.
    pub(super) fn check_nodes(&self, of: &str, names: &[&str], errors: &mut Diagnostics) {
        let mut seen: Vec<&str> = Vec::new();
        for name in &self.on {
            let found = nodes_named(name, names);
            if found.is_empty() {
                let name_shown = shown(name);
                let message = format!(
                    "`on` of measurement `{of}` names node `{name_shown}`, which the lab does not have"
                );
                errors.add(name.at, message, hint_one_of(name, names));
            }
            if let Some(again) = found.iter().find(|node| seen.contains(node)) {
                let message = format!("measurement `{of}` runs in node `{}` twice", shown(again));
                errors.add(name.at, message, "name each node once");
            }
            seen.extend(found);
        }
        if let Some(from) = &self.from {
            refuse_client(of, from, &seen, names, errors);
        }
        if let ([_], [name], true) = (&seen[..], &self.on[..], self.is_joint()) {
            let message = format!("measurement `{of}` has one node for a job of several");
            errors.add(
                name.at,
                message,
                "name the others with `on` too: `on: [a, b]`",
            );
        } else if let (Some(program), Some(name)) = (self.program(), self.on.first()) {
            check_ranks(of, program, seen.len(), name.at, errors);
        }
    }

    /// Whether its nodes run one job together.
    pub fn is_joint(&self) -> bool {
        self.program()
            .is_some_and(|program| program.name().is_joint())
    }

    /// The program, if it is a built-in one.
    pub fn program(&self) -> Option<&Program> {
        match &self.task {
            Task::Program(program) => Some(program),
            Task::Command(_) => None,
        }
    }
}

/// The client is in one node, the server in another one.
fn refuse_client(
    of: &str,
    from: &Spanned<String>,
    on: &[&str],
    names: &[&str],
    errors: &mut Diagnostics,
) {
    let node = shown(&from.value);
    let (message, hint) = if !names.contains(&from.value.as_str()) {
        (
            format!(
                "`from` of measurement `{of}` names node `{node}`, which the lab does not have"
            ),
            hint_one_of(from, names),
        )
    } else if on.contains(&from.value.as_str()) {
        (
            format!("measurement `{of}` has its server in `{node}`, and its client too"),
            "remove `from`: without it the client is in the server's own node".to_owned(),
        )
    } else if on.len() > 1 {
        (
            format!("measurement `{of}` has {} servers for one client", on.len()),
            "name one node with `on`, or remove `from`".to_owned(),
        )
    } else {
        return;
    };
    errors.add(from.at, message, hint);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_for_a_node_or_for_its_counted_nodes() {
        let nodes = ["a", "guest-2", "guest-1", "guest-10", "guest-3"];
        assert_eq!(nodes_named("a", &nodes), ["a"]);
        assert_eq!(
            nodes_named("guest", &nodes),
            ["guest-1", "guest-2", "guest-3"]
        );
        assert_eq!(nodes_named("guest-3", &nodes), ["guest-3"]);
        assert!(nodes_named("b", &nodes).is_empty());
    }
}
