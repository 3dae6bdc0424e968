//! `/dev/vhost-net`: opened, and asked for its features, which no other device knows.

use std::fs::OpenOptions;
use std::io;

use latlab_model::facts::Facts;

use super::report::Report;
use crate::sys::feature;

const DEVICE: &str = "/dev/vhost-net";

pub(super) fn run(report: &Report) {
    report.try_one(Facts::VHOST_NET, "the device told its features", features);
}

fn features() -> io::Result<u64> {
    let device = OpenOptions::new().read(true).write(true).open(DEVICE);
    // The errno must stay, for want of privilege to be told apart.
    match device {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(io::Error::other(format!("there is no {DEVICE}")))
        }
        Err(error) => Err(error),
        Ok(device) => feature::vhost_features(device),
    }
}
