//! Fields of a node, written on the node itself, on its group, its kind, or for all.

use std::cell::Cell;
use std::collections::HashSet;

use crate::containerlab::remarks::Remarks;
use crate::containerlab::sizes::Size;
use crate::diagnostic::{Diagnostics, Mark, Spanned};
use crate::spec::reader::Object;
use crate::spec::yaml::{Value, Yaml};
use crate::units::CpuList;

/// Keys without an equivalent, each with what latlab has instead.
const NO_EQUIVALENT: &[(&str, &str)] = &[
    ("aliases", "nodes know each other by name"),
    ("auto-remove", "`latlab destroy` removes all nodes"),
    ("certificate", NO_FILES),
    ("cgroup-parent", "latlab has a tree of cgroups of its own"),
    (
        "cgroupns-mode",
        "every container has a namespace of cgroups",
    ),
    ("components", VENDORS),
    ("config", VENDORS),
    ("credentials", "`latlab exec` and `latlab shell` need none"),
    (
        "dns",
        "nodes know each other by name, and reach nothing outside",
    ),
    ("enforce-startup-config", VENDORS),
    ("extras", VENDORS),
    (
        "healthcheck",
        "commands of `exec` must succeed: test there what must be ready",
    ),
    ("hostname", "a node's host name is its name"),
    ("image-pull-policy", "an image is a file here"),
    ("labels", "`description:` of the lab takes text"),
    ("license", VENDORS),
    ("link-apply-mode", "links do not change while a lab is up"),
    ("mgmt-ipv4", NO_MANAGEMENT),
    ("mgmt-ipv6", NO_MANAGEMENT),
    ("password", "`latlab exec` and `latlab shell` need none"),
    ("pid-mode", "every container has processes of its own"),
    (
        "ports",
        "`type: nat` publishes nodes; `latlab exec` starts a client in the lab",
    ),
    ("position", "`latlab graph` places nodes itself"),
    (
        "restart-policy",
        "what ends in a node stays ended, so that a measurement sees it",
    ),
    ("shm-size", "`storage:` has file systems in memory"),
    (
        "stages",
        "nodes start together; `exec` runs node by node, in the order of the file",
    ),
    (
        "startup-config",
        "bind a file by `binds:`, and apply it in `exec:`",
    ),
    (
        "startup-delay",
        "nodes start together; `exec` runs node by node, in the order of the file",
    ),
    ("suppress-startup-config", VENDORS),
    ("type", VENDORS),
    (
        "user",
        "nodes run as root; name a user in the command: `su USER -c COMMAND`",
    ),
    ("username", "`latlab exec` and `latlab shell` need none"),
    (
        "volumes",
        "`storage:` has directories of their own, or bind a directory by `binds:`",
    ),
];
const VENDORS: &str = "it belongs to images of network vendors";
const NO_MANAGEMENT: &str = "there is no management network; `latlab exec` reaches every node";
const NO_FILES: &str = "make the files, and bind them by `binds:`";

/// A list's item or a mapping's entry, in the order of the text.
pub(super) type Named = (Spanned<String>, Spanned<String>);

#[derive(Debug, Clone, Default)]
pub(super) struct Fields {
    pub kind: Option<Spanned<String>>,
    pub group: Option<Spanned<String>>,
    pub image: Option<Spanned<String>>,
    pub entrypoint: Option<Spanned<String>>,
    pub cmd: Option<Spanned<String>>,
    pub network_mode: Option<Spanned<String>>,
    pub runtime: Option<Spanned<String>>,
    pub cpu: Option<Spanned<f64>>,
    pub cpu_set: Option<Spanned<CpuList>>,
    pub memory: Option<Spanned<Size>>,
    pub privileged: Option<Spanned<bool>>,
    pub exec: Vec<Spanned<String>>,
    pub binds: Vec<Spanned<String>>,
    pub env_files: Vec<Spanned<String>>,
    pub cap_add: Vec<Spanned<String>>,
    pub devices: Vec<Spanned<String>>,
    pub security_opts: Vec<Spanned<String>>,
    pub env: Vec<Named>,
    pub sysctls: Vec<Named>,
    pub tmpfs: Vec<Named>,
}

/// Fields of one place, with the keys there that have no equivalent.
#[derive(Debug, Default)]
pub(super) struct Level {
    pub fields: Fields,
    what: String,
    without: Vec<(&'static str, Mark, &'static str)>,
    was_told: Cell<bool>,
    /// [`Yaml::weight`] of what nodes copy.
    pub weight: usize,
}

