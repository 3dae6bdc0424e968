//! From saved tables to the answer: deterministic, with no claim beyond the record.

mod synthetic;

use latlab_model::results::{Hop, Hwlat, SilentStalls, Trace, WatchedCpu};
use latlab_report::analyse;
use latlab_report::explain::{Choice, ExplainError, explain, pcapng, perfetto, terminal};
use latlab_samples::import::{By, Import, Imported, Source};
use latlab_samples::{Passage, RunDir, SampleReader, table};
use latlab_wire::trace::{Event, EventKind, Switch, TEXT_BYTES};
use synthetic::{Plan, Scratch};

const HOG_NS: (u64, u64) = (5_000_000, 6_000_000);

/// A forwarder on CPU 1 that another task delays for a millisecond.
fn passages() -> Vec<Passage> {
    let mut free = 0;
    let packet = |sequence: u32| {
        let in_ns = 1_000_000 + u64::from(sequence) * 50_000;
        let mut begin = in_ns.max(free);
        if begin >= HOG_NS.0 && begin < HOG_NS.1 {
            begin = HOG_NS.1;
        }
        free = begin + 4_000;
        Passage {
            sequence,
            in_ns,
            out_ns: Some(free),
            out_cpu: 1,
            in_task: 50,
            out_task: 100,
            bytes: 60,
            ..Passage::default()
        }
    };
    (0..2000).map(packet).collect()
}

fn switch(time_ns: u64, previous: u32, next: u32, name: &str) -> Event {
    let switch = Switch {
        previous,
        state: 0,
        throttled: false,
        preempted: true,
        next,
        priority: 120,
        call: None,
    };
    let (b, detail) = switch.packed();
    let mut event = Event {
        time_ns,
        steal_ns: 0,
        cpu: 1,
        kind: EventKind::Switch,
        detail,
        a: previous,
        b,
        text: [0; TEXT_BYTES],
    };
    event.set_text(name);
    event
}

/// A run whose first trial went through taps.
fn traced(scratch: &Scratch, events: &[Event]) -> RunDir {
    let run = Plan::small().write(scratch.path().join("run"));
    let number = run.read_manifest().unwrap().order[0].trial;
    let mut trial = run.read_trial(number).unwrap().unwrap();
    let trace = Trace {
        held: Vec::new(),
        passages: RunDir::passages_name(number),
        events: (!events.is_empty()).then(|| RunDir::events_name(number)),
        hops: vec![Hop {
            device: "device".into(),
            before: "client eth0 egress".into(),
            behind: "server eth0 ingress".into(),
            ..Hop::default()
        }],
        watched: (0..2)
            .map(|cpu| WatchedCpu {
                cpu,
                ..WatchedCpu::default()
            })
            .collect(),
        steal_known: true,
        ruler: None,
        hwlat: Vec::new(),
        stalls: Vec::new(),
        system_calls: Default::default(),
        stacks: None,
        sample_rate: 0,
        samples_lost: 0,
        unknown: vec!["something is missing".into()],
    };
    table::write_passages(run.root().join(&trace.passages), &passages()).unwrap();
    if let Some(name) = &trace.events {
        table::write_events(run.root().join(name), events).unwrap();
    }
    trial.trace = Some(trace);
    run.write_trial(&trial).unwrap();
    run
}

fn hog() -> [Event; 2] {
    [
        switch(HOG_NS.0, 100, 200, "hog"),
        switch(HOG_NS.1, 200, 100, "forwarder"),
    ]
}

#[test]
fn the_task_that_had_the_cpu_is_named_and_owns_the_tail() {
    let scratch = Scratch::new("explain-hog");
    let run = traced(&scratch, &hog());
    let all = explain(&run, &Choice::default()).unwrap();
    let text = terminal::render(&all[0], 3);
    assert!(text.contains("waiting for a CPU: hog"), "{text}");
    assert!(text.contains("exclusive cores"), "{text}");
    assert!(text.contains("something is missing"), "{text}");
    let json = all[0].to_json(5);
    assert_eq!(json["worst"][0]["first"], "waiting for a CPU: hog");
    assert_eq!(json["worst"][0]["latency_ns"], 1_004_000);
    assert_eq!(json["worst"].as_array().unwrap().len(), 5);
    // Repeated, the same.
    let again = explain(&run, &Choice::default()).unwrap();
    assert_eq!(terminal::render(&again[0], 3), text);
}

