//! A watch: all changes below a prefix, in order, none left out.

use std::io::{BufRead, BufReader};
use std::time::Duration;

use super::client::{Client, Error, unreachable};
use super::messages::{KeyValue, Range, Watch, WatchFrom, Watched};

/// A connection that a partition has swallowed looks like one on which nothing happens. A watch that was silent for this
/// time is made again, with another member if this one does not answer.
const MAX_SILENCE: Duration = Duration::from_secs(5);

/// A change of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    Put(KeyValue),
    /// The key that was deleted, or whose lease is over.
    Delete {
        key: String,
    },
}

/// Changes that the store made, up to a revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    pub changes: Vec<Change>,
    pub revision: u64,
}

/// Why a watch has ended.
#[derive(Debug)]
pub enum Stopped {
    /// Nothing happened for a while: it is to be made again.
    Silent,
    /// The store has forgotten the revisions that were asked for: everything is to be listed again.
    Compacted,
    Failed(Error),
    /// `on_batch` said so.
    Wanted,
}

impl Client {
    /// Tells of all changes below a prefix after a revision, until the watch ends or `on_batch` returns false.
    pub fn watch(
        &self,
        prefix: &str,
        after: u64,
        on_batch: &mut dyn FnMut(Batch) -> bool,
    ) -> Stopped {
        let endpoint = self.endpoint().to_owned();
        let question = Watch {
            create_request: WatchFrom {
                range: Range::prefix(prefix),
                start_revision: (after + 1).to_string(),
            },
        };
        let body = match self.send(&endpoint, "watch", &question, MAX_SILENCE) {
            Ok(body) => body,
            Err(error) => {
                self.leave(&endpoint);
                return Stopped::Failed(error);
            }
        };
        let mut lines = BufReader::new(body.into_reader());
        loop {
            let mut line = String::new();
            let reason = match lines.read_line(&mut line) {
                Ok(0) => "the connection was closed".to_string(),
                Ok(_) => match self.take(&endpoint, &line, on_batch) {
                    None => continue,
                    Some(stopped) => return stopped,
                },
                Err(error) if is_timeout(&error) => return Stopped::Silent,
                Err(error) => error.to_string(),
            };
            self.leave(&endpoint);
            return Stopped::Failed(unreachable(&endpoint, reason));
        }
    }

    /// One line of a watch; the reason if it was the last.
    fn take(
        &self,
        endpoint: &str,
        line: &str,
        on_batch: &mut dyn FnMut(Batch) -> bool,
    ) -> Option<Stopped> {
        let failed = |reason: String| Some(Stopped::Failed(unreachable(endpoint, reason)));
        let watched: Watched = match serde_json::from_str(line) {
            Ok(watched) => watched,
            Err(error) => return failed(format!("its answer is none of etcd's: {error}")),
        };
        if let Some(refusal) = watched.error {
            self.leave(endpoint);
            return failed(refusal.message);
        }
        let result = watched.result.unwrap_or_default();
        if result.compact_revision > 0 {
            return Some(Stopped::Compacted);
        }
        if result.canceled {
            self.leave(endpoint);
            return failed(format!("it ended the watch: {}", result.cancel_reason));
        }
        // The first line says only that the watch is there.
        if result.events.is_empty() {
            return None;
        }
        let revision = result.events.iter().map(|event| event.kv.revision).max();
        let changes = result.events.into_iter().map(|event| match &*event.kind {
            "DELETE" => Change::Delete { key: event.kv.key },
            _ => Change::Put(event.kv),
        });
        let batch = Batch {
            changes: changes.collect(),
            revision: revision.unwrap_or(result.header.revision),
        };
        (!on_batch(batch)).then_some(Stopped::Wanted)
    }
}

/// ureq wraps its timeouts.
fn is_timeout(error: &std::io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    matches!(inner, Some(ureq::Error::Timeout(_)))
        || matches!(
            error.kind(),
            std::io::ErrorKind::TimedOut | std::io::ErrorKind::WouldBlock
        )
}
