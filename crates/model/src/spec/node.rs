//! A node as written: `topology.nodes.NAME`, with `topology.kinds.KIND` and `topology.defaults` below it.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::dpdk::{self, Dpdk};
use super::image::{self, NodeImage};
use super::name::check_name;
use super::reader::{FromYaml, Object, read_words, words};
use super::storage::{self, Storage};
use super::yaml::{Value, Yaml};
use super::{security, vm_hardware, vm_net};
use crate::diagnostic::{Diagnostics, Mark, Spanned, shown};
use crate::kinds::{
    Acceleration, Bind, GuestRoot, GuestStart, NodeKind, Runtime, Security, VmHardware, VmNet,
};
use crate::profile;
use crate::units::{Bytes, CpuList};

read_words!(NodeKind, "a kind of node", "native");

words!(Runtime, "a container runtime", {
    "crun" => Crun, "runc" => Runc, "podman" => Podman, "docker" => Docker, "nspawn" => Nspawn, "lxc" => Lxc,
});

words!(Acceleration, "a way to run the guest", { "auto" => Auto, "kvm" => Kvm, "tcg" => Tcg });

impl FromYaml for GuestStart {
    const EXPECTED: &'static str = "how a VM begins";
    const EXAMPLE: &'static str = "`clone`";
    /// A path has a slash, which no word has.
    fn from_text(text: &str) -> Option<Self> {
        match text {
            "boot" => Some(GuestStart::Boot),
            "clone" => Some(GuestStart::Clone),
            path if path.contains('/') => Some(GuestStart::Snapshot(path.to_owned())),
            _ => None,
        }
    }
    fn hint(_text: &str) -> String {
        "`boot`, `clone`, or the directory of a snapshot, for example `./warm`".into()
    }
}

read_words!(GuestRoot, "the way to a VM's root", "disk");

#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub name: Spanned<String>,
    pub kind: NodeKind,
    pub fields: NodeFields,
}

impl Node {
    /// Its storage; the host has what it has.
    pub fn storage(&self) -> &[Storage] {
        match self.kind.is_host() {
            true => &[],
            false => &self.fields.storage,
        }
    }

    /// DPDK in it, where its kind can have that.
    pub fn dpdk(&self) -> Option<&Spanned<Dpdk>> {
        let dpdk = self.fields.dpdk.as_ref();
        dpdk.filter(|_| has_dpdk(self.kind))
    }
}

/// Fields that a node, a kind or the defaults may set; all optional, merged before use.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeFields {
    pub kind: Option<Spanned<NodeKind>>,
    /// `count:` that many nodes like it; on a node only.
    pub count: Option<Spanned<u32>>,
    /// `host:` the machine that it is on, by its name in `hosts:`.
    pub host: Option<Spanned<String>>,
    /// `image:` its files.
    pub image: Option<Spanned<NodeImage>>,
    /// `cpus:` CPUs' worth of time; virtual CPUs for a VM.
    pub cpus: Option<Spanned<f64>>,
    /// `cpuset:` the CPUs that it may run on.
    pub cpuset: Option<Spanned<CpuList>>,
    /// `isolate:` give it whole CPUs that nothing else of any lab uses.
    pub isolate: Option<Spanned<bool>>,
    /// `tuning:` name of the profile that its CPUs are quieted with.
    pub tuning: Option<Spanned<String>>,
    pub memory: Option<Spanned<Bytes>>,
    pub env: BTreeMap<String, String>,
    /// `binds:` `HOST:INSIDE[:ro]`.
    pub binds: Vec<Spanned<Bind>>,
    /// `storage:` directories whose files are held in a particular way.
    pub storage: Vec<Storage>,
    /// `dpdk:` huge pages and ports of DPDK.
    pub dpdk: Option<Spanned<Dpdk>>,
    /// `hide:` for containers and VMs: paths of the image that are covered.
    pub hide: Vec<Spanned<String>>,
    /// `exec:` commands run inside once it is ready, each must succeed.
    pub exec: Vec<Spanned<String>>,
    /// `setup:` shell script run inside before measurements (HVNet).
    pub setup: Option<Spanned<String>>,
    /// `run:` shell script started with each measurement and ended with it (HVNet).
    pub run: Option<Spanned<String>>,
    /// `teardown:` shell script run inside before it is removed (HVNet).
    pub teardown: Option<Spanned<String>>,
    /// `runtime:` for containers.
    pub runtime: Option<Spanned<Runtime>>,
    /// `security:` for containers: what it may do beyond the default.
    pub security: Option<Spanned<Security>>,
    /// `kernel:` for VMs: `standard`, `rt`, `cloud`, `image` or a path.
    pub kernel: Option<Spanned<String>>,
    /// `boot:` parameters on a VM's kernel command line.
    pub boot: Vec<Spanned<String>>,
    /// `start:` for VMs.
    pub start: Option<Spanned<GuestStart>>,
    /// `root:` for VMs.
    pub root: Option<Spanned<GuestRoot>>,
    /// `acceleration:` for VMs.
    pub acceleration: Option<Spanned<Acceleration>>,
    /// `net:` for VMs.
    pub net: Option<Spanned<VmNet>>,
    /// `hardware:` for VMs.
    pub hardware: Option<Spanned<VmHardware>>,
}