/// So are other stalls: what is longer than all of them is the device's own time.
#[test]
fn long_work_on_a_watched_cpu_is_the_devices_own() {
    let scratch = Scratch::new("explain-own");
    let run = traced(&scratch, &[switch(1, 0, 100, "forwarder")]);
    let number = run.read_manifest().unwrap().order[0].trial;
    let first = |longest_ns| {
        let mut trial = run.read_trial(number).unwrap().unwrap();
        if let Some(trace) = &mut trial.trace {
            trace.stalls = vec![SilentStalls {
                cpu: 1,
                watched_ns: 1_000_000,
                lengths_ns: vec![longest_ns],
            }];
        }
        run.write_trial(&trial).unwrap();
        let all = explain(&run, &Choice::default()).unwrap();
        all[0].to_json(1)["worst"][0]["kind"].clone()
    };
    assert_eq!(first(900_000), "own-code");
    assert_eq!(first(1_100_000), "own-or-stall");
}

/// Periodic interruptions are in the trial's record, so another machine sees them too.
#[test]
fn periodic_stalls_are_named_from_the_record_and_noted() {
    let scratch = Scratch::new("explain-hwlat");
    let run = traced(&scratch, &[switch(1, 0, 100, "forwarder")]);
    let number = run.read_manifest().unwrap().order[0].trial;
    let mut trial = run.read_trial(number).unwrap().unwrap();
    let first = |run: &RunDir| {
        let all = explain(run, &Choice::default()).unwrap();
        all[0].to_json(1)["worst"][0]["first"].clone()
    };
    assert_eq!(first(&run), "unexplained");
    if let Some(trace) = &mut trial.trace {
        trace.hwlat.push(Hwlat {
            cpu: 1,
            period_ns: 10_000_000,
            begins_ns: vec![HOG_NS.0, HOG_NS.0 + 200_000_000],
            longest_ns: HOG_NS.1 - HOG_NS.0,
        });
    }
    run.write_trial(&trial).unwrap();
    assert_eq!(first(&run), "hypervisor or firmware, every 10.0 ms");
    let summary = analyse(&run).unwrap().summary;
    let note = summary.notes.iter().find(|note| note.code == "hwlat");
    let text = &note.unwrap().text;
    assert!(text.contains("every 10.0 ms for up to 1.00 ms"), "{text}");
    assert!(text.contains("1 trial"), "{text}");
}

#[test]
fn without_events_nothing_is_blamed() {
    let scratch = Scratch::new("explain-nothing");
    let run = traced(&scratch, &[]);
    let all = explain(&run, &Choice::default()).unwrap();
    let json = all[0].to_json(1);
    assert_eq!(json["worst"][0]["first"], "not recorded");
    assert!(
        json["not_known"].to_string().contains("no kernel events"),
        "{json}"
    );
}

#[test]
fn a_run_without_taps_cannot_be_explained() {
    let scratch = Scratch::new("explain-none");
    let run = Plan::small().write(scratch.path().join("run"));
    let error = explain(&run, &Choice::default()).unwrap_err();
    assert!(matches!(error, ExplainError::Nothing { .. }), "{error}");
}

#[test]
fn cut_tables_are_errors_and_name_the_file() {
    let scratch = Scratch::new("explain-cut");
    let run = traced(&scratch, &hog());
    let number = run.read_manifest().unwrap().order[0].trial;
    for name in [RunDir::passages_name(number), RunDir::events_name(number)] {
        let path = run.root().join(&name);
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        let error = explain(&run, &Choice::default()).unwrap_err().to_string();
        assert!(error.contains(&name), "{error}");
        std::fs::write(&path, &whole).unwrap();
    }
}

