//! A guest's network card: its server, and its words on QEMU's command line.

use std::fs::{OpenOptions, Permissions};
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use latlab_model::kinds::VmNet;

use super::accelerator::Accelerator;
use super::command_line::Line;
use super::error::Error;
use crate::links::Card;

/// QEMU's limit of transmit rings that its own process or the host's kernel serves
/// (`virtio_net_max_tx_queue_size`).
const TAP_MAX_TRANSMIT_RING: u16 = 256;

/// Features of the card and of the guest's driver (virtio 1.2, 5.1.3).
const OFFLOADS: [&str; 11] = [
    "csum",
    "gso",
    "host_tso4",
    "host_tso6",
    "host_ecn",
    "host_ufo",
    "guest_csum",
    "guest_tso4",
    "guest_tso6",
    "guest_ecn",
    "guest_ufo",
];

/// A network card of the guest.
#[derive(Debug, Clone)]
pub struct Nic<'a> {
    /// Its hardware address.
    pub mac: [u8; 6],
    pub shape: VmNet,
    pub served: Served<'a>,
}

/// The process that moves a card's packets.
#[derive(Debug, Clone)]
pub enum Served<'a> {
    /// QEMU itself, or the host's kernel for it.
    Taps {
        /// Open taps, one a queue.
        queues: Vec<BorrowedFd<'a>>,
        /// Open `/dev/vhost-net`, one a queue: the host's kernel moves packets. None: QEMU does.
        vhost: Vec<BorrowedFd<'a>>,
    },
    /// Another process, which maps the guest's memory and is reached at this socket.
    VhostUser(&'a Path),
    /// The guest's own driver: the card is hardware that VFIO gives to it.
    Hardware(&'a Card),
}

impl Nic<'_> {
    /// Lets QEMU, which is not root, connect to the socket of the card's server. The directories above keep other
    /// users away.
    pub(super) fn open_to_qemu(&self) -> Result<(), Error> {
        let Served::VhostUser(socket) = &self.served else {
            return Ok(());
        };
        let opened = std::fs::set_permissions(socket, Permissions::from_mode(0o666));
        opened.map_err(Error::io("open to QEMU", socket))
    }

    /// Descriptors that QEMU inherits for it: taps, then the devices of vhost.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let (queues, vhost): (&[_], &[_]) = match &self.served {
            Served::Taps { queues, vhost } => (queues, vhost),
            Served::VhostUser(_) | Served::Hardware(_) => (&[], &[]),
        };
        queues.iter().chain(vhost).copied()
    }

    /// Describes the card, whose descriptors begin at this number. Returns the next free number.
    pub(super) fn describe(
        &self,
        line: &mut Line,
        index: usize,
        first_fd: RawFd,
        accelerator: Accelerator,
    ) -> RawFd {
        let next = match &self.served {
            Served::Taps { queues, vhost } => {
                let (fds, after) = numbers(first_fd, queues.len());
                let (vhost_fds, next) = numbers(after, vhost.len());
                let mut netdev = format!("tap,id=net{index},fds={fds}");
                if !vhost.is_empty() {
                    netdev.push_str(&format!(",vhost=on,vhostfds={vhost_fds}"));
                }
                line.option("-netdev", netdev);
                next
            }
            Served::VhostUser(socket) => {
                // The server of the rings may be restarted: QEMU connects again, every second.
                let path =
                    Path::new(&directory(index)).join(socket.file_name().unwrap_or_default());
                let start = format!("socket,id=net{index},reconnect=1,path=");
                line.path("-chardev", &start, &path);
                let queues = self.shape.queues;
                let netdev = format!("vhost-user,id=net{index},chardev=net{index},queues={queues}");
                line.option("-netdev", netdev);
                first_fd
            }
            Served::Hardware(card) => {
                // Without its option ROM, from which no guest boots.
                let device = format!("vfio-pci,host={},rombar=0", card.address);
                line.option("-device", device);
                return first_fd;
            }
        };
        line.option("-device", self.device(index, accelerator));
        next
    }

    fn device(&self, index: usize, accelerator: Accelerator) -> String {
        let mac = self.mac.map(|byte| format!("{byte:02x}")).join(":");
        // No option ROM: no guest boots from this card, and loading it costs time.
        let mut device = format!("virtio-net-pci,netdev=net{index},mac={mac},romfile=");
        let is_vhost_user = matches!(self.served, Served::VhostUser(_));
        let VmNet {
            queues,
            ring,
            packed,
            offloads,
            ..
        } = self.shape;
        if queues > 1 {
            device.push_str(",mq=on");
        }
        if is_vhost_user && accelerator == Accelerator::Tcg {
            // QEMU takes it that message-signalled interrupts of such a card go through KVM
            // (kvm_virtio_pci_irqfd_use without vector_irqfd), and crashes where there is none.
            device.push_str(",vectors=0");
        } else if queues > 1 {
            // Two interrupt vectors a queue, one for configuration, one for control.
            device.push_str(&format!(",vectors={}", 2 * queues + 2));
        }
        if ring != VmNet::default().ring {
            let transmit = if is_vhost_user {
                ring
            } else {
                ring.min(TAP_MAX_TRANSMIT_RING)
            };
            device.push_str(&format!(",rx_queue_size={ring},tx_queue_size={transmit}"));
        }
        if packed && !is_vhost_user {
            device.push_str(",packed=on");
        }
        if !offloads {
            OFFLOADS
                .iter()
                .for_each(|feature| device.push_str(&format!(",{feature}=off")));
        }
        device
    }
}

