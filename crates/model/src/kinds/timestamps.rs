//! Sources of timestamps.

use serde::{Deserialize, Serialize};

use crate::words::vocabulary;

/// The source of the times of packets: of a measurement, and on a link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Timestamps {
    /// The programs at both ends.
    #[default]
    Program,
    /// The cards of both ends, by their own clocks.
    Hardware,
}
vocabulary!(Timestamps, { "program" => Program, "hardware" => Hardware });

impl Timestamps {
    pub fn is_hardware(self) -> bool {
        self == Timestamps::Hardware
    }
}
