//! Links of `type: overlay` in labs, and `latlab overlay`, through the real binaries.

mod common;

use common::{Bench, enter, whole};

/// A process, a container and, where all of it is asked for, a virtual machine on one overlay.
fn lab(carrier: &str) -> String {
    let (guest, end) = match whole() {
        true => (", v: {kind: vm, memory: 256MiB}", ", \"v:eth0\""),
        false => ("", ""),
    };
    format!(
        "name: NAME\ntopology:\n  nodes: {{a: {{kind: native}}, c: {{kind: container}}{guest}}}\n  \
         links: [{{type: overlay, carrier: {carrier}, endpoints: [\"a:eth0\", \"c:eth0\"{end}]}}]\n"
    )
}

fn reach(bench: &Bench, lab: &str) {
    let others = if whole() { 3 } else { 2 };
    for node in 2..=others {
        let address = format!("198.18.0.{node}");
        bench
            .exec(
                lab,
                "a",
                &["ping", "-c", "5", "-i", "0.05", "-W", "5", &address],
            )
            .good();
    }
}

#[test]
fn every_carrier_joins_the_nodes_of_a_lab() {
    enter("every_carrier_joins_the_nodes_of_a_lab", |bench| {
        for carrier in ["local", "vxlan", "udp", "direct"] {
            println!("{carrier}");
            let name = bench.deploy(carrier, &lab(carrier));
            reach(bench, &name);
            let daemon = match carrier {
                "local" => name.clone(),
                _ => format!("{name}/l0.0"),
            };
            let ports = bench
                .latlab(&["overlay", &daemon, "list", "interfaces"])
                .good()
                .out;
            assert!(
                ports.starts_with("p0 network lan veth p0 mac 02:"),
                "{ports}"
            );
            let counters = bench.latlab(&["overlay", &daemon, "counters"]).good().out;
            // The overlay's own format is written and read by the daemon.
            let in_kernel = carrier != "udp";
            assert_eq!(
                counters.contains("in_kernel_frames"),
                in_kernel,
                "{counters}"
            );
            bench.latlab(&["destroy", &name]).good();
            bench.assert_clean();
        }
    });
}

#[test]
fn what_cannot_be_said_is_answered_with_a_hint() {
    enter("what_cannot_be_said_is_answered_with_a_hint", |bench| {
        let name = bench.deploy("hint", &lab("vxlan"));
        let several = bench.latlab(&["overlay", &name, "show"]);
        assert_eq!(several.code, 2);
        let expected = format!(
            "latlab: lab `{name}` has several overlay daemons\n  hint: name it, as {name}/LINK: one of l0.0, l0.1"
        );
        assert!(several.err.starts_with(&expected), "{}", several.err);
        let daemon = format!("{name}/l0.0");
        let wrong = bench.latlab(&["overlay", &daemon, "list", "everything"]);
        assert_eq!(wrong.code, 2);
        assert_eq!(
            wrong.err,
            "error: unknown list `everything`\n  list everything\n       ^\n  \
             hint: one of networks, interfaces, links, routes\n"
        );
        let nobody = bench.latlab(&["overlay", "nobody", "show"]);
        assert_eq!(nobody.code, 2);
        assert!(
            nobody
                .err
                .starts_with("latlab: lab `nobody` has no overlay\n")
        );
        bench.latlab(&["destroy", &name]).good();
    });
}
