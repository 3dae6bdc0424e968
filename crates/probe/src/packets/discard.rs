//! The probe `discard`: an address that takes packets and reads none of them.
//!
//! For measurements that time packets before they arrive. A receiver that reads is woken for each packet and works on
//! the CPU that the sender needs to keep its schedule; without a socket at the port, the kernel would answer that the
//! port is unreachable. Datagrams that do not fit the socket any more are dropped by the kernel, at once.

use latlab_wire::samples::{Counters, Phase, Probe, Report, SinkCounters};

use crate::args::Options;
use crate::error::Result;
use crate::health::Watch;
use crate::net;
use crate::output::Output;
use crate::setup::Common;
use crate::stop;
use crate::sys::Who;
use crate::time;

pub fn run(mut options: Options, output: &mut Output) -> Result<()> {
    let common = Common::take(&mut options, output)?;
    let bind = options.address("bind")?;
    options.finish("discard")?;
    common.apply()?;
    let socket = net::udp_at(bind)?;
    let granted = net::set_receive_buffer(&socket, 1)?;
    let local = net::local_address(&socket)?;
    common.ready(output, Probe::Sink, Some(local), Some(granted))?;
    let watch = Watch::start(Who::Thread);
    let started_ns = time::now_ns();
    stop::end_of_input();
    let ended_ns = time::now_ns();
    output.progress(Phase::Emitting, None)?;
    output.report(Report {
        started_ns,
        ended_ns,
        counters: Counters::Sink(SinkCounters::default()),
        // Drops are its purpose and no loss.
        health: watch.end(&[]),
    })
}
