//! Starts the probes of a measurement with the measurement's parameters.

use std::time::Duration;

use latlab_model::plan::RECORD_BYTES;
use latlab_model::spec::{Measurement, Protocol, Via};

use crate::context::Context;
use crate::endpoint::{Endpoint, Error, Output, strings};
use crate::nodes::Nodes;
use crate::pin;
use crate::transit::Transit;

/// After its window an endpoint only has to hand over its records.
pub(crate) const HANDOVER_TIMEOUT: Duration = Duration::from_secs(60);
/// Time that the last packets and answers get beyond what their links hold them; later ones are lost.
const STRAGGLERS: Duration = Duration::from_millis(300);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// The most that the probe takes.
const MAX_ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// An endpoint that ends by itself.
pub(crate) struct Sender {
    endpoint: Endpoint,
    timeout: Duration,
}

impl Sender {
    /// Waits until its window is about to begin.
    pub fn ready(&mut self) -> Result<(), Error> {
        self.endpoint.ready().map(drop)
    }

    /// Waits for its end.
    pub fn finish(self) -> Result<Output, Error> {
        self.endpoint.finish(self.timeout)
    }
}

/// Records to make room for where packets arrive: all that the source may send, and duplicates of a tenth of them.
pub(crate) fn packets_with_slack<N: Nodes>(context: &Context<'_, N>) -> u64 {
    let sent = Load::of(context, "").max_packets(context);
    sent + sent / 10
}

/// Waits for packets that are still on their way when the last was sent, in whichever direction.
pub(crate) fn await_stragglers<N: Nodes>(context: &Context<'_, N>) {
    let transit = context.transit();
    std::thread::sleep(STRAGGLERS + transit.there.max(transit.back));
}

/// The measured window with its warm-up.
pub(crate) fn window_seconds<N: Nodes>(context: &Context<'_, N>) -> f64 {
    let m = context.measurement;
    (m.duration.0 + m.warmup.0) as f64 / 1e9
}

/// Requests that are due in a window.
pub(crate) fn requests(rate: u64, duration_ms: u64) -> u64 {
    rate * duration_ms.div_ceil(1_000)
}

/// The argument by which a probe may take the memory of its records: it was checked before. The probe's own limit is for
/// records whose number is unknown.
pub(crate) fn room(records: u64) -> Vec<String> {
    strings(&["--max-memory", &(records * RECORD_BYTES).to_string()])
}

/// Starts a request/response server in `node` and returns it with its port.
pub(crate) fn rr_server<N: Nodes>(
    context: &Context<'_, N>,
    node: &str,
    bind: &str,
    cpu: Option<u32>,
) -> Result<(Endpoint, u16), Error> {
    let m = context.measurement;
    let mut args = strings(&["rr-server", "--proto", m.protocol.word(), "--bind", bind]);
    args.extend(strings(&["--response-bytes", &m.response.to_string()]));
    args.extend(pin::argument(cpu));
    listening(Endpoint::start(context.lab, node, &args)?)
}

/// Starts a request/response client in `node` against `to`.
pub(crate) fn rr_client<N: Nodes>(
    context: &Context<'_, N>,
    node: &str,
    to: &str,
    duration_ms: u64,
    warmup: u32,
    cpu: Option<u32>,
) -> Result<Sender, Error> {
    let transit = context.transit();
    let mut args = rr_client_arguments(context.measurement, transit, to, duration_ms, warmup);
    args.extend(pin::argument(cpu));
    // No exchange takes less than a microsecond.
    let max_records = duration_ms * 1_000 + u64::from(warmup);
    let warmup = transit.unqueued * warmup + transit.round_trip();
    let window_ms = duration_ms + warmup.as_millis() as u64;
    sender(context.lab, node, &args, max_records, window_ms)
}

