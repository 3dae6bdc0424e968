//! The arguments, input and output of every probe.

use std::process::{Command, Stdio};

use crate::harness::{Probe, counters, isolate};

#[test]
fn bad_arguments_are_reported_in_one_line_with_exit_code_2() {
    isolate();
    for (args, expected) in [
        (&[][..], "which probe?"),
        (&["ping"], "no probe \"ping\"; there are rr-server"),
        (&["clock", "10"], "expected an option, found `10`"),
        (&["clock", "--reads"], "--reads needs a value"),
        (
            &["clock", "--reads=1"],
            "--reads 1: expected a whole number from 2",
        ),
        (
            &["clock", "--rate=1"],
            "clock has no option --rate; it has --output",
        ),
        (
            &["clock", "--reads=2", "--reads=3"],
            "--reads is given twice",
        ),
        (
            &["clock", "--output=xml"],
            "--output xml: expected one of frames, json",
        ),
        (&["clock", "--cpu=x"], "--cpu x: expected a list of CPUs"),
        (
            &["clock", "--cpu=1000"],
            "run on the CPUs [1000]: Invalid argument",
        ),
        (
            &["clock", "--fifo=99"],
            "--fifo 99: expected a whole number from 1 to 98",
        ),
        (
            &["clock", "--reads=1000", "--max-memory=100"],
            "1000 records need 16000 bytes",
        ),
        (
            &["rr-server", "--bind=127.0.0.1:0"],
            "--proto is missing: tcp or udp",
        ),
        (
            &["rr-server", "--proto=icmp"],
            "--proto icmp: expected one of tcp, udp",
        ),
        (
            &["rr-server", "--proto=tcp"],
            "--bind is missing: ADDR:PORT",
        ),
        (
            &["rr-server", "--proto=tcp", "--bind=192.0.2.1:0"],
            "listen on TCP 192.0.2.1:0: ",
        ),
        (
            &["rr-server", "--proto=udp", "--bind=localhost:1"],
            "--bind localhost:1: expected",
        ),
        (
            &["rr-client", "--proto=udp", "--to=127.0.0.1:1"],
            "give --count, --duration-ms",
        ),
        (
            &["rr-client", "--proto=icmp", "--to=127.0.0.1:1"],
            "--to 127.0.0.1:1: expected ADDR",
        ),
        (
            &[
                "rr-client",
                "--proto=icmp",
                "--to=127.0.0.1",
                "--count=1",
                "--response-bytes=7",
            ],
            "--response-bytes 7: an ICMP echo returns the 100 bytes",
        ),
        (
            &[
                "rr-client",
                "--proto=udp",
                "--to=127.0.0.1:1",
                "--count=1",
                "--request-bytes=15",
            ],
            "--request-bytes 15: expected a whole number from 16 to 65507",
        ),
        (
            &[
                "rr-client",
                "--proto=tcp",
                "--to=127.0.0.1:1",
                "--count=1",
                "--bind=::1",
            ],
            "--bind ::1 and --to 127.0.0.1:1 are not of the same IP version",
        ),
        (
            &["source", "--to=127.0.0.1:1", "--count=1"],
            "--rate is missing",
        ),
        (
            &[
                "source",
                "--to=127.0.0.1:1",
                "--count=1",
                "--rate=1",
                "--bytes=63",
            ],
            "--bytes 63: expected a whole number from 64",
        ),
        (
            &[
                "source",
                "--to=127.0.0.1:1",
                "--rate=1000000",
                "--duration-ms=86400000",
            ],
            "86400000001 records need",
        ),
        (
            &[
                "source",
                "--to=127.0.0.1:1",
                "--rate=1",
                "--count=1",
                "--flow=65100",
                "--flows=512",
                "--burst=1",
            ],
            "--flow 65100 --flows 512: the last flow would be 65611",
        ),
        (
            &[
                "source",
                "--to=[::1]:1",
                "--rate=1",
                "--count=1",
                "--via=xdp",
            ],
            "--to [::1]:1: frames are built for IPv4 only",
        ),
        (
            &["ptp-source", "--interface=lo", "--to=here", "--rate=1"],
            "--to here: expected an Ethernet address",
        ),
        (
            &["ptp-sink", "--interface=lo"],
            "ask for the address of lo: lo is no Ethernet",
        ),
        (
            &["layer2", "--in=nothing0", "--out=nothing1", "--by=af-xdp"],
            "forward between nothing0 and nothing1: there is no interface nothing0",
        ),
        (
            &[
                "sink",
                "--bind=127.0.0.1:0",
                "--max-packets=1000",
                "--max-memory=27999",
            ],
            "1000 records need 28000 bytes of memory, 27999 are allowed; ask for fewer, or give \
             --max-memory 28000",
        ),
    ] {
        let outcome = Probe::run(args);
        let error = outcome.error(2);
        assert!(error.starts_with(expected), "{args:?}: {error}");
        assert!(!error.contains('\n'), "{args:?}: {error}");
        assert!(outcome.report.is_none());
    }
}

