//! `latlab streams`: counters of a lab's streams, and their switch.

use std::process::ExitCode;

use latlab_host::dirs::Dirs;
use latlab_host::lab::Lab;
use latlab_host::streams::{Demoted, PortStatus};

use crate::args::{Streams, Switch};
use crate::failure::{Failure, Outcome, explain, need_root};
use crate::print;
use crate::table::render;

pub fn run(args: &Streams) -> Outcome {
    need_root("streams", "it speaks with the supervisor of a lab")?;
    let lab = Lab::open(&Dirs::from_env(), &args.lab).map_err(explain)?;
    let client = lab.streams().map_err(explain)?;
    if args.open && args.switch == Some(Switch::On) {
        let hint = "connections become streams when they are made: `latlab streams LAB on` is for new ones";
        return Err(Failure::new("`--open` goes with `off`", hint));
    }
    let node = args.node.as_deref();
    if let Some(switch) = args.switch {
        let set = client.set(switch == Switch::On, node, &args.port);
        set.map_err(explain)?;
    }
    let demoted = match args.open {
        true => Some(client.demote(node, &args.port).map_err(explain)?),
        false => None,
    };
    let status = client.status().map_err(explain)?;
    // The status tells whether all became plain: a caller may be about to move the node.
    let code = match &demoted {
        Some(demoted) if demoted.reset > 0 || !demoted.kept.is_empty() => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    };
    if args.json {
        let mut all = serde_json::to_value(&status)?;
        if let Some(demoted) = demoted {
            all["now"] = serde_json::to_value(demoted)?;
        }
        print::out_if_read(&(serde_json::to_string_pretty(&all)? + "\n"))?;
        return Ok(code);
    }
    if let Some(demoted) = &demoted {
        print_demoted(demoted);
    }
    let switch = if status.on { "on" } else { "off" };
    let row = |name: &str, count: u64| vec![name.to_owned(), count.to_string()];
    let mut rows = vec![
        row("streams", status.streams),
        row("open now", status.open as u64),
        row("relayed", status.relayed),
        row("became plain", status.demoted),
    ];
    let plain = status.plain.iter();
    rows.extend(plain.map(|(reason, count)| row(&format!("plain: {reason}"), *count)));
    let mut text = format!("streams {switch}, by {} sockets\n", status.shadow);
    text += &render(&["CONNECTIONS", "COUNT"], &rows);
    if !status.ports.is_empty() {
        let rows: Vec<_> = status.ports.iter().map(of_port).collect();
        let head = ["SERVER", "PORT", "CONNECTIONS", "STREAMS", "OPEN", "SWITCH"];
        text += "\n";
        text += &render(&head, &rows);
    }
    print::out_if_read(&text)?;
    Ok(code)
}

fn of_port(port: &PortStatus) -> Vec<String> {
    let switch = match port.on {
        Some(true) => "on",
        Some(false) => "off",
        None => "",
    };
    vec![
        port.node.clone(),
        port.port.to_string(),
        port.connections.to_string(),
        port.streams.to_string(),
        port.open.to_string(),
        switch.to_owned(),
    ]
}

fn print_demoted(demoted: &Demoted) {
    println!(
        "{} streams are plain connections now; {} bytes that were not read yet went along",
        demoted.streams, demoted.bytes
    );
    let stopped = demoted.stopped_ns as f64 / 1e6;
    println!("their programs stood still for {stopped:.1} ms");
    for (reason, count) in &demoted.kept {
        println!("{count} stay streams: {reason}");
    }
    if demoted.reset > 0 {
        println!(
            "{} were reset: their bytes could not be sent",
            demoted.reset
        );
    }
}
