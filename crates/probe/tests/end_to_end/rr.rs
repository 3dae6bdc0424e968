//! Request and response over real sockets: counts, matching, losses and exit codes. No timing.

use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::thread;

use crate::harness::{Outcome, Probe, counters, isolate};
use latlab_wire::probe::{TransactionKind, TransactionRepr};
use latlab_wire::samples::{SampleKind, StoppedBy, flags};

/// Checks what every complete series of records must fulfil; `warm_up` of them are the warm-up.
fn check_records(outcome: &Outcome, warm_up: usize, measured: usize) {
    assert_eq!(outcome.kind, Some(SampleKind::Rr));
    assert_eq!(outcome.records.len(), warm_up + measured);
    let mut last_ns = 0;
    for (at, record) in outcome.records.iter().enumerate() {
        assert_eq!(record.sequence as usize, at);
        assert_eq!(record.has(flags::WARM_UP), at < warm_up, "{record:?}");
        assert!(
            last_ns <= record.start_ns && record.start_ns < record.end_ns,
            "{record:?}"
        );
        last_ns = record.end_ns;
    }
}

/// A server that leaves out some requests and answers others twice: neither holds up those that follow.
#[test]
fn requests_at_a_rate_do_not_wait_for_answers() {
    isolate();
    for poll in ["--poll=block", "--poll=busy"] {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = server.local_addr().unwrap().to_string();
        let serve = thread::spawn(move || {
            let mut request = [0; 256];
            for number in 0..200 {
                let (_, peer) = server.recv_from(&mut request).unwrap();
                let answers = [1, 0, 2][usize::min(number % 100, 2)];
                // The request with the mark of a response, and its length.
                let mut response = [0; 100];
                response.copy_from_slice(&request[..100]);
                let sequence = TransactionRepr::parse(&response).unwrap().sequence;
                TransactionRepr {
                    kind: TransactionKind::Response,
                    sequence,
                    message_bytes: 100,
                    reply_bytes: 0,
                }
                .emit(&mut response);
                // One or none at first, then two each.
                for _ in 0..answers {
                    server.send_to(&response, peer).unwrap();
                }
            }
        });
        let client = Probe::run(&[
            "rr-client",
            "--proto=udp",
            "--to",
            &to,
            "--duration-ms=200",
            "--rate=1000",
            "--warmup=0",
            "--response-bytes=100",
            "--timeout-ms=300",
            poll,
        ]);
        serve.join().unwrap();
        let counters = counters!(client.good_report(), RrClient);
        assert_eq!(
            (counters.transactions, counters.answered, counters.lost),
            (200, 198, 2)
        );
        assert_eq!((counters.duplicates, counters.unmatched), (196, 0));
        let starts: Vec<u64> = client
            .records
            .iter()
            .map(|record| record.start_ns)
            .collect();
        assert!(
            starts.windows(2).all(|pair| pair[1] - pair[0] == 1_000_000),
            "{starts:?}"
        );
    }
    let refused = Probe::run(&[
        "rr-client",
        "--proto=tcp",
        "--to=127.0.0.1:1",
        "--rate=5",
        "--count=1",
    ]);
    assert!(refused.error(2).contains("--rate is for"));
}

#[test]
fn every_transaction_is_recorded_over_every_transport() {
    isolate();
    for (proto, bind, extra, socket) in [
        ("tcp", "127.0.0.1:0", "--poll=block", "tcp"),
        ("tcp", "[::1]:0", "--poll=busy", "tcp"),
        ("udp", "127.0.0.1:0", "--poll=block", "udp-connected"),
        ("udp", "127.0.0.1:0", "--connect=no", "udp"),
        ("udp", "[::1]:0", "--poll=busy", "udp-connected"),
        ("udp", "[::1]:0", "--connect=no", "udp"),
    ] {
        let (server, address) = Probe::serve(&["rr-server", "--proto", proto, "--bind", bind]);
        let to = address.to_string();
        let args = [
            "rr-client",
            "--proto",
            proto,
            "--to",
            &to,
            "--count=200",
            "--warmup=10",
        ];
        let client = Probe::run(&[&args[..], &[extra]].concat());
        let report = client.good_report();
        // Most drops of TCP are copies.
        let expected_drops = (proto != "tcp").then_some(0);
        assert_eq!(report.health.socket_drops, expected_drops, "{proto}");
        let counters = counters!(report, RrClient);
        assert_eq!(
            (counters.transactions, counters.answered, counters.lost),
            (200, 200, 0)
        );
        assert_eq!(
            (counters.late, counters.duplicates, counters.unmatched),
            (0, 0, 0)
        );
        assert_eq!(
            (counters.request_bytes, counters.response_bytes),
            (100, 200)
        );
        assert_eq!(
            (counters.socket.as_str(), counters.stopped_by),
            (socket, StoppedBy::Count)
        );
        check_records(&client, 10, 200);
        let server = server.finish();
        let counters = counters!(server.good_report(), RrServer);
        assert_eq!((counters.answered, counters.malformed), (210, 0));
    }
}

