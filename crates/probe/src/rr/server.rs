//! The probe `rr-server`: answers requests until its standard input ends.
//!
//! A request says how long it is and how long its answer shall be, so one server serves clients of
//! all sizes. TCP connections get a thread each, because a thread that blocks on its one socket is
//! what the latency of a request depends on least; UDP clients share one.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use latlab_wire::probe::{HEADER_BYTES, TransactionKind, TransactionRepr};
use latlab_wire::samples::{Counters, Phase, Probe, Protocol, Report, RrServerCounters};
use rustix::io::Errno;
use rustix::net::{SendFlags, SocketFlags, accept_with, recvfrom, sendto};

use super::stream::{self, Messages, Read};
use super::transaction::{DEFAULT_RESPONSE_BYTES, MAX_STREAM_MESSAGE_BYTES, write_header};
use crate::args::Options;
use crate::error::{Error, Result};
use crate::health::{self, Watch};
use crate::net::{self, MAX_DATAGRAM_BYTES, Socket};
use crate::output::Output;
use crate::setup::{Common, Poll};
use crate::stop::Stop;
use crate::sys::Who;
use crate::time;

/// TCP connections served at once; a bound on threads, far above what a run opens.
const MAX_CONNECTIONS: usize = 256;

struct Settings {
    protocol: Protocol,
    bind: SocketAddr,
    response_bytes: u32,
    poll: Poll,
}

impl Settings {
    fn take(options: &mut Options) -> Result<Settings> {
        let (least, most) = (HEADER_BYTES as u64, MAX_STREAM_MESSAGE_BYTES as u64);
        Ok(Settings {
            protocol: options
                .choice("proto", &[("tcp", Protocol::Tcp), ("udp", Protocol::Udp)])?
                .ok_or_else(|| Error::Usage("--proto is missing: tcp or udp".into()))?,
            bind: options.address("bind")?,
            response_bytes: options
                .number("response-bytes", least, most)?
                .unwrap_or(DEFAULT_RESPONSE_BYTES) as u32,
            poll: Poll::take(options, Poll::Block)?,
        })
    }
}

#[derive(Debug, Default)]
struct Tally {
    answered: AtomicU64,
    malformed: AtomicU64,
    not_sent: AtomicU64,
    /// Runqueue waiting time of connection threads that have ended.
    run_wait_ns: AtomicU64,
}

