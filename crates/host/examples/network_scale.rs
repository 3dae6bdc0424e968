//! How long the network of N native nodes on one bridge takes to make and to remove.
//!
//! ```text
//! cargo run --release -p latlab-host --example network_scale -- 10 100 1000
//! ```
//!
//! Runs in a network and mount namespace of its own, as root. Prints one line a size, with the time
//! of each stage and the total per node; asserts nothing. "Removed" is when no name and no mount is
//! left; the kernel frees the namespaces in the background, and "freed" is when it has, seen
//! from outside: when making one namespace no longer has to wait for it.

#[path = "../tests/sandbox/mod.rs"]
mod sandbox;

use std::fmt::Write;
use std::path::Path;
use std::time::Instant;

use latlab_host::links::Network;
use latlab_host::sys::mount;
use latlab_model::plan::Plan;

fn main() {
    let mut sizes: Vec<usize> = std::env::args()
        .skip(1)
        .filter_map(|n| n.parse().ok())
        .collect();
    if sizes.is_empty() {
        sizes = vec![10, 100, 1000];
    }
    println!("nodes  namespaces_ms  links_ms  up_ms  removed_ms  up_and_removed_us_per_node");
    for nodes in sizes {
        let plan = lab(nodes);
        sandbox::run("scale", |directory| measure(&plan, directory));
    }
}

fn lab(nodes: usize) -> Plan {
    let mut text = String::from("  nodes:\n");
    for node in 0..nodes {
        let _ = writeln!(text, "    n{node}: {{kind: native}}");
    }
    let ends: Vec<_> = (0..nodes).map(|node| format!("'n{node}:eth0'")).collect();
    let _ = writeln!(
        text,
        "  links: [{{type: bridge, endpoints: [{}]}}]",
        ends.join(", ")
    );
    sandbox::planned(&text)
}

fn measure(plan: &Plan, directory: &Path) {
    let begin = Instant::now();
    let network = Network::new(directory.to_owned(), "scale").expect("the root namespace");
    network.make_namespaces(plan).expect("namespaces");
    let namespaces = begin.elapsed();
    network.connect(plan).expect("links");
    let up = begin.elapsed();

    let begin = Instant::now();
    mount::unmount_below(directory).expect("unmounted");
    let removed = begin.elapsed();

    let ms = |time: std::time::Duration| time.as_secs_f64() * 1e3;
    let nodes = plan.nodes.len();
    println!(
        "{nodes:5}  {:13.1}  {:8.1}  {:5.1}  {:10.1}  {:26.0}",
        ms(namespaces),
        ms(up - namespaces),
        ms(up),
        ms(removed),
        ms(up + removed) * 1e3 / nodes as f64
    );
}
