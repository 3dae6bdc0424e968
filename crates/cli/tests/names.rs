//! Nodes know each other by name, in every kind and on every type of link; the host's own files stay.

mod common;

use std::fs;

use common::{Bench, enter, guests, kinds, tool, until};
use serde_json::Value;

/// Types of links with more than two ends.
const SHARED: [&str; 5] = ["bridge", "nat", "macvlan", "vxlan", "overlay"];

/// A native node and a container on a link of every type. With a VM: that is on all of them too.
fn everything(with_vm: bool) -> String {
    let mut nodes = "    n-veth: {kind: native}\n    c-veth: {kind: container}\n".to_owned();
    let mut links = "    - endpoints: [\"n-veth:eth0\", \"c-veth:eth0\"]\n".to_owned();
    if with_vm {
        nodes += "    guest: {kind: vm, memory: 256MiB, start: clone}\n";
        links += "    - endpoints: [\"n-veth:eth1\", \"guest:veth\"]\n";
    }
    for kind in SHARED {
        nodes += &format!("    n-{kind}: {{kind: native}}\n    c-{kind}: {{kind: container}}\n");
        let guest = format!(", \"guest:{kind}\"");
        let guest = if with_vm { guest.as_str() } else { "" };
        links += &format!(
            "    - {{type: {kind}, endpoints: [\"n-{kind}:eth0\", \"c-{kind}:eth0\"{guest}]}}\n"
        );
    }
    format!("name: NAME\ntopology:\n  nodes:\n{nodes}  links:\n{links}")
}

/// Pings a node by its name in both families; what the name led to.
fn met(bench: &Bench, lab: &str, from: &str, to: &str) -> [String; 2] {
    [4, 6].map(|family| {
        let line = format!(
            "ping -{family} -c1 -W20 {to} > /dev/null && getent ahostsv{family} {to} | head -n1"
        );
        let said = bench.exec(lab, from, &["sh", "-c", &line]).good();
        let address = said.out.split_whitespace().next().unwrap_or_default();
        address.to_owned()
    })
}

/// The addresses under which the plan says that `from` sees `to`.
fn planned(bench: &Bench, lab: &str, from: &str, to: &str) -> [String; 2] {
    let state = fs::read(bench.labs().join(lab).join("state.json")).unwrap();
    let names = &serde_json::from_slice::<Value>(&state).unwrap()["plan"]["names"];
    let own = &names["seen_by"][from][to];
    let seen = if own.is_null() {
        &names["nodes"][to]
    } else {
        own
    };
    [0, 1].map(|at| seen[at].as_str().unwrap().to_owned())
}

#[test]
fn names_lead_to_nodes_of_every_kind_on_every_type_of_link() {
    let name = "names_lead_to_nodes_of_every_kind_on_every_type_of_link";
    enter(name, |bench| {
        let with_vm = kinds().contains(&"vm") || guests();
        let before = fs::read("/etc/hosts").unwrap();
        let lab = bench.deploy("all", &everything(with_vm));
        for kind in ["veth"].iter().chain(&SHARED) {
            let (native, container) = (format!("n-{kind}"), format!("c-{kind}"));
            let mut pairs = vec![(native.as_str(), container.as_str())];
            // From the inside of a nat, names outside lead through the router.
            pairs.push((&container, &native));
            if with_vm {
                pairs.extend([(native.as_str(), "guest"), ("guest", &native)]);
                if *kind != "veth" {
                    pairs.push(("guest", &container));
                }
            }
            for (from, to) in pairs {
                println!("{from} to {to}");
                assert_eq!(met(bench, &lab, from, to), planned(bench, &lab, from, to));
            }
        }
        let nodes = ["n-veth", "c-veth", "guest"];
        for node in &nodes[..2 + usize::from(with_vm)] {
            let names = "hostname; uname -n; getent hosts $(hostname) localhost | wc -l";
            let said = bench.exec(&lab, node, &["sh", "-c", names]).good();
            assert_eq!(said.out, format!("{node}\n{node}\n2\n"));
        }
        assert_eq!(fs::read("/etc/hosts").unwrap(), before);
        bench.latlab(&["destroy", &lab]).good();
        bench.assert_clean();
    });
}

