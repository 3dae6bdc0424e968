//! `net:` of a VM: who moves its packets, and what its network cards have to offer.

use super::reader::{FromYaml, Object, read_words};
use crate::diagnostic::{Diagnostics, Spanned};
use crate::kinds::{NetBackend, VmNet};

read_words!(NetBackend, "a backend of a VM's network card", "auto");

/// The overlay's daemon takes as many.
const MAX_QUEUES: u16 = 64;
/// QEMU's `VIRTIO_NET_RX_QUEUE_MIN_SIZE` and `VIRTQUEUE_MAX_SIZE`.
const RINGS: [u16; 3] = [256, 512, 1024];

/// A number of descriptors.
struct Ring(u16);

impl FromYaml for Ring {
    const EXPECTED: &'static str = "a number of descriptors";
    const EXAMPLE: &'static str = "`1024`";
    fn from_text(text: &str) -> Option<Self> {
        let number = text.parse().ok()?;
        RINGS.contains(&number).then_some(Ring(number))
    }
    fn hint(_: &str) -> String {
        "256, 512 or 1024".into()
    }
}

/// A number of pairs of queues.
struct Queues(u16);

impl FromYaml for Queues {
    const EXPECTED: &'static str = "a number of queues";
    const EXAMPLE: &'static str = "`4`";
    fn from_text(text: &str) -> Option<Self> {
        let number = text.parse().ok()?;
        (1..=MAX_QUEUES).contains(&number).then_some(Queues(number))
    }
    fn hint(_: &str) -> String {
        format!("from 1 to {MAX_QUEUES}; no more than the node has `cpus`")
    }
}

/// Reads `net:` of `o`, with the mark of the whole.
pub(super) fn read(o: &mut Object<'_>, errors: &mut Diagnostics) -> Option<Spanned<VmNet>> {
    let mut own = o.object("net", errors)?;
    let at = own.at;
    let plain = VmNet::default();
    let backend = own.value("backend", errors);
    let packed = own
        .get::<bool>("packed", errors)
        .filter(|packed| packed.value);
    let net = VmNet {
        backend: backend.unwrap_or(plain.backend),
        queues: own
            .value("queues", errors)
            .map_or(plain.queues, |Queues(number)| number),
        ring: own
            .value("ring", errors)
            .map_or(plain.ring, |Ring(number)| number),
        packed: packed.is_some(),
        offloads: own.value("offloads", errors).unwrap_or(plain.offloads),
    };
    // Linux's vhost-net does not offer VIRTIO_F_RING_PACKED, and QEMU leaves it out without a word.
    let packed = packed.filter(|_| net.backend != NetBackend::Qemu);
    if let Some(packed) = packed {
        let message = format!("{}: `packed` with `backend: {}`", own.what, net.backend);
        errors.add(
            packed.at,
            message,
            "write `backend: qemu`: vhost-net has no packed rings",
        );
    }
    own.finish(errors);
    Some(Spanned::new(net, at))
}
