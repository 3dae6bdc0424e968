//! Measurements in one line for people.

use crate::kinds::Timestamps;
use crate::results::MeasurementInfo;
use crate::spec::{
    Action, Arrival, Device, Extract, Measurement, MpiMicro, Noise, Npb, Pin, Probe, Program, Task,
    Via,
};
use crate::units::Bytes;

fn load(m: &Measurement) -> String {
    let mut text = format!("{} packets/s of {} B", m.rate, m.size);
    if m.arrival == Arrival::Poisson {
        text += " as a Poisson process";
    }
    if m.burst > 1 {
        text += &format!(" in bursts of {}", m.burst);
    }
    if m.flows > 1 {
        text += &format!(" in {} flows", m.flows);
    }
    match m.via {
        Via::Socket => text,
        Via::Packet => text + " (packet socket)",
        Via::Xdp => text + " (AF_XDP)",
    }
}

/// The device under test, and the nodes that it is in.
fn device_of(m: &Measurement) -> String {
    let through: Vec<&str> = m.through.iter().map(|n| n.value.as_str()).collect();
    let through = through.join(", ");
    match m.device {
        _ if through.is_empty() => "the link between".to_string(),
        Device::Lab => through,
        device if device.is_own_program() => {
            format!("{} ({}) in {through}", device.describe(), m.poll)
        }
        device => format!("{} in {through}", device.describe()),
    }
}

pub fn describe(m: &Measurement) -> MeasurementInfo {
    let Some(ends) = &m.ends else {
        return describe_workload(m);
    };
    let ends = format!("{} to {}", ends.from.node, ends.to.node);
    let protocol = m.protocol.to_string().to_uppercase();
    let (what, latency) = match m.probe {
        Probe::Rr => {
            let sizes = format!("{} B request, {} B response", m.request, m.response);
            let flight = match m.pace {
                Some(rate) => format!("open loop, {rate} requests/s"),
                None => "one in flight".to_string(),
            };
            (
                format!("{protocol} request/response, {flight}, {sizes}"),
                Some("round trip"),
            )
        }
        Probe::Packets => {
            let load = load(m);
            match m.timestamps {
                Timestamps::Program => (
                    format!("{protocol}, open loop, {load}, one way from the intended send time"),
                    Some("one way"),
                ),
                Timestamps::Hardware => (
                    format!("frames of PTP, open loop, {load}, one way by the cards' timestamps"),
                    Some("card to card"),
                ),
            }
        }
        Probe::Forward => {
            let device = device_of(m);
            let load = load(m);
            let recorder = match (m.record, m.system_calls) {
                (false, _) => ", flight recorder off",
                (true, false) => "",
                (true, true) => ", slow system calls recorded",
            };
            let sampling = m.sampling.map_or(String::new(), |rate| {
                format!(", stacks sampled at {rate} Hz")
            });
            (
                format!(
                    "{protocol} through {device}, open loop, {load}, tap to tap{recorder}{sampling}"
                ),
                Some("tap to tap"),
            )
        }
        Probe::Stream => {
            let offered = m
                .bitrate
                .map(|b| format!(", {b} offered"))
                .unwrap_or_default();
            (format!("{protocol} bulk transfer by iperf3{offered}"), None)
        }
        Probe::Workload => return describe_workload(m),
    };
    let aside = aside(m);
    MeasurementInfo {
        name: m.name.value.clone(),
        probe: m.probe.to_string(),
        description: format!(
            "{what}, IPv{}, {} after {}, {ends}{aside}",
            m.ip, m.duration, m.warmup
        ),
        latency: latency.map(str::to_string),
        sweep: m.sweep.clone(),
    }
}

/// Settings that are out of the ordinary.
fn aside(m: &Measurement) -> String {
    let pin = match m.pin {
        _ if m.probe == Probe::Stream => "",
        Pin::Apart => "",
        Pin::Together => ", both ends on one CPU",
        Pin::Free => ", ends not pinned",
    };
    let actions: Vec<String> = m.actions.iter().map(Action::describe).collect();
    let actions = if actions.is_empty() {
        String::new()
    } else {
        format!(", {}", actions.join(", "))
    };
    format!("{pin}{}{actions}", noise_of(m))
}

fn noise_of(m: &Measurement) -> String {
    match &m.noise {
        Noise::None => String::new(),
        noise => format!(", beside `{noise}` on every CPU"),
    }
}