/// Share of CPUs that the kernel can enforce (1 ms of each 100 ms), and what it can number.
const CPUS: RangeInclusive<f64> = 0.01..=8192.0;
/// A limit below this stops even a shell.
const MIN_MEMORY: Bytes = Bytes(4 << 20);

/// Keys that not every kind understands, with a kind that does; written directly on a node of another kind
/// they are a mistake, below `defaults` or another kind they simply do not apply.
const KIND_ONLY: &[(&str, NodeKind, IsFor)] = &[
    ("storage", NodeKind::Native, |kind| !kind.is_host()),
    ("dpdk", NodeKind::Container, has_dpdk),
    ("hide", NodeKind::Container, |kind| {
        kind.properties().has_image
    }),
    ("runtime", NodeKind::Container, is_container),
    ("security", NodeKind::Container, is_container),
    ("kernel", NodeKind::Vm, NodeKind::is_guest),
    ("boot", NodeKind::Vm, NodeKind::is_guest),
    ("start", NodeKind::Vm, NodeKind::is_guest),
    ("root", NodeKind::Vm, NodeKind::is_guest),
    ("acceleration", NodeKind::Vm, NodeKind::is_guest),
    ("net", NodeKind::Vm, NodeKind::is_guest),
    ("hardware", NodeKind::Vm, NodeKind::is_guest),
];

/// Whether nodes of a kind understand a key.
type IsFor = fn(NodeKind) -> bool;

fn has_dpdk(kind: NodeKind) -> bool {
    !kind.is_host()
}

fn is_container(kind: NodeKind) -> bool {
    kind == NodeKind::Container
}

impl NodeFields {
    pub fn read(yaml: &Yaml, what: String, errors: &mut Diagnostics) -> NodeFields {
        let mut o = Object::new(yaml, what, errors);
        let fields = NodeFields {
            kind: o.get("kind", errors),
            count: o.get("count", errors),
            host: o.get("host", errors),
            image: image::read(&mut o, errors),
            cpus: o.get("cpus", errors),
            cpuset: o.get("cpuset", errors),
            isolate: o.get("isolate", errors),
            tuning: read_tuning(&mut o, errors),
            memory: o.get("memory", errors),
            env: read_env(&mut o, errors),
            binds: read_binds(&mut o, errors),
            storage: storage::read(&mut o, errors),
            dpdk: dpdk::read(&mut o, errors),
            hide: read_hide(&mut o, errors),
            exec: o.list("exec", errors),
            setup: o.get("setup", errors),
            run: o.get("run", errors),
            teardown: o.get("teardown", errors),
            runtime: o.get("runtime", errors),
            security: security::read(&mut o, errors),
            kernel: o.get("kernel", errors),
            boot: read_boot(&mut o, errors),
            start: o.get("start", errors),
            root: o.get("root", errors),
            acceleration: o.get("acceleration", errors),
            net: vm_net::read(&mut o, errors),
            hardware: vm_hardware::read(&mut o, errors),
        };
        if let Some(cpus) = fields.cpus.filter(|c| !CPUS.contains(&c.value)) {
            let message = format!("`cpus` of {} is {}", o.what, cpus.value);
            let hint = format!("from {} to {}", CPUS.start(), CPUS.end());
            errors.add(cpus.at, message, hint);
        }
        if let Some(memory) = fields.memory.filter(|m| m.value < MIN_MEMORY) {
            let message = format!("`memory` of {} is {}", o.what, memory.value);
            let hint = format!("at least {MIN_MEMORY}; a number without a unit counts bytes");
            errors.add(memory.at, message, hint);
        }
        o.finish(errors);
        fields
    }

