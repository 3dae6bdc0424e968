//! `latlab fabric show`.

use latlab_fabric::state::State;
use serde_json::{Value, json};

use super::store::{of_store, open};
use crate::args::FabricShow;
use crate::failure::{Failure, Outcome};
use crate::format::Format;
use crate::{print, table};

pub fn run(args: &FabricShow) -> Outcome {
    let (client, keys) = open(&args.store)?;
    let state = State::read(&client, &keys).map_err(of_store)?;
    if state.hosts.is_empty() && state.networks.is_empty() {
        let fabric = &args.store.fabric;
        let hint = "`latlab fabric join` makes it; a fabric is named as its hosts named it";
        return Err(Failure::new(format!("etcd has no fabric `{fabric}`"), hint));
    }
    let header = ["host", "address", "carrier", "store", "addresses"];
    let rows = hosts(&state);
    let text = match args.format {
        Format::Json => format!("{:#}\n", document(&state)),
        Format::Csv => table::csv(&header, &rows),
        Format::Table => {
            let networks = state.networks.iter();
            let networks = networks.map(|(name, network)| format!("{name} (vni {})", network.vni));
            let networks: Vec<String> = networks.collect();
            let mut text = table::render(&header, &rows);
            line!(text, "networks: {}", networks.join(", "));
            line!(text, "revision {}", state.revision);
            text
        }
    };
    print::document(&text)
}

fn word(state: &State, host: &str) -> &'static str {
    match state.connected.contains(host) {
        true => "connected",
        false => "away",
    }
}

fn hosts(state: &State) -> Vec<Vec<String>> {
    let places = || state.places.values().map(|(place, _)| place);
    let rows = state.hosts.iter().map(|(name, host)| {
        let here = places().filter(|place| place.host == *name).count();
        vec![
            name.clone(),
            host.address.to_string(),
            host.carrier.word().into(),
            word(state, name).into(),
            here.to_string(),
        ]
    });
    rows.collect()
}

fn document(state: &State) -> Value {
    let hosts = state.hosts.iter().map(|(name, host)| {
        let connected = state.connected.contains(name);
        let mut value = json!(host);
        value["connected"] = connected.into();
        (name.clone(), value)
    });
    let places = state
        .places
        .iter()
        .map(|((network, mac), (place, revision))| {
            json!({
                "network": network,
                "address": mac,
                "host": place.host,
                "interface": place.interface,
                "revision": revision,
            })
        });
    json!({
        "format": "latlab.fabric/1",
        "revision": state.revision,
        "networks": state.networks,
        "hosts": hosts.collect::<serde_json::Map<_, _>>(),
        "addresses": places.collect::<Vec<_>>(),
    })
}
