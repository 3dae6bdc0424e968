//! Attribution on synthetic machines with known truth.

mod causes;
mod faults;
mod interrupts;
mod scenes;
mod unknown;

pub(super) use scenes::event;
