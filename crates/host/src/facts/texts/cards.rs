//! The maker of a network card that is no hardware, from what the card says of itself on its bus.

/// A device of a network card.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CardEvidence {
    /// The bus that it is on: `pci`, `virtio`, `vmbus`, `xen`.
    pub bus: String,
    /// Its numbers on the PCI bus: those of its vendor and device, and of its maker's.
    pub device: (u16, u16),
    pub subsystem: (u16, u16),
    /// The machine is a guest of QEMU.
    pub of_qemu: bool,
}

const RED_HAT: u16 = 0x1af4;
const VMWARE: u16 = 0x15ad;
const VIRTUALBOX: u16 = 0x80ee;
const INTEL: u16 = 0x8086;
/// QEMU's e1000e has this number and no maker's.
const E1000E: u16 = 0x10d3;

/// The name of what makes it; `None` for hardware, also for a card that a hypervisor passes on.
pub fn card_maker(found: &CardEvidence) -> Option<&'static str> {
    match found.bus.as_str() {
        "virtio" => return Some("virtio"),
        "vmbus" => return Some("Hyper-V"),
        "xen" => return Some("Xen"),
        "pci" => {}
        _ => return None,
    }
    match (found.device, found.subsystem) {
        ((RED_HAT, _), _) => Some("virtio"),
        // QEMU's devices have this maker unless they imitate another.
        (_, (RED_HAT, _)) => Some("QEMU"),
        ((VMWARE, _), _) | (_, (VMWARE, _)) => Some("VMware"),
        ((VIRTUALBOX, _), _) | (_, (VIRTUALBOX, _)) => Some("VirtualBox"),
        ((INTEL, E1000E), (INTEL, 0)) if found.of_qemu => Some("QEMU"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_pci(device: (u16, u16), subsystem: (u16, u16)) -> CardEvidence {
        CardEvidence {
            bus: "pci".into(),
            device,
            subsystem,
            of_qemu: true,
        }
    }

    #[test]
    fn emulated_cards_are_known_by_their_maker() {
        // An igb of QEMU, and one of Intel's that is passed on to a guest of QEMU.
        let igb = (INTEL, 0x10c9);
        assert_eq!(card_maker(&on_pci(igb, (RED_HAT, 0x1100))), Some("QEMU"));
        assert_eq!(card_maker(&on_pci(igb, (INTEL, 0xa03c))), None);
        let e1000e = on_pci((INTEL, E1000E), (INTEL, 0));
        assert_eq!(card_maker(&e1000e), Some("QEMU"));
        let of_metal = CardEvidence {
            of_qemu: false,
            ..e1000e
        };
        assert_eq!(card_maker(&of_metal), None);
        let vmxnet3 = on_pci((VMWARE, 0x07b0), (VMWARE, 0x07b0));
        assert_eq!(card_maker(&vmxnet3), Some("VMware"));
    }

    #[test]
    fn a_card_without_a_bus_of_hardware_is_a_hypervisors() {
        let virtio = CardEvidence {
            bus: "virtio".into(),
            ..CardEvidence::default()
        };
        assert_eq!(card_maker(&virtio), Some("virtio"));
        let usb = CardEvidence {
            bus: "usb".into(),
            ..CardEvidence::default()
        };
        assert_eq!(card_maker(&usb), None);
    }
}