    /// Notes keys written here, in `what`, that `kind` does not understand.
    pub fn check_kind(&self, what: &str, kind: NodeKind, errors: &mut Diagnostics) {
        let places = [
            self.storage.first().map(|s| s.at.at),
            self.dpdk.as_ref().map(|s| s.at),
            self.hide.first().map(|s| s.at),
            self.runtime.as_ref().map(|s| s.at),
            self.security.as_ref().map(|s| s.at),
            self.kernel.as_ref().map(|s| s.at),
            self.boot.first().map(|s| s.at),
            self.start.as_ref().map(|s| s.at),
            self.root.as_ref().map(|s| s.at),
            self.acceleration.as_ref().map(|s| s.at),
            self.net.as_ref().map(|s| s.at),
            self.hardware.as_ref().map(|s| s.at),
        ];
        for ((key, owner, is_for), at) in KIND_ONLY.iter().zip(places) {
            if let Some(at) = at.filter(|_| !is_for(kind)) {
                let message = format!("`{key}` of {what} has no meaning for kind {kind}");
                let hint =
                    format!("move it below `topology.kinds.{owner}`, or make the node a {owner}");
                errors.add(at, message, hint);
            }
        }
        let keys = self.storage.iter().filter_map(Storage::guest_key);
        for (key, at) in keys.filter(|_| !kind.is_guest() && !kind.is_host()) {
            let message = format!("`{key}` in `storage` of {what} has no meaning for kind {kind}");
            let hint = "write this storage below `topology.kinds.vm`, or make the node a vm";
            errors.add(at, message, hint);
        }
    }

    /// These fields over `below`: what is set here wins, environments are joined.
    pub fn over(self, below: &NodeFields) -> NodeFields {
        fn list<T: Clone>(own: Vec<T>, below: &[T]) -> Vec<T> {
            if own.is_empty() { below.to_vec() } else { own }
        }
        let mut env = below.env.clone();
        env.extend(self.env);
        NodeFields {
            kind: self.kind.or(below.kind),
            count: self.count,
            host: self.host.or_else(|| below.host.clone()),
            image: self.image.or_else(|| below.image.clone()),
            cpus: self.cpus.or(below.cpus),
            cpuset: self.cpuset.or_else(|| below.cpuset.clone()),
            isolate: self.isolate.or(below.isolate),
            tuning: self.tuning.or_else(|| below.tuning.clone()),
            memory: self.memory.or(below.memory),
            env,
            binds: list(self.binds, &below.binds),
            storage: list(self.storage, &below.storage),
            dpdk: self.dpdk.or_else(|| below.dpdk.clone()),
            hide: list(self.hide, &below.hide),
            exec: list(self.exec, &below.exec),
            setup: self.setup.or_else(|| below.setup.clone()),
            run: self.run.or_else(|| below.run.clone()),
            teardown: self.teardown.or_else(|| below.teardown.clone()),
            runtime: self.runtime.or(below.runtime),
            security: self.security.or_else(|| below.security.clone()),
            kernel: self.kernel.or_else(|| below.kernel.clone()),
            boot: list(self.boot, &below.boot),
            start: self.start.or_else(|| below.start.clone()),
            root: self.root.or(below.root),
            acceleration: self.acceleration.or(below.acceleration),
            net: self.net.or(below.net),
            hardware: self.hardware.or_else(|| below.hardware.clone()),
        }
    }
}

/// `tuning:` the name of a profile, and which of its knobs, where not all: `isolated without thp ksm`,
/// `isolated only cpuset`, `isolated only placement`. Which profiles there are is known when it is planned.
pub(super) fn read_tuning(o: &mut Object<'_>, errors: &mut Diagnostics) -> Option<Spanned<String>> {
    let text = o.get::<String>("tuning", errors)?;
    let mut words = text.split_whitespace();
    let name = Spanned::new(words.next().unwrap_or_default().to_string(), text.at);
    check_name("profile", &name, errors);
    let how = words.next();
    if let Some(how) = how.filter(|how| !["without", "only"].contains(how)) {
        let message = format!("`{}` after the profile `{}`", shown(how), shown(&name));
        let hint = "a profile's name, and `without KNOB...` or `only KNOB...` after it";
        errors.add(text.at, message, hint);
        return Some(text);
    }
    let knobs: Vec<&str> = words.collect();
    if how.is_some() && knobs.is_empty() {
        let message = format!("`{}` names no knob", shown(&text));
        errors.add(
            text.at,
            message,
            "name one after it: `latlab tune show` lists them",
        );
    }
    let is_placement = how == Some("only") && knobs == [profile::PLACEMENT];
    for knob in knobs.into_iter().filter(|_| !is_placement) {
        if let Err((message, hint)) = profile::known_knob(knob) {
            errors.add(text.at, message, hint);
        }
    }
    Some(text)
}

