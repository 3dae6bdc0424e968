//! Two ports without a monitor, for the fuzz targets: what one guest sends, the other receives.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::doorbell::Doorbell;
use super::features::Features;
use super::shared::{Pair, Ring, Shared};
use super::{Receiver, Sender};
use crate::endpoints::{Counters, PortId};
use crate::rings::{Queue, Slot};

/// A port whose only rings are these; none where a feature was not offered.
fn port(number: u16, queue: Queue, index: usize, features: u64) -> io::Result<Option<Arc<Shared>>> {
    let Some(features) = Features::new(features) else {
        return Ok(None);
    };
    let (to_guest, from_guest) = (Slot::default(), Slot::default());
    [&to_guest, &from_guest][index].start(Box::new(Ring {
        index,
        queue,
        features,
        enabled: true,
        call: None,
        error: None,
        log: None,
        fault: None,
    }));
    let pair = Pair {
        to_guest,
        from_guest,
        doorbell: Doorbell::new()?,
    };
    let counters = Arc::new(Counters::default());
    let port = Shared::new(PortId(number), counters, vec![pair], 1500);
    port.enabled_pairs.store(1, Relaxed);
    Ok(Some(Arc::new(port)))
}

/// Joins the ring that one guest sends through with the ring that another receives from.
///
/// # Errors
///
/// No more file descriptors.
pub fn joined(
    from: (Queue, u64),
    to: (Queue, u64),
    cut_through: bool,
) -> io::Result<Option<(Receiver, Sender)>> {
    let (Some(from), Some(to)) = (port(0, from.0, 1, from.1)?, port(1, to.0, 0, to.1)?) else {
        return Ok(None);
    };
    from.set_cut_through(cut_through);
    Ok(Some((Receiver::new(from, 0), Sender::new(to, 0))))
}
