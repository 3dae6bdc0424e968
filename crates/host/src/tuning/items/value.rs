//! The value of an item. Its text goes to the journal and to reports; `Item::parse` reads it back.

use std::fmt;

use latlab_model::units::CpuList;
use serde::{Serialize, Serializer};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Absent,
    Present,
    Running,
    /// By SIGSTOP or SIGTSTP; SIGCONT continues it.
    Stopped,
    /// The CPUs to which the kernel may move a pinned thread. It is never written.
    Within(CpuList),
    /// A scheduling policy, and the nice value that returns after a real-time policy, where it is not 0.
    Policy {
        policy: String,
        nice: Option<String>,
    },
    /// A cpuset of version 1, and the affinity, which the kernel resets on every move.
    Cpuset {
        group: String,
        affinity: Option<String>,
    },
    /// The text of a kernel file, a driver's setting, or a list of CPUs.
    Text(String),
}

const NICE: &str = " nice:";
const WITHIN: &str = "within ";

impl Value {
    /// Whether the two are the same for the purpose of the knob that set one of them.
    pub fn same(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Within(_), _) | (_, Value::Within(_)) => true,
            (Value::Policy { policy: a, .. }, Value::Policy { policy: b, .. }) => a == b,
            (Value::Cpuset { group: a, .. }, Value::Cpuset { group: b, .. }) => a == b,
            _ => self == other,
        }
    }

    pub fn cpus(&self) -> Option<CpuList> {
        match self {
            Value::Within(cpus) => Some(cpus.clone()),
            Value::Text(text) => CpuList::parse(text),
            _ => None,
        }
    }

    /// The text of a value that is no more than text.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// `running` or `stopped`.
    pub(super) fn parse_activity(text: &str) -> Value {
        match text {
            "running" => Value::Running,
            "stopped" => Value::Stopped,
            _ => text.into(),
        }
    }

    /// `within 0-3`, or a list of CPUs.
    pub(super) fn parse_pinning(text: &str) -> Value {
        let within = text.strip_prefix(WITHIN).and_then(CpuList::parse);
        within.map_or_else(|| text.into(), Value::Within)
    }

    /// `fifo:50 nice:5`.
    pub(super) fn parse_policy(text: &str) -> Value {
        let (policy, nice) = match text.split_once(NICE) {
            Some((policy, nice)) => (policy, Some(nice.to_string())),
            None => (text, None),
        };
        let policy = policy.to_string();
        Value::Policy { policy, nice }
    }

    /// `/a/group 0-3`.
    pub(super) fn parse_cpuset(text: &str) -> Value {
        let parts = text.rsplit_once(' ');
        let (group, affinity) = match parts.filter(|(_, list)| CpuList::parse(list).is_some()) {
            Some((group, list)) => (group, Some(list.to_string())),
            None => (text, None),
        };
        let group = group.to_string();
        Value::Cpuset { group, affinity }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_string())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Absent => f.write_str("absent"),
            Value::Present => f.write_str("present"),
            Value::Running => f.write_str("running"),
            Value::Stopped => f.write_str("stopped"),
            Value::Within(cpus) => write!(f, "{WITHIN}{cpus}"),
            Value::Policy { policy, nice: None } => f.write_str(policy),
            Value::Policy {
                policy,
                nice: Some(nice),
            } => write!(f, "{policy}{NICE}{nice}"),
            Value::Cpuset {
                group,
                affinity: None,
            } => f.write_str(group),
            Value::Cpuset {
                group,
                affinity: Some(list),
            } => write!(f, "{group} {list}"),
            Value::Text(text) => f.write_str(text),
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
