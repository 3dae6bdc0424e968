//! The vocabulary that documents of users and plans share: kinds of nodes, carriers, impairments, rights.
//! `spec` reads these words, plans hold them, and `host` needs only them.

use serde::{Deserialize, Serialize};

use crate::units::{BitsPerSecond, Nanos};

/// The kind of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeKind {
    /// Processes in a network namespace of their own, on the host's file system.
    Native,
    /// A container started by an OCI runtime.
    Container,
    /// A virtual machine started by QEMU.
    Vm,
    /// The host's own network namespace, to attach links to.
    Host,
}

/// Which OCI runtime starts a container.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Runtime {
    /// The faster one, in C.
    #[default]
    Crun,
    Runc,
}

/// How a VM's CPU is provided.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Acceleration {
    /// KVM where a boot proves it, software emulation otherwise.
    #[default]
    Auto,
    /// KVM or refuse.
    Kvm,
    Tcg,
}

/// A host directory seen inside a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bind {
    /// Path on the host, as written (relative paths are relative to the lab's file).
    pub source: String,
    /// Absolute path inside the node.
    pub target: String,
    /// Not writable from inside.
    pub read_only: bool,
}

/// The carrier that joins the hosts of an `overlay`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Carrier {
    /// Nothing: all ends are guests of one host.
    #[default]
    Local,
    /// Every end is on a host of its own; Ethernet over UDP in VXLAN's format joins them.
    Vxlan,
    /// The same in the overlay's own format, which keeps large frames whole.
    Udp,
    /// The same without anything around the frames.
    Direct,
}

impl Carrier {
    /// Bytes that it adds to a packet, at most.
    pub(crate) const fn overhead(self) -> u32 {
        match self {
            Carrier::Local | Carrier::Direct => 0,
            Carrier::Vxlan => VXLAN_OVERHEAD,
            // Inner Ethernet with a tag, the private header, UDP and IPv4.
            Carrier::Udp => 100,
        }
    }
}

/// The cable that joins a process or container to an `overlay`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cable {
    /// A pair of interfaces with a queue in between.
    #[default]
    Veth,
    /// The same without: the sender's CPU does what is to be done (Linux 6.7).
    Netkit,
}

/// Bytes that VXLAN adds to a frame: inner Ethernet 14, VXLAN 8, UDP 8, IPv4 20 (RFC 7348).
pub(crate) const VXLAN_OVERHEAD: u32 = 50;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Reads `02:00:00:00:00:01`.
    pub fn parse(text: &str) -> Option<Mac> {
        let mut bytes = [0u8; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().filter(|p| p.len() == 2)?;
            *byte = u8::from_str_radix(part, 16).ok()?;
        }
        parts.next().is_none().then_some(Mac(bytes))
    }
}

impl std::fmt::Display for Mac {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let b = self.0;
        write!(
            f,
            "{:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}",
            b[0], b[1], b[2], b[3], b[4], b[5]
        )
    }
}

impl TryFrom<String> for Mac {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        Mac::parse(&text).ok_or_else(|| format!("`{text}` is not a MAC address"))
    }
}

impl From<Mac> for String {
    fn from(mac: Mac) -> String {
        mac.to_string()
    }
}

/// The deliberate impairment of frames by a link. One-way by definition: it acts on what an endpoint
/// sends, so a delay of 1 ms on both ends adds 2 ms to a round trip.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Impairment {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<BitsPerSecond>,
    /// Constant part of the delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Nanos>,
    /// Random part of the delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Nanos>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
}

impl Impairment {
    /// True when frames pass untouched.
    pub fn is_none(&self) -> bool {
        *self == Impairment::default()
    }

    /// True when it needs the kernel's netem queueing discipline.
    pub fn needs_netem(&self) -> bool {
        self.delay.is_some() || self.jitter.is_some() || self.loss.is_some()
    }
}

/// The kernel's capabilities, at their numbers (capabilities(7)), without `CAP_`.
pub const CAPABILITIES: [&str; 41] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
];

/// Which system calls a container's programs may make.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Seccomp {
    /// Those that Docker and Podman allow by default.
    #[default]
    Default,
    Unconfined,
}

/// Which devices a container may open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Devices {
    /// The common devices, `/dev/net/tun`, and those that are bound into it.
    #[default]
    Default,
    /// Its cgroup forbids none.
    All,
}

/// How many processes and threads a container may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pids {
    AtMost(u64),
    /// As many as the machine has room for.
    Unlimited,
}

impl Default for Pids {
    /// Twice Podman's default: measurements with many streams have a thread for each.
    fn default() -> Self {
        Pids::AtMost(4096)
    }
}

impl Pids {
    /// The number, if there is one.
    pub fn limit(self) -> Option<u64> {
        match self {
            Pids::AtMost(limit) => Some(limit),
            Pids::Unlimited => None,
        }
    }
}

/// The rights of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Security {
    /// Capabilities beyond the default, without `CAP_`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    #[serde(default)]
    pub seccomp: Seccomp,
    #[serde(default)]
    pub pids: Pids,
    #[serde(default)]
    pub devices: Devices,
}

impl Security {
    /// True of what a lab gets that says nothing.
    pub fn is_default(&self) -> bool {
        *self == Security::default()
    }

    /// Differences from the default, shown wherever the node is.
    pub fn facts(&self) -> Vec<String> {
        let mut facts = Vec::new();
        if !self.capabilities.is_empty() {
            facts.push(format!("with {}", self.capabilities.join(", ")));
        }
        if self.seccomp == Seccomp::Unconfined {
            facts.push("any system call".into());
        }
        match self.pids {
            pids if pids == Pids::default() => {}
            Pids::AtMost(limit) => facts.push(format!("{limit} processes")),
            Pids::Unlimited => facts.push("any number of processes".into()),
        }
        if self.devices == Devices::All {
            facts.push("all devices".into());
        }
        facts
    }
}
