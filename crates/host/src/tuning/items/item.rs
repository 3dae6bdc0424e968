//! An item of any kind.

use std::fmt;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::file::{self, Form};
use super::nic::Setting;
use super::task::{self, Attribute, Task};
use super::value::Value;
use super::{group, holder};
use crate::tuning::root::Root;

/// Prefix of the cgroups that latlab creates for the machine's tuning.
const OURS: &str = "latlab.";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Item {
    File {
        path: PathBuf,
        form: Form,
    },
    Group {
        path: PathBuf,
    },
    Task {
        task: Task,
        attribute: Attribute,
    },
    Nic {
        interface: String,
        setting: Setting,
    },
    /// A process that keeps a device open, because the request lasts as long as that.
    Holder {
        device: PathBuf,
    },
}

impl Item {
    pub fn file(path: impl Into<PathBuf>, form: Form) -> Item {
        let path = path.into();
        Item::File { path, form }
    }

    pub fn task(task: Task, attribute: Attribute) -> Item {
        Item::Task { task, attribute }
    }

    pub fn parse(&self, text: &str) -> Value {
        match (self, text) {
            (Item::Group { .. }, "present") => Value::Present,
            (Item::Group { .. } | Item::Holder { .. } | Item::File { .. }, "absent") => {
                Value::Absent
            }
            (Item::Task { attribute, .. }, _) => attribute.parse(text),
            _ => text.into(),
        }
    }

    /// The value now; none if the item does not exist (any more). Errors: the item exists and cannot be read.
    pub fn read(&self, root: &Root) -> io::Result<Option<Value>> {
        let value = match self {
            Item::File { path, form } => file::read(root, path, *form).map(|v| Some(v.into())),
            Item::Group { path } => Ok(Some(group::read(root, path))),
            Item::Task { task, attribute } => attribute.read(root, task),
            Item::Nic { interface, setting } => setting.read(interface).map(|v| v.map(Value::Text)),
            Item::Holder { device } => holder::read(root, device).map(Some),
        };
        match value {
            Err(e) if is_gone(&e) => Ok(None),
            other => other,
        }
    }

    /// Errors: the kernel's, or `InvalidInput` for a value of another kind of item.
    pub fn write(&self, root: &Root, value: &Value) -> io::Result<()> {
        let text = || value.text().ok_or(io::ErrorKind::InvalidInput);
        match self {
            Item::File { path, form } => file::write(root, path, *form, text()?),
            Item::Group { path } => group::write(root, path, value),
            Item::Task { task, attribute } => attribute.write(root, task, value),
            Item::Nic { interface, setting } => setting.write(interface, text()?),
            Item::Holder { device } => holder::write(root, device, value),
        }
    }

    /// Checks without writing that it could be written. A vanished item passes.
    pub fn writable(&self, root: &Root) -> io::Result<()> {
        match self {
            Item::File { path, .. } => file::writable(root, path),
            Item::Group { path } => group::writable(root, path),
            Item::Holder { device } => file::writable(root, device),
            Item::Task { .. } | Item::Nic { .. } => Ok(()),
        }
        .or_else(|error| if is_gone(&error) { Ok(()) } else { Err(error) })
    }

    /// Whether `now` results from writing `wanted` over `original`, so that latlab must undo it.
    pub fn is_ours(&self, original: &Value, wanted: &Value, now: &Value) -> bool {
        let part = || {
            let number = |value: &Value| value.text()?.parse::<u64>().ok();
            let (a, b, now) = (number(original)?, number(wanted)?, number(now)?);
            Some((a.min(b)..=a.max(b)).contains(&now))
        };
        match self {
            // The kernel provides as many as it can.
            Item::File {
                form: Form::Count, ..
            } => part().unwrap_or(false),
            Item::Task {
                attribute: Attribute::Pinning,
                ..
            } => task::was_rearranged(original, wanted, now),
            _ => wanted.same(now),
        }
    }

    /// Whether other programs may change it at any time: the cpuset of their threads, the CPUs of their cgroups.
    /// Drift of such an item is a remark, never an error: the partition's own files tell whether it is in force.
    pub fn is_free(&self) -> bool {
        match self {
            Item::Task { attribute, .. } => {
                matches!(attribute, Attribute::Cpuset { .. } | Attribute::Pinning)
            }
            _ => self.is_others_group(),
        }
    }

    /// Whether it is the CPU list of another program's cgroup, which may be changed, or removed and created anew.
    fn is_others_group(&self) -> bool {
        let Item::File { path, form } = self else {
            return false;
        };
        let mut names = path.iter().filter_map(|name| name.to_str());
        let ours = |name: &str| name.starts_with(OURS);
        *form == Form::List && path.ends_with("cpuset.cpus") && !names.any(ours)
    }

    /// Whether `now` is as good as `wanted`: another program's cgroup with fewer CPUs uses no isolated one.
    pub fn suffices(&self, wanted: &Value, now: &Value) -> bool {
        let list = |value: &Value| value.cpus().unwrap_or_default();
        let within = || list(now).iter().all(|cpu| list(wanted).contains(cpu));
        now.same(wanted) || (self.is_others_group() && within())
    }

    /// Whether it keeps its value after the last owner left: another program may have enabled the controller too,
    /// and cgroups below may use it.
    pub fn stays(&self) -> bool {
        matches!(self, Item::File { form, .. } if *form == Form::Cpuset)
    }

    /// Whether a write error means that the kernel owns the value.
    pub fn is_fixed(&self, error: &io::Error) -> bool {
        match self {
            // The kernel owns the affinity of a managed interrupt: EIO, or on newer kernels EPERM and no write mode.
            Item::File { path, .. } => {
                let fixed = [libc::EIO, libc::EPERM, libc::EACCES].map(Some);
                path.starts_with("/proc/irq") && fixed.contains(&error.raw_os_error())
            }
            // EINVAL: a kernel thread that is bound to its CPU (PF_NO_SETAFFINITY).
            Item::Task { task, .. } => {
                task.is_kernel() && error.raw_os_error() == Some(libc::EINVAL)
            }
            _ => false,
        }
    }
}

/// Errors of an item that vanished, or of an attribute that means nothing here.
fn is_gone(error: &io::Error) -> bool {
    let gone = [libc::ENOENT, libc::ESRCH, libc::ENODEV, libc::ENXIO];
    error.raw_os_error().is_some_and(|e| gone.contains(&e))
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Item::File { path, .. } => write!(f, "{}", path.display()),
            Item::Group { path } => write!(f, "cgroup {}", path.display()),
            Item::Task { task, attribute } => write!(f, "{attribute} of {task}"),
            Item::Nic { interface, setting } => write!(f, "{setting} of {interface}"),
            Item::Holder { device } => write!(f, "{}", device.display()),
        }
    }
}
