//! Devices of cards given to VMs and to programs of nodes by VFIO.

use crate::links::builder::LinkBuilder;
use crate::links::error::Error;
use crate::sys::sriov::Device;
use crate::sys::vfio;

/// Gives a device, which is (of) this interface of the host, to the driver of VFIO; its group.
pub(super) fn given(
    link: &LinkBuilder<'_>,
    interface: &str,
    device: &Device,
) -> Result<u32, Error> {
    check(&link.plan().name, interface, device)?;
    device.give_to_vfio().map_err(link.failed())
}

/// Refuses a device without an IOMMU group of its own, and one that would keep what its last program left in it.
pub(super) fn check(link: &str, interface: &str, device: &Device) -> Result<(), Error> {
    let refused = |reason, hint| {
        Err(Error::NotGiven {
            link: link.to_owned(),
            interface: interface.to_owned(),
            reason,
            hint,
        })
    };
    if device.group().is_none() {
        let reason = match vfio::has_iommu() {
            true => format!("{} has no IOMMU group", device.address),
            false => "the IOMMU is off".to_owned(),
        };
        let hint =
            "switch VT-d or AMD-Vi on in the firmware, and boot with `intel_iommu=on iommu=pt`";
        return refused(reason, hint);
    }
    let others = vfio::others_of_group(&device.directory());
    if others.is_empty() {
        if device.can_be_reset() {
            return Ok(());
        }
        let reason = format!("the kernel knows no way to reset {}", device.address);
        return refused(reason, latlab_model::plan::RESET_HINT);
    }
    let reason = format!(
        "the IOMMU group of {} has {} too, and a group is given as a whole",
        device.address,
        others.join(", ")
    );
    refused(
        reason,
        "put the card into another slot, or use a way without VFIO",
    )
}
