//! LXC: a configuration file, and `lxc-start` in the foreground, because as a daemon it closes all descriptors.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use super::launch::{BACKGROUND, ID, Input, Launch};
use super::launcher::Launcher;
use crate::nodes::container::config::AGENT_INSIDE;
use crate::nodes::container::error::Error;

pub(super) struct Lxc;

impl Launcher for Lxc {
    fn launch(&self, input: &Input<'_>) -> Result<Launch, Error> {
        let state = input.state();
        let home = state.join(ID);
        fs::create_dir_all(&home).map_err(Error::io("make", &home))?;
        let file = home.join("config");
        fs::write(&file, text(input)?).map_err(Error::io("write", &file))?;
        let arguments: [OsString; 7] = [
            "--foreground".into(),
            "-n".into(),
            ID.into(),
            "-P".into(),
            state.into(),
            "-f".into(),
            file.into(),
        ];
        Ok(Launch::in_background(
            BACKGROUND,
            "lxc-start",
            arguments.into(),
        ))
    }
}

fn text(input: &Input<'_>) -> Result<Vec<u8>, Error> {
    let rootfs = input.dir().join("rootfs");
    let mut text: Vec<u8> = Vec::new();
    let mut line = |key: &str, value: &[u8]| {
        text.extend(key.as_bytes());
        text.extend(b" = ");
        text.extend(value);
        text.push(b'\n');
    };
    let netns = input.config.netns.as_os_str().as_bytes();
    let paths = [rootfs.as_os_str().as_bytes(), netns];
    if paths.iter().any(|path| path.contains(&b'\n')) {
        let message = "a path with a line break cannot be in its configuration".to_owned();
        let runtime = "lxc".to_owned();
        return Err(Error::Runtime { runtime, message });
    }
    line("lxc.uts.name", input.config.name.as_bytes());
    line("lxc.rootfs.path", &[b"dir:", paths[0]].concat());
    // Mounts below the root come along.
    line("lxc.rootfs.options", b"rbind");
    line("lxc.namespace.share.net", netns);
    line("lxc.net.0.type", b"none");
    line("lxc.init.cmd", format!("{AGENT_INSIDE} pause").as_bytes());
    line("lxc.mount.auto", b"proc:rw sys:ro");
    line("lxc.autodev", b"1");
    line("lxc.tty.max", b"0");
    line("lxc.console.path", b"none");
    line("lxc.no_new_privs", b"1");
    line("lxc.apparmor.profile", b"unchanged");
    let (label, lab) = input.label();
    line("lxc.environment", format!("{label}={lab}").as_bytes());
    let names = input.document.capability_names();
    let kept: Vec<String> = names
        .iter()
        .map(|name| name.trim_start_matches("CAP_").to_lowercase())
        .collect();
    line("lxc.cap.keep", kept.join(" ").as_bytes());
    for name in input.document.forbidden_limits() {
        line(&format!("lxc.prlimit.{name}"), b"0");
    }
    Ok(text)
}
