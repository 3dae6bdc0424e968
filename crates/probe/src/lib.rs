//! The endpoints of latlab's own measurements: they send, receive and time inside a node.
//!
//! The probes run where the measured traffic begins and ends: natively, in a container, in the
//! guest of a virtual machine, everywhere the same static binary. So they use std and system calls
//! and nothing that brings its own threads or event loop, and each is a loop that one can read.
//!
//! | probe | what it does | samples |
//! |---|---|---|
//! | `rr-server`, `rr-client` | request and response, one in flight or at a rate | every transaction |
//! | `source`, `sink` | packets on a schedule fixed in advance, timed one way | every packet, at both ends |
//! | `ptp-source`, `ptp-sink` | the same, timed by the cards' hardware | every packet, at both ends and cards |
//! | `discard` | is there for packets and reads none | none |
//! | `layer2` | carries frames between two interfaces: a device under test | none |
//! | `clock` | reads the clock: what a timestamp costs and resolves | every step |
//!
//! Common to all probes:
//! - Everything is recorded, nothing is summed up: room for all records is allocated and touched
//!   before the measured window, and they are written to standard output after it, as messages of
//!   [`latlab_wire::samples`]. During the window nothing is written.
//! - All times are `CLOCK_MONOTONIC` (`time.rs`).
//! - A probe also reports how it fared itself (`health.rs`), so that a run on an overloaded machine
//!   can be told from a slow network.
//! - Serving probes (`rr-server`, `sink`, `ptp-sink`, `discard`, `layer2`) run until their standard input ends
//!   (`stop.rs`); measuring probes end by themselves.
//!
//! # Calibration
//! The floor below which a result says nothing is measured with the same probes. `clock` gives the
//! cost of one timestamp. `rr-client` to an `rr-server`, or `source` to a `sink`, on 127.0.0.1
//! of the *same* node with the same message sizes, CPUs and polling gives what the node's own
//! socket layer, scheduler and the probes cost without any link between.

use std::ffi::OsString;
use std::process::ExitCode;

mod args;
mod arrivals;
mod checksum;
mod clock;
mod error;
mod health;
mod icmp;
mod layer2;
mod net;
mod output;
mod packets;
mod ping;
mod rr;
mod setup;
mod stop;
mod sys;
mod time;
mod xdp;

use args::Options;
use error::{Error, Result};
pub use layer2::{By, Layer2};
use output::Output;
pub use ping::Ping;
pub use time::{Pause, now_ns};

const USAGE: &str = "\
usage: latlab-agent probe PROBE [--OPTION VALUE]...

rr-server  --proto tcp|udp --bind ADDR:PORT [--response-bytes 200] [--poll block|busy]
rr-client  --proto tcp|udp|icmp --to ADDR[:PORT] [--bind ADDR] --count N | --duration-ms D
           [--request-bytes 100] [--response-bytes 200] [--warmup 100] [--timeout-ms 1000]
           [--poll block|busy] [--connect yes|no] [--rate REQUESTS]
sink       --bind ADDR:PORT [--max-packets 1048576] [--flow ID] [--stamp user|kernel]
           [--poll block|busy] [--doze-us 0] [--receive-buffer BYTES]
discard    --bind ADDR:PORT
source     --to ADDR:PORT [--bind ADDR] --rate PPS --count N | --duration-ms D [--bytes 64]
           [--flow 0] [--flows 1] [--arrival constant|poisson] [--burst 1] [--seed 1]
           [--warmup-ms 0] [--spin-us 60] [--via socket|packet|xdp]
ptp-sink   --interface NAME [--max-packets 1048576]
ptp-source --interface NAME --to MAC --rate PPS --count N | --duration-ms D [--bytes 78]
           [--flow 0] [--flows 1] [--arrival constant|poisson] [--burst 1] [--seed 1] [--warmup-ms 0]
layer2     --in INTERFACE --out INTERFACE [--by af-packet|af-xdp|xdp] [--poll busy|block] [--record PACKETS]
clock      [--reads 100000]

every probe: [--cpu LIST] [--fifo 1..98] [--max-memory BYTES] [--output frames|json]

With --rate, rr-client sends requests whether answers come or not.
--bytes is the length of the Ethernet frame, FCS included. Servers stop when their standard
input ends. Exit code: 0 done, 1 the measurement broke, 2 the input or the machine is at fault.
";

/// Runs the probe that `args` name (without the program's own name) and gives its exit code.
///
/// A failure is one line on standard error and an error message on standard output.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let mut output = Output::stdout();
    match run(args, &mut output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("latlab-agent probe: {error}");
            // When the reader is gone, the error has no reader.
            let _ = output.error(&error);
            ExitCode::from(error.exit_code())
        }
    }
}

fn run(mut args: impl Iterator<Item = OsString>, output: &mut Output) -> Result<()> {
    let Some(probe) = args.next() else {
        return Err(Error::Usage(
            "which probe? `probe --help` lists them".into(),
        ));
    };
    let rest: Vec<OsString> = args.collect();
    if probe == "--help" || rest.iter().any(|arg| arg == "--help") {
        print!("{USAGE}");
        return Ok(());
    }
    let options = || Options::parse(rest.into_iter());
    match probe.to_str() {
        Some("rr-server") => rr::server::run(options()?, output),
        Some("rr-client") => rr::client::run(options()?, output),
        Some("sink") => packets::sink::run(options()?, output),
        Some("discard") => packets::discard::run(options()?, output),
        Some("source") => packets::source::run(options()?, output),
        Some("ptp-sink") => packets::ptp::sink::run(options()?, output),
        Some("ptp-source") => packets::ptp::source::run(options()?, output),
        Some("layer2") => layer2::run(options()?, output),
        Some("clock") => clock::run(options()?, output),
        _ => Err(Error::Usage(format!(
            "no probe {probe:?}; there are rr-server, rr-client, sink, discard, source, ptp-sink, ptp-source, \
             layer2 and clock"
        ))),
    }
}
