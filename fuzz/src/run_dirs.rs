//! Foreign run directories, as `report`, `explain` and `compare` read them: a small real one, whose documents
//! and tables the input changes.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use latlab_model::results::{ActionKind, Held, Hop, Trace, WatchedCpu};
use latlab_report::explain::{self, Choice};
use latlab_report::terminal::Look;
use latlab_report::{analyse, compare, html, terminal};
use latlab_samples::table::{self, Stretch};
use latlab_samples::{Passage, RunDir};
use latlab_wire::trace::{Event, EventKind, TEXT_BYTES};
use serde_json::{Value, json};

#[allow(unused_imports)]
#[path = "../../crates/report/tests/synthetic/mod.rs"]
mod synthetic;

/// The directory of this process, and its files.
struct Base {
    root: PathBuf,
    files: Vec<(String, Vec<u8>)>,
}

static BASE: LazyLock<Base> = LazyLock::new(|| {
    let root = directory(std::process::id());
    fs::remove_dir_all(&root).ok();
    make(&root);
    let mut files = Vec::new();
    collect(&root, Path::new(""), &mut files);
    files.sort();
    Base { root, files }
});

fn directory(process: u32) -> PathBuf {
    std::env::temp_dir().join(format!("latlab-fuzz-run-{process}"))
}

/// Removes the directory of a process that has ended.
pub fn end(process: u32) {
    fs::remove_dir_all(directory(process)).ok();
}

fn make(root: &Path) {
    let plan = synthetic::Plan {
        kinds: vec!["native", "container"],
        links: vec!["veth"],
        replicates: 2,
        samples: 40,
        ..synthetic::Plan::small()
    };
    let run = plan.write(root);
    let number = run.read_manifest().expect("a manifest").order[0].trial;
    let mut trial = run.read_trial(number).ok().flatten().expect("a trial");
    let event = |time_ns: u64, kind: EventKind, a: u32, b: u64| Event {
        time_ns,
        steal_ns: 0,
        cpu: (a % 2) as u16,
        kind,
        detail: 0,
        a,
        b,
        text: [b'x'; TEXT_BYTES],
    };
    let events: Vec<Event> = (0..40)
        .filter_map(|n: u8| Some((n, EventKind::from_number(n % 20)?)))
        .map(|(n, kind)| event(u64::from(n) * 10_000, kind, n.into(), u64::from(n) * 100))
        .collect();
    let stretches = [Stretch {
        cpu: 0,
        since_ns: 10,
        until_ns: 2_000_000,
        stolen_ns: 500,
    }];
    let names = [
        RunDir::passages_name(number),
        RunDir::events_name(number),
        RunDir::stolen_name(number),
    ];
    table::write_passages(run.place(&names[0]), &passages()).expect("passages");
    table::write_events(run.place(&names[1]), &events).expect("events");
    table::write_stretches(run.place(&names[2]), &stretches).expect("stretches");
    let watched = |cpu| WatchedCpu {
        cpu,
        ..WatchedCpu::default()
    };
    trial.trace = Some(Trace {
        held: vec![Held {
            node: "device".into(),
            act: ActionKind::Migrate,
            from_ns: 100_000,
            to_ns: 200_000,
        }],
        passages: names[0].clone(),
        events: Some(names[1].clone()),
        hops: vec![Hop {
            device: "device".into(),
            ..Hop::default()
        }],
        watched: vec![watched(0), watched(1)],
        steal_known: true,
        ..Trace::default()
    });
    trial.stolen = Some(names[2].clone());
    run.write_trial(&trial).expect("a record");
    latlab_report::conclude(&run).expect("a report");
}

fn passages() -> Vec<Passage> {
    (0..40)
        .map(|n: u32| Passage {
            sequence: n,
            in_ns: u64::from(n) * 10_000,
            out_ns: (n != 7).then_some(u64::from(n) * 10_000 + 900 + u64::from(n % 5) * 20_000),
            in_task: 100,
            out_task: 200,
            bytes: 64,
            ..Passage::default()
        })
        .collect()
}

fn collect(root: &Path, relative: &Path, files: &mut Vec<(String, Vec<u8>)>) {
    for entry in fs::read_dir(root.join(relative))
        .expect("a directory")
        .flatten()
    {
        let name = relative.join(entry.file_name());
        match entry.path().is_dir() {
            true => collect(root, &name, files),
            // The page is only written.
            false if name.extension().is_some_and(|e| e == "html") => {}
            false => files.push((
                name.display().to_string(),
                fs::read(entry.path()).expect("a file"),
            )),
        }
    }
}

/// Replacement of a value in a document.
fn values() -> [Value; 20] {
    [
        json!(null),
        json!(true),
        json!(-1),
        json!(0),
        json!(1),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(u32::MAX),
        json!(1e308),
        json!(-1e308),
        json!(1e-320),
        json!(0.5),
        json!(""),
        json!("x".repeat(300)),
        json!("../../etc/passwd"),
        json!("trials/0001/samples.parquet"),
        json!("</script><!--\u{1b}[2J\u{202e}"),
        json!([]),
        json!({}),
        json!("vm"),
    ]
}

/// The value with that number, in the order of the text.
fn at<'v>(value: &'v mut Value, number: &mut usize) -> Option<&'v mut Value> {
    if *number == 0 {
        return Some(value);
    }
    *number -= 1;
    match value {
        Value::Array(all) => all.iter_mut().find_map(|one| at(one, number)),
        Value::Object(all) => all.values_mut().find_map(|one| at(one, number)),
        _ => None,
    }
}

