//! The owners of tuned items: the user, and labs.

use std::collections::BTreeMap;

use latlab_model::units::CpuList;
use serde::{Deserialize, Serialize};

/// The owner of `tune apply`.
pub const USER: &str = "user";

pub fn lab_owner(lab: &str) -> String {
    format!("lab {lab}")
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    pub name: String,
    /// All CPUs of the machine.
    pub online: CpuList,
    /// The CPUs that this owner keeps quiet.
    pub isolated: CpuList,
    /// Wanted values by knob, as a profile writes them.
    pub knobs: BTreeMap<String, String>,
}

impl Owner {
    pub(super) fn isolates(&self) -> bool {
        !self.isolated.is_empty()
    }
}