#[test]
fn an_address_in_use_is_the_machines_fault() {
    isolate();
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let bind = taken.local_addr().unwrap().to_string();
    let outcome = Probe::run(&["sink", "--bind", &bind]);
    assert!(
        outcome
            .error(2)
            .starts_with(&format!("bind UDP {bind}: Address already in use"))
    );
}

#[test]
fn conditions_say_what_was_granted() {
    isolate();
    let clock = Probe::run(&["clock", "--cpu=0", "--reads=10"]);
    clock.good_report();
    let conditions = clock.ready.expect("it was ready").conditions;
    assert_eq!((conditions.cpus, conditions.fifo_priority), (vec![0], None));
    let (sink, _) = Probe::serve(&["sink", "--bind=127.0.0.1:0", "--receive-buffer=100000"]);
    let sink = sink.finish();
    let conditions = sink.ready.expect("it was ready").conditions;
    assert_eq!(conditions.receive_buffer_bytes, Some(100_000));
}

#[test]
fn a_clock_accounts_for_every_read() {
    isolate();
    let clock = Probe::run(&["clock", "--reads=20000"]);
    let report = clock.good_report();
    let counters = counters!(report, Clock);
    assert_eq!((counters.steps, counters.backward), (19_999, 0));
    let counted: u64 = clock
        .records
        .iter()
        .map(|record| u64::from(record.sequence))
        .sum();
    assert_eq!(counted, 19_999);
    let passed: u64 = clock
        .records
        .iter()
        .map(|record| u64::from(record.sequence) * record.end_ns)
        .sum();
    assert_eq!(passed, report.ended_ns - report.started_ns);
}

#[test]
fn help_lists_the_probes_and_is_no_error() {
    isolate();
    for args in [&["--help"][..], &["sink", "--help"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_probe"))
            .args(args)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0));
        let text = String::from_utf8(output.stdout).unwrap();
        for probe in [
            "rr-server",
            "rr-client",
            "sink",
            "source",
            "layer2",
            "clock",
        ] {
            assert!(text.contains(&format!("\n{probe} ")), "{probe}");
        }
    }
}

#[test]
fn json_output_is_one_object_a_line() {
    isolate();
    let output = Command::new(env!("CARGO_BIN_EXE_probe"))
        .args(["clock", "--reads=100", "--output=json"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    let keys: Vec<String> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| {
            let object: serde_json::Map<String, serde_json::Value> =
                serde_json::from_str(line).unwrap();
            object.into_iter().next().unwrap().0
        })
        .collect();
    assert_eq!(keys, ["ready", "progress", "progress", "samples", "report"]);
}

#[test]
fn a_reader_that_left_is_an_error_and_not_a_panic() {
    isolate();
    let mut child = Command::new(env!("CARGO_BIN_EXE_probe"))
        .arg("clock")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        text.starts_with("latlab-agent probe: write the results: Broken pipe"),
        "{text}"
    );
}

#[test]
fn servers_end_at_once_when_there_is_no_input() {
    isolate();
    for args in [
        &["rr-server", "--proto=tcp", "--bind=127.0.0.1:0"][..],
        &[
            "rr-server",
            "--proto=udp",
            "--bind=127.0.0.1:0",
            "--poll=busy",
        ],
        &["sink", "--bind=127.0.0.1:0"],
        &[
            "sink",
            "--bind=127.0.0.1:0",
            "--poll=busy",
            "--stamp=kernel",
        ],
    ] {
        let status = Command::new(env!("CARGO_BIN_EXE_probe"))
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert_eq!(status.code(), Some(0), "{args:?}");
    }
}

#[test]
fn a_spinning_real_time_probe_can_be_stopped() {
    isolate();
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root may surely have a real-time priority");
        return;
    }
    for args in [
        &["sink", "--bind=127.0.0.1:0"][..],
        &["rr-server", "--proto=udp", "--bind=127.0.0.1:0"],
    ] {
        let (server, _) = Probe::serve(&[args, &["--poll=busy", "--fifo=10", "--cpu=0"]].concat());
        server.finish().good_report();
    }
}
