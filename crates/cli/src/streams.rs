//! `latlab streams`: counters of a lab's streams, and their switch.

use std::process::ExitCode;

use latlab_host::dirs::Dirs;
use latlab_host::lab::Lab;
use latlab_host::streams::Error;

use crate::args::{Streams, Switch};
use crate::failure::{Failure, Outcome, explain, need_root};
use crate::table::render;

pub fn run(args: &Streams) -> Outcome {
    need_root("streams", "it speaks with the supervisor of a lab")?;
    let lab = Lab::open(&Dirs::from_env(), &args.lab).map_err(explain)?;
    let client = lab.streams().map_err(explain)?;
    if let Some(switch) = args.switch {
        client.set(switch == Switch::On).map_err(failed)?;
    }
    let status = client.status().map_err(failed)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&status)?);
        return Ok(ExitCode::SUCCESS);
    }
    let switch = if status.on { "on" } else { "off" };
    println!("streams {switch}, by {} sockets", status.shadow);
    let row = |name: &str, count: u64| vec![name.to_owned(), count.to_string()];
    let mut rows = vec![
        row("streams", status.streams),
        row("open now", status.open as u64),
        row("relayed", status.relayed),
    ];
    let plain = status.plain.iter();
    rows.extend(plain.map(|(reason, count)| row(&format!("plain: {reason}"), *count)));
    print!("{}", render(&["CONNECTIONS", "COUNT"], &rows));
    Ok(ExitCode::SUCCESS)
}

fn failed(error: Error) -> Failure {
    let hint = error.hint();
    Failure::of(error, hint)
}