/// Opens the device by which the host's kernel serves one pair of queues.
///
/// # Errors
/// The device is missing, or its module cannot be loaded.
pub fn open_vhost() -> Result<OwnedFd, Error> {
    const DEVICE: &str = "/dev/vhost-net";
    let opened = OpenOptions::new().read(true).write(true).open(DEVICE);
    let opened = opened.map_err(Error::io("open", Path::new(DEVICE)))?;
    Ok(opened.into())
}

/// The directory of a card's socket in QEMU's place. Who serves it may be restarted, and makes a new socket then.
pub(super) fn directory(index: usize) -> String {
    format!("/cards/{index}")
}

/// `count` numbers from the first on, as QEMU lists them, and the next.
fn numbers(first: RawFd, count: usize) -> (String, RawFd) {
    let next = first + count as RawFd;
    let words: Vec<String> = (first..next).map(|fd| fd.to_string()).collect();
    (words.join(":"), next)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use latlab_model::kinds::NetBackend;

    use super::*;

    fn text(nic: &Nic<'_>, accelerator: Accelerator) -> String {
        let mut line = Line::default();
        nic.describe(&mut line, 1, 19, accelerator);
        let words: Vec<_> = line.0.iter().map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    }

    #[test]
    fn every_descriptor_is_inherited_once_and_named_by_its_number() {
        let null = File::open("/dev/null").unwrap();
        let tap = null.as_fd();
        let mut nic = Nic {
            mac: [2, 0, 0, 0, 0, 0xa],
            shape: VmNet::default(),
            served: Served::Taps {
                queues: vec![tap],
                vhost: Vec::new(),
            },
        };
        assert_eq!(nic.descriptors().count(), 1);
        let line = text(&nic, Accelerator::Tcg);
        let expected = "-netdev tap,id=net1,fds=19 \
                        -device virtio-net-pci,netdev=net1,mac=02:00:00:00:00:0a,romfile=";
        assert_eq!(line, expected);
        nic.served = Served::Taps {
            queues: vec![tap, tap],
            vhost: vec![tap, tap],
        };
        nic.shape.queues = 2;
        assert_eq!(nic.descriptors().count(), 4);
        let line = text(&nic, Accelerator::Tcg);
        assert!(
            line.contains("tap,id=net1,fds=19:20,vhost=on,vhostfds=21:22 "),
            "{line}"
        );
        assert!(line.ends_with("romfile=,mq=on,vectors=6"), "{line}");
        let mut words = Line::default();
        assert_eq!(nic.describe(&mut words, 1, 19, Accelerator::Kvm), 23);
    }

    #[test]
    fn a_card_of_hardware_has_neither_rings_nor_descriptors() {
        let card = Card {
            address: "0000:03:10.0".into(),
            group: 12,
            own_mac: None,
        };
        let nic = Nic {
            mac: [2; 6],
            shape: VmNet::default(),
            served: Served::Hardware(&card),
        };
        assert_eq!(nic.descriptors().count(), 0);
        let line = text(&nic, Accelerator::Tcg);
        assert_eq!(line, "-device vfio-pci,host=0000:03:10.0,rombar=0");
    }

    #[test]
    fn rings_and_offloads_are_told_where_they_differ_from_qemus() {
        let shape = VmNet {
            backend: NetBackend::Qemu,
            queues: 1,
            ring: 1024,
            packed: true,
            offloads: false,
        };
        let served = Served::Taps {
            queues: Vec::new(),
            vhost: Vec::new(),
        };
        let mut nic = Nic {
            mac: [2; 6],
            shape,
            served,
        };
        let line = text(&nic, Accelerator::Kvm);
        let rings = ",rx_queue_size=1024,tx_queue_size=256,packed=on,csum=off,gso=off,";
        assert!(line.contains(rings), "{line}");
        assert!(line.ends_with(",guest_ufo=off"), "{line}");
        nic.served = Served::VhostUser(Path::new("/run/x/socket"));
        nic.shape.queues = 4;
        let line = text(&nic, Accelerator::Tcg);
        assert!(line.contains("queues=4 "), "{line}");
        assert!(
            line.contains(",mq=on,vectors=0,rx_queue_size=1024,tx_queue_size=1024"),
            "{line}"
        );
        assert!(!line.contains("packed"), "{line}");
    }
}
