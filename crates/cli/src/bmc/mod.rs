//! `latlab host`: a machine by its management controller.

mod beside;
mod boot;
mod boot_device;
mod console;
mod file;
mod power;
mod sensors;
mod session;
mod this_machine;
mod verbs;

pub use beside::{Beside, Machines};
pub use verbs::run;
