//! `/dev/vhost-net`: opened, and asked for its features, which no other device knows. VFIO: its driver is there, or can be
//! loaded, and an IOMMU.

use std::fs::OpenOptions;
use std::io;

use latlab_model::facts::Facts;

use super::report::{Report, is_root};
use crate::sys::{feature, vfio};

const DEVICE: &str = "/dev/vhost-net";

pub(super) fn run(report: &Report) {
    report.try_one(Facts::VHOST_NET, "the device told its features", features);
}

/// No device is given away for it: a group of its own shows only when one is.
pub(super) fn vfio(report: &Report) {
    let how = "an IOMMU is in use, and the driver vfio-pci is there";
    report.try_one(Facts::VFIO, how, || {
        if !vfio::has_iommu() {
            let why = "the IOMMU is off, or there is none: /sys/kernel/iommu_groups is empty";
            return Err(io::Error::other(why));
        }
        vfio::load().map_err(|error| match is_root() {
            true => error,
            false => io::ErrorKind::PermissionDenied.into(),
        })
    });
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
