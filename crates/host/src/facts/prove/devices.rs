//! Devices of the kernel that help virtual machines: opened, and asked something only they know.

use std::fs::OpenOptions;
use std::io;

use latlab_model::facts::Facts;

use super::Report;
use crate::sys::feature;

pub(super) const COVERS: &[&str] = &[Facts::VHOST_NET, Facts::VHOST_VSOCK];

pub(super) fn run(report: &Report) {
    let how = "the device told its features";
    for (name, path) in [
        (Facts::VHOST_NET, "/dev/vhost-net"),
        (Facts::VHOST_VSOCK, "/dev/vhost-vsock"),
    ] {
        report.try_one(name, how, || features(path));
    }
}

fn features(path: &str) -> io::Result<u64> {
    let device = OpenOptions::new().read(true).write(true).open(path);
    // The errno must stay, for want of privilege to be told apart.
    match device {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(io::Error::other(format!("there is no {path}")))
        }
        Err(error) => Err(error),
        Ok(device) => feature::vhost_features(device),
    }
}
