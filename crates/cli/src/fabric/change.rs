//! `latlab fabric move` and `latlab fabric remove`.

use std::io::{self, Read};
use std::process::ExitCode;

use latlab_fabric::change::{self, Moved, Reason, Removed};
use latlab_fabric::etcd::Client;
use latlab_fabric::keys::Keys;
use latlab_host::sys::random;

use super::store::{of_store, open};
use crate::args::{FabricMove, FabricRemove};
use crate::failure::{Failure, Outcome};

pub fn relocate(args: &FabricMove) -> Outcome {
    let mut input = String::new();
    if args.addresses.iter().any(|word| word == "-") {
        io::stdin().read_to_string(&mut input)?;
    }
    let addresses = args.read(&input).map_err(|message| {
        Failure::new(
            message,
            "write addresses of guests as 52:54:00:00:00:01; nothing was moved",
        )
    })?;
    let (client, keys) = open(&args.store)?;
    let network = match &args.network {
        Some(network) => network.clone(),
        None => only_network(&client, &keys)?,
    };
    let places = (args.from.as_ref(), &args.to);
    let id = random::hex::<16>();
    let moved = change::move_addresses(&client, &keys, (&network, &addresses), places, &id);
    match moved.map_err(of_store)? {
        Moved::Done { revision } => {
            println!(
                "moved {} to {}, revision {revision}",
                count(addresses.len()),
                args.to
            );
            Ok(ExitCode::SUCCESS)
        }
        Moved::Refused { done, reason } => {
            let so_far = match done {
                0 => "nothing was moved".to_string(),
                done => format!("the first {done} of {} were moved", addresses.len()),
            };
            Err(refusal(&reason, &network, &args.to.host).and_hint(so_far))
        }
    }
}

fn refusal(reason: &Reason, network: &str, host: &str) -> Failure {
    let (message, hint) = match reason {
        Reason::NoNetwork => (
            format!("the fabric has no network `{network}`"),
            "`latlab fabric show` lists the networks",
        ),
        Reason::NoHost => (
            format!("the fabric has no host `{host}`"),
            "`latlab fabric show` lists the hosts",
        ),
        Reason::Away => (
            format!("host `{host}` is away: frames for the addresses would be lost"),
            "start `latlab fabric join` there",
        ),
        Reason::Daemon(reason) => (
            format!("the daemon of host `{host}` does not take them: {reason}"),
            "`latlab overlay … list interfaces` there shows its interfaces",
        ),
        Reason::Silent => (
            format!("host `{host}` does not answer"),
            "its agent or its daemon hangs, or etcd is away; look at what `latlab fabric join` prints there",
        ),
        Reason::Elsewhere { address, place } => {
            let place = place.as_ref();
            let place = place.map_or("at no place".into(), |place| format!("at {place}"));
            (
                format!("{address} is {place}"),
                "it has moved meanwhile; without --from it moves from wherever it is",
            )
        }
    };
    Failure::new(message, hint)
}

fn only_network(client: &Client, keys: &Keys) -> Result<String, Failure> {
    let names = change::networks(client, keys).map_err(of_store)?;
    match names.as_slice() {
        [only] => Ok(only.clone()),
        [] => Err(Failure::new(
            "the fabric has no network",
            "`latlab fabric join … --network NAME=VNI` gives it one",
        )),
        several => Err(Failure::new(
            format!("the fabric has {} networks", several.len()),
            format!("name one with --network: {}", several.join(", ")),
        )),
    }
}

pub fn remove(args: &FabricRemove) -> Outcome {
    let (client, keys) = open(&args.store)?;
    let host = &args.host;
    match change::remove_host(&client, &keys, host).map_err(of_store)? {
        Removed::Done { addresses } => {
            println!("removed host `{host}` with {}", count(addresses));
            Ok(ExitCode::SUCCESS)
        }
        Removed::NoHost => Err(refusal(&Reason::NoHost, "", host)),
        Removed::InUse => Err(Failure::new(
            format!("host `{host}` is in use: its agent runs, or an address has moved just now"),
            "stop `latlab fabric join` there first",
        )),
    }
}

fn count(addresses: usize) -> String {
    match addresses {
        1 => "an address".into(),
        several => format!("{several} addresses"),
    }
}
