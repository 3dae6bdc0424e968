//! The ports and cables that the machine's file names, as they are on the machine.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wiring {
    /// The file that names them.
    pub file: String,
    pub ports: Vec<WiredPort>,
    /// Names of the two ports that each joins.
    pub cables: Vec<[String; 2]>,
}

/// A port under its own name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WiredPort {
    pub name: String,
    /// Its interface; none where nothing of it is here now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pci: Option<String>,
    /// Why it cannot be given to nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    pub message: String,
    pub hint: String,
}

impl Wiring {
    /// The place of the machine's file where nothing else is said.
    pub const FILE: &str = "/etc/latlab/machine.yaml";

    pub fn port(&self, name: &str) -> Option<&WiredPort> {
        self.ports.iter().find(|port| port.name == name)
    }
}
