//! Topologies of containerlab through the real binary: imported, deployed, exported.

mod common;

use std::fs;

use common::{enter, finish};

/// Two containers at a bridge; the addresses are in their commands. `NAME` becomes the lab's name.
const TOPOLOGY: &str = "name: NAME
topology:
  defaults: {kind: linux, image: \"alpine:3\"}
  nodes:
    PC1:
      env: {GREETING: \"${GREETING:=hello}\"}
      binds: [shared:/var/shared:ro]
      cmd: sh -c 'while sleep 1; do date; done'
      exec:
        - ip link set eth1 up
        - ip address add 10.1.0.1/24 dev eth1
        - ip route add 10.2.0.0/16 via 10.1.0.2
        - sh -c 'echo $$GREETING > /tmp/greeting'
    PC2:
      sysctls: {net.ipv4.ip_forward: 1}
      exec:
        - ip address add 10.1.0.2/24 dev eth1
        - ip address add 10.2.0.1/32 dev lo
    br-lan: {kind: bridge}
  links:
    - endpoints: [\"PC1:eth1\", \"br-lan:p1\"]
    - endpoints: [\"PC2:eth1\", \"br-lan:p2\"]
";

#[test]
fn an_imported_topology_is_deployed_with_its_addresses_and_commands() {
    enter(
        "an_imported_topology_is_deployed_with_its_addresses_and_commands",
        |bench| {
            let directory = bench.root().join("files");
            fs::create_dir(directory.join("shared")).unwrap();
            fs::write(directory.join("shared/file"), "shared\n").unwrap();
            let topology = directory.join("lan.clab.yml");
            let lab = bench.name("lan");
            fs::write(&topology, TOPOLOGY.replace("NAME", &lab)).unwrap();
            let import = [
                "import",
                "lan.clab.yml",
                "--image",
                "host",
                "-o",
                "lan.yaml",
            ];
            let said = bench.latlab(&import).good();
            assert!(
                said.err
                    .contains("lan.clab.yml:5:5: node `PC1` is named `pc1`"),
                "{said:?}"
            );
            bench
                .latlab(&import)
                .refused(2, "lan.yaml exists", "--force");
            let mut forced = import.to_vec();
            forced.push("--force");
            bench.latlab(&forced).good();

            bench.latlab(&["deploy", "lan.yaml"]).good();
            let exec = |node: &str, words: &[&str]| bench.exec(&lab, node, words).good().out;
            exec("pc1", &["ping", "-c", "1", "10.1.0.2"]);
            exec("pc1", &["ping", "-c", "1", "10.2.0.1"]);
            exec("pc2", &["ping", "-c", "1", "10.1.0.1"]);
            assert_eq!(exec("pc1", &["cat", "/tmp/greeting"]), "hello\n");
            assert_eq!(exec("pc1", &["cat", "/var/shared/file"]), "shared\n");
            assert_eq!(
                exec("pc2", &["cat", "/proc/sys/net/ipv4/ip_forward"]),
                "1\n"
            );
            assert_eq!(exec("pc2", &["cat", "/sys/class/net/eth1/mtu"]), "9500\n");
            let words = "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -c '^while sleep 1; do date; done$'";
            assert_eq!(exec("pc1", &["sh", "-c", words]), "1\n", "`cmd` runs");
            bench.latlab(&["destroy", &lab]).good();
        },
    );
}

/// The binary in a directory of its own, as any user may run it.
struct Desk(std::path::PathBuf);

impl Desk {
    fn new(test: &str) -> Desk {
        let directory =
            std::env::temp_dir().join(format!("latlab-clab-{}-{test}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        Desk(directory)
    }

    fn file(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).unwrap();
    }

    fn latlab(&self, args: &[&str]) -> common::Said {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_latlab"));
        finish(command.args(args).current_dir(&self.0))
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

#[test]
fn the_exit_code_says_whether_all_nodes_and_links_are_there() {
    let desk = Desk::new("codes");
    let node = "{kind: linux, image: alpine}";
    desk.file(
        "whole.clab.yml",
        &format!("name: x\nprefix: y\ntopology: {{nodes: {{a: {node}}}}}\n"),
    );
    let whole = desk.latlab(&["import", "whole.clab.yml"]);
    assert_eq!(whole.code, 0, "{whole:?}");
    assert!(
        whole
            .out
            .contains("a: {kind: container, image: alpine.tar}"),
        "{whole:?}"
    );
    assert!(
        whole
            .err
            .contains("whole.clab.yml:2:1: `prefix` has no equivalent\n  hint: "),
        "{whole:?}"
    );
    assert!(
        whole
            .err
            .contains("skopeo copy docker://alpine oci-archive:alpine.tar"),
        "{whole:?}"
    );

    desk.file(
        "part.clab.yml",
        &format!("name: x\ntopology: {{nodes: {{a: {node}, b: {{kind: arista_ceos}}}}}}\n"),
    );
    let part = desk.latlab(&["import", "part.clab.yml", "-o", "part.yaml"]);
    assert_eq!(part.code, 1, "{part:?}");
    assert!(
        part.err
            .ends_with("latlab: 1 node and 0 links of part.clab.yml are left out\n"),
        "{part:?}"
    );
    desk.latlab(&["validate", "part.yaml"]);

    desk.file(
        "bad.clab.yml",
        "name: x\ntopology: {nodes: {a: {kind: linux, imag: alpine}}}\n",
    );
    let bad = desk.latlab(&["import", "bad.clab.yml", "-o", "bad.yaml"]);
    assert_eq!(bad.code, 2, "{bad:?}");
    assert!(
        bad.err
            .contains("unknown key `imag` in node `a`\n  hint: did you mean `image`?"),
        "{bad:?}"
    );
    assert!(!desk.0.join("bad.yaml").exists());
}

#[test]
fn paths_of_a_topology_lead_to_its_directory_from_everywhere() {
    let desk = Desk::new("paths");
    fs::create_dir_all(desk.0.join("labs/below")).unwrap();
    desk.file("x.env", "FROM=file\n");
    desk.file(
        "x.clab.yml",
        "name: x\ntopology: {nodes: {a: {kind: linux, image: alpine, binds: [\"f:/f\", \"/g:/g\"], env-files: [x.env]}}}\n",
    );
    let beside = desk
        .latlab(&["import", "x.clab.yml", "-o", "x.yaml"])
        .good();
    assert_eq!(beside.out, "");
    let beside = fs::read_to_string(desk.0.join("x.yaml")).unwrap();
    assert!(
        beside.contains("binds: [\"f:/f\", \"/g:/g\"]") && beside.contains("FROM: file"),
        "{beside}"
    );
    desk.latlab(&["import", "x.clab.yml", "-o", "labs/below/x.yaml"])
        .good();
    let below = fs::read_to_string(desk.0.join("labs/below/x.yaml")).unwrap();
    let absolute = fs::canonicalize(&desk.0).unwrap().join("f");
    assert!(
        below.contains(&format!("\"{}:/f\"", absolute.display())),
        "{below}"
    );
}

#[test]
fn captures_and_topologies_are_told_apart() {
    let desk = Desk::new("apart");
    desk.file(
        "x.yml",
        "name: x\ntopology: {nodes: {a: {kind: linux, image: alpine}}}\n",
    );
    desk.file("one.pcap", "");
    for (args, what, hint) in [
        (
            &["import", "x.yml", "one.pcap"][..],
            "a topology is imported alone",
            "captures in pairs",
        ),
        (
            &["import", "x.yml", "--by", "frame"],
            "--by names captures",
            "needs none",
        ),
        (
            &["import", "one.pcap"],
            "without a second capture",
            "in pairs",
        ),
        (
            &["import", "one.pcap", "one.pcap", "--image", "host"],
            "--image is for a topology",
            ".yml or .yaml",
        ),
        (
            &["import", "missing.yml"],
            "cannot read missing.yml",
            "check the path",
        ),
    ] {
        desk.latlab(args).refused(2, what, hint);
    }
}

#[test]
fn a_lab_is_exported_with_what_it_leaves_to_latlab() {
    let desk = Desk::new("export");
    desk.file(
        "pair.yaml",
        "name: pair\ntopology:\n  nodes: {a: {kind: native}, b: {kind: container}, c: {kind: vm}}\n  \
         links: [{endpoints: [\"a:eth0\", \"b:eth0\"]}, {endpoints: [\"a:eth1\", \"c:eth0\"]}]\n",
    );
    let said = desk.latlab(&[
        "export",
        "pair.yaml",
        "--to",
        "containerlab",
        "--image",
        "debian:13",
    ]);
    assert_eq!(said.code, 1, "{said:?}");
    for part in [
        "image: \"debian:13\"",
        "network-mode: none",
        "ip address add 198.18.0.1/24 dev eth0",
        "endpoints: [\"a:eth0\", \"b:eth0\"]\n      mtu: 1500",
    ] {
        assert!(said.out.contains(part), "{part}: {}", said.out);
    }
    assert!(!said.out.contains("\n    c:"), "{}", said.out);
    assert!(
        said.err
            .ends_with("latlab: 1 node and 1 link of pair.yaml are left out\n"),
        "{said:?}"
    );
    let none = desk.latlab(&["export", "pair.yaml", "--to", "containerlab"]);
    assert_eq!(none.code, 2, "{none:?}");
    assert!(none.err.contains("--image debian:13"), "{none:?}");
}
