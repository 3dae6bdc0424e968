//! The probe `discard`: an address that takes packets and reads none of them.
//!
//! For measurements that time packets before they arrive. A receiver that reads is woken for each packet
//! and works on the processor that the sender needs to keep its schedule; without anybody at the port,
//! the kernel would answer that nobody is there. What does not fit the socket any more is dropped by
//! the kernel, at once.

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

/// The probe `discard`.
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
        // Its drops are what it is for, and nobody's loss.
        health: watch.end(&[]),
    })
}
