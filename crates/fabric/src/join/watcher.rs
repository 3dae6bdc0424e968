//! The thread that watches the store.

use std::sync::mpsc::Sender;
use std::time::Duration;

use super::event::Input;
use crate::etcd::{Client, Stopped};

/// Pause before a watch that failed is made again, so that a cluster that is starting is not flooded.
const PAUSE: Duration = Duration::from_millis(200);

/// Passes on all changes after `revision`, until nothing takes them.
pub(super) fn watch(client: &Client, prefix: &str, mut revision: u64, inputs: &Sender<Input>) {
    loop {
        let stopped = client.watch(prefix, revision, &mut |batch| {
            revision = batch.revision;
            inputs.send(Input::Changed(batch)).is_ok()
        });
        match stopped {
            Stopped::Silent => {}
            Stopped::Compacted => match client.list(prefix) {
                Ok((all, listed)) => {
                    revision = listed;
                    if inputs.send(Input::Listed(all, listed)).is_err() {
                        return;
                    }
                }
                Err(_) => std::thread::sleep(PAUSE),
            },
            // The lease's thread tells when no member answers; of one that does not, the next watch goes to another.
            Stopped::Failed(_) => std::thread::sleep(PAUSE),
            Stopped::Wanted => return,
        }
    }
}
