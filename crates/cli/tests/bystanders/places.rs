//! Places of the machine where the commands of runtimes keep and change things.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::common::tool;

/// Gives this mount namespace such places of its own.
pub fn make_own() {
    for place in ["/run", "/dev/shm"] {
        tool(&["mount", "-t", "tmpfs", "places", place]);
    }
    for place in ["etc", "opt"] {
        let [upper, work] = ["upper", "work"].map(|part| format!("/run/layers/{place}/{part}"));
        for made in [&upper, &work] {
            fs::create_dir_all(made).unwrap();
        }
        let at = format!("/{place}");
        let options = format!("lowerdir={at},upperdir={upper},workdir={work}");
        tool(&["mount", "-t", "overlay", "-o", &options, "places", &at]);
    }
    // No profile of Docker's for the whole machine.
    let modules = "/sys/kernel/security";
    if Path::new(modules).is_dir() {
        tool(&["mount", "-t", "tmpfs", "places", modules]);
    }
}

/// All files there.
pub fn files() -> BTreeSet<String> {
    let list = tool(&["find", "/etc", "/opt", "/run", "/dev/shm"]);
    list.lines().map(str::to_owned).collect()
}