/// `env:` as a mapping, or as a list of `NAME=value` as containerlab and Docker write it.
fn read_env(o: &mut Object<'_>, errors: &mut Diagnostics) -> BTreeMap<String, String> {
    let Some(yaml) = o.take("env") else {
        return BTreeMap::new();
    };
    let what = format!("`env` of {}", o.what);
    let mut env = BTreeMap::new();
    let mut put = |at: Mark, name: &str, value: &str, errors: &mut Diagnostics| {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            errors.add(
                at,
                format!("{what}: `{name}` is not a variable's name"),
                "for example `LANG: C`",
            );
        } else {
            env.insert(name.to_string(), value.to_string());
        }
    };
    if let Value::Seq(items) = &yaml.value {
        for item in items {
            match item.scalar().and_then(|t| t.split_once('=')) {
                Some((name, value)) => put(item.at, name, value, errors),
                None => {
                    let found = item
                        .scalar()
                        .map_or(item.kind().to_string(), |t| format!("`{}`", shown(t)));
                    let message = format!("{what} must be `NAME=value`, not {found}");
                    errors.add(item.at, message, "for example `LANG=C`");
                }
            }
        }
    } else {
        for (name, value) in Object::new(yaml, what.clone(), errors).entries() {
            match value.scalar() {
                Some(text) => put(name.at, &name, text, errors),
                None => errors.add(
                    value.at,
                    format!("{what}: `{}` must be text", *name),
                    "quote it",
                ),
            }
        }
    }
    env
}

fn read_binds(o: &mut Object<'_>, errors: &mut Diagnostics) -> Vec<Spanned<Bind>> {
    let what = o.what.clone();
    let mut binds = Vec::new();
    for text in o.list::<String>("binds", errors) {
        let parts: Vec<&str> = text.split(':').collect();
        let bind = match parts.as_slice() {
            [source, target] => Some((source, target, false)),
            [source, target, "ro"] => Some((source, target, true)),
            [source, target, "rw"] => Some((source, target, false)),
            _ => None,
        };
        match bind.filter(|(s, t, _)| !s.is_empty() && t.starts_with('/')) {
            Some((source, target, read_only)) => {
                let bind = Bind {
                    source: source.to_string(),
                    target: target.to_string(),
                    read_only,
                };
                binds.push(Spanned::new(bind, text.at));
            }
            None => errors.add(
                text.at,
                format!(
                    "`binds` of {what} must be `HOST:INSIDE[:ro]`, not `{}`",
                    *text
                ),
                "for example `./data:/data:ro`; the inner path is absolute",
            ),
        }
    }
    binds
}

/// `hide:` paths inside, each in its plain form, so that what covers them finds them.
fn read_hide(o: &mut Object<'_>, errors: &mut Diagnostics) -> Vec<Spanned<String>> {
    let what = o.what.clone();
    let mut paths = o.list::<String>("hide", errors);
    paths.retain(|path| {
        let mut parts = path.strip_prefix('/').unwrap_or_default().split('/');
        let is_plain = parts.all(|part| !matches!(part, "" | "." | "..") && !part.contains('\0'));
        if !is_plain {
            let message = format!(
                "`hide` of {what} must be an absolute path, not `{}`",
                shown(path)
            );
            let hint = "for example `/etc/company`; without `..`, `.` and a slash at the end";
            errors.add(path.at, message, hint);
        }
        is_plain
    });
    paths
}

/// `boot:` as a list or as one line; either way one parameter an item.
fn read_boot(o: &mut Object<'_>, errors: &mut Diagnostics) -> Vec<Spanned<String>> {
    let lines = o.list::<String>("boot", errors);
    let words = lines.iter().flat_map(|line| {
        let words = line.split_whitespace();
        words.map(move |word| Spanned::new(word.to_string(), line.at))
    });
    words.collect()
}