fn describe_workload(m: &Measurement) -> MeasurementInfo {
    let nodes = m.workload.iter().flat_map(|workload| &workload.on);
    let on: Vec<&str> = nodes.map(|node| node.value.as_str()).collect();
    let from = m
        .workload
        .as_ref()
        .and_then(|workload| workload.from.as_ref());
    let client = from.map_or(String::new(), |from| format!(", asked from {}", from.value));
    let what = match m.workload.as_ref().map(|workload| &workload.task) {
        Some(Task::Program(program)) if program.name().is_timed() => {
            format!(
                "{}, {} after {}",
                describe_program(program),
                m.duration,
                m.warmup
            )
        }
        Some(Task::Program(program)) => describe_program(program),
        Some(Task::Command(own)) => {
            let by = match &own.metric.by {
                Extract::Regex(regex) => format!("/{regex}/"),
                Extract::Json(pointer) => format!("`{pointer}`"),
            };
            format!("`{}`, {} by {by}", own.argv.join(" "), own.metric.unit)
        }
        None => "nothing".to_string(),
    };
    MeasurementInfo {
        name: m.name.value.clone(),
        probe: m.probe.to_string(),
        description: format!(
            "{what}, at the same time in {}{client}{}",
            on.join(", "),
            noise_of(m)
        ),
        latency: None,
        sweep: m.sweep.clone(),
    }
}

fn past_cache(direct: bool) -> &'static str {
    match direct {
        true => ", direct",
        false => ", through the page cache",
    }
}

fn many(count: u32, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn describe_program(program: &Program) -> String {
    match program {
        Program::SysbenchCpu(p) => {
            let threads = many(p.threads, "thread");
            format!("sysbench cpu, primes to {}, {threads}", p.max_prime)
        }
        Program::Xz(p) => {
            let threads = p
                .threads
                .map_or("a thread per CPU".to_owned(), |n| many(n, "thread"));
            format!("xz -{} of {} text, {threads}", p.level, p.size)
        }
        Program::Redis(p) => format!(
            "redis, SET and GET of {} over {}, {} at once in each, {}",
            p.value_size,
            many(p.connections, "connection"),
            p.pipeline,
            many(p.keys, "key")
        ),
        Program::Fio(p) => format!(
            "fio {} of {} in a file of {} in {}, {} by {}{}",
            p.rw,
            p.block_size,
            p.size,
            p.directory,
            many(p.depth, "request"),
            p.engine,
            past_cache(p.direct)
        ),
        Program::SysbenchFileio(p) => format!(
            "sysbench fileio {} of {} in {} of {} in {}, {}, {}{}",
            p.mode,
            p.block_size,
            many(p.files, "file"),
            p.size,
            p.directory,
            many(p.threads, "thread"),
            match p.fsync_every {
                0 => "no fsync".to_owned(),
                every => format!("fsync every {}", many(every, "request")),
            },
            past_cache(p.direct)
        ),
        Program::Oltp(p) => format!(
            "sysbench oltp_read_write on MariaDB in {}, {}, {} of {} rows",
            p.directory.as_deref().unwrap_or("memory"),
            many(p.threads, "thread"),
            many(p.tables, "table"),
            p.table_size
        ),
        Program::Hpcc(p) => {
            format!(
                "HPC Challenge, N {}, {}",
                p.n,
                many(p.processes, "MPI rank")
            )
        }
        Program::MpiHpcc(p) => {
            let ranks = many(p.processes, "MPI rank");
            format!("HPC Challenge as one job, N {}, {ranks} in each node", p.n)
        }
        Program::MpiMicro(p) => micro(p),
        Program::Netpipe => "NetPIPE over MPI, one rank in each node".to_owned(),
        Program::Npb(p) => npb(p),
    }
}

fn micro(p: &MpiMicro) -> String {
    let sizes: Vec<String> = p.sizes.iter().map(Bytes::to_string).collect();
    let (sizes, ranks) = (sizes.join(", "), many(p.processes, "MPI rank"));
    format!("microbenchmarks of MPI with messages of {sizes}, {ranks} in each node")
}

fn npb(p: &Npb) -> String {
    let kernels: Vec<&str> = p.kernels.iter().map(|kernel| kernel.word()).collect();
    let (kernels, ranks) = (kernels.join(", "), many(p.processes, "MPI rank"));
    let class = p.class;
    format!("NPB-specified kernels {kernels}, class {class}, {ranks} in each node")
}
