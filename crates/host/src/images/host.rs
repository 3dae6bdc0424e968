//! The machine's own root as an image.
//!
//! An overlay does not cross mounts: of a `/usr` or `/home` on a disk of its own it would show the
//! empty directory below. So the mount table is read, and what belongs to the machine's programs
//! and data is named for binding. What describes this boot (`/proc`, `/run`, ...), other people's
//! containers and removable media stays out.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Error, ImageConfig, RootView};
use crate::sys::mount::unescape;

/// Below these nothing is taken over: made anew for each container, or not part of the system.
const NOT_OURS: [&str; 9] = [
    "/proc", "/sys", "/dev", "/run", "/tmp", "/mnt", "/media", "/boot", "/snap",
];

/// File systems that hold no files of the machine.
const PSEUDO: [&str; 22] = [
    "autofs",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "fuse.gvfsd-fuse",
    "fuse.portal",
    "fusectl",
    "hugetlbfs",
    "mqueue",
    "nsfs",
    "proc",
    "pstore",
    "rpc_pipefs",
    "securityfs",
    "sysfs",
    "tracefs",
];

/// Where container engines keep the roots of running containers.
const ENGINES: [&str; 4] = [
    "/var/lib/docker",
    "/var/lib/containers",
    "/var/lib/containerd",
    "/var/lib/kubelet",
];

/// What belongs to the machine's present boot and its users.
const FRESH: [&str; 2] = ["/run", "/tmp"];

/// latlab's own directories, which a node has no business in.
const HIDDEN: [&str; 2] = ["/var/lib/latlab", "/var/cache/latlab"];

/// The machine's root as it is mounted now.
pub(super) fn view() -> Result<RootView, Error> {
    let path = Path::new("/proc/self/mountinfo");
    let mountinfo = fs::read_to_string(path).map_err(Error::io("read", path))?;
    Ok(RootView {
        dir: PathBuf::from("/"),
        submounts: submounts(&mountinfo)
            .into_iter()
            .filter(|m| m.exists())
            .collect(),
        fresh: FRESH.iter().map(PathBuf::from).collect(),
        hidden: HIDDEN
            .iter()
            .map(PathBuf::from)
            .filter(|d| d.exists())
            .collect(),
        of_host: true,
        config: ImageConfig::default(),
    })
}

/// The mount points that belong to the image, outer before inner.
fn submounts(mountinfo: &str) -> BTreeSet<PathBuf> {
    mountinfo.lines().filter_map(submount).collect()
}

fn submount(line: &str) -> Option<PathBuf> {
    let (left, right) = line.split_once(" - ")?;
    let point = unescape(left.split(' ').nth(4)?.as_bytes());
    let kind = right.split(' ').next()?;
    let left_out = NOT_OURS.iter().chain(&ENGINES).chain(&HIDDEN);
    let taken = point != Path::new("/")
        && !PSEUDO.contains(&kind)
        && !left_out.into_iter().any(|dir| point.starts_with(dir));
    taken.then_some(point)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_of_the_system_are_named_and_nothing_else() {
        let mountinfo = "\
1 0 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
2 1 254:1 / /var rw - ext4 /dev/vdb rw
3 1 254:2 / /usr ro - squashfs /dev/vdc ro
4 1 254:3 / /home/my\\040self rw - btrfs /dev/vdd rw
5 1 0:21 / /proc rw - proc proc rw
6 5 0:22 / /proc/sys/fs/binfmt_misc rw - autofs systemd-1 rw
7 1 0:23 / /run rw - tmpfs tmpfs rw
8 2 0:50 / /var/lib/docker/overlay2/x/merged rw - overlay overlay rw
9 2 0:51 / /var/lib/nfs/rpc_pipefs rw - rpc_pipefs sunrpc rw
10 1 7:1 / /snap/core/1 ro - squashfs /dev/loop1 ro
11 1 0:60 / /mnt/backup rw - nfs4 server:/ rw
12 2 0:61 / /var/lib/latlab/labs rw - tmpfs tmpfs rw
13 1 0:62 / /opt rw
";
        let expected = ["/home/my self", "/usr", "/var"].map(PathBuf::from);
        assert_eq!(
            submounts(mountinfo).into_iter().collect::<Vec<_>>(),
            expected
        );
    }

    #[test]
    fn this_machine_has_a_root() {
        let view = view().unwrap();
        assert_eq!(view.dir, Path::new("/"));
        assert!(view.submounts.iter().all(|m| m.is_absolute()));
    }
}
