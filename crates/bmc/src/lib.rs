//! Out-of-band management: what a machine's baseboard management controller (BMC) does for it, whether its system runs
//! or not. The controller is asked by IPMI 2.0, through ipmitool(1), or by Redfish (DMTF DSP0266).

mod choose;
mod controller;
mod error;
mod identity;
mod ipmi;
mod redfish;
mod secret;
mod tool;
mod wait;

pub use choose::controller;
pub use controller::{BootDevice, Controller, Power, Sensor, Switch};
pub use error::Error;
pub use identity::{is_this_machine, same_uuid};
pub use wait::switch_and_wait;
