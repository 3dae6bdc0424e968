//! The settings of a network namespace (`/proc/sys/net`), copied to another one.
//!
//! A setting for all interfaces may change those of single ones, so the general ones are written first, and all are
//! read again afterwards.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::Error;
use super::netns::NetNs;

const SETTINGS: &str = "/proc/sys/net";

/// A setting that changes others is seen in the round after.
const ROUNDS: usize = 3;

type Settings = BTreeMap<PathBuf, Vec<u8>>;

/// Gives `to`, which has the same interfaces, the settings of `from`. Fails with the first that cannot be set.
pub fn copy(from: &NetNs, to: &NetNs) -> Result<(), Error> {
    let wanted = from.run(read)?;
    to.run(|| write(&wanted))?
}

/// The settings of the calling thread's namespace that may be read and written.
fn read() -> Settings {
    let mut settings = Settings::new();
    let mut directories = vec![PathBuf::from(SETTINGS)];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(about) = entry.metadata() else {
                continue;
            };
            if about.is_dir() {
                directories.push(path);
            } else if about.permissions().mode() & 0o200 != 0 {
                // Some are for writing only, and some have no value yet.
                settings.extend(fs::read(&path).ok().map(|value| (path, value)));
            }
        }
    }
    settings
}

fn write(wanted: &Settings) -> Result<(), Error> {
    let mut failed = None;
    for _ in 0..ROUNDS {
        let present = read();
        let differs = |path: &PathBuf, value: &Vec<u8>| {
            let present = present.get(path);
            present.is_some_and(|present| present != value)
        };
        let mut differing = wanted.iter().filter(|(path, value)| differs(path, value));
        let mut all: Vec<_> = differing.by_ref().collect();
        if all.is_empty() {
            return Ok(());
        }
        all.sort_by_key(|(path, _)| rank(path));
        failed = None;
        for (path, value) in all {
            let error = match fs::write(path, value) {
                Ok(()) => continue,
                Err(error) => error,
            };
            failed.get_or_insert_with(|| Error::of("copy setting", path.display())(error));
        }
    }
    failed.map_or(Ok(()), Err)
}

/// General settings come before those of interfaces.
fn rank(path: &Path) -> u8 {
    let has = |name: &str| path.iter().any(|part| part == name);
    match () {
        () if has("ip_forward") => 0,
        () if has("all") => 1,
        () if has("default") => 2,
        () => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn general_settings_come_first() {
        let net = |path: &str| rank(&Path::new(SETTINGS).join(path));
        let in_order = [
            "ipv4/ip_forward",
            "ipv4/conf/all/forwarding",
            "ipv4/conf/default/forwarding",
            "ipv4/conf/eth0/forwarding",
        ];
        let ranks = in_order.map(net);
        assert!(ranks.is_sorted(), "{ranks:?}");
    }

    #[test]
    fn settings_reach_another_namespace() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let (from, to) = (NetNs::fresh().unwrap(), NetNs::fresh().unwrap());
        let set = |key: &'static str, value: &'static str| {
            let path = Path::new(SETTINGS).join(key);
            from.run(move || fs::write(path, value)).unwrap().unwrap();
        };
        set("ipv4/ip_forward", "1");
        set("ipv4/conf/lo/forwarding", "0");
        set("ipv4/ip_local_port_range", "40000 50000");
        copy(&from, &to).unwrap();
        let (wanted, present) = (from.run(read).unwrap(), to.run(read).unwrap());
        assert!(wanted.len() > 100);
        for (path, value) in wanted {
            assert_eq!(present.get(&path), Some(&value), "{}", path.display());
        }
    }
}