#[test]
fn the_hosts_own_files_and_names_stay_and_binds_win() {
    enter(
        "the_hosts_own_files_and_names_stay_and_binds_win",
        |bench| {
            let (hosts, name) = (fs::read("/etc/hosts").unwrap(), tool(&["hostname"]));
            let own = bench.root().join("files/own-hosts");
            fs::write(&own, "192.0.2.7 elsewhere\n").unwrap();
            let lab = bench.deploy(
            "own",
            "name: NAME\ntopology:\n  nodes:\n    h: {kind: host}\n    n: {kind: native}\n    \
             c: {kind: container}\n    b: {kind: container, binds: [\"own-hosts:/etc/hosts\"]}\n  links:\n    \
             - endpoints: [\"h:names0\", \"n:eth0\"]\n    - endpoints: [\"n:eth1\", \"c:eth0\"]\n    \
             - endpoints: [\"n:eth2\", \"b:eth0\"]\n",
        );
            let cat = |node: &str| bench.exec(&lab, node, &["cat", "/etc/hosts"]).good().out;
            // A node of kind `host` is the host; the others know it.
            assert_eq!(cat("h").as_bytes(), hosts);
            assert_eq!(bench.exec(&lab, "h", &["hostname"]).good().out, name);
            assert_eq!(met(bench, &lab, "n", "h"), planned(bench, &lab, "n", "h"));
            assert_eq!(cat("b"), "192.0.2.7 elsewhere\n");
            // A container's changes are its own; what a native node mounts or renames ends with the command.
            let add = "echo '192.0.2.8 mine' >> /etc/hosts && getent hosts mine";
            assert!(
                bench
                    .exec(&lab, "c", &["sh", "-c", add])
                    .good()
                    .out
                    .contains("192.0.2.8")
            );
            assert!(cat("c").contains("192.0.2.8 mine\n") && !cat("n").contains("mine"));
            let change = "mount -t tmpfs none /mnt && hostname other && hostname";
            assert_eq!(
                bench.exec(&lab, "n", &["sh", "-c", change]).good().out,
                "other\n"
            );
            assert_eq!(bench.exec(&lab, "n", &["hostname"]).good().out, "n\n");
            assert_eq!(tool(&["hostname"]), name);
            assert!(!tool(&["cat", "/proc/mounts"]).contains(" /mnt "));
            assert_eq!(fs::read("/etc/hosts").unwrap(), hosts);
            assert_eq!(fs::read_to_string(&own).unwrap(), "192.0.2.7 elsewhere\n");
        },
    );
}

#[test]
fn a_command_keeps_no_other_labs_namespaces_alive() {
    enter("a_command_keeps_no_other_labs_namespaces_alive", |bench| {
        let one = "name: NAME\ntopology:\n  nodes: {a: {kind: native}, b: {kind: native}}\n  links: \
                   [{endpoints: [\"a:eth0\", \"b:eth0\"]}]\n";
        let second = bench.deploy("second", one);
        let first = bench.deploy("first", one);
        let mut sleeping = bench
            .command(&["exec", &first, "a", "--", "sleep", "600"])
            .spawn()
            .unwrap();
        until("the command runs", || {
            common::labelled().iter().any(|pid| {
                let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                words.starts_with(b"sleep\x00600")
            })
        });
        let pins = bench.run_dir().join(&second).join("netns");
        let seen = || {
            let mut mounts = common::labelled().into_iter().map(|pid| {
                fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default()
            });
            mounts.any(|mounts| mounts.contains(pins.to_str().unwrap()))
        };
        assert!(tool(&["cat", "/proc/mounts"]).contains(pins.to_str().unwrap()));
        assert!(!seen(), "a node's commands hold namespaces of labs");
        bench.latlab(&["destroy", &second]).good();
        bench.latlab(&["destroy", &first]).good();
        sleeping.wait().unwrap();
    });
}
