//! Nodes whose connections are streams and that are saved, restored or moved: CRIU knows plain connections alone, and a
//! filter is restored without its listener.

use super::deployed::Lab;
use super::error::Error;
use crate::streams::Client;

/// A node whose connections are plain. They may be streams again when this ends, unless it stays so.
pub(super) struct Plain {
    client: Client,
    node: String,
    stays: bool,
}

impl Plain {
    /// Has connections of the node be plain until the lab is deployed anew.
    pub(super) fn stay(mut self) {
        self.stays = true;
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        if !self.stays {
            // A supervisor that has ended leaves them plain.
            let _ = self.client.exclude(&self.node, false);
        }
    }
}

impl Lab {
    /// Has new connections of a node be plain; `None` for a node without streams.
    pub(super) fn exclude_streams(&self, node: &str) -> Result<Option<Plain>, Error> {
        let (_, plan) = self.node(node)?;
        if !self.plan().has_streams(plan) {
            return Ok(None);
        }
        let client = self.streams()?;
        let stays = client.exclude(node, true)?;
        Ok(Some(Plain {
            client,
            node: node.to_owned(),
            stays,
        }))
    }

    /// As [`exclude_streams`](Self::exclude_streams), and its streams become plain connections. Fails with the reason
    /// where one cannot.
    pub(super) fn make_plain(&self, node: &str) -> Result<Option<Plain>, Error> {
        let Some(plain) = self.exclude_streams(node)? else {
            return Ok(None);
        };
        let demoted = plain.client.demote(Some(node), &[])?;
        match demoted.kept.into_iter().next() {
            None => Ok(Some(plain)),
            Some((reason, count)) => Err(Error::StreamsStay {
                node: node.to_owned(),
                count,
                reason,
            }),
        }
    }
}
