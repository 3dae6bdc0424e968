//! The OCI runtime configuration (`config.json`) of a container.
//!
//! Only what latlab needs of the specification is spelled out, as plain structures: the runtime
//! is one of two we test with, and everything it does not see here keeps the kernel's default.
//! Two things are left out on purpose. There are no control groups, because latlab has put the
//! runtime itself into the node's group. And there are no resource limits (`rlimits`): a program
//! in a container inherits the same ones as in a native node, or the two could not be compared.
//! Source: OCI Runtime Specification 1.0.2.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use latlab_model::spec::Bind;
use serde::{Deserialize, Serialize};

use crate::images::RootView;

/// Where the agent is inside every container.
pub(super) const AGENT_INSIDE: &str = "/run/latlab/agent";

/// Where programs are looked for when neither the image nor the lab says.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What root may do inside: Docker's defaults, and what networks are made of (interfaces, raw
/// sockets, XDP programs), pinned to processors and memory the way measurements need it. By kernel number, so
/// that a command started later can be given the same.
pub(super) const CAPABILITIES: [(u32, &str); 18] = [
    (0, "CAP_CHOWN"),
    (1, "CAP_DAC_OVERRIDE"),
    (3, "CAP_FOWNER"),
    (4, "CAP_FSETID"),
    (5, "CAP_KILL"),
    (6, "CAP_SETGID"),
    (7, "CAP_SETUID"),
    (8, "CAP_SETPCAP"),
    (10, "CAP_NET_BIND_SERVICE"),
    (12, "CAP_NET_ADMIN"),
    (13, "CAP_NET_RAW"),
    (14, "CAP_IPC_LOCK"),
    (18, "CAP_SYS_CHROOT"),
    (23, "CAP_SYS_NICE"),
    (27, "CAP_MKNOD"),
    (29, "CAP_AUDIT_WRITE"),
    (31, "CAP_SETFCAP"),
    (39, "CAP_BPF"),
];

/// Settings of the machine as a whole, which nodes may read only. `/proc/sys/net` stays writable:
/// it belongs to the node's network namespace, and routers need it.
const READ_ONLY: [&str; 10] = [
    "/proc/bus",
    "/proc/fs",
    "/proc/irq",
    "/proc/sysrq-trigger",
    "/proc/sys/abi",
    "/proc/sys/debug",
    "/proc/sys/dev",
    "/proc/sys/fs",
    "/proc/sys/kernel",
    "/proc/sys/vm",
];

/// Contents of the machine's memory and firmware.
const MASKED: [&str; 4] = [
    "/proc/kcore",
    "/proc/keys",
    "/proc/timer_list",
    "/sys/firmware",
];

/// All that distinguishes one container's configuration from another's.
#[derive(Debug)]
pub(super) struct Input<'a> {
    pub hostname: &'a str,
    pub rootfs: &'a Path,
    pub root: &'a RootView,
    pub netns: &'a Path,
    pub agent: &'a Path,
    /// A prepared view of the node's own control groups.
    pub cgroup_view: Option<&'a Path>,
    pub binds: &'a [Bind],
    pub env: &'a BTreeMap<String, String>,
    pub label: (&'a str, &'a str),
}

/// `config.json`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Config {
    oci_version: String,
    pub process: OciProcess,
    root: Root,
    hostname: String,
    mounts: Vec<Mount>,
    linux: Linux,
}

/// The first process, and the defaults of those that come later.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OciProcess {
    terminal: bool,
    user: User,
    args: Vec<String>,
    /// `NAME=value`.
    pub env: Vec<String>,
    pub cwd: String,
    capabilities: Capabilities,
}

#[derive(Debug, Serialize, Deserialize)]
struct User {
    uid: u32,
    gid: u32,
}

