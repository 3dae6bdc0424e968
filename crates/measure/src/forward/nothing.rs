//! A device that let nothing through. The counters of its interfaces say where the packets stayed.

use std::time::Duration;

use latlab_host::nodes::session::Command;

use super::timed::Timed;
use crate::context::Context;
use crate::endpoint;
use crate::error::Error;

const TIMEOUT: Duration = Duration::from_secs(5);

pub fn refuse(context: &Context<'_>, timed: &Timed) -> Result<(), Error> {
    let through = context.measurement.through.iter();
    let mut hops = timed.hops().zip(through);
    let blocked = hops.find(|((_, _, counters), _)| counters.entered > 0 && counters.left == 0);
    match blocked {
        None => Ok(()),
        Some(((_, _, counters), device)) => Err(Error::NothingThrough {
            device: device.value.clone(),
            sent: counters.entered,
            interfaces: interfaces(context, &device.value),
        }),
    }
}

fn interfaces(context: &Context<'_>, node: &str) -> String {
    let unknown = |why: String| format!("its interfaces could not be asked ({why})");
    let argv = ["cat", "/proc/net/dev"].map(str::to_string).to_vec();
    let mut session = match context.lab.start(node, &Command::new(argv)) {
        Ok(session) => session,
        Err(error) => return unknown(error.to_string()),
    };
    match endpoint::output(&mut *session, TIMEOUT) {
        Some(text) => counts(&text),
        None => unknown("no answer from the node".into()),
    }
}

/// From the text of `/proc/net/dev` (proc_net(5)): packets, errors and drops, in and out.
fn counts(text: &str) -> String {
    let one = |line: &str| {
        let (name, numbers) = line.split_once(':')?;
        let name = name.trim();
        let numbers: Vec<u64> = numbers
            .split_whitespace()
            .map_while(|n| n.parse().ok())
            .collect();
        // Eight fields for received and eight for sent: bytes, packets, errors, drops...
        let (received, sent) = numbers.split_at_checked(8)?;
        let [_, packets_in, errors_in, drops_in, ..] = received else {
            return None;
        };
        let [_, packets_out, errors_out, drops_out, ..] = sent else {
            return None;
        };
        (name != "lo").then(|| {
            format!(
                "{name} in {packets_in} ({errors_in} errors, {drops_in} dropped), out {packets_out} \
                 ({errors_out} errors, {drops_out} dropped)"
            )
        })
    };
    let all: Vec<String> = text.lines().filter_map(one).collect();
    if all.is_empty() {
        "it has no interfaces".into()
    } else {
        format!("its interfaces counted: {}", all.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_read_and_loopback_is_not() {
        let text = "Inter-|   Receive                                                |  Transmit\n \
                    face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n    \
                    lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n  \
                    eth0: 9000 30 1 2 0 0 0 0 420 7 3 4 0 0 0 0\n";
        assert_eq!(
            counts(text),
            "its interfaces counted: eth0 in 30 (1 errors, 2 dropped), out 7 (3 errors, 4 dropped)"
        );
        assert_eq!(counts(""), "it has no interfaces");
        assert_eq!(counts("eth0: 1 2 3\n"), "it has no interfaces");
    }
}
