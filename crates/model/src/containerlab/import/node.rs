//! The fields of a container, as a lab writes them.

use super::draft::Node;
use super::fields::{Fields, Named};
use super::surroundings::Surroundings;
use crate::containerlab::commands::{exec_line, joined, only_waits, quoted, split};
use crate::containerlab::images;
use crate::containerlab::remarks::Remarks;
use crate::containerlab::sizes::exact;
use crate::diagnostic::{Diagnostics, Mark, Spanned, shown};
use crate::kinds::{CAPABILITIES, NodeKind};
use crate::spec::yaml::Yaml;
use crate::units::Bytes;

/// All that one node is converted with.
pub(super) struct Converter<'a> {
    pub around: &'a Surroundings<'a>,
    /// The topology's own name for the lab.
    pub lab: &'a str,
    pub remarks: &'a mut Remarks,
    pub errors: &'a mut Diagnostics,
}

impl Converter<'_> {
    /// Fills `exec` of a node; its dummy interfaces are there already.
    pub(super) fn fill_exec(&mut self, node: &mut Node<'_>) {
        let Some(written) = node.written else { return };
        let (fields, name) = (&written.fields, &written.name.value);
        if node.kind == NodeKind::Container {
            let mut lines = self.sysctls(fields);
            lines.extend(self.own_command(fields, name));
            node.exec.splice(0..0, lines.into_iter().map(Some));
        }
        for command in &fields.exec {
            let words = self.words(command, name, "exec");
            let line = words
                .filter(|words| !words.is_empty())
                .map(|words| exec_line(&words));
            node.exec
                .extend(line.map(|line| Some(Spanned::new(line, command.at))));
        }
    }

    /// Words of a command, with the variables of containerlab replaced.
    fn words(&mut self, command: &Spanned<String>, node: &str, key: &str) -> Option<Vec<String>> {
        let words = split(&self.replaced(command, node));
        if words.is_none() {
            let message = format!(
                "`{}` of `{key}` has a quote that is not closed",
                shown(command)
            );
            self.errors.add(
                command.at,
                message,
                "close it, or write a backslash before it",
            );
        }
        words
    }

    fn replaced(&self, text: &str, node: &str) -> String {
        let directory = format!("./clab-{}", self.lab);
        text.replace("__clabNodeDir__", &format!("{directory}/{node}"))
            .replace("__clabDir__", &directory)
            .replace("__clabNodeName__", node)
            .replace("__clabLabName__", &format!("clab-{}", self.lab))
    }

    /// `entrypoint` and `cmd`: the container's first process there, one in the background here.
    fn own_command(&mut self, fields: &Fields, name: &str) -> Option<Spanned<String>> {
        let at = fields.entrypoint.as_ref().or(fields.cmd.as_ref())?.at;
        let key = if fields.entrypoint.is_some() {
            "entrypoint"
        } else {
            "cmd"
        };
        let mut words = Vec::new();
        for part in [&fields.entrypoint, &fields.cmd].into_iter().flatten() {
            words.extend(self.words(part, name, key)?);
        }
        if words.is_empty() || only_waits(&words) {
            return None;
        }
        let message = format!(
            "`{key}` of node `{}` is started by `exec`, in the background",
            shown(name)
        );
        let hint = "the first process of every container is latlab's own; what the image starts by itself is not started";
        self.remarks.add(at, message, hint);
        let line = format!("{} >/dev/null 2>&1 </dev/null &", joined(&words));
        Some(Spanned::new(line, at))
    }

    /// Settings of the network, which each node has for itself.
    fn sysctls(&mut self, fields: &Fields) -> Vec<Spanned<String>> {
        let mut lines = Vec::new();
        for (name, value) in &fields.sysctls {
            // A slash stands for a dot in the name of an interface (sysctl(8)).
            let step = |c| match c {
                '.' => '/',
                '/' => '.',
                other => other,
            };
            let path: String = name.chars().map(step).collect();
            if path.starts_with("net/") && !path.split('/').any(|step| step == "..") {
                let [value, path] =
                    [value.value.clone(), format!("/proc/sys/{path}")].map(|word| quoted(&word));
                lines.push(Spanned::new(format!("echo {value} > {path}"), name.at));
            } else {
                let message = format!("sysctl `{}` has no equivalent", shown(name));
                self.remarks.add(
                    name.at,
                    message,
                    "only those of `net` belong to a node; `tuning:` sets some of the host's",
                );
            }
        }
        lines
    }

    /// Fields of a container, without `exec`.
    pub(super) fn container<'k>(&mut self, name: &str, fields: &Fields) -> Vec<(&'k str, Yaml)> {
        let mut all = Vec::new();
        all.extend(self.image(fields).map(|image| ("image", image)));
        self.runtime_and_network(name, fields, &mut all);
        all.extend(fields.cpu.map(|cpus| ("cpus", Yaml::of(&cpus))));
        let cpuset = fields.cpu_set.as_ref();
        all.extend(cpuset.map(|set| ("cpuset", Yaml::of(set))));
        all.extend(
            fields
                .memory
                .as_ref()
                .map(|memory| ("memory", Yaml::text(memory.at, exact(memory.value.0)))),
        );
        let env = self.env(fields);
        if let Some((first, _)) = env.first() {
            let at = first.at;
            let entries = env
                .iter()
                .map(|(name, text)| (name.as_str(), Yaml::of(text)));
            all.push(("env", Yaml::map(at, entries.collect())));
        }
        Yaml::push_list("binds", self.binds(name, fields), &mut all);
        Yaml::push_list("storage", self.tmpfs(fields), &mut all);
        all.extend(
            self.security(name, fields)
                .map(|security| ("security", security)),
        );
        all
    }

    fn image(&mut self, fields: &Fields) -> Option<Yaml> {
        let image = fields.image.as_ref()?;
        if let Some(instead) = self.around.image {
            return Some(Yaml::text(image.at, instead));
        }
        if image.contains('$') {
            let message = format!("image `{}` names a variable that is not set", shown(image));
            let hint = "set it in the environment, or give a default: `alpine:${VERSION:=3}`";
            self.errors.add(image.at, message, hint);
        }
        let archive = images::archive(image);
        let message = format!(
            "image `{}` is read from `{archive}`, and its own command is not started",
            shown(image)
        );
        let hint = format!(
            "`skopeo copy docker://{} oci-archive:{archive}` makes it; start programs in `exec:`",
            image.value
        );
        self.remarks.add(image.at, message, hint);
        Some(Yaml::text(image.at, archive))
    }

    fn runtime_and_network(&mut self, name: &str, fields: &Fields, all: &mut Vec<(&str, Yaml)>) {
        match fields
            .runtime
            .as_ref()
            .map(|runtime| (runtime, runtime.as_str()))
        {
            Some((runtime, word @ ("docker" | "podman"))) => {
                all.push(("runtime", Yaml::text(runtime.at, word)));
            }
            Some((runtime, word)) => {
                let message = format!("runtime `{}` has no equivalent", shown(word));
                self.remarks.add(
                    runtime.at,
                    message,
                    "the lab's containers are crun's; see `runtime:`",
                );
            }
            None => {}
        }
        let mode = fields.network_mode.as_ref();
        if let Some(mode) = mode.filter(|mode| !matches!(mode.as_str(), "none" | "bridge")) {
            let message = format!(
                "`network-mode: {}` of node `{}` has no equivalent",
                shown(mode),
                shown(name)
            );
            let hint = "it has a network of its own; a node of kind host has the host's";
            self.remarks.add(mode.at, message, hint);
        }
        if let Some(privileged) = fields.privileged.filter(|privileged| privileged.value) {
            let message = format!("`privileged` of node `{}` has no equivalent", shown(name));
            self.remarks.add(
                privileged.at,
                message,
                "`security:` grants rights one by one",
            );
        }
    }

    /// `env` over what `env-files` have.
    fn env(&mut self, fields: &Fields) -> Vec<Named> {
        let mut env: Vec<Named> = Vec::new();
        for file in &fields.env_files {
            match (self.around.file)(file) {
                Ok(text) => env.extend(assignments(&text, file.at)),
                Err(why) => {
                    let message =
                        format!("env-file `{}` cannot be read: {}", shown(file), shown(&why));
                    self.errors.add(
                        file.at,
                        message,
                        "its path is relative to the topology's file",
                    );
                }
            }
        }
        env.extend(fields.env.iter().cloned());
        // The last one of a name counts.
        let mut last: Vec<Named> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        for (name, value) in env.into_iter().rev() {
            if name.value == "__IMPORT_ENVS" {
                let message = "`__IMPORT_ENVS` has no equivalent";
                self.remarks.add(
                    name.at,
                    message,
                    "name the variables, for example `PATH: ${PATH}`",
                );
            } else if seen.insert(name.value.clone()) {
                last.push((name, value));
            }
        }
        last.reverse();
        last
    }

    fn binds(&mut self, name: &str, fields: &Fields) -> Vec<Yaml> {
        let mut binds: Vec<(String, Yaml)> = Vec::new();
        for bind in &fields.binds {
            let parts: Vec<&str> = bind.split(':').collect();
            let ([source, target] | [source, target, _]) = parts[..] else {
                let message = format!("bind `{}` must be `HOST:INSIDE[:ro]`", shown(bind));
                self.errors
                    .add(bind.at, message, "for example `files:/files:ro`");
                continue;
            };
            let options = parts
                .get(2)
                .map_or_else(Vec::new, |options| options.split(',').collect());
            // Labels of SELinux are not set.
            let other = options
                .iter()
                .find(|option| !matches!(**option, "ro" | "rw" | "z" | "Z"));
            if let Some(other) = other {
                let message = format!(
                    "option `{}` of bind `{}` has no equivalent",
                    shown(other),
                    shown(bind)
                );
                self.remarks
                    .add(bind.at, message, "a bind is `ro` or writable");
            }
            let ro = if options.contains(&"ro") { ":ro" } else { "" };
            let source = self.path(&self.replaced(source, name));
            binds.retain(|(other, _)| other != target);
            binds.push((
                target.to_string(),
                Yaml::text(bind.at, format!("{source}:{target}{ro}")),
            ));
        }
        for device in &fields.devices {
            let mut parts = device.split(':');
            let outside = parts.next().unwrap_or_default();
            let inside = parts.next().unwrap_or(outside);
            if inside != "/dev/net/tun" {
                binds.push((
                    inside.to_string(),
                    Yaml::text(device.at, format!("{outside}:{inside}")),
                ));
            }
        }
        binds.into_iter().map(|(_, bind)| bind).collect()
    }

    /// A path of the topology as the lab has it.
    fn path(&self, path: &str) -> String {
        let home = (self.around.variable)("HOME").unwrap_or_default();
        let directory = self.around.directory;
        match path.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => home + rest,
            _ if path.starts_with('/') || directory.is_empty() => path.to_string(),
            _ => format!("{directory}/{path}"),
        }
    }

    fn tmpfs(&mut self, fields: &Fields) -> Vec<Yaml> {
        let mut all = Vec::new();
        for (at, options) in &fields.tmpfs {
            let size = options
                .split(',')
                .find_map(|option| option.strip_prefix("size="));
            // A number alone counts bytes, and `k`, `m`, `g` are binary (tmpfs(5)).
            let size = size.and_then(|size| Bytes::parse(&size.to_ascii_uppercase()));
            match size {
                Some(size) => all.push(Yaml::map(
                    at.at,
                    vec![
                        ("at", Yaml::of(at)),
                        ("type", Yaml::text(at.at, "tmpfs")),
                        ("size", Yaml::text(options.at, exact(size))),
                    ],
                )),
                None => {
                    let message = format!("tmpfs `{}` has no size", shown(at));
                    self.remarks.add(at.at, message, "it stays a directory; `storage:` has `{at: PATH, type: tmpfs, size: 64MiB}`");
                }
            }
        }
        all
    }

    fn security(&mut self, name: &str, fields: &Fields) -> Option<Yaml> {
        let mut granted = Vec::new();
        for capability in &fields.cap_add {
            let upper = capability.to_ascii_uppercase();
            let known = upper.strip_prefix("CAP_").unwrap_or(&upper);
            if CAPABILITIES.contains(&known) {
                granted.push(Yaml::text(capability.at, known));
            } else {
                let message = format!(
                    "capability `{}` of node `{}` has no equivalent",
                    shown(capability),
                    shown(name)
                );
                self.remarks.add(
                    capability.at,
                    message,
                    "`security:` grants capabilities by name",
                );
            }
        }
        let mut entries = Vec::new();
        let mut at = granted.first().map(|first| first.at);
        Yaml::push_list("capabilities", granted, &mut entries);
        for option in &fields.security_opts {
            if option.value == "seccomp=unconfined" {
                at = at.or(Some(option.at));
                entries.push(("seccomp", Yaml::text(option.at, "unconfined")));
            } else {
                let message = format!("security option `{}` has no equivalent", shown(option));
                self.remarks
                    .add(option.at, message, "`security:` lists what there is");
            }
        }
        at.map(|at| Yaml::map(at, entries))
    }
}

/// Lines `NAME=value` of a file, which may have comments, quotes and `export`.
fn assignments(text: &str, at: Mark) -> Vec<Named> {
    let lines = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.starts_with('#'));
    let pairs =
        lines.filter_map(|line| line.strip_prefix("export ").unwrap_or(line).split_once('='));
    let named = |(name, value): (&str, &str)| {
        let value = value.trim();
        let inner = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
        let value = inner('"').or_else(|| inner('\'')).unwrap_or(value);
        (
            Spanned::new(name.trim().to_string(), at),
            Spanned::new(value.to_string(), at),
        )
    };
    pairs.map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_variables_are_read_as_shells_do() {
        let text = "# a comment\nA=1\nexport B=\"two words\"\n C = 'x' \n\nnothing\n";
        let read: Vec<(String, String)> = assignments(text, Mark::new(1, 1))
            .into_iter()
            .map(|(name, value)| (name.value, value.value))
            .collect();
        let expected = [("A", "1"), ("B", "two words"), ("C", "x")]
            .map(|(name, value)| (name.into(), value.into()));
        assert_eq!(read, expected);
    }
}
