//! The OCI runtime configuration (`config.json`) of a container.
//!
//! Only what latlab needs of the specification is spelled out, as plain structures: everything that a
//! runtime does not see here keeps the kernel's default. Runtimes that do not read it get the same from latlab
//! (`runtimes/world.rs`).
//! Three things are left out on purpose. There are no cgroups, because latlab has put the
//! runtime itself into the node's group. There are no resource limits (`rlimits`) but those on
//! priorities: a program in a container inherits the same ones as in a native node, or the two could
//! not be compared. And there is no seccomp filter: commands come without the runtime, so latlab makes
//! the filter for them and for the first process alike (`sys::seccomp`).
//! Source: OCI Runtime Specification 1.0.2.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use latlab_model::kinds::{Bind, CAPABILITIES, Seccomp, Security};
use serde::{Deserialize, Serialize};

use super::error::Error;
use crate::images::RootView;
use crate::sys::{devices, mount};

pub(super) const AGENT_INSIDE: &str = "/run/latlab/agent";

/// Where the cgroups are that programs look for.
pub(super) const CGROUP_ROOT: &str = "/sys/fs/cgroup";

/// Where outputs of commands are that the first process started.
pub(super) const OUTPUT_INSIDE: &str = "/run/latlab/output";

/// Where programs are looked for when neither the image nor the lab says.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Capabilities of root inside, by kernel number: Docker's defaults without MKNOD (27), because devices
/// come from the runtime only, and with NET_ADMIN (12), because a node is made to configure its own
/// network. In the order of their numbers: CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID,
/// SETPCAP, NET_BIND_SERVICE, NET_ADMIN, NET_RAW, SYS_CHROOT, AUDIT_WRITE, SETFCAP.
const DEFAULT: [u32; 14] = [0, 1, 3, 4, 5, 6, 7, 8, 10, 12, 13, 18, 29, 31];

/// Capabilities of latlab's own probes on top: locked memory (IPC_LOCK), a real-time priority and memory
/// of a node (SYS_NICE), and XDP programs (BPF).
pub(super) const PROBE: [u32; 3] = [14, SYS_NICE, 39];

/// With it priorities are granted, so the resource limits that forbid them are not set.
pub(super) const SYS_NICE: u32 = 23;

/// Key of the annotation that says that there is no seccomp filter.
const SECCOMP: &str = "org.latlab.seccomp";

const WORKING_DIRECTORY: &str = "org.latlab.cwd";

/// Settings of the machine as a whole, which nodes may read only. `/proc/sys/net` stays writable:
/// it belongs to the node's network namespace, and routers need it.
const READ_ONLY: [&str; 16] = [
    "/proc/acpi",
    "/proc/bus",
    "/proc/driver",
    "/proc/fs",
    "/proc/irq",
    "/proc/mtrr",
    "/proc/sysrq-trigger",
    "/proc/sys/abi",
    "/proc/sys/crypto",
    "/proc/sys/debug",
    "/proc/sys/dev",
    "/proc/sys/fs",
    "/proc/sys/kernel",
    "/proc/sys/sunrpc",
    "/proc/sys/user",
    "/proc/sys/vm",
];

/// Contents of the machine's memory and firmware, and what tells of the machine's other processes: as Docker
/// and Podman mask them, without `/proc/interrupts`, which measurements read.
const MASKED: [&str; 10] = [
    "/proc/asound",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
];

