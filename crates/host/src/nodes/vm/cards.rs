//! The network cards of a guest that runs, for another QEMU that is to go on with them.
//!
//! A tap vanishes with its last descriptor, so what replaces a QEMU takes copies of its descriptors before it ends.
//! Packets that come meanwhile wait in the tap.

use std::os::fd::OwnedFd;

use latlab_model::kinds::{NetBackend, VmNet};
use rustix::process::{PidfdGetfdFlags, pidfd_getfd};

use super::error::Error;
use super::guest::Vm;
use super::qemu::FIRST_FD;
use crate::links::NicBackend;
use crate::sys;

/// The backends with the taps that `vm` has; `like` says which cards have taps.
pub(super) fn taken_from(
    vm: &Vm,
    shape: &VmNet,
    like: &[NicBackend],
) -> Result<Vec<NicBackend>, Error> {
    let failed = |errno| sys::Error::of("take the network cards of", vm.name())(errno);
    vm.health().map_err(|_| Error::CardsGone)?;
    let mut next = FIRST_FD;
    let mut take = |backend: &NicBackend| -> Result<NicBackend, Error> {
        match backend {
            NicBackend::Tap(_) => {}
            NicBackend::VhostUser(socket) => return Ok(NicBackend::VhostUser(socket.clone())),
            NicBackend::Card(card) => return Ok(NicBackend::Card(card.clone())),
        }
        let queues = i32::from(shape.queues.max(1));
        let numbers = next..next + queues;
        // Descriptors of vhost follow those of the card's taps.
        let kinds = 1 + i32::from(shape.backend == NetBackend::Vhost);
        next += kinds * queues;
        let tap = |number| pidfd_getfd(&vm.process, number, PidfdGetfdFlags::empty());
        let taps = numbers.map(|number| tap(number).map_err(failed));
        let taps: Vec<OwnedFd> = taps.collect::<Result<_, _>>()?;
        Ok(NicBackend::Tap(taps))
    };
    like.iter().map(&mut take).collect()
}