#[derive(Debug, Serialize, Deserialize)]
struct Capabilities {
    bounding: Vec<String>,
    effective: Vec<String>,
    permitted: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Root {
    path: PathBuf,
}

#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
struct Mount {
    destination: PathBuf,
    r#type: String,
    source: PathBuf,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    options: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Linux {
    namespaces: Vec<Namespace>,
    devices: Vec<Device>,
    masked_paths: Vec<PathBuf>,
    readonly_paths: Vec<PathBuf>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Namespace {
    r#type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path: Option<PathBuf>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Device {
    path: PathBuf,
    r#type: String,
    major: u32,
    minor: u32,
    file_mode: u32,
    uid: u32,
    gid: u32,
}

impl Config {
    /// The configuration for `input`.
    pub(super) fn new(input: &Input<'_>) -> Self {
        let capabilities: Vec<String> = CAPABILITIES
            .iter()
            .map(|(_, name)| (*name).to_owned())
            .collect();
        let image = &input.root.config;
        let cwd = if image.working_dir.starts_with('/') {
            &image.working_dir
        } else {
            "/"
        };
        Self {
            oci_version: "1.0.2".to_owned(),
            process: OciProcess {
                terminal: false,
                user: User { uid: 0, gid: 0 },
                args: vec![AGENT_INSIDE.to_owned(), "pause".to_owned()],
                env: environment(input),
                cwd: cwd.to_owned(),
                capabilities: Capabilities {
                    bounding: capabilities.clone(),
                    effective: capabilities.clone(),
                    permitted: capabilities,
                },
            },
            root: Root {
                path: input.rootfs.to_owned(),
            },
            hostname: input.hostname.to_owned(),
            mounts: mounts(input),
            linux: Linux {
                namespaces: namespaces(input.netns),
                devices: vec![tun()],
                masked_paths: masked(input),
                readonly_paths: READ_ONLY.iter().map(PathBuf::from).collect(),
            },
        }
    }
}

/// The image's environment, over it the lab's, over it the label that marks our processes.
fn environment(input: &Input<'_>) -> Vec<String> {
    let mut env: BTreeMap<&str, &str> = BTreeMap::new();
    env.insert("PATH", PATH);
    env.insert("HOME", "/root");
    env.insert("HOSTNAME", input.hostname);
    env.extend(
        input
            .root
            .config
            .env
            .iter()
            .filter_map(|v| v.split_once('=')),
    );
    env.extend(input.env.iter().map(|(name, value)| (&**name, &**value)));
    env.insert(input.label.0, input.label.1);
    env.into_iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect()
}

fn namespaces(netns: &Path) -> Vec<Namespace> {
    let new = |kind| Namespace {
        r#type: str::to_owned(kind),
        path: None,
    };
    let mut namespaces = Vec::from(["pid", "ipc", "uts", "mount"].map(new));
    if Path::new("/proc/self/ns/cgroup").exists() {
        namespaces.push(new("cgroup"));
    }
    namespaces.push(Namespace {
        r#type: "network".to_owned(),
        path: Some(netns.to_owned()),
    });
    namespaces
}

/// Tunnels and software routers in nodes want the clone device of tun and tap interfaces.
fn tun() -> Device {
    Device {
        path: PathBuf::from("/dev/net/tun"),
        r#type: "c".to_owned(),
        major: 10,
        minor: 200,
        file_mode: 0o666,
        uid: 0,
        gid: 0,
    }
}

fn mount(
    destination: impl AsRef<Path>,
    kind: &str,
    source: impl AsRef<Path>,
    options: &str,
) -> Mount {
    Mount {
        destination: destination.as_ref().to_owned(),
        r#type: kind.to_owned(),
        source: source.as_ref().to_owned(),
        options: options
            .split(',')
            .filter(|o| !o.is_empty())
            .map(str::to_owned)
            .collect(),
    }
}

/// What every container has, as destination, type, source and options.
const KERNEL_MOUNTS: [[&str; 4]; 2] = [
    ["/proc", "proc", "proc", "nosuid,noexec,nodev"],
    ["/sys", "sysfs", "sysfs", "nosuid,noexec,nodev,ro"],
];
const DEVICE_MOUNTS: [[&str; 4]; 4] = [
    [
        "/dev",
        "tmpfs",
        "tmpfs",
        "nosuid,strictatime,mode=755,size=65536k",
    ],
    [
        "/dev/pts",
        "devpts",
        "devpts",
        "nosuid,noexec,newinstance,ptmxmode=0666,mode=0620",
    ],
    ["/dev/shm", "tmpfs", "shm", "nosuid,noexec,nodev,mode=1777"],
    ["/dev/mqueue", "mqueue", "mqueue", "nosuid,noexec,nodev"],
];

/// What is hidden of the image. The runtime masks it, and does so last; so what the lab binds something into is left to
/// [`emptied`], and what it binds something over is covered by that.
fn masked(input: &Input<'_>) -> Vec<PathBuf> {
    let is_free = |path: &&PathBuf| !targets(input).any(|target| target.starts_with(path));
    let image = input.root.hidden.iter().filter(is_free).cloned();
    MASKED.iter().map(PathBuf::from).chain(image).collect()
}

/// Hidden directories that the lab binds something into.
fn emptied<'a>(input: &'a Input<'_>) -> impl Iterator<Item = &'a PathBuf> {
    let below = |path: &&PathBuf| {
        let mut targets = targets(input);
        targets.any(|target| target.starts_with(path) && target != path.as_path())
    };
    input.root.hidden.iter().filter(move |path| below(path))
}

fn targets<'a>(input: &'a Input<'_>) -> impl Iterator<Item = &'a Path> {
    input.binds.iter().map(|bind| Path::new(&bind.target))
}

/// Everything mounted over the root, outer before inner. What belongs to the image is there already.
fn mounts(input: &Input<'_>) -> Vec<Mount> {
    let row = |[destination, kind, source, options]: &[&str; 4]| {
        mount(destination, kind, source, options)
    };
    let mut mounts: Vec<Mount> = KERNEL_MOUNTS.iter().map(row).collect();
    if let Some(view) = input.cgroup_view {
        let options = "rbind,nosuid,noexec,nodev,ro";
        mounts.push(mount("/sys/fs/cgroup", "bind", view, options));
    }
    mounts.extend(DEVICE_MOUNTS.iter().map(row));
    for fresh in &input.root.fresh {
        let everybodys = fresh == Path::new("/tmp");
        let mode = if everybodys { "1777" } else { "755" };
        let options = format!("nosuid,nodev,mode={mode}");
        mounts.push(mount(fresh, "tmpfs", "tmpfs", &options));
    }
    for directory in emptied(input) {
        let options = "nosuid,nodev,noexec,mode=755,size=64k";
        mounts.push(mount(directory, "tmpfs", "tmpfs", options));
    }
    let options = "bind,nosuid,nodev,ro";
    mounts.push(mount(AGENT_INSIDE, "bind", input.agent, options));
    for bind in input.binds {
        let options = if bind.read_only { "rbind,ro" } else { "rbind" };
        mounts.push(mount(&bind.target, "bind", &bind.source, options));
    }
    mounts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::ImageConfig;

    fn build(change: impl FnOnce(&mut RootView, &mut BTreeMap<String, String>)) -> Config {
        let mut root = RootView {
            dir: PathBuf::from("/"),
            submounts: vec![PathBuf::from("/usr"), PathBuf::from("/var")],
            fresh: vec![PathBuf::from("/run"), PathBuf::from("/tmp")],
            hidden: vec![PathBuf::from("/var/lib/latlab")],
            of_host: true,
            config: ImageConfig::default(),
        };
        let mut env = BTreeMap::new();
        change(&mut root, &mut env);
        let binds = [Bind {
            source: "/data".into(),
            target: "/mnt/data".into(),
            read_only: true,
        }];
        Config::new(&Input {
            hostname: "server",
            rootfs: Path::new("/lab/rootfs"),
            root: &root,
            netns: Path::new("/lab/netns/server"),
            agent: Path::new("/opt/agent"),
            cgroup_view: Some(Path::new("/lab/cgroup")),
            binds: &binds,
            env: &env,
            label: ("LATLAB_LAB", "id"),
        })
    }

    #[test]
    fn variables_of_the_lab_win_over_the_image_and_the_label_over_all() {
        let config = build(|root, env| {
            root.config.env = vec!["PATH=/opt/bin".into(), "A=image".into(), "odd".into()];
            env.insert("A".into(), "lab".into());
            env.insert("LATLAB_LAB".into(), "forged".into());
        });
        let expected = [
            "A=lab",
            "HOME=/root",
            "HOSTNAME=server",
            "LATLAB_LAB=id",
            "PATH=/opt/bin",
        ];
        assert_eq!(config.process.env, expected);
    }

    #[test]
    fn mounts_come_outer_before_inner() {
        let config = build(|_, _| {});
        let order: Vec<_> = config
            .mounts
            .iter()
            .map(|m| m.destination.clone())
            .collect();
        for (inner_at, inner) in order.iter().enumerate() {
            for outer in &order[inner_at + 1..] {
                assert!(!inner.starts_with(outer), "{outer:?} would cover {inner:?}");
            }
        }
        let bind = config.mounts.last().unwrap();
        assert_eq!(*bind, mount("/mnt/data", "bind", "/data", "rbind,ro"));
    }

    #[test]
    fn the_working_directory_is_the_images_if_it_is_a_path() {
        assert_eq!(build(|_, _| {}).process.cwd, "/");
        assert_eq!(
            build(|root, _| root.config.working_dir = "/srv".into())
                .process
                .cwd,
            "/srv"
        );
        assert_eq!(
            build(|root, _| root.config.working_dir = "srv".into())
                .process
                .cwd,
            "/"
        );
    }

    #[test]
    fn what_is_hidden_is_masked_unless_the_lab_binds_something_there() {
        let config = build(|root, _| {
            root.hidden = ["/etc/shadow", "/mnt", "/mnt/data"]
                .map(PathBuf::from)
                .into();
        });
        let masked = |path: &str| config.linux.masked_paths.contains(&PathBuf::from(path));
        assert!(masked("/etc/shadow") && !masked("/mnt") && !masked("/mnt/data"));
        let mounted = |path: &str| {
            config
                .mounts
                .iter()
                .any(|m| m.destination == Path::new(path))
        };
        assert!(mounted("/mnt") && !mounted("/etc/shadow"));
    }

    #[test]
    fn the_document_has_the_specifications_keys() {
        let json = serde_json::to_value(build(|_, _| {})).unwrap();
        assert_eq!(json["ociVersion"], "1.0.2");
        assert_eq!(json["process"]["args"][1], "pause");
        assert_eq!(
            json["linux"]["namespaces"]
                .as_array()
                .unwrap()
                .last()
                .unwrap()["path"],
            "/lab/netns/server"
        );
        assert_eq!(json["linux"]["readonlyPaths"][0], "/proc/bus");
        assert_eq!(json["linux"]["devices"][0]["fileMode"], 0o666);
        let bounding = json["process"]["capabilities"]["bounding"]
            .as_array()
            .unwrap();
        assert!(bounding.iter().any(|c| c == "CAP_NET_ADMIN"));
        assert!(!bounding.iter().any(|c| c == "CAP_SYS_ADMIN"));
    }
}