#[test]
fn the_kernel_answers_icmp() {
    isolate();
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root may surely open ICMP sockets");
        return;
    }
    for to in ["127.0.0.1", "::1"] {
        let client = Probe::run(&["rr-client", "--proto=icmp", "--to", to, "--count=50"]);
        let counters = counters!(client.good_report(), RrClient);
        assert_eq!((counters.answered, counters.unmatched), (50, 0));
        assert_eq!(
            (counters.socket.as_str(), counters.response_bytes),
            ("icmp-raw", 100)
        );
        check_records(&client, 100, 50);
    }
}

#[test]
fn a_server_serves_many_clients_at_once_and_in_turn() {
    isolate();
    for proto in ["tcp", "udp"] {
        let (server, address) =
            Probe::serve(&["rr-server", "--proto", proto, "--bind=127.0.0.1:0"]);
        let to = address.to_string();
        let args = [
            "rr-client",
            "--proto",
            proto,
            "--to",
            &to,
            "--count=300",
            "--warmup=0",
        ];
        let at_once: Vec<Probe> = (0..3).map(|_| Probe::start(&args)).collect();
        for client in at_once {
            assert_eq!(
                counters!(client.wait().good_report(), RrClient).answered,
                300
            );
        }
        // Sizes are the client's choice.
        let sizes = ["--request-bytes=5000", "--response-bytes=16"];
        let other = Probe::run(&[&args[..], &sizes].concat());
        assert_eq!(counters!(other.good_report(), RrClient).answered, 300);
        let server = server.finish();
        let counters = counters!(server.good_report(), RrServer);
        assert_eq!(counters.answered, 1200);
        assert_eq!(counters.connections, if proto == "tcp" { 4 } else { 0 });
    }
}

#[test]
fn a_response_size_of_zero_leaves_it_to_the_server() {
    isolate();
    for proto in ["tcp", "udp"] {
        let (server, address) = Probe::serve(&[
            "rr-server",
            "--proto",
            proto,
            "--bind=127.0.0.1:0",
            "--response-bytes=3000",
        ]);
        let to = address.to_string();
        let client = Probe::run(&[
            "rr-client",
            "--proto",
            proto,
            "--to",
            &to,
            "--count=20",
            "--response-bytes=0",
        ]);
        assert_eq!(counters!(client.good_report(), RrClient).answered, 20);
        server.finish().good_report();
    }
}

#[test]
fn a_silent_server_means_losses() {
    isolate();
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = silent.local_addr().unwrap().to_string();
    let client = Probe::run(&[
        "rr-client",
        "--proto=udp",
        "--to",
        &to,
        "--count=4",
        "--timeout-ms=10",
    ]);
    let counters = counters!(client.good_report(), RrClient);
    assert_eq!(
        (counters.transactions, counters.answered, counters.lost),
        (4, 0, 4)
    );
    // The warm-up saw that there is nothing to warm up.
    assert_eq!(counters.warm_up, 3);
    for record in &client.records {
        assert!(record.has(flags::LOST) && record.end_ns == 0 && record.start_ns > 0);
    }
}

#[test]
fn a_late_answer_stays_lost_and_a_second_one_is_a_duplicate() {
    isolate();
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = server.local_addr().unwrap().to_string();
    // Answers request 0 only when request 1 is there, and request 1 twice.
    let serve = thread::spawn(move || {
        let mut requests = [[0; 64]; 2];
        for request in &mut requests {
            let (length, peer) = server.recv_from(request).unwrap();
            assert_eq!(length, 16);
            request[2] = 2;
            server.connect(peer).unwrap();
        }
        for answer in [&requests[0], &requests[1], &requests[1]] {
            server.send(&answer[..16]).unwrap();
        }
        let mut third = [0; 64];
        server.recv(&mut third).unwrap();
        third[2] = 2;
        server.send(&third[..16]).unwrap();
    });
    let client = Probe::run(&[
        "rr-client",
        "--proto=udp",
        "--to",
        &to,
        "--count=3",
        "--warmup=0",
        "--timeout-ms=500",
        "--request-bytes=16",
    ]);
    serve.join().unwrap();
    let counters = counters!(client.good_report(), RrClient);
    assert_eq!((counters.answered, counters.lost), (2, 1));
    assert_eq!(
        (counters.late, counters.duplicates, counters.unmatched),
        (1, 1, 0)
    );
    let lost: Vec<bool> = client
        .records
        .iter()
        .map(|record| record.has(flags::LOST))
        .collect();
    assert_eq!(lost, [true, false, false]);
}

