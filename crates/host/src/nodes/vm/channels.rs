//! Channels into the guests of a lab, opened when first needed and shared by all sessions.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use super::channel::Channel;
use super::guest::Vm;
use crate::nodes::session::Error;
use crate::sync;
use crate::sys::process::ProcessId;

/// A guest that is up answers at once, unless its CPUs are taken.
const TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Default)]
pub(crate) struct Channels(Mutex<BTreeMap<String, Channel>>);

impl Channels {
    pub fn insert(&self, node: &str, channel: Channel) {
        sync::lock(&self.0).insert(node.to_owned(), channel);
    }

    /// The channel into a guest, if it is open.
    pub fn known(&self, node: &str) -> Option<Channel> {
        sync::lock(&self.0).get(node).cloned()
    }

    /// The channel into a guest that is up, by its name, directory and process.
    pub fn open(&self, node: &str, dir: &Path, process: ProcessId) -> Result<Channel, Error> {
        let mut channels = sync::lock(&self.0);
        if let Some(channel) = channels.get(node) {
            return Ok(channel.clone());
        }
        let channel = Vm::attach(node, dir, process)?.channel(TIMEOUT)?;
        channels.insert(node.to_owned(), channel.clone());
        Ok(channel)
    }
}
