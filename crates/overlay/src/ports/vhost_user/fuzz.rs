//! Ports without a VMM, for fuzz targets and tests: one guest's frames go to the other.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use latlab_model::overlay::Switches;

use super::features::Features;
use super::receiver::Receiver;
use super::sender::Sender;
use super::shared::{Ring, Shared};
use crate::endpoints::PortId;
use crate::rings::Queue;

fn ring(queue: Queue, index: usize, features: Features) -> Box<Ring> {
    Box::new(Ring {
        index,
        queue,
        features,
        enabled: true,
        call: None,
        error: None,
        log: None,
        cramped: 0,
        fault: None,
    })
}

fn port(number: u16, pairs: usize) -> io::Result<Arc<Shared>> {
    Shared::new(PortId(number), Arc::default(), pairs, 1500).map(Arc::new)
}

/// The sending half to a guest with these rings, of which `enabled` pairs are enabled; none with a feature that was not
/// offered.
#[must_use]
pub fn receives(queues: Vec<Queue>, enabled: u16, features: u64) -> Option<Sender> {
    let port = port(1, queues.len()).ok()?;
    let features = Features::new(features)?;
    for (index, queue) in queues.into_iter().enumerate() {
        let ring = ring(queue, 2 * index, features);
        port.pairs[index].to_guest.start(ring);
    }
    port.enabled_pairs.store(enabled, Relaxed);
    Some(Sender::new(port))
}

pub fn joined(
    from: (Queue, u64),
    to: (Queue, u64),
    cut_through: bool,
) -> io::Result<Option<(Receiver, Sender)>> {
    let Some(features) = Features::new(from.1) else {
        return Ok(None);
    };
    let sends = port(0, 1)?;
    sends.pairs[0].from_guest.start(ring(from.0, 1, features));
    sends.set(Switches {
        cut_through,
        ..Switches::default()
    });
    let sender = receives(vec![to.0], 1, to.1);
    Ok(sender.map(|sender| (Receiver::new(sends, 0), sender)))
}
