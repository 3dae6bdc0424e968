//! The command channel of a node on a host: the agent there serves it over ssh, as it does in a guest over a virtio port.

use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use latlab_host::nodes::vm::channel::Channel;
use latlab_measure::nodes::NotStarted;

use crate::hosts::record::Host;
use crate::hosts::remote::Answer;

/// A connection of ssh, and a node whose CPUs are taken.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The agent ends at once when its client is gone.
const END_TIMEOUT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(5);

pub struct Attached {
    pub channel: Channel,
    stream: UnixStream,
    child: Child,
}

impl Attached {
    /// Connects, and waits until the node's agent answers. Errors: what ssh or latlab there said.
    pub fn open(host: &Host, lab: &str, node: &str) -> Result<Attached, NotStarted> {
        let (ours, theirs) = UnixStream::pair()?;
        let output: OwnedFd = theirs.try_clone()?.into();
        let mut command = host.attached(&["part", "attach", lab, node], false);
        command
            .stdin(OwnedFd::from(theirs))
            .stdout(output)
            .stderr(Stdio::piped());
        let child = command.spawn()?;
        // The child's ends of the socket, or its end would not be seen.
        drop(command);
        match Channel::on_stream(ours.try_clone()?, TIMEOUT) {
            Ok(channel) => Ok(Attached {
                channel,
                stream: ours,
                child,
            }),
            Err(error) => {
                ours.shutdown(Shutdown::Both).ok();
                let answer = Answer::of(child.wait_with_output());
                let reason = match answer.errors.is_empty() {
                    true => error.to_string(),
                    false => answer.reason(),
                };
                Err(format!("host `{}`: {reason}", host.name).into())
            }
        }
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.stream.shutdown(Shutdown::Both).ok();
        let end = Instant::now() + END_TIMEOUT;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > end {
                self.child.kill().ok();
                self.child.wait().ok();
                return;
            }
            std::thread::sleep(POLL);
        }
    }
}