impl Level {
    pub(super) fn read(yaml: &Yaml, what: String, errors: &mut Diagnostics) -> Level {
        let mut o = Object::new(yaml, what, errors);
        let fields = Fields {
            kind: o.get("kind", errors),
            group: o.get("group", errors),
            image: o.get("image", errors),
            entrypoint: o.get("entrypoint", errors),
            cmd: o.get("cmd", errors),
            network_mode: o.get("network-mode", errors),
            runtime: o.get("runtime", errors),
            cpu: o.get("cpu", errors),
            cpu_set: o.get("cpu-set", errors),
            memory: o.get("memory", errors),
            privileged: o.get("privileged", errors),
            exec: o.list("exec", errors),
            binds: o.list("binds", errors),
            env_files: o.list("env-files", errors),
            cap_add: o.list("cap-add", errors),
            devices: o.list("devices", errors),
            security_opts: o.list("security-opts", errors),
            env: named(&mut o, "env", errors),
            sysctls: named(&mut o, "sysctls", errors),
            tmpfs: named(&mut o, "tmpfs", errors),
        };
        let mut without = Vec::new();
        for (key, instead) in NO_EQUIVALENT {
            o.take(key);
            without.extend(o.key_at(key).map(|at| (*key, at, *instead)));
        }
        let what = o.what.clone();
        o.finish(errors);
        Level {
            fields,
            what,
            without,
            was_told: Cell::default(),
            weight: yaml.weight(),
        }
    }

    /// Tells of the keys without an equivalent, once for all nodes that inherit them.
    pub(super) fn tell(&self, remarks: &mut Remarks) {
        if self.was_told.replace(true) {
            return;
        }
        for (key, at, instead) in &self.without {
            remarks.add(
                *at,
                format!("`{key}` of {} has no equivalent", self.what),
                *instead,
            );
        }
    }
}

/// A mapping of names to texts.
fn named(o: &mut Object<'_>, key: &'static str, errors: &mut Diagnostics) -> Vec<Named> {
    let Some(object) = o.object(key, errors) else {
        return Vec::new();
    };
    let mut all = Vec::new();
    for (name, value) in object.entries() {
        match &value.value {
            Value::Scalar { text, .. } => {
                let text = if value.is_null() { "" } else { text };
                let name = Spanned::new(name.value.to_string(), name.at);
                all.push((name, Spanned::new(text.to_string(), value.at)));
            }
            _ => {
                let message = format!("`{}` in {} is {}", *name, object.what, value.kind());
                errors.add(
                    value.at,
                    message,
                    "write a single value; quote it if need be",
                );
            }
        }
    }
    all
}

impl Fields {
    /// These over `below`, as containerlab inherits: texts win, lists and mappings are joined.
    pub(super) fn over(self, below: &Fields) -> Fields {
        Fields {
            kind: full(self.kind, &below.kind),
            group: full(self.group, &below.group),
            image: full(self.image, &below.image),
            entrypoint: full(self.entrypoint, &below.entrypoint),
            cmd: full(self.cmd, &below.cmd),
            network_mode: full(self.network_mode, &below.network_mode),
            runtime: full(self.runtime, &below.runtime),
            cpu: self.cpu.or(below.cpu),
            cpu_set: self.cpu_set.or_else(|| below.cpu_set.clone()),
            memory: self.memory.or(below.memory),
            privileged: self.privileged.or(below.privileged),
            exec: joined(&below.exec, self.exec),
            binds: joined(&below.binds, self.binds),
            env_files: joined(&below.env_files, self.env_files),
            cap_add: joined(&below.cap_add, self.cap_add),
            devices: joined(&below.devices, self.devices),
            security_opts: joined(&below.security_opts, self.security_opts),
            env: merged(&below.env, self.env),
            sysctls: merged(&below.sysctls, self.sysctls),
            tmpfs: merged(&below.tmpfs, self.tmpfs),
        }
    }
}

/// The own text; an empty one counts as none.
fn full(own: Option<Spanned<String>>, below: &Option<Spanned<String>>) -> Option<Spanned<String>> {
    own.filter(|text| !text.is_empty())
        .or_else(|| below.clone())
}

/// `below` and then `own`, each text once.
fn joined(below: &[Spanned<String>], own: Vec<Spanned<String>>) -> Vec<Spanned<String>> {
    let mut seen = HashSet::new();
    let all = below.iter().cloned().chain(own);
    all.filter(|text| seen.insert(text.value.clone())).collect()
}

/// `below` without the names that `own` has, and then `own`.
fn merged(below: &[Named], own: Vec<Named>) -> Vec<Named> {
    let names: HashSet<&str> = own.iter().map(|(name, _)| name.as_str()).collect();
    let kept = below
        .iter()
        .filter(|(name, _)| !names.contains(name.as_str()));
    let mut all: Vec<Named> = kept.cloned().collect();
    all.extend(own);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(text: &str) -> Level {
        let mut errors = Diagnostics::default();
        let level = Level::read(&Yaml::parse(text).unwrap(), "a node".into(), &mut errors);
        errors.into_result(level).unwrap()
    }

    #[test]
    fn texts_win_and_lists_are_joined() {
        let below = level("image: a\ncmd: x\nexec: [one, two]\nenv: {A: 1, B: 2}\n").fields;
        let above = level("image: b\ncmd: ''\nexec: [two, three]\nenv: {B: 3}\n").fields;
        let all = above.over(&below);
        assert_eq!(
            (all.image.unwrap().value, all.cmd.unwrap().value),
            ("b".into(), "x".into())
        );
        let exec: Vec<&str> = all.exec.iter().map(|text| text.as_str()).collect();
        assert_eq!(exec, ["one", "two", "three"]);
        let env: Vec<(&str, &str)> = all
            .env
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str()))
            .collect();
        assert_eq!(env, [("A", "1"), ("B", "3")]);
    }
}