/// Bytes of the input, one after the other; zeroes after its end.
struct Input<'d>(&'d [u8]);

impl Input<'_> {
    fn byte(&mut self) -> usize {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        usize::from(*first)
    }

    fn word(&mut self) -> usize {
        self.byte() << 8 | self.byte()
    }
}

/// Changes one file by the input.
fn edit(input: &mut Input<'_>, files: &[(String, Vec<u8>)], bytes: &mut Vec<u8>) {
    let operation = input.byte() % 8;
    let place = input.word();
    match operation {
        // Most mistakes are possible in the documents.
        0..=3 => {
            let Ok(mut document) = serde_json::from_slice::<Value>(bytes) else {
                return edit_bytes(input, place, bytes);
            };
            let mut count = 0;
            count_places(&document, &mut count);
            let mut number = place % count;
            let value = input.byte();
            if let Some(found) = at(&mut document, &mut number) {
                match (found, operation) {
                    (Value::Array(all), 3) if !all.is_empty() => {
                        let twice = all[value % all.len()].clone();
                        all.push(twice);
                    }
                    (found, _) => *found = values()[value % 20].clone(),
                }
            }
            *bytes = serde_json::to_vec(&document).expect("JSON");
        }
        4 => edit_bytes(input, place, bytes),
        5 => bytes.truncate(place % (bytes.len() + 1)),
        6 => bytes.clone_from(&files[place % files.len()].1),
        _ => bytes.clear(),
    }
}

fn count_places(value: &Value, count: &mut usize) {
    *count += 1;
    match value {
        Value::Array(all) => all.iter().for_each(|one| count_places(one, count)),
        Value::Object(all) => all.values().for_each(|one| count_places(one, count)),
        _ => {}
    }
}

fn edit_bytes(input: &mut Input<'_>, place: usize, bytes: &mut [u8]) {
    // The footer of a table is at its end.
    let from = match place % 2 {
        0 => place / 2 % (bytes.len() + 1),
        _ => bytes.len() - (place / 2 % 512).min(bytes.len()),
    };
    let count = 1 + input.byte() % 8;
    for byte in bytes[from..].iter_mut().take(count) {
        *byte = input.byte() as u8;
    }
}

/// A changed run directory.
pub fn run(data: &[u8]) -> u64 {
    let mut input = Input(data);
    let mut changed = Vec::new();
    for _ in 0..4 {
        if input.0.is_empty() {
            break;
        }
        let (name, original) = &BASE.files[input.byte() % BASE.files.len()];
        let before: &[u8] = match changed
            .iter()
            .position(|(n, _): &(&String, Vec<u8>)| n == &name)
        {
            Some(index) => &changed.remove(index).1.clone(),
            None => original,
        };
        let mut bytes = before.to_vec();
        edit(&mut input, &BASE.files, &mut bytes);
        changed.push((name, bytes));
    }
    for (name, bytes) in &changed {
        fs::write(BASE.root.join(name), bytes).expect("a file of the run");
    }
    let said = read(&BASE.root);
    for (name, _) in &changed {
        let (_, original) = BASE.files.iter().find(|(n, _)| n == *name).expect("known");
        fs::write(BASE.root.join(name), original).expect("a file of the run");
    }
    let mut hasher = DefaultHasher::new();
    said.hash(&mut hasher);
    hasher.finish()
}

/// Reads a run directory in every way; the answers.
fn read(root: &Path) -> Vec<String> {
    let letters = |text: String| -> String {
        text.chars()
            .filter(char::is_ascii_alphabetic)
            .take(60)
            .collect()
    };
    let run = match RunDir::open(root) {
        Ok(run) => run,
        Err(error) => return vec![letters(error.to_string())],
    };
    let mut said = Vec::new();
    if let Ok(manifest) = run.read_manifest() {
        said.push(run.verify(&manifest.checksums).len().to_string());
    }
    match analyse(&run) {
        Err(error) => said.push(letters(error.to_string())),
        Ok(analysis) => {
            let summary = &analysis.summary;
            said.extend(summary.notes.iter().map(|note| note.code.clone()));
            terminal::render(summary, Look::default());
            terminal::csv(summary);
            let page = html::render(summary).expect("a page");
            assert_eq!(
                page.matches("</script").count(),
                EMPTY_PAGE.matches("</script").count()
            );
            match compare(&analysis, &analysis, true) {
                Err(unlike) => said.push(letters(unlike.to_string())),
                Ok(comparison) => {
                    compare::render(&comparison, Look::default());
                    compare::csv(&comparison);
                }
            }
        }
    }
    drop(run.read_summary());
    let choice = Choice::default();
    match explain::explain(&run, &choice) {
        Err(error) => said.push(letters(error.to_string())),
        Ok(all) => {
            for one in &all {
                said.push(letters(explain::terminal::render(one, 3)));
                let _ = one.to_json(3);
            }
            drop(explain::perfetto::trace(&run, &choice));
            drop(explain::pcapng::file(&run, &choice));
        }
    }
    said
}

/// The page as built.
const EMPTY_PAGE: &str = include_str!("../../web/dist/report.html");

/// One edit of each kind.
pub fn seeds() -> Vec<Vec<u8>> {
    let files = BASE.files.len() as u8;
    let mut seeds = vec![Vec::new()];
    for file in 0..files {
        for operation in [0, 4, 7] {
            seeds.push(vec![file, operation, 0, 17, 5, 255, 255, 255, 255]);
        }
    }
    seeds
}
