//! The accelerators of QEMU that guests run under.

use latlab_model::kinds::Acceleration;
use serde::{Deserialize, Serialize};

pub const PROGRAM: &str = "qemu-system-x86_64";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accelerator {
    Kvm,
    Tcg,
}

impl Accelerator {
    /// The plan's choice; emulation, where it left that open.
    pub fn of(planned: Acceleration) -> Self {
        match planned {
            Acceleration::Kvm => Self::Kvm,
            Acceleration::Auto | Acceleration::Tcg => Self::Tcg,
        }
    }

    pub fn qemu_name(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
        }
    }

    /// The CPU the guest sees: the host's, or all that the emulator knows.
    pub fn cpu_model(self) -> &'static str {
        match self {
            Self::Kvm => "host",
            Self::Tcg => "max",
        }
    }
}