impl Tally {
    fn count(counter: &AtomicU64) {
        // Nothing is concluded from the order of counts; they are read when all threads are done.
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

#[derive(Debug, Clone)]
struct Service {
    response_bytes: u32,
    poll: Poll,
    stop: Stop,
    tally: Arc<Tally>,
}

impl Service {
    fn answer_bytes(&self, request: &TransactionRepr, largest: usize) -> usize {
        let wanted = match request.reply_bytes {
            0 => self.response_bytes,
            wanted => wanted,
        };
        (wanted as usize).clamp(HEADER_BYTES, largest)
    }
}

pub fn run(mut options: Options, output: &mut Output) -> Result<()> {
    let common = Common::take(&mut options, output)?;
    let settings = Settings::take(&mut options)?;
    options.finish("rr-server")?;
    common.apply()?;
    let socket = match settings.protocol {
        Protocol::Tcp => net::tcp_at(settings.bind)?,
        _ => net::udp_at(settings.bind)?,
    };
    let stop = Stop::at_end_of_input(common.fifo_priority)?;
    stop.wake(&socket);
    let Settings {
        response_bytes,
        poll,
        ..
    } = settings;
    let service = Service {
        response_bytes,
        poll,
        stop,
        tally: Arc::default(),
    };
    let local = net::local_address(&socket)?;
    common.ready(output, Probe::RrServer, Some(local), None)?;

    let watch = Watch::start(Who::Process);
    let started_ns = time::now_ns();
    let mut counters = RrServerCounters::default();
    let result = match settings.protocol {
        Protocol::Tcp => serve_connections(&socket, &service, &mut counters),
        _ => serve_datagrams(&socket, &service),
    };
    let ended_ns = time::now_ns();
    let mut health = match settings.protocol {
        // Packets are not dropped at the socket that accepts connections.
        Protocol::Tcp => watch.end(&[]),
        _ => watch.end(&[socket.as_fd()]),
    };
    let tally = &service.tally;
    if let Some(wait_ns) = &mut health.run_queue_wait_ns {
        *wait_ns += tally.run_wait_ns.load(Ordering::Relaxed);
    }
    counters.answered = tally.answered.load(Ordering::Relaxed);
    counters.malformed = tally.malformed.load(Ordering::Relaxed);
    counters.not_sent = tally.not_sent.load(Ordering::Relaxed);
    let counters = Counters::RrServer(counters);
    output.progress(Phase::Emitting, None)?;
    output.report(Report {
        started_ns,
        ended_ns,
        counters,
        health,
    })?;
    result
}

fn serve_datagrams(socket: &Socket, service: &Service) -> Result<()> {
    // Not zero, so that the pages are touched.
    let mut request = vec![0xff; 1 << 16];
    let mut answer = vec![0xff; MAX_DATAGRAM_BYTES];
    while !service.stop.requested() {
        let (length, peer) = match recvfrom(socket, &mut request[..], service.poll.flags()) {
            Ok((_, length, Some(peer))) => (length, peer),
            // Shut down: the loop's condition ends it.
            Ok((_, _, None)) => continue,
            Err(Errno::AGAIN | Errno::INTR) => continue,
            Err(error) if net::is_network_error(error) => continue,
            Err(error) => return Err(Error::Peer(format!("receive requests: {error}"))),
        };
        let parsed = TransactionRepr::parse(&request[..length])
            .ok()
            .filter(|parsed| parsed.kind == TransactionKind::Request)
            .filter(|parsed| parsed.message_bytes as usize == length);
        let Some(parsed) = parsed else {
            Tally::count(&service.tally.malformed);
            continue;
        };
        let answer = &mut answer[..service.answer_bytes(&parsed, MAX_DATAGRAM_BYTES)];
        write_header(answer, TransactionKind::Response, parsed.sequence, 0);
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match sendto(socket, answer, flags, &peer) {
            Ok(_) => Tally::count(&service.tally.answered),
            Err(_) => Tally::count(&service.tally.not_sent),
        }
    }
    Ok(())
}

fn serve_connections(
    listener: &Socket,
    service: &Service,
    counters: &mut RrServerCounters,
) -> Result<()> {
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    let result = loop {
        let accepted = accept_with(listener, SocketFlags::CLOEXEC);
        if service.stop.requested() {
            break Ok(());
        }
        let connection = match accepted {
            Ok(connection) => Arc::new(connection),
            Err(Errno::INTR | Errno::CONNABORTED) => continue,
            Err(error) => break Err(Error::Peer(format!("accept connections: {error}"))),
        };
        threads.retain(|thread| !thread.is_finished());
        if threads.len() >= MAX_CONNECTIONS {
            counters.refused_connections += 1;
            continue;
        }
        counters.connections += 1;
        match serve_in_thread(connection, service) {
            Ok(thread) => threads.push(thread),
            Err(error) => break Err(error),
        }
    };
    for thread in threads {
        // A panic there is a mistake here; its message is on standard error already.
        let _ = thread.join();
    }
    result
}

fn serve_in_thread(connection: Socket, service: &Service) -> Result<JoinHandle<()>> {
    net::no_delay(&connection)?;
    service.stop.wake(&connection);
    let service = service.clone();
    let serve = move || {
        serve_connection(&connection, &service);
        let run_wait_ns = health::run_wait_ns().unwrap_or(0);
        service
            .tally
            .run_wait_ns
            .fetch_add(run_wait_ns, Ordering::Relaxed);
    };
    thread::Builder::new()
        .name("connection".into())
        .spawn(serve)
        .map_err(|error| Error::machine("start a thread for a connection", error))
}

/// Serves one connection until either side ends it. Its errors end it and nothing else: to the
/// client they show as what they are, a connection that broke.
fn serve_connection(connection: &Socket, service: &Service) {
    let mut messages = Messages::new(service.poll);
    let mut answer = Vec::new();
    loop {
        let request = match messages.read(connection, || !service.stop.requested()) {
            Ok(Read::Message(request)) if request.kind == TransactionKind::Request => request,
            Ok(Read::Message(_) | Read::Malformed) => {
                Tally::count(&service.tally.malformed);
                return;
            }
            Ok(Read::Closed | Read::GivenUp) | Err(_) => return,
        };
        answer.resize(service.answer_bytes(&request, MAX_STREAM_MESSAGE_BYTES), 0);
        write_header(&mut answer, TransactionKind::Response, request.sequence, 0);
        if stream::write(connection, &answer).is_err() {
            Tally::count(&service.tally.not_sent);
            return;
        }
        Tally::count(&service.tally.answered);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_as_long_as_asked_within_bounds() {
        let service = Service {
            response_bytes: 200,
            poll: Poll::Block,
            stop: Stop::default(),
            tally: Arc::default(),
        };
        let answer_bytes = |reply_bytes| {
            let request = TransactionRepr {
                kind: TransactionKind::Request,
                sequence: 0,
                message_bytes: 16,
                reply_bytes,
            };
            service.answer_bytes(&request, 65_507)
        };
        assert_eq!(answer_bytes(0), 200);
        assert_eq!(answer_bytes(1), HEADER_BYTES);
        assert_eq!(answer_bytes(1000), 1000);
        assert_eq!(answer_bytes(u32::MAX), 65_507);
    }
}
