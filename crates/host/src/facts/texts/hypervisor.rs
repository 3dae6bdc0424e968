//! Which hypervisor is underneath, from what firmware and CPU let out.
//!
//! The order follows systemd-detect-virt: on x86 the CPU decides whether there is one at all (a rented machine without
//! a hypervisor carries its cloud's name in its firmware all the same); the firmware then has the better name.

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Evidence {
    /// The CPU can say whether it is virtual (x86), and says yes or no.
    pub processor: Option<bool>,
    /// The twelve letters of CPUID leaf 0x4000_0000.
    pub signature: String,
    /// `/sys/hypervisor/type`.
    pub sys_hypervisor: String,
    /// `sys_vendor`, `product_name`, `board_vendor`, `bios_vendor` of `/sys/class/dmi/id`.
    pub dmi: Vec<String>,
    /// `OEM ID` of the ACPI table DSDT, six letters.
    pub acpi_oem: String,
    /// `/proc/device-tree/hypervisor/compatible`.
    pub device_tree: String,
}

/// CPUID signatures.
const SIGNATURES: &[(&str, &str)] = &[
    ("KVMKVMKVM", "KVM"),
    ("Linux KVM Hv", "KVM"),
    // Its end is that of `HostBrief::EMULATED`.
    ("TCGTCGTCGTCG", "QEMU (software emulation)"),
    ("Microsoft Hv", "Hyper-V"),
    ("VMwareVMware", "VMware"),
    ("XenVMMXenVMM", "Xen"),
    ("bhyve bhyve ", "bhyve"),
    ("ACRNACRNACRN", "ACRN"),
    (" lrpepyh  vr", "Parallels"),
    ("VBoxVBoxVBox", "VirtualBox"),
    ("VirtualApple", "Apple Virtualization"),
];

/// Beginnings of DMI strings, the more telling first.
const DMI: &[(&str, &str)] = &[
    ("Amazon EC2", "Amazon EC2"),
    ("Google Compute Engine", "Google Compute Engine"),
    ("OpenStack", "OpenStack"),
    ("KubeVirt", "KubeVirt"),
    ("DigitalOcean", "DigitalOcean"),
    ("Hetzner", "Hetzner Cloud"),
    ("VirtualBox", "VirtualBox"),
    ("innotek", "VirtualBox"),
    ("VMware", "VMware"),
    ("VMW", "VMware"),
    ("Parallels", "Parallels"),
    ("BHYVE", "bhyve"),
    ("Apple Virtualization", "Apple Virtualization"),
    ("Virtual Machine", "Hyper-V"),
    ("Hyper-V", "Hyper-V"),
    ("Xen", "Xen"),
    ("Bochs", "Bochs"),
    ("QEMU", "QEMU"),
    ("KVM", "KVM"),
];

/// ACPI's OEM names of monitors that have no DMI.
const ACPI: &[(&str, &str)] = &[
    ("FIRECK", "Firecracker"),
    ("CLOUDH", "Cloud Hypervisor"),
    ("CROSVM", "crosvm"),
    ("BOCHS", "QEMU"),
];

/// The hypervisor's name, or `None` on a machine of its own.
pub fn hypervisor(found: &Evidence) -> Option<String> {
    let xen = (found.sys_hypervisor.trim() == "xen").then_some("Xen");
    // On a Xen control domain or a paravirtual guest the CPU is not virtual.
    if found.processor == Some(false) {
        return xen.map(Into::into);
    }
    let beginning = |table: &[(&str, &'static str)], text: &str| {
        let known = table.iter().find(|(start, _)| text.starts_with(start));
        known.map(|(_, name)| *name)
    };
    let firmware = || {
        DMI.iter()
            .find(|(start, _)| found.dmi.iter().any(|text| text.starts_with(start)))
            .map(|(_, name)| *name)
    };
    let product = beginning(ACPI, &found.acpi_oem)
        .filter(|name| *name != "QEMU")
        .or_else(firmware)
        .or_else(|| beginning(ACPI, &found.acpi_oem));
    let tree = match &*found.device_tree {
        "" => None,
        tree if tree.contains("kvm") => Some("KVM"),
        tree if tree.contains("xen") => Some("Xen"),
        _ => Some("unknown"),
    };
    let technology = xen.or(beginning(SIGNATURES, &found.signature)).or(tree);
    match (technology, product) {
        (Some(technology), Some(product)) if technology.starts_with(product) => {
            Some(technology.into())
        }
        (Some(technology), Some(product)) => Some(format!("{technology} ({product})")),
        (Some(one), None) => Some(one.into()),
        // Only where the CPU cannot speak does the firmware decide.
        (None, Some(product)) => Some(product.into()),
        (None, None) => (found.processor == Some(true)).then(|| "unknown".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dmi(texts: &[&str]) -> Vec<String> {
        texts.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn cpu_and_firmware_are_put_together() {
        let firecracker = Evidence {
            processor: Some(true),
            signature: "KVMKVMKVM\0\0\0".into(),
            acpi_oem: "FIRECK".into(),
            ..Evidence::default()
        };
        assert_eq!(
            hypervisor(&firecracker).as_deref(),
            Some("KVM (Firecracker)")
        );
        let debian_guest = Evidence {
            processor: Some(true),
            signature: "TCGTCGTCGTCG".into(),
            dmi: dmi(&["QEMU", "Standard PC (Q35 + ICH9, 2009)"]),
            acpi_oem: "BOCHS ".into(),
            ..Evidence::default()
        };
        assert_eq!(
            hypervisor(&debian_guest).as_deref(),
            Some("QEMU (software emulation)")
        );
    }

    #[test]
    fn a_rented_machine_without_a_hypervisor_has_none() {
        let metal = Evidence {
            processor: Some(false),
            dmi: dmi(&["Amazon EC2", "c6i.metal"]),
            ..Evidence::default()
        };
        assert_eq!(hypervisor(&metal), None);
        let xen = Evidence {
            sys_hypervisor: "xen\n".into(),
            ..metal
        };
        assert_eq!(hypervisor(&xen).as_deref(), Some("Xen"));
    }

    #[test]
    fn without_cpuid_the_firmware_names_the_hypervisor() {
        let arm = Evidence {
            dmi: dmi(&["Amazon EC2", "c7g.xlarge"]),
            ..Evidence::default()
        };
        assert_eq!(hypervisor(&arm).as_deref(), Some("Amazon EC2"));
        let board = Evidence {
            dmi: dmi(&["Ampere", "Mt. Jade"]),
            ..Evidence::default()
        };
        assert_eq!(hypervisor(&board), None);
        let tree = Evidence {
            device_tree: "linux,kvm\0".into(),
            ..Evidence::default()
        };
        assert_eq!(hypervisor(&tree).as_deref(), Some("KVM"));
    }
}