fn rr_client_arguments(
    m: &Measurement,
    transit: Transit,
    to: &str,
    duration_ms: u64,
    warmup: u32,
) -> Vec<String> {
    let timeout = (ANSWER_TIMEOUT + transit.round_trip()).min(MAX_ANSWER_TIMEOUT);
    let mut args = strings(&["rr-client", "--proto", m.protocol.word(), "--to", to]);
    args.extend(strings(&["--duration-ms", &duration_ms.to_string()]));
    args.extend(strings(&["--timeout-ms", &timeout.as_millis().to_string()]));
    args.extend(strings(&["--request-bytes", &m.request.to_string()]));
    args.extend(strings(&["--response-bytes", &m.response.to_string()]));
    args.extend(strings(&["--warmup", &warmup.to_string()]));
    if m.protocol == Protocol::Udp {
        args.extend(strings(&["--connect", "no"]));
    }
    if let Some(rate) = m.pace {
        args.extend(strings(&["--rate", &rate.to_string()]));
        args.extend(room(requests(rate, duration_ms) + u64::from(warmup)));
    }
    args
}

/// Starts a sink in `node` and returns it with its port.
pub(crate) fn sink<N: Nodes>(
    context: &Context<'_, N>,
    node: &str,
    bind: &str,
    max_packets: u64,
    cpu: Option<u32>,
) -> Result<(Endpoint, u16), Error> {
    let mut args = strings(&["sink", "--bind", bind]);
    args.extend(strings(&["--max-packets", &max_packets.to_string()]));
    args.extend(room(max_packets));
    args.extend(pin::argument(cpu));
    let sink = Endpoint::start_with_limit(context.lab, node, &args, max_packets)?;
    listening(sink)
}

/// Starts a socket in the receiver that drops packets unread. The last tap has timed them, and a reader
/// would take the CPU from the sender at each of them.
pub(crate) fn discard<N: Nodes>(context: &Context<'_, N>) -> Result<(Endpoint, u16), Error> {
    let args = strings(&["discard", "--bind", &context.any()]);
    listening(Endpoint::start(context.lab, context.receiver(), &args)?)
}

fn listening(mut server: Endpoint) -> Result<(Endpoint, u16), Error> {
    let ready = server.ready()?;
    Ok((server, ready.local.map_or(0, |address| address.port())))
}

pub(crate) struct Load<'a> {
    pub to: &'a str,
    pub via: Via,
    pub rate: u64,
    pub duration_ms: u64,
    pub warmup_ms: u64,
}

impl<'a> Load<'a> {
    pub fn of<N: Nodes>(context: &Context<'_, N>, to: &'a str) -> Load<'a> {
        let m = context.measurement;
        Load {
            to,
            via: m.via,
            rate: m.rate,
            duration_ms: m.duration.0.div_ceil(1_000_000),
            warmup_ms: m.warmup.0 / 1_000_000,
        }
    }
}

impl Load<'_> {
    pub fn total_ms(&self) -> u64 {
        self.duration_ms + self.warmup_ms
    }

    /// More packets than it has. The source makes room for ten standard deviations of the number of bursts, and ten
    /// bursts, in the warm-up and in the window (`schedule::Plan::most_packets`).
    pub fn max_packets<N: Nodes>(&self, context: &Context<'_, N>) -> u64 {
        let mean = self.rate * self.total_ms().div_ceil(1_000);
        let burst = u64::from(context.measurement.burst.max(1));
        let spread = 10 * burst * ((mean / burst).isqrt() + 10);
        mean + 2 * spread + 1_000
    }

    /// The arguments of a source that say when it sends what.
    pub fn arguments<N: Nodes>(&self, context: &Context<'_, N>) -> Vec<String> {
        let m = context.measurement;
        let mut args = strings(&["--rate", &self.rate.to_string()]);
        args.extend(strings(&["--duration-ms", &self.duration_ms.to_string()]));
        args.extend(strings(&["--warmup-ms", &self.warmup_ms.to_string()]));
        args.extend(strings(&["--bytes", &m.size.to_string()]));
        args.extend(strings(&["--arrival", m.arrival.word()]));
        args.extend(strings(&["--burst", &m.burst.to_string()]));
        args.extend(strings(&["--flows", &m.flows.to_string()]));
        args.extend(strings(&["--seed", &context.seed.to_string()]));
        // With the times of a card, a packet has two records.
        args.extend(room(2 * self.max_packets(context)));
        args
    }
}

