//! `latlab fabric join`: the agent of this host.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use latlab_fabric::join::{Error, Event, Member, Options};
use latlab_fabric::keys::{Carrier, Host, Network};
use latlab_fabric::orders::Own;
use latlab_host::dirs::Dirs;
use latlab_model::overlay::{UDP_PORT, VXLAN_PORT};
use latlab_overlay::control::Client as Daemon;
use latlab_overlay::links::udp::sealed::hexadecimal;

use super::store::{of_store, open};
use crate::args::{self, Join};
use crate::failure::{Failure, Outcome};
use crate::{hosts, print, signals};

pub fn run(args: &Join) -> Outcome {
    let (client, keys) = open(&args.store)?;
    let options = Options {
        keys,
        own: own(args)?,
        networks: args
            .networks
            .iter()
            .map(|(name, vni)| (name.clone(), Network { vni: *vni }))
            .collect(),
    };
    let stop = signals::stop_flag()?;
    let connect = || Daemon::connect(&args.control);
    let failed = |error| failure(args, error);
    let member = Member::join(client, options, connect).map_err(failed)?;
    let mut printed = Ok(());
    let mut tell = |event: &Event| {
        if printed.is_ok() {
            printed = print::out(&shown(args, event));
        }
    };
    member.follow(&stop, &mut tell).map_err(failed)?;
    printed?;
    Ok(ExitCode::SUCCESS)
}

fn own(args: &Join) -> Result<Own, Failure> {
    let (carrier, port, key) = match args.carrier {
        args::FabricCarrier::Udp => (Carrier::Udp, UDP_PORT, None),
        args::FabricCarrier::Vxlan => (Carrier::Vxlan, VXLAN_PORT, None),
        args::FabricCarrier::Sealed => {
            let path = Dirs::from_env().host_key();
            let identity = hosts::key::of_machine(&path)?;
            let key = hexadecimal(&identity.public());
            (Carrier::Sealed { key }, UDP_PORT, Some(path))
        }
    };
    let (address, given) = args.address;
    Ok(Own {
        name: args.host.clone(),
        host: Host {
            address: SocketAddr::new(address, given.unwrap_or(port)),
            carrier,
        },
        key,
    })
}

/// An event as a line; as JSON with the wall clock's time in nanoseconds, which hosts can compare.
fn shown(args: &Join, event: &Event) -> String {
    if !args.json {
        return format!("{}: {event}\n", args.store.fabric);
    }
    let mut value = serde_json::to_value(event).unwrap_or_default();
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    value["at_ns"] = now.unwrap_or_default().as_nanos().to_string().into();
    format!("{value}\n")
}

fn failure(args: &Join, error: Error) -> Failure {
    match error {
        Error::Store(error) => of_store(error),
        Error::Daemon(error) => {
            let socket = args.control.display();
            let hint = "is the daemon running? start it with `latlab-overlay --control SOCKET`";
            Failure::new(format!("cannot speak with {socket}: {error}"), hint)
        }
        Error::Refused { message, hint } => Failure::new(message, hint),
    }
}