#[test]
fn the_timeline_has_every_packet_whole() {
    let scratch = Scratch::new("explain-perfetto");
    let run = traced(&scratch, &hog());
    let trace = perfetto::trace(&run, &Choice::default()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let named = |name: &str| {
        events
            .iter()
            .filter(|e| e["name"].as_str() == Some(name))
            .count()
    };
    let packets = events.iter().filter(|e| e["args"]["seq"].is_u64()).count();
    assert_eq!(packets, 2000);
    assert!(named("waiting for a CPU: hog") > 10);
    assert_eq!(named("hog (200)"), 1, "on its CPU");
}

/// Every block has its length at both ends, and there is nothing in between.
#[test]
fn the_capture_is_pcapng() {
    let scratch = Scratch::new("explain-pcapng");
    let run = traced(&scratch, &hog());
    let file = pcapng::file(&run, &Choice::default()).unwrap();
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let (mut at, mut kinds) = (0, Vec::new());
    while at < file.len() {
        let length = word(at + 4) as usize;
        assert_eq!((length % 4, word(at + length - 4) as usize), (0, length));
        kinds.push(word(at));
        at += length;
    }
    assert_eq!(at, file.len());
    assert_eq!(kinds[0], 0x0a0d_0d0a);
    assert_eq!(kinds.iter().filter(|&&kind| kind == 1).count(), 2);
    assert_eq!(kinds.iter().filter(|&&kind| kind == 6).count(), 4000);
}

/// The taps' own times, also by the way of a capture.
#[test]
fn the_capture_is_imported_with_the_times_of_the_taps() {
    let scratch = Scratch::new("explain-import");
    let run = traced(&scratch, &hog());
    let path = scratch.path().join("taps.pcapng");
    let file = pcapng::file(&run, &Choice::default()).unwrap();
    std::fs::write(&path, file).unwrap();
    let [before, after] = ["0", "1"].map(|number| Source {
        path: path.clone(),
        interface: Some(number.into()),
    });
    let imported = Imported::read(Import {
        pairs: vec![[before, after]],
        by: By::Packet,
        name: "taps".into(),
    });
    let dir = RunDir::create(scratch.path().join("imported")).unwrap();
    imported.unwrap().write(&dir, "imported".into()).unwrap();
    let analysis = analyse(&dir).unwrap();
    let cell = &analysis.summary.cells[0];
    let samples = SampleReader::open(dir.place(&RunDir::samples_name(1)));
    let samples = samples.unwrap().read_all().unwrap();
    let times = passages()
        .into_iter()
        .map(|one| one.latency_ns().map(|ns| ns as i64));
    let imported = samples.into_iter().map(|sample| sample.latency_ns);
    assert_eq!(imported.collect::<Vec<_>>(), times.collect::<Vec<_>>());
    assert_eq!(cell.id, "passage");
}

/// Taps on several CPUs number packets almost, but not quite, in the order of their time.
#[test]
fn packets_out_of_order_are_explained_alike() {
    let scratch = Scratch::new("explain-shuffled");
    let run = traced(&scratch, &hog());
    let whole = || {
        let all = explain(&run, &Choice::default()).unwrap();
        all[0].to_json(2000).to_string()
    };
    let sorted = whole();
    let number = run.read_manifest().unwrap().order[0].trial;
    let path = run.root().join(RunDir::passages_name(number));
    let mut rows = passages();
    rows.chunks_mut(64).for_each(<[Passage]>::reverse);
    table::write_passages(&path, &rows).unwrap();
    assert_eq!(whole(), sorted);
}

/// Multiplies the packets of a run, one copy behind the other.
fn lengthen(run: &RunDir, copies: u32) {
    let number = run.read_manifest().unwrap().order[0].trial;
    let path = run.root().join(RunDir::passages_name(number));
    let (rows, far) = (passages(), 200_000_000);
    let mut writer = table::PassageWriter::create(&path).unwrap();
    for copy in 0..copies {
        for row in &rows {
            let later = u64::from(copy) * far;
            let packet = Passage {
                sequence: row.sequence + copy * rows.len() as u32,
                in_ns: row.in_ns + later,
                out_ns: row.out_ns.map(|ns| ns + later),
                ..*row
            };
            writer.push(packet).unwrap();
        }
    }
    writer.finish().unwrap();
}

/// Ten times the packets, the same number of them explained: the page does not grow.
#[test]
fn the_page_does_not_grow_with_the_packets() {
    let scratch = Scratch::new("explain-size");
    let run = traced(&scratch, &hog());
    let size = |copies: u32| {
        lengthen(&run, copies);
        let all = explain(&run, &Choice::default()).unwrap();
        assert_eq!(all[0].attribution.packets as u32, copies * 2000);
        let tails = latlab_report::explain::tails(&all);
        serde_json::to_vec(&tails).unwrap().len()
    };
    // From 5000 packets on.
    let (some, many) = (size(5), size(50));
    assert!(many < some + some / 4, "{some} bytes, then {many}");
}

/// If a tail has more packets than are explained, its percentile is printed, and not the fastest of those.
#[test]
fn a_tail_of_more_packets_than_are_explained_is_said_to_be_one() {
    let scratch = Scratch::new("explain-part");
    let run = traced(&scratch, &hog());
    lengthen(&run, 300);
    let all = explain(&run, &Choice::default()).unwrap();
    let blames = all[0].blames();
    let part = &blames[0];
    assert_eq!(
        (part.quantile, part.beyond, part.explained),
        (0.99, 6000, 5000)
    );
    assert_eq!(part.latency_ns, all[0].latency.value_at_quantile(0.99));
    assert!(part.latency_ns < all[0].attribution.threshold_ns);
    let text = terminal::render(&all[0], 0);
    let said = text.matches("6000 packets, of which only the 5000 slowest are explained");
    assert_eq!(said.count(), 1, "{text}");
    // The other packets have their causes.
    assert_eq!(text.matches("first of").count(), blames.len() - 1);
}