/// Starts a source in the sender for the load's time.
pub(crate) fn source<N: Nodes>(
    context: &Context<'_, N>,
    load: &Load<'_>,
    cpu: Option<u32>,
) -> Result<Sender, Error> {
    let max_packets = load.max_packets(context);
    let mut args = strings(&["source", "--to", load.to, "--via", load.via.word()]);
    args.extend(load.arguments(context));
    args.extend(pin::argument(cpu));
    let (lab, node) = (context.lab, context.sender());
    sender(lab, node, &args, max_packets, load.total_ms())
}

/// Starts an endpoint that ends by itself after `window_ms`.
pub(crate) fn sender<N: Nodes>(
    lab: &N,
    node: &str,
    args: &[String],
    max_records: u64,
    window_ms: u64,
) -> Result<Sender, Error> {
    Ok(Sender {
        endpoint: Endpoint::start_with_limit(lab, node, args, max_records)?,
        timeout: Duration::from_millis(window_ms) + HANDOVER_TIMEOUT,
    })
}

#[cfg(test)]
mod tests {
    use latlab_model::spec::Study;

    use super::*;
    use crate::nodes::tests::Noted;

    /// Most packets that a study may have, in bytes of their records in the probe (`BYTES_PER_PACKET`).
    const PACKETS: u64 = 20_000_000;
    const OF_SOURCE: u64 = 32;
    const OF_SINK: u64 = 28;
    const OF_RR: u64 = 24;

    #[test]
    fn probes_may_take_the_memory_of_all_that_a_study_plans() {
        let noted = Noted::new("probe: packets, rate: 2000000, duration: 9900ms, warmup: 100ms");
        let context = noted.context();
        let most = packets_with_slack(&context);
        assert!(sink(&context, "b", "0.0.0.0:0", most, None).is_err());
        assert!(noted.max_memory() >= OF_SINK * PACKETS);
        assert!(source(&context, &Load::of(&context, "198.18.0.2:1"), None).is_err());
        assert!(noted.max_memory() >= OF_SOURCE * PACKETS);
    }

    #[test]
    fn requests_at_a_rate_have_room_as_well() {
        let noted = Noted::new("probe: rr, rate: 1000000, duration: 20s, warmup: 0ms");
        let context = noted.context();
        assert!(rr_client(&context, "a", "198.18.0.2:1", 20_000, 200, None).is_err());
        assert!(noted.max_memory() >= OF_RR * (PACKETS + 200));
    }

    fn timeout_ms(there: Duration, back: Duration) -> String {
        let text = "name: t\nlab:\n  name: t\n  topology:\n    nodes: {a: {kind: native}, b: {kind: native}}\n    links:\n      \
                    - endpoints: ['a:eth0', 'b:eth0']\nmeasurements:\n  - {probe: rr, from: a, to: b}\n";
        let study = Study::parse(text).unwrap_or_else(|e| panic!("{}", e.render("study")));
        let transit = Transit {
            there,
            back,
            ..Transit::default()
        };
        let to = "10.0.0.2:7";
        let args = rr_client_arguments(&study.measurements[0], transit, to, 1000, 200);
        let at = args.iter().position(|arg| arg == "--timeout-ms");
        args[at.expect("there is a timeout") + 1].clone()
    }

    #[test]
    fn an_answer_is_lost_after_the_links_delays() {
        let delay = Duration::from_millis;
        assert_eq!(timeout_ms(delay(0), delay(0)), "1000");
        assert_eq!(timeout_ms(delay(600), delay(700)), "2300");
        let long = Duration::from_secs(60);
        assert_eq!(timeout_ms(long, long), "60000", "the probe takes no more");
    }
}
