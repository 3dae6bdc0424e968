//! `security:` of a container: what it may do beyond the default.
//!
//! The default is that of Docker, without device nodes and with the administration of its own
//! network. What a lab grants beyond it is part of the plan, and so of every result.

use serde::{Deserialize, Serialize};

use super::reader::{FromYaml, Object, words};
use crate::diagnostic::{Diagnostics, Spanned, hint_one_of, shown};

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
words!(Seccomp, "a seccomp profile", { "default" => Default, "unconfined" => Unconfined });

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
words!(Devices, "a choice of devices", { "default" => Default, "all" => All });

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

/// The kernel numbers processes up to this (proc(5), `pid_max`).
const PIDS_MAX: u64 = 1 << 22;

impl FromYaml for Pids {
    const EXPECTED: &'static str = "a number of processes or `unlimited`";
    const EXAMPLE: &'static str = "`4096`";
    fn from_text(text: &str) -> Option<Self> {
        match text {
            "unlimited" => Some(Pids::Unlimited),
            _ => {
                let number = text.parse().ok()?;
                (1..=PIDS_MAX)
                    .contains(&number)
                    .then_some(Pids::AtMost(number))
            }
        }
    }
    fn hint(_: &str) -> String {
        format!("from 1 to {PIDS_MAX}, or `unlimited`")
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

    /// Reads `security:` of `o`, with the mark of the whole.
    pub(super) fn read(o: &mut Object<'_>, errors: &mut Diagnostics) -> Option<Spanned<Security>> {
        let what = format!("`security` of {}", o.what);
        let yaml = o.take("security")?;
        let mut own = Object::new(yaml, what.clone(), errors);
        let mut capabilities = Vec::new();
        for written in own.list::<String>("capabilities", errors) {
            let upper = written.to_uppercase();
            let name = upper.strip_prefix("CAP_").unwrap_or(&upper);
            if CAPABILITIES.contains(&name) {
                capabilities.push(name.to_string())
            } else {
                errors.add(
                    written.at,
                    format!("{what}: `{}` is not a capability", shown(&written)),
                    hint_one_of(name, &CAPABILITIES),
                )
            }
        }
        let security = Security {
            capabilities,
            seccomp: own
                .get("seccomp", errors)
                .map(|s| s.value)
                .unwrap_or_default(),
            pids: own.get("pids", errors).map(|p| p.value).unwrap_or_default(),
            devices: own
                .get("devices", errors)
                .map(|d| d.value)
                .unwrap_or_default(),
        };
        own.finish(errors);
        Some(Spanned::new(security, yaml.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Lab;

    fn security(text: &str) -> Security {
        let node = format!("{{kind: container, security: {text}}}");
        let lab = format!("name: l\ntopology:\n  nodes:\n    a: {node}\n");
        let lab = Lab::parse(&lab).unwrap_or_else(|errors| panic!("{}", errors.render("l")));
        let written = lab.nodes[0].fields.security.as_ref();
        written.map(|s| s.value.clone()).unwrap_or_default()
    }

    #[test]
    fn granted_rights_are_listed() {
        assert!(security("{}").is_default());
        assert!(
            security("{pids: 4096, seccomp: default}")
                .facts()
                .is_empty()
        );
        let all = "{capabilities: [CAP_SYS_NICE, bpf], seccomp: unconfined, pids: unlimited, devices: all}";
        let expected = [
            "with SYS_NICE, BPF",
            "any system call",
            "any number of processes",
            "all devices",
        ];
        assert_eq!(security(all).facts(), expected);
        assert_eq!(security("{pids: 9}").facts(), ["9 processes"]);
    }
}
