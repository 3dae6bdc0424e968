//! The single things that knobs turn: one kind a file, each with the same five abilities.
//!
//! An item is data: it goes into the journal and must be found again by another process, after a
//! crash, in a machine that moved on. Its value is text, whatever the kernel's own form, so that
//! one journal, one comparison and one report serve all of them.

pub mod file;
pub mod group;
pub mod holder;
pub mod nic;
pub mod task;
mod trust;

use std::fmt;
use std::io;
use std::path::PathBuf;

use latlab_model::units::CpuList;
use serde::{Deserialize, Serialize};

use super::root::Root;
use file::Form;
use nic::Setting;
use task::{Attribute, Task};

/// Begins the names of control groups that latlab makes for the machine's tuning.
const OURS: &str = "latlab.";

/// The value of what is not there.
pub const ABSENT: &str = "absent";

/// One thing that can be turned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Item {
    /// A file of the kernel.
    File {
        /// Its absolute path.
        path: PathBuf,
        /// How its text is to be understood.
        form: Form,
    },
    /// A control group that latlab makes.
    Group {
        /// Its absolute path.
        path: PathBuf,
    },
    /// A property of a thread.
    Task {
        /// Which thread.
        task: Task,
        /// Which property.
        attribute: Attribute,
    },
    /// A setting of a network card.
    Nic {
        /// Its interface.
        interface: String,
        /// Which setting.
        setting: Setting,
    },
    /// A process that keeps a device open, because its wish lasts as long as that.
    Holder {
        /// The device.
        device: PathBuf,
    },
}

impl Item {
    /// A file with this form.
    pub fn file(path: impl Into<PathBuf>, form: Form) -> Item {
        let path = path.into();
        Item::File { path, form }
    }

    /// The value now; none when the thing is not there (any more).
    ///
    /// # Errors
    /// When it is there and cannot be read.
    pub fn read(&self, root: &Root) -> io::Result<Option<String>> {
        let value = match self {
            Item::File { path, form } => file::read(root, path, *form),
            Item::Group { path } => Ok(group::read(root, path)),
            Item::Task { task, attribute } => attribute.read(root, task),
            Item::Nic { interface, setting } => setting.read(interface),
            Item::Holder { device } => holder::read(root, device).map(Some),
        };
        match value {
            Err(e) if is_gone(&e) => Ok(None),
            other => other,
        }
    }

    /// Sets the value.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn write(&self, root: &Root, value: &str) -> io::Result<()> {
        match self {
            Item::File { path, form } => file::write(root, path, *form, value),
            Item::Group { path } => group::write(root, path, value),
            Item::Task { task, attribute } => attribute.write(root, task, value),
            Item::Nic { interface, setting } => setting.write(interface, value),
            Item::Holder { device } => holder::write(root, device, value),
        }
    }

    /// Whether it could be written, found out without writing. What vanished is no obstacle.
    ///
    /// # Errors
    /// Why not.
    pub fn writable(&self, root: &Root) -> io::Result<()> {
        match self {
            Item::File { path, .. } => file::writable(root, path),
            Item::Group { path } => group::writable(root, path),
            Item::Holder { device } => file::writable(root, device),
            Item::Task { .. } | Item::Nic { .. } => Ok(()),
        }
        .or_else(|error| if is_gone(&error) { Ok(()) } else { Err(error) })
    }

    /// Whether two values are the same.
    pub fn same(&self, a: &str, b: &str) -> bool {
        match self {
            Item::Task { attribute, .. } => attribute.same(a, b),
            _ => a == b,
        }
    }

    /// Whether `now` is what comes of writing `wanted` over `original`, so that it is ours to undo.
    pub fn is_ours(&self, original: &str, wanted: &str, now: &str) -> bool {
        let part = || {
            let number = |text: &str| text.parse::<u64>().ok();
            let (a, b, now) = (number(original)?, number(wanted)?, number(now)?);
            Some((a.min(b)..=a.max(b)).contains(&now))
        };
        match self {
            // The kernel gives as many as it can.
            Item::File {
                form: Form::Count, ..
            } => part().unwrap_or(false),
            Item::Task {
                attribute: Attribute::Pinning,
                ..
            } => task::was_rearranged(original, wanted, now),
            _ => self.same(wanted, now),
        }
    }

    /// Whether others may change it at any time, and are free to: where a thread of theirs is, which
    /// processors a group of theirs asks for. What such an item has instead of the wanted value is a
    /// remark, never an error: whether the partition is in force, its own files say.
    pub fn is_free(&self) -> bool {
        match self {
            Item::Task { attribute, .. } => {
                matches!(attribute, Attribute::Cpuset { .. } | Attribute::Pinning)
            }
            _ => self.is_others_group(),
        }
    }

    /// Whether it is the processors of a control group of others, who may change or remove it, and make
    /// another one of its name.
    fn is_others_group(&self) -> bool {
        let Item::File { path, form } = self else {
            return false;
        };
        let mut names = path.iter().filter_map(|name| name.to_str());
        let ours = |name: &str| name.starts_with(OURS);
        *form == Form::List && path.ends_with("cpuset.cpus") && !names.any(ours)
    }

    /// Whether `now` is as good as what is wanted: a group that others left with fewer processors has none
    /// of those that it was to lose.
    pub fn suffices(&self, wanted: &str, now: &str) -> bool {
        let list = |text: &str| CpuList::parse(text).unwrap_or_default();
        let within = || list(now).iter().all(|cpu| list(wanted).contains(cpu));
        self.same(now, wanted) || (self.is_others_group() && within())
    }

    /// Whether it stays as it was turned when nobody wants it any more: a controller may have been
    /// enabled by somebody else meanwhile, and groups below it may use it.
    pub fn stays(&self) -> bool {
        matches!(self, Item::File { form, .. } if *form == Form::Cpuset)
    }

    /// Whether an error on writing says that nobody can turn this one: the kernel owns it.
    pub fn is_fixed(&self, error: &io::Error) -> bool {
        match self {
            // The affinity of a managed interrupt is the kernel's: EIO, or on newer kernels EPERM and
            // no mode to write.
            Item::File { path, .. } => {
                let fixed = [libc::EIO, libc::EPERM, libc::EACCES].map(Some);
                path.starts_with("/proc/irq") && fixed.contains(&error.raw_os_error())
            }
            // EINVAL: a kernel thread that is bound to its processor (PF_NO_SETAFFINITY).
            Item::Task { task, .. } => {
                task.is_kernel() && error.raw_os_error() == Some(libc::EINVAL)
            }
            _ => false,
        }
    }
}

/// Errors that mean that the thing vanished, or that the attribute means nothing here.
fn is_gone(error: &io::Error) -> bool {
    let gone = [libc::ENOENT, libc::ESRCH, libc::ENODEV, libc::ENXIO];
    error.raw_os_error().is_some_and(|e| gone.contains(&e))
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Item::File { path, .. } => write!(f, "{}", path.display()),
            Item::Group { path } => write!(f, "control group {}", path.display()),
            Item::Task { task, attribute } => write!(f, "{attribute} of {task}"),
            Item::Nic { interface, setting } => write!(f, "{setting} of {interface}"),
            Item::Holder { device } => write!(f, "{}", device.display()),
        }
    }
}
