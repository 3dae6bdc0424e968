//! The configuration of an image: environment, command, user.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ImageConfig {
    /// `NAME=value`.
    #[serde(deserialize_with = "null_is_default")]
    pub env: Vec<String>,
    /// The program the image is made for, with its first arguments.
    #[serde(deserialize_with = "null_is_default")]
    pub entrypoint: Vec<String>,
    /// Further arguments, or the command where there is no entry point.
    #[serde(deserialize_with = "null_is_default")]
    pub cmd: Vec<String>,
    /// Where commands start; empty means `/`.
    #[serde(deserialize_with = "null_is_default")]
    pub working_dir: String,
    /// User (and group) commands are meant to run as. Recorded, not applied: nodes run as root.
    #[serde(deserialize_with = "null_is_default")]
    pub user: String,
}

/// Go's encoder writes `null` for an empty list.
fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
