//! The cost of the largest documents. Time is not asserted, because machines differ; memory is,
//! by an allocator that counts, and it bounds time too: slow code here allocates.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use latlab_model::plan::{plan, plan_run};
use latlab_model::spec::{Lab, LabSource, Study};

/// Counts what goes through it.
struct Counting;

// For each thread, because tests run beside each other. Signed: a thread may free what another made.
thread_local! {
    static NOW: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
    static CALLS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator as it came; only numbers are kept beside.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.get() + layout.size() as isize;
        NOW.set(now);
        PEAK.set(PEAK.get().max(now));
        CALLS.set(CALLS.get() + 1);
        // SAFETY: the caller keeps `alloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.set(NOW.get() - layout.size() as isize);
        // SAFETY: the caller keeps `dealloc`'s contract, and `alloc` gave the system's memory.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Most memory at once. A text of 2 MiB becomes a tree, a spec and a plan.
const MAX_PEAK_BYTES: usize = 512 << 20;
/// Most allocations; a lab of 1000 nodes makes about 60,000.
const MAX_CALLS: usize = 30_000_000;

/// Reads and plans `text` as a lab and as a study, and returns the cost: peak bytes, allocations.
fn cost(text: &str) -> (usize, usize) {
    let facts = common::facts("large");
    let before = NOW.get();
    PEAK.set(before);
    CALLS.set(0);
    if let Ok(lab) = Lab::parse(text) {
        plan(&lab, &facts).ok();
    }
    if let Ok(study) = Study::parse(text) {
        if let LabSource::Inline(lab) = &study.lab {
            plan_run(
                &study,
                lab,
                &facts,
                &latlab_model::profile::Profile::builtin,
            )
            .ok();
        }
    }
    ((PEAK.get() - before).unsigned_abs(), CALLS.get())
}

fn is_bounded(what: &str, text: &str) {
    let (peak, calls) = cost(text);
    println!(
        "{what}: {} bytes, peak {} MiB, {calls} allocations",
        text.len(),
        peak >> 20
    );
    assert!(peak < MAX_PEAK_BYTES, "{what}: {peak} bytes at once");
    assert!(calls < MAX_CALLS, "{what}: {calls} allocations");
}

fn nodes(count: usize, fields: &str) -> String {
    (0..count)
        .map(|i| format!("    n{i}: {{kind: native{fields}}}\n"))
        .collect()
}

fn lab(rest: &str) -> String {
    format!("name: big\ntopology:\n{rest}")
}

#[test]
fn shipped_documents_are_cheap() {
    let mut files = common::yaml_files(&common::tests("bad"));
    files.extend(common::yaml_files(&common::folder("labs")));
    files.extend(common::yaml_files(&common::folder("studies")));
    for file in files {
        let (peak, calls) = cost(&common::read(&file));
        assert!(
            peak < 4 << 20 && calls < 100_000,
            "{}: {peak} B, {calls}",
            file.display()
        );
    }
}

/// Inputs that once failed a fuzz target, by name; `fuzz/` begins with them too.
#[test]
fn inputs_found_by_fuzzing_are_answered() {
    let found = common::yaml_files(&common::tests("fuzzed"));
    assert!(!found.is_empty());
    for file in found {
        let text = common::read(&file);
        cost(&text);
        let mistakes = Lab::parse(&text).expect_err("a mistake");
        let lines = text.split(['\n', '\r']).count();
        let inside = mistakes.iter().all(|m| (1..=lines).contains(&m.at.line));
        assert!(inside, "{}: {}", file.display(), mistakes.render("f"));
    }
}

/// Nodes on bridges, the same number on each.
fn bridged(count: usize, of_each: usize) -> String {
    let numbers: Vec<usize> = (0..count).collect();
    let link = |numbers: &[usize]| {
        let ends: String = numbers.iter().map(|i| format!("'n{i}:eth0',")).collect();
        format!("{{type: bridge, endpoints: [{ends}]}},")
    };
    let links: String = numbers.chunks(of_each).map(link).collect();
    lab(&format!(
        "  nodes:\n{}  links: [{links}]\n",
        nodes(count, "")
    ))
}

#[test]
fn many_nodes_on_bridges() {
    for count in [1_000, 10_000, 40_000] {
        is_bounded(&format!("{count} nodes"), &bridged(count, 1_000));
        is_bounded(&format!("{count} nodes on one"), &bridged(count, count));
    }
}

#[test]
fn a_bridge_has_1023_ports() {
    assert!(Lab::parse(&bridged(1_023, 1_023)).is_ok());
    let refused = Lab::parse(&bridged(1_024, 1_024)).unwrap_err().render("f");
    assert!(
        refused.contains("has 1024 ends; a bridge has 1023 ports"),
        "{refused}"
    );
}

#[test]
fn many_links_between_two_nodes() {
    for kind in ["veth", "nat", "vxlan"] {
        let link = |i| format!("    - {{type: {kind}, endpoints: ['a:e{i}', 'b:e{i}']}}\n");
        let links: String = (0..25_000).map(link).collect();
        let nodes = "  nodes: {a: {kind: native}, b: {kind: native}}\n  links:\n";
        is_bounded(
            &format!("links of type {kind}"),
            &lab(&format!("{nodes}{links}")),
        );
    }
}

#[test]
fn many_mistakes() {
    let unknown: String = (0..40_000)
        .map(|i| format!("'m{i}:an-interface-{i}-too-long',"))
        .collect();
    let text = format!(
        "  nodes:\n{}  links: [{{endpoints: [{unknown}]}}]\n",
        nodes(20_000, "")
    );
    is_bounded("unknown nodes", &lab(&text));
    is_bounded(
        "duplicates",
        &lab(&format!(
            "  nodes:\n{}",
            "    a: {kind: native}\n".repeat(50_000)
        )),
    );
    let keys: String = (0..100_000).map(|i| format!("k{i}: 1\n")).collect();
    is_bounded("unknown keys", &keys);
    let long = "x".repeat(1 << 20);
    let ends = format!("'{long}:e',").repeat(3);
    is_bounded(
        "long names",
        &lab(&format!(
            "  nodes: {{{long}: {{kind: {long}}}}}\n  links: [{{name: {long}, endpoints: [{ends}]}}]\n"
        )),
    );
}

#[test]
fn little_text_that_means_much() {
    let text = |fields: &str| {
        lab(&format!(
            "  defaults: {{{fields}}}\n  nodes:\n{}",
            nodes(40_000, "")
        ))
    };
    is_bounded("all processors", &text("cpuset: 0-8191, isolate: true"));
    let sparse: Vec<String> = (0..4096).map(|c| (2 * c).to_string()).collect();
    is_bounded(
        "every other processor",
        &text(&format!("cpuset: '{}'", sparse.join(","))),
    );
    is_bounded(
        "a long script",
        &text(&format!("setup: '{}'", "x".repeat(1 << 20))),
    );
    is_bounded(
        "many variables",
        &text(&format!(
            "env: {{{}}}",
            (0..5000).map(|i| format!("V{i}: 1,")).collect::<String>()
        )),
    );
    is_bounded("flow sequences", &"[a,".repeat(1_000_000));
    is_bounded(
        "a wide flow sequence",
        &format!("[{}]", "a,".repeat(1_000_000)),
    );
    let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for i in 1..9 {
        bomb += &format!(
            "a{i}: &a{i} [{}]\n",
            vec![format!("*a{}", i - 1); 10].join(",")
        );
    }
    is_bounded("aliases of aliases", &bomb);
    is_bounded(
        "anchors around anchors",
        &(0..60).map(|i| format!("[&a{i} ")).collect::<String>(),
    );
}

#[test]
fn studies_that_multiply() {
    let lab = |nodes: &str| {
        format!(
            "lab: {{name: l, topology: {{nodes: {{a: {{kind: native}}, b: {{kind: native}}, {nodes}}}, links: [{{endpoints: ['a:e', 'b:e']}}]}}}}\n"
        )
    };
    let levels: Vec<String> = (1..=20).map(|i| (i * 1000).to_string()).collect();
    let factor = |name: &str, field: &str| {
        format!(
            "  {name}: {{path: topology.{field}, levels: [{}]}}\n",
            levels.join(",")
        )
    };
    let measurements = "measurements: [{probe: rr, from: a, to: b}]\nreplicates: 1\n";
    let factors = factor("one", "links.0.mtu")
        + &factor("two", "nodes.a.cpus")
        + &factor("three", "nodes.b.cpus");
    let small = format!("name: s\n{}factors:\n{factors}{measurements}", lab(""));
    is_bounded("8000 combinations of a small lab", &small);
    let many: String = (0..1000)
        .map(|i| format!("n{i}: {{kind: native}}, "))
        .collect();
    let large = format!("name: s\n{}factors:\n{factors}{measurements}", lab(&many));
    is_bounded("8000 combinations of a large lab", &large);
    let deep = format!(
        "name: s\n{}factors: {{{}: [1]}}\n{measurements}",
        lab(""),
        "a.".repeat(100_000) + "a"
    );
    is_bounded("a deep path", &deep);
}
