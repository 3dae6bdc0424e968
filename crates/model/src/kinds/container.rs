//! Words of containers: runtimes and rights.

use serde::{Deserialize, Serialize};

use crate::units::Bytes;

/// Trees of cgroups that a runtime may need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CgroupNeed {
    /// Version 1 or 2, without which processes beside the container could not be ended.
    Any,
    /// Version 2.
    Unified,
}

/// The program that starts a container.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Runtime {
    /// The faster one, in C.
    #[default]
    Crun,
    Runc,
    /// Through conmon and an OCI runtime, without a daemon.
    Podman,
    /// Through a daemon of the node's own, containerd and runc.
    Docker,
    /// systemd's own.
    Nspawn,
    Lxc,
}

impl Runtime {
    /// Programs of which one must be installed for a container of any runtime.
    pub const PROGRAMS: &'static [&'static str] = &[
        "crun",
        "runc",
        "podman",
        "dockerd",
        "systemd-nspawn",
        "lxc-start",
    ];

    /// The programs that it needs, its own first.
    pub const fn programs(self) -> &'static [&'static str] {
        match self {
            Runtime::Crun => &["crun"],
            Runtime::Runc => &["runc"],
            Runtime::Podman => &["podman", "crun"],
            Runtime::Docker => &["dockerd", "containerd", "runc"],
            Runtime::Nspawn => &["systemd-nspawn"],
            Runtime::Lxc => &["lxc-start"],
        }
    }

    /// The tree of cgroups without which it starts none.
    pub const fn cgroup(self) -> Option<CgroupNeed> {
        match self {
            Runtime::Podman | Runtime::Docker => Some(CgroupNeed::Any),
            Runtime::Nspawn => Some(CgroupNeed::Unified),
            Runtime::Crun | Runtime::Runc | Runtime::Lxc => None,
        }
    }

    /// The least `memory` of a node, where what stays beside the container sets it. Docker's daemons hold some 55 MiB,
    /// and more of their programs' files than fits into the rest are read again and again.
    pub const fn least_memory(self) -> Option<Bytes> {
        match self {
            Runtime::Docker => Some(Bytes(128 << 20)),
            _ => None,
        }
    }

    /// Whether nothing of it stays beside the container. A process that watches the container would neither be saved
    /// with it nor know where it went.
    pub const fn leaves(self) -> bool {
        matches!(self, Runtime::Crun | Runtime::Runc)
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
