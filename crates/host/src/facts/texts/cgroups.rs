//! Versions of cgroup hierarchies among the mounts.

use crate::sys::proc;

/// `v1`, `v2`, `hybrid` (version 2 mounted beside controllers on version 1) or `none`, from `/proc/self/mountinfo`.
pub fn cgroup_layout(mountinfo: &str) -> &'static str {
    let (mut own, mut unified) = (false, false);
    for mount in proc::mounts(mountinfo.as_bytes()) {
        match mount.kind.as_str() {
            "cgroup2" => unified = true,
            // A hierarchy with a name only lists processes.
            "cgroup" => {
                let mut options = mount.super_options.split(',');
                own |= !options.any(|option| option.starts_with("name="));
            }
            _ => {}
        }
    }
    match (own, unified) {
        (true, true) => "hybrid",
        (true, false) => "v1",
        (false, true) => "v2",
        (false, false) => "none",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cgroup_layout_follows_from_the_mounts() {
        let v2 = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        let cpu = "32 31 0:29 / /sys/fs/cgroup/cpu rw shared:5 - cgroup cgroup rw,cpu\n";
        let named = "33 31 0:30 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n";
        assert_eq!(cgroup_layout(v2), "v2");
        assert_eq!(cgroup_layout(&format!("{v2}{named}")), "v2");
        assert_eq!(cgroup_layout(&format!("{cpu}{named}")), "v1");
        assert_eq!(cgroup_layout(&format!("{cpu}{named}{v2}")), "hybrid");
        assert_eq!(
            cgroup_layout("22 27 0:21 / /proc rw - proc proc rw\nx\n"),
            "none"
        );
        assert_eq!(cgroup_layout(""), "none");
    }
}