/// An address with a closed port.
fn closed_port() -> String {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string()
}

#[test]
fn an_absent_server_is_an_error_for_tcp_and_a_loss_for_udp() {
    isolate();
    let to = closed_port();
    let client = Probe::run(&["rr-client", "--proto=tcp", "--to", &to, "--count=1"]);
    let error = client.error(1);
    assert!(
        error.starts_with(&format!("connect to {to}: Connection refused")),
        "{error}"
    );
    let client = Probe::run(&[
        "rr-client",
        "--proto=udp",
        "--to",
        &to,
        "--count=2",
        "--warmup=0",
        "--timeout-ms=10",
    ]);
    let counters = counters!(client.good_report(), RrClient);
    assert_eq!((counters.lost, counters.network_errors > 0), (2, true));
}

#[test]
fn a_server_that_goes_away_leaves_what_was_measured() {
    isolate();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap().to_string();
    // Answers five requests of 16 bytes, then closes.
    let serve = thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        for _ in 0..5 {
            let mut message = [0; 16];
            connection.read_exact(&mut message).unwrap();
            message[2] = 2;
            connection.write_all(&message).unwrap();
        }
    });
    let client = Probe::run(&[
        "rr-client",
        "--proto=tcp",
        "--to",
        &to,
        "--count=100",
        "--warmup=0",
        "--request-bytes=16",
        "--response-bytes=16",
    ]);
    serve.join().unwrap();
    assert!(
        client.error(1).starts_with("TCP transaction 5: "),
        "{}",
        client.error(1)
    );
    let counters = counters!(client.report.as_ref().unwrap(), RrClient);
    assert_eq!((counters.answered, counters.lost), (5, 1));
    assert_eq!(counters.stopped_by, StoppedBy::Peer);
    assert_eq!(client.records.len(), 6);
}

#[test]
fn a_tcp_server_that_falls_silent_ends_the_run() {
    isolate();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap().to_string();
    let client = Probe::run(&[
        "rr-client",
        "--proto=tcp",
        "--to",
        &to,
        "--count=9",
        "--timeout-ms=50",
    ]);
    assert_eq!(client.error(1), "TCP transaction 0: no answer within 50 ms");
    assert!(client.records[0].has(flags::LOST));
    drop(listener);
}

#[test]
fn a_run_by_time_ends_by_time() {
    isolate();
    let (server, address) = Probe::serve(&["rr-server", "--proto=udp", "--bind=127.0.0.1:0"]);
    let to = address.to_string();
    let client = Probe::run(&["rr-client", "--proto=udp", "--to", &to, "--duration-ms=50"]);
    let report = client.good_report();
    assert_eq!(counters!(report, RrClient).stopped_by, StoppedBy::Duration);
    assert!(report.ended_ns - report.started_ns >= 50_000_000);
    check_records(
        &client,
        100,
        counters!(report, RrClient).transactions as usize,
    );
    server.finish().good_report();
}

#[test]
fn a_server_survives_nonsense() {
    isolate();
    let (server, address) = Probe::serve(&["rr-server", "--proto=tcp", "--bind=127.0.0.1:0"]);
    let mut stranger = std::net::TcpStream::connect(address).unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    // The server closes the connection of a peer that does not speak rr.
    let mut answer = Vec::new();
    let _ = stranger.read_to_end(&mut answer);
    assert!(answer.is_empty());
    let to = address.to_string();
    let client = Probe::run(&["rr-client", "--proto=tcp", "--to", &to, "--count=5"]);
    client.good_report();
    let server = server.finish();
    assert_eq!(counters!(server.good_report(), RrServer).malformed, 1);
}

#[test]
fn a_server_ends_with_its_input_even_if_clients_stay() {
    isolate();
    let (server, address) = Probe::serve(&["rr-server", "--proto=tcp", "--bind=127.0.0.1:0"]);
    let idle = std::net::TcpStream::connect(address).unwrap();
    let mut busy = std::net::TcpStream::connect(address).unwrap();
    busy.write_all(b"LR\x01\0half a header").unwrap();
    let server = server.finish();
    server.good_report();
    drop((idle, busy));
}