/// All that distinguishes one container's configuration from another's.
#[derive(Debug)]
pub(super) struct Input<'a> {
    pub hostname: &'a str,
    pub rootfs: &'a Path,
    pub root: &'a RootView,
    /// Whether a layer covers what the image hides.
    pub layered: bool,
    /// Parts of the image that are bound, without layers.
    pub bound: &'a [PathBuf],
    pub netns: &'a Path,
    pub agent: &'a Path,
    /// The directory of the commands' outputs.
    pub output: &'a Path,
    /// A prepared view of the node's own cgroups.
    pub cgroup_view: Option<&'a Path>,
    pub binds: &'a [Bind],
    /// Mounted storage, likewise.
    pub storage: &'a [Bind],
    pub env: &'a BTreeMap<String, String>,
    pub label: (&'a str, &'a str),
    pub security: &'a Security,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Config {
    oci_version: String,
    pub process: OciProcess,
    root: Root,
    hostname: String,
    pub(super) mounts: Vec<Mount>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<String, String>,
    pub(super) linux: Linux,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OciProcess {
    terminal: bool,
    user: User,
    args: Vec<String>,
    /// `NAME=value`.
    pub env: Vec<String>,
    cwd: String,
    capabilities: Capabilities,
    #[serde(default)]
    no_new_privileges: bool,
    #[serde(default)]
    rlimits: Vec<ResourceLimit>,
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
struct ResourceLimit {
    r#type: String,
    soft: u64,
    hard: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Root {
    path: PathBuf,
}

#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
pub(super) struct Mount {
    pub destination: PathBuf,
    pub r#type: String,
    pub source: PathBuf,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
}

impl Mount {
    pub(super) fn is_bind(&self) -> bool {
        self.r#type == "bind"
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Linux {
    namespaces: Vec<Namespace>,
    pub devices: Vec<Device>,
    pub masked_paths: Vec<PathBuf>,
    pub readonly_paths: Vec<PathBuf>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Namespace {
    r#type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path: Option<PathBuf>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Device {
    pub path: PathBuf,
    r#type: String,
    pub major: u32,
    pub minor: u32,
    file_mode: u32,
    uid: u32,
    gid: u32,
}

impl Config {
    pub(super) fn new(input: &Input<'_>) -> Self {
        let numbers = capabilities(input.security);
        let capabilities: Vec<String> = numbers
            .iter()
            .filter_map(|number| Some(format!("CAP_{}", CAPABILITIES.get(*number as usize)?)))
            .collect();
        // A resource limit of the caller's could grant what the capability is not there for.
        let priorities: &[&str] = if numbers.contains(&SYS_NICE) {
            &[]
        } else {
            &["RLIMIT_RTPRIO", "RLIMIT_NICE"]
        };
        let uncovered = uncovered(input);
        let unconfined = input.security.seccomp == Seccomp::Unconfined;
        let image = &input.root.config;
        let mut annotations = BTreeMap::new();
        if unconfined {
            annotations.insert(SECCOMP.to_owned(), Seccomp::Unconfined.to_string());
        }
        if image.working_dir.starts_with('/') {
            annotations.insert(WORKING_DIRECTORY.to_owned(), image.working_dir.clone());
        }
        Self {
            oci_version: "1.0.2".to_owned(),
            process: OciProcess {
                terminal: false,
                user: User { uid: 0, gid: 0 },
                args: vec![AGENT_INSIDE.to_owned(), "pause".to_owned()],
                env: environment(input),
                // Not the image's: a runtime may have a directory of the machine open, and a name in
                // /proc/self/fd would lead there (CVE-2024-21626).
                cwd: "/".to_owned(),
                capabilities: Capabilities {
                    bounding: capabilities.clone(),
                    effective: capabilities.clone(),
                    permitted: capabilities,
                },
                no_new_privileges: true,
                rlimits: priorities.iter().map(|name| forbid(name)).collect(),
            },
            root: Root {
                path: input.rootfs.to_owned(),
            },
            hostname: input.hostname.to_owned(),
            mounts: mounts(input, &uncovered),
            annotations,
            linux: Linux {
                namespaces: namespaces(input.netns),
                devices: vec![tun()],
                masked_paths: masked(input, &uncovered),
                readonly_paths: READ_ONLY.iter().map(PathBuf::from).collect(),
            },
        }
    }

    pub(super) fn read(dir: &Path) -> Result<Self, Error> {
        let path = dir.join("bundle/config.json");
        let json = fs::read(&path).map_err(Error::io("read", &path))?;
        serde_json::from_slice(&json).map_err(Error::io("understand", &path))
    }

    pub(super) fn capabilities(&self) -> Vec<u32> {
        let number = |name: &String| {
            let name = name.strip_prefix("CAP_")?;
            let number = CAPABILITIES.iter().position(|known| *known == name)?;
            Some(number as u32)
        };
        self.capability_names().iter().filter_map(number).collect()
    }

    /// The names of [`capabilities`](Self::capabilities), with `CAP_`.
    pub(super) fn capability_names(&self) -> &[String] {
        &self.process.capabilities.bounding
    }

    /// Resource limits that are 0, as in `setrlimit(2)`, in small letters and without `RLIMIT_`.
    pub(super) fn forbidden_limits(&self) -> Vec<String> {
        let limits = self.process.rlimits.iter();
        let names = limits.map(|limit| limit.r#type.trim_start_matches("RLIMIT_"));
        names.map(str::to_lowercase).collect()
    }

    /// The document for a runtime whose container gets its files from latlab (`runtimes/world.rs`): without binds, masks
    /// and anything over the root but the file systems that only a process of the container can mount.
    pub(super) fn without_files(&self) -> serde_json::Value {
        let kernels = KERNEL_MOUNTS.iter().chain(&DEVICE_MOUNTS);
        let kernels: Vec<&Path> = kernels.map(|[at, ..]| Path::new(*at)).collect();
        let is_kernels =
            |mount: &&Mount| !mount.is_bind() && kernels.contains(&mount.destination.as_path());
        let mounts: Vec<&Mount> = self.mounts.iter().filter(is_kernels).collect();
        let mut document = serde_json::json!(self);
        document["mounts"] = serde_json::json!(mounts);
        for paths in ["maskedPaths", "readonlyPaths"] {
            document["linux"][paths] = serde_json::json!([]);
        }
        document
    }

    pub(super) fn working_directory(&self) -> &str {
        let own = self.annotations.get(WORKING_DIRECTORY);
        own.map_or("/", String::as_str)
    }

    /// Whether a seccomp filter stands before its programs.
    pub(super) fn is_filtered(&self) -> bool {
        !self.annotations.contains_key(SECCOMP)
    }
}

/// The default capabilities and those that the lab grants.
fn capabilities(security: &Security) -> Vec<u32> {
    let granted = |number: u32| {
        let name = CAPABILITIES[number as usize];
        DEFAULT.contains(&number) || security.capabilities.iter().any(|c| c == name)
    };
    (0..CAPABILITIES.len() as u32)
        .filter(|n| granted(*n))
        .collect()
}

fn forbid(limit: &str) -> ResourceLimit {
    ResourceLimit {
        r#type: limit.to_owned(),
        soft: 0,
        hard: 0,
    }
}

/// The image's environment, over it the lab's, over it the label that marks our processes.
fn environment(input: &Input<'_>) -> Vec<String> {
    let mut env: BTreeMap<&str, &str> = BTreeMap::new();
    env.insert("PATH", PATH);
    env.insert("HOME", "/root");
    env.insert("HOSTNAME", input.hostname);
    let image = input.root.config.env.iter();
    env.extend(image.filter_map(|v| v.split_once('=')));
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

/// The mounts of every container, as destination, type, source and options.
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

/// Masks of hidden paths. The runtime makes them last, so a path that the lab binds into is left to [`emptied`], and
/// one that it binds over is covered by that.
fn masked(input: &Input<'_>, uncovered: &[&PathBuf]) -> Vec<PathBuf> {
    let is_free = |path: &&&PathBuf| !targets(input).any(|target| target.starts_with(path));
    let image = uncovered.iter().filter(is_free).map(|path| (*path).clone());
    MASKED.iter().map(PathBuf::from).chain(image).collect()
}

/// Hidden directories that the lab binds something into.
fn emptied<'a>(input: &Input<'_>, uncovered: &[&'a PathBuf]) -> Vec<&'a PathBuf> {
    let below = |path: &&PathBuf| {
        let mut targets = targets(input);
        targets.any(|target| target.starts_with(path) && target != path.as_path())
    };
    uncovered.iter().copied().filter(below).collect()
}

/// Hidden paths that no layer covers: there is none, or something is mounted over it.
fn uncovered<'a>(input: &'a Input<'_>) -> Vec<&'a PathBuf> {
    let own = KERNEL_MOUNTS.iter().chain(&DEVICE_MOUNTS);
    let own = own.map(|[destination, ..]| Path::new(*destination));
    let images = input.root.fresh.iter().chain(input.bound);
    let images = images.map(PathBuf::as_path);
    let over: Vec<&Path> = own.chain(images).chain(targets(input)).collect();
    let covers = |path: &Path| input.layered && !over.iter().any(|o| path.starts_with(o));
    let hidden = input.root.hidden.iter();
    hidden.filter(|path| !covers(path)).collect()
}

fn targets<'a>(input: &'a Input<'_>) -> impl Iterator<Item = &'a Path> {
    let all = input.binds.iter().chain(input.storage);
    all.map(|bind| Path::new(&bind.target))
}

/// Everything mounted over the root, outer before inner. What belongs to the image is there already.
fn mounts(input: &Input<'_>, uncovered: &[&PathBuf]) -> Vec<Mount> {
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
    for directory in emptied(input, uncovered) {
        let options = "nosuid,nodev,noexec,mode=755,size=64k";
        mounts.push(mount(directory, "tmpfs", "tmpfs", options));
    }
    let options = "bind,nosuid,nodev,ro";
    mounts.push(mount(AGENT_INSIDE, "bind", input.agent, options));
    let options = "bind,nosuid,nodev,noexec";
    mounts.push(mount(OUTPUT_INSIDE, "bind", input.output, options));
    let recursive = mount::has_recursive_attributes();
    for bind in input.binds {
        mounts.push(bound(bind, recursive));
    }
    for storage in input.storage {
        let options = "bind,nosuid,nodev";
        mounts.push(mount(&storage.target, "bind", &storage.source, options));
    }
    mounts
}

/// A bind. Devices are reached through it only if it is a device itself, which the lab names then.
/// What is mounted below it follows where the kernel can do that in one step (Linux 5.12).
fn bound(bind: &Bind, recursive: bool) -> Mount {
    // Nothing is below a file, and crun takes such options for directories only.
    let recursive = recursive && Path::new(&bind.source).is_dir();
    let mut options = vec!["rbind"];
    if devices::Device::of_file(Path::new(&bind.source)).is_none() {
        options.push(if recursive { "rnodev" } else { "nodev" });
    }
    if bind.read_only {
        options.push(if recursive { "rro" } else { "ro" });
    }
    mount(&bind.target, "bind", &bind.source, &options.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::ImageConfig;

    fn build(change: impl FnOnce(&mut RootView, &mut BTreeMap<String, String>)) -> Config {
        build_with(false, change)
    }

    fn build_with(
        layered: bool,
        change: impl FnOnce(&mut RootView, &mut BTreeMap<String, String>),
    ) -> Config {
        let mut root = RootView {
            dir: PathBuf::from("/"),
            submounts: vec![PathBuf::from("/usr"), PathBuf::from("/var")],
            fresh: vec![PathBuf::from("/run"), PathBuf::from("/tmp")],
            hidden: vec![PathBuf::from("/var/lib/latlab")],
            of_host: true,
            config: ImageConfig::default(),
            kernel: None,
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
            layered,
            bound: &[PathBuf::from("/usr")],
            netns: Path::new("/lab/netns/server"),
            agent: Path::new("/opt/agent"),
            output: Path::new("/lab/output"),
            cgroup_view: Some(Path::new("/lab/cgroup")),
            binds: &binds,
            storage: &[],
            env: &env,
            label: ("LATLAB_LAB", "id"),
            security: &Security::default(),
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
        assert_eq!(*bind.destination, *Path::new("/mnt/data"));
    }

    #[test]
    fn the_working_directory_is_the_images_if_it_is_a_path() {
        for (written, expected) in [("", "/"), ("/srv", "/srv"), ("srv", "/")] {
            let config = build(|root, _| root.config.working_dir = written.into());
            assert_eq!(config.working_directory(), expected);
            assert_eq!(config.process.cwd, "/");
        }
    }

    #[test]
    fn hidden_paths_are_masked_unless_the_lab_binds_there() {
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
    fn a_layer_leaves_masks_to_what_is_mounted_over_it() {
        let hidden = [
            "/etc/shadow",
            "/mnt",
            "/mnt/data/x",
            "/tmp/x",
            "/usr/x",
            "/proc/x",
        ];
        let config = build_with(true, |root, _| {
            root.hidden = hidden.map(PathBuf::from).into();
        });
        let masked = |path: &&str| config.linux.masked_paths.contains(&PathBuf::from(path));
        let masked: Vec<&str> = hidden.iter().copied().filter(|p| masked(p)).collect();
        assert_eq!(masked, ["/mnt/data/x", "/tmp/x", "/usr/x", "/proc/x"]);
        let emptied = |mount: &Mount| mount.destination == Path::new("/mnt");
        assert!(!config.mounts.iter().any(emptied));
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
        assert_eq!(json["linux"]["readonlyPaths"][1], "/proc/bus");
        assert_eq!(json["process"]["noNewPrivileges"], true);
        assert_eq!(json["process"]["rlimits"][0]["hard"], 0);
        assert_eq!(json["linux"]["devices"][0]["fileMode"], 0o666);
        let bounding = json["process"]["capabilities"]["bounding"]
            .as_array()
            .unwrap();
        assert!(bounding.iter().any(|c| c == "CAP_NET_ADMIN"));
        for absent in ["CAP_SYS_ADMIN", "CAP_MKNOD", "CAP_SYS_NICE", "CAP_BPF"] {
            assert!(!bounding.iter().any(|c| c == absent), "{absent}");
        }
    }

    #[test]
    fn without_files_the_kernels_mounts_stay() {
        let document = build(|_, _| {}).without_files();
        let mounts = document["mounts"].as_array().unwrap();
        let at: Vec<_> = mounts
            .iter()
            .map(|mount| mount["destination"].as_str().unwrap())
            .collect();
        let expected = [
            "/proc",
            "/sys",
            "/dev",
            "/dev/pts",
            "/dev/shm",
            "/dev/mqueue",
        ];
        assert_eq!(at, expected);
        assert_eq!(
            document["linux"]["maskedPaths"].as_array().unwrap().len(),
            0
        );
        assert_eq!(document["root"]["path"], "/lab/rootfs");
    }

    #[test]
    fn binds_of_directories_reach_no_devices_and_binds_of_devices_do() {
        let bind = |source: &str, read_only| Bind {
            source: source.into(),
            target: "/inside".into(),
            read_only,
        };
        let options = |bind: &Bind, recursive| bound(bind, recursive).options.join(",");
        assert_eq!(options(&bind("/etc", true), false), "rbind,nodev,ro");
        assert_eq!(options(&bind("/etc", true), true), "rbind,rnodev,rro");
        assert_eq!(options(&bind("/etc", false), true), "rbind,rnodev");
        assert_eq!(options(&bind("/dev/null", false), true), "rbind");
    }

    #[test]
    fn capabilities_are_the_default_and_those_of_the_lab() {
        let names = |granted: &[&str]| -> Vec<&str> {
            let security = Security {
                capabilities: granted.iter().map(ToString::to_string).collect(),
                ..Security::default()
            };
            let numbers = capabilities(&security);
            numbers.iter().map(|n| CAPABILITIES[*n as usize]).collect()
        };
        let default = names(&[]);
        let expected = "CHOWN DAC_OVERRIDE FOWNER FSETID KILL SETGID SETUID SETPCAP \
                        NET_BIND_SERVICE NET_ADMIN NET_RAW SYS_CHROOT AUDIT_WRITE SETFCAP";
        assert_eq!(default, expected.split(' ').collect::<Vec<_>>());
        assert!(names(&["SYS_NICE"]).contains(&"SYS_NICE"));
        assert_eq!(names(&["CHOWN"]), default);
        let probe = PROBE.map(|number| CAPABILITIES[number as usize]);
        assert_eq!(probe, ["IPC_LOCK", "SYS_NICE", "BPF"]);
    }
}
