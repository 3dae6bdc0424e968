//! `storage:` of a node: directories inside with the holders of their files. What a kind of node or the machine
//! cannot have is refused by the plan.

use std::path::Path;

use super::reader::{Object, read_words};
use super::yaml::{Value, Yaml};
use crate::diagnostic::{Diagnostics, Mark, Spanned, shown};
use crate::kinds::{DiskAio, DiskCache, DiskDevice, DiskFormat, StorageType};
use crate::units::Bytes;

read_words!(StorageType, "a type of storage", "volume");

read_words!(DiskDevice, "a device of a VM's disk", "virtio-blk");

read_words!(DiskCache, "a cache mode of a VM's disk", "none");

read_words!(
    DiskAio,
    "an interface by which QEMU reads and writes",
    "threads"
);

read_words!(DiskFormat, "a format of a disk's image", "raw");

/// Below this ext4 has no room for a journal.
const MIN_SIZE: Bytes = Bytes(16 << 20);

/// The kernel's and latlab's own places in every kind of node.
const RESERVED: [&str; 4] = ["/proc", "/sys", "/dev", "/run/latlab"];

/// One item of `storage:`.
#[derive(Debug, Clone, PartialEq)]
pub struct Storage {
    /// Its directory inside, absolute and plain.
    pub at: Spanned<String>,
    pub kind: Spanned<StorageType>,
    /// The size of a file system of its own; the space that others find free at their deployment.
    pub size: Option<Spanned<Bytes>>,
    pub device: Option<Spanned<DiskDevice>>,
    pub cache: Option<Spanned<DiskCache>>,
    pub aio: Option<Spanned<DiskAio>>,
    pub format: Option<Spanned<DiskFormat>>,
}

impl Storage {
    /// The first of the keys that only a disk of a VM has.
    pub(crate) fn guest_key(&self) -> Option<(&'static str, Mark)> {
        let keys = [
            ("device", self.device.map(|key| key.at)),
            ("cache", self.cache.map(|key| key.at)),
            ("aio", self.aio.map(|key| key.at)),
            ("format", self.format.map(|key| key.at)),
        ];
        keys.into_iter().find_map(|(key, at)| Some((key, at?)))
    }
}

/// Reads `storage:` of `o`.
pub(super) fn read(o: &mut Object<'_>, errors: &mut Diagnostics) -> Vec<Storage> {
    let what = format!("`storage` of {}", o.what);
    let Some(yaml) = o.take("storage") else {
        return Vec::new();
    };
    let items = match &yaml.value {
        Value::Seq(items) => items.as_slice(),
        // One alone needs no list.
        Value::Map(_) => std::slice::from_ref(yaml),
        Value::Scalar { .. } => {
            let message = format!("{what} must be a list, not {}", yaml.kind());
            errors.add(
                yaml.at,
                message,
                "for example `[{at: /mnt, type: disk, size: 1GiB}]`",
            );
            return Vec::new();
        }
    };
    let mut all: Vec<Storage> = Vec::new();
    for item in items {
        let Some(storage) = read_item(item, &what, errors) else {
            continue;
        };
        if let Some(other) = all.iter().find(|other| meet(&other.at, &storage.at)) {
            let message = match *other.at == *storage.at {
                true => format!("{what} has `{}` twice", shown(&storage.at)),
                false => format!(
                    "{what} has `{}` and `{}`, one below the other",
                    shown(&other.at),
                    shown(&storage.at)
                ),
            };
            errors.add(
                storage.at.at,
                message,
                "give each a directory beside the others",
            );
        }
        all.push(storage);
    }
    all
}

/// Whether one of two directories is the other, or in it.
pub(crate) fn meet(a: &str, b: &str) -> bool {
    Path::new(a).starts_with(b) || Path::new(b).starts_with(a)
}

fn read_item(yaml: &Yaml, what: &str, errors: &mut Diagnostics) -> Option<Storage> {
    let mut o = Object::new(yaml, format!("an item of {what}"), errors);
    let at = o.need::<String>("at", errors);
    let kind = o.get::<StorageType>("type", errors);
    let size = o.get::<Bytes>("size", errors);
    let (device, cache) = (o.get("device", errors), o.get("cache", errors));
    let (aio, format) = (o.get("aio", errors), o.get("format", errors));
    let kind = kind.unwrap_or_else(|| Spanned::new(StorageType::default(), yaml.at));
    o.finish(errors);
    let at = at.filter(|at| check_at(at, what, errors))?;
    let storage = Storage {
        at,
        kind,
        size,
        device,
        cache,
        aio,
        format,
    };
    check_size(&storage, what, errors);
    Some(storage)
}

fn check_at(at: &Spanned<String>, what: &str, errors: &mut Diagnostics) -> bool {
    let mut parts = at.strip_prefix('/').unwrap_or_default().split('/');
    let is_plain = parts.all(|part| !matches!(part, "" | "." | ".."));
    let is_text = !at.contains(|c: char| c.is_whitespace() || c.is_control());
    if !is_plain || !is_text {
        let message = format!(
            "`at` of {what} must be an absolute path below `/`, not `{}`",
            shown(at)
        );
        let hint = "for example `/mnt`; without `..`, white space and a slash at the end";
        errors.add(at.at, message, hint);
        return false;
    }
    if let Some(reserved) = RESERVED.iter().find(|reserved| meet(reserved, at)) {
        let message = format!(
            "`at` of {what} is `{}`, and `{reserved}` is the kernel's or latlab's",
            shown(at)
        );
        errors.add(at.at, message, "for example `/mnt`");
        return false;
    }
    true
}

fn check_size(storage: &Storage, what: &str, errors: &mut Diagnostics) {
    let (at, kind) = (shown(&storage.at), storage.kind);
    match storage.size {
        None if kind.is_sized() => {
            let message = format!("`{at}` in {what} is of type {} and has no `size`", *kind);
            errors.add(kind.at, message, "for example `size: 1GiB`");
        }
        Some(size) if size.value < MIN_SIZE => {
            let message = format!("`size` of `{at}` in {what} is {}", size.value);
            let hint = format!("at least {MIN_SIZE}; a number without a unit counts bytes");
            errors.add(size.at, message, hint);
        }
        _ => {}
    }
}
