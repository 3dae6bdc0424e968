//! Topologies of containerlab as labs, and labs as topologies. What becomes of each file in `tests/containerlab`, and
//! what a person is told, is the file beside it; `UPDATE_EXPECT=1` rewrites them.

mod common;

use latlab_model::containerlab::{Exported, Imported, Surroundings, export, import};
use latlab_model::diagnostic::Diagnostics;
use latlab_model::plan::{Plan, plan};
use latlab_model::spec::Lab;

fn imported(text: &str) -> Result<Imported, Diagnostics> {
    with_image(text, None)
}

fn with_image(text: &str, image: Option<&str>) -> Result<Imported, Diagnostics> {
    let variable = |name: &str| match name {
        "SET" => Some("value".to_string()),
        "HOME" => Some("/home/user".into()),
        _ => None,
    };
    let file = |name: &str| match name {
        "files.env" => Ok("FILE=1\nSET=from the file\n".to_string()),
        _ => Err("no such file".to_string()),
    };
    let directory = "";
    import(
        text,
        &Surroundings {
            variable: &variable,
            file: &file,
            directory,
            image,
        },
    )
}

#[test]
fn every_topology_becomes_its_lab_and_its_remarks() {
    let mut wrong = Vec::new();
    let files = common::yaml_files(&common::tests("containerlab"));
    assert!(files.len() >= 20, "only {} topologies", files.len());
    for file in &files {
        let name = file
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let is_bad = name.as_str() >= "20";
        let text = match imported(&common::read(file)) {
            Ok(imported) => {
                if is_bad {
                    wrong.push(format!("{name} is accepted"));
                }
                let text = imported.text(&name);
                wrong.extend(
                    planned(&text)
                        .err()
                        .map(|errors| format!("{name}: {}\n{text}", errors.render("lab"))),
                );
                let remarks = &imported.remarks;
                let (nodes, links) = (remarks.nodes_left_out, remarks.links_left_out);
                format!(
                    "{text}\n{}left out: {nodes} nodes, {links} links\n",
                    remarks.render(&name)
                )
            }
            Err(errors) => {
                if !is_bad {
                    wrong.push(format!("{name} is refused"));
                }
                errors.render(&name)
            }
        };
        wrong.extend(common::against_golden(&file.with_extension("expected"), &text).err());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// A plan on a machine that has everything.
fn planned(lab: &str) -> Result<Plan, Diagnostics> {
    let mut facts = common::facts("large");
    for program in ["crun", "runc", "podman", "dockerd", "containerd"] {
        facts.tools.insert(program.into(), "1".into());
    }
    plan(&Lab::parse(lab)?, &facts)
}

fn exported(lab: &str, image: Option<&str>) -> Result<Exported, Diagnostics> {
    export(&Lab::parse(lab).unwrap(), image)
}

const CONTAINERS: &str = r#"
name: there-and-back
topology:
  defaults: {kind: container, image: alpine-3.tar}
  nodes:
    client:
      cpus: 1.5
      memory: 300MiB
      env: {A: "1", B: "two $words '{{'"}
      exec: ["ip route add 10.9.0.0/16 via 10.0.0.254", "echo 1 > /proc/sys/net/ipv4/ip_forward", "echo $HOME '$$x'"]
    server: {cpuset: 0-1, runtime: podman, binds: ["./files:/files:ro", "/a:/b"]}
    third: {security: {capabilities: [SYS_NICE], seccomp: unconfined}, storage: [{at: /x, type: tmpfs, size: 64MiB}]}
    outside: {kind: host, image: host}
  links:
    - {endpoints: ["client:eth0", "server:eth0"]}
    - type: bridge
      mtu: 9000
      endpoints: ["client:eth1", "server:eth1", {node: third, interface: eth1, mac: "02:00:00:00:00:01"}]
    - endpoints:
        - {node: client, interface: eth2, ipv4: 10.0.0.1/24, ipv6: "fd00::1/64", mac: "02:00:00:00:00:02"}
        - {node: third, interface: eth2, addresses: [10.0.0.2/24, 10.0.0.3/24]}
    - {name: lan, type: bridge, endpoints: ["server:eth3", "third:eth3"], mtu: 1200}
    - {endpoints: ["third:eth4", "outside:third-eth4"]}
"#;

#[test]
fn a_lab_of_containers_is_planned_the_same_after_both_ways() {
    let before = planned(CONTAINERS).unwrap();
    let topology = exported(CONTAINERS, None).unwrap();
    assert!(topology.remarks.is_whole());
    // As containerlab renders it.
    let rendered = topology.text("lab.yaml").replace(r#"{{"{{"}}"#, "{{");
    let split = rendered.replace("{{", "<<");
    let back =
        imported(&split).unwrap_or_else(|errors| panic!("{}\n{split}", errors.render("lab")));
    let lab = back.text("lab.clab.yml").replace("<<", "{{");
    let after = planned(&lab).unwrap_or_else(|errors| panic!("{}\n{lab}", errors.render("lab")));
    assert_eq!(after.links, before.links, "{rendered}\n{lab}");
    assert_eq!(after.nodes, before.nodes, "{rendered}\n{lab}");
    assert_eq!(after, before);
}

const EVERYTHING: &str = r#"
name: everything
tuning: isolated
topology:
  nodes:
    native: {kind: native, isolate: true, cpus: 1, teardown: "true", run: "true", setup: "echo a\necho b\n"}
    archive: {kind: container, image: images/Tools-1.tar, runtime: runc, security: {pids: 100}}
    directory: {kind: container, image: ./rootfs, hide: [/etc/x], storage: [{at: /d, type: volume}], tuning: default}
    guest: {kind: vm}
    outside: {kind: host, exec: [ip link set eno1 up]}
    other: {kind: host}
  links:
    - {endpoints: ["native:eth0", "archive:eth0"], rate: 10Mbit, delay: 10ms, jitter: 1ms, loss: 0.1%}
    - {endpoints: ["native:eth1", "guest:eth0"]}
    - {type: bridge, endpoints: ["native:eth2", "archive:eth2", "guest:eth2"]}
    - {name: a-long-name-of-a-bridge, type: bridge, endpoints: ["native:eth3", "archive:eth3"]}
    - {name: tunnel, type: vxlan, endpoints: ["native:eth4", "archive:eth4"]}
    - {type: overlay, endpoints: ["native:eth5", "archive:eth5"]}
    - {type: nat, endpoints: ["native:eth6", "archive:eth6"]}
    - {type: macvlan, parent: eno1, endpoints: ["native:eth7", "archive:eth7"]}
    - {type: macvlan, endpoints: ["native:eth8", "archive:eth8"]}
    - {type: phys, endpoints: ["native:eth9"], interfaces: [eno2]}
    - {endpoints: [{node: outside, interface: veth1, mac: "02:00:00:00:00:01"}, {node: native, interface: eth10, mac: "02:00:00:00:00:02"}]}
    - {endpoints: ["outside:veth2", "other:veth3"]}
"#;

#[test]
fn what_a_topology_cannot_have_is_told() {
    let exported = exported(EVERYTHING, Some("debian:13")).unwrap();
    let remarks = &exported.remarks;
    let (nodes, links) = (remarks.nodes_left_out, remarks.links_left_out);
    let text = format!(
        "{}\n{}left out: {nodes} nodes, {links} links\n",
        exported.text("everything.yaml"),
        remarks.render("everything.yaml")
    );
    let golden = common::tests("containerlab").join("export.expected");
    assert_eq!(common::against_golden(&golden, &text), Ok(()));
}

#[test]
fn commands_on_an_interface_keep_their_order() {
    let lab = |own: &str| {
        let text = format!(
            "name: x
topology:
  defaults: {{kind: linux, image: 'alpine:3'}}
  nodes:
    a: {{exec: [{own}]}}
    b: {{exec: [ip addr add 10.0.0.2/24 dev eth1]}}
  links: [{{endpoints: ['a:eth1', 'b:eth1']}}]
"
        );
        imported(&text).unwrap().text("x.clab.yml")
    };
    let add = "ip addr add 10.0.0.1/24 dev eth1";
    let plain = lab(&format!(
        "ip link set eth1 up, {add}, ip link set eth10 down"
    ));
    assert!(plain.contains("ipv4: 10.0.0.1/24"), "{plain}");
    assert!(!plain.contains(add), "{plain}");
    assert!(!plain.contains("eth1 up"), "{plain}");
    for before in [
        "ip addr flush dev eth1",
        "sh -c 'sysctl net.ipv6.conf.eth1.disable_ipv6=1; true'",
    ] {
        let kept = lab(&format!("\"{before}\", {add}"));
        assert!(kept.contains(add), "{kept}");
        assert!(!kept.contains("ipv4:"), "{kept}");
    }
    let again = lab("ip link set eth1 down, ip link set eth1 mtu 1400, ip link set eth1 up");
    assert!(again.contains("ip link set eth1 up"), "{again}");
}

#[test]
fn a_node_without_an_image_of_a_registry_needs_one() {
    let errors = exported(EVERYTHING, None).unwrap_err().render("lab");
    let told: Vec<&str> = errors
        .lines()
        .filter(|line| line.contains("has no image of a registry"))
        .collect();
    assert_eq!(told.len(), 2, "{errors}");
    assert!(errors.contains("--image debian:13"), "{errors}");
}

#[test]
fn every_difference_of_a_large_lab_is_in_the_file() {
    let nodes: String = (0..250)
        .map(|number| format!("    n{number}: {{image: ./root-{number}.tar}}\n"))
        .collect();
    let lab = format!("name: x\ntopology:\n  defaults: {{kind: container}}\n  nodes:\n{nodes}");
    let text = exported(&lab, Some("debian:13")).unwrap().text("x.yaml");
    let told = text
        .lines()
        .filter(|line| line.contains("is that of an archive"));
    assert_eq!(told.count(), 250, "{text}");
    assert!(!text.contains("more differences"), "{text}");
}

#[test]
fn one_image_can_stand_for_all() {
    let topology = "name: x\ntopology: {nodes: {a: {kind: linux, image: 'alpine:3'}, b: {kind: linux, image: nginx}}}\n";
    let lab = with_image(topology, Some("host")).unwrap();
    assert!(lab.remarks.sorted().is_empty());
    let text = lab.text("x.clab.yml");
    assert_eq!(text.matches("image: host").count(), 2, "{text}");
}

#[test]
fn hostile_topologies_are_refused_or_read_within_bounds() {
    let node = "{kind: linux, image: alpine}";
    let bomb = (1..30).fold("a0: &a0 [x, x]\n".to_string(), |all, level| {
        let below = level - 1;
        all + &format!("a{level}: &a{level} [*a{below}, *a{below}]\n")
    });
    let long = format!("{{exec: [\"{}\"]}}", "x".repeat(500_000));
    let nodes = |count: usize| {
        (0..count)
            .map(|number| format!("    n{number}: {node}\n"))
            .collect::<String>()
    };
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    let cases = [
        (bomb, "those of aliases included"),
        (
            format!(
                "name: x\ntopology:\n  defaults: {long}\n  nodes:\n{}",
                nodes(1000)
            ),
            "repeated for 1000 nodes",
        ),
        (
            format!("name: {}\n", "x".repeat(3 << 20)),
            "at most 2 MiB are read",
        ),
        (format!("name: {deep}\n"), "nested deeper"),
        (
            format!(
                "name: \"\\e[31m\\0\"\ntopology:\n  nodes:\n    \"a\\nb\": {node}\n  oops: 1\n"
            ),
            "unknown key `oops`",
        ),
    ];
    for (text, told) in cases {
        let errors = imported(&text)
            .map(|lab| lab.text("x"))
            .unwrap_err()
            .render("x");
        assert!(errors.contains(told), "{told}: {errors}");
        assert!(errors.len() < 100_000);
    }
    // A group of a group is not followed.
    let groups =
        "groups: {a: {group: b, kind: linux, image: x}, b: {group: a}}\n  nodes: {n: {group: a}}";
    assert!(imported(&format!("name: x\ntopology:\n  {groups}\n")).is_ok());
    // Many nodes with one name here, and many links of one bridge.
    let mut many = "name: x\ntopology:\n  nodes:\n    br: {kind: bridge}\n".to_string();
    many.extend((0..1000).map(|number| format!("    \"{}\": {node}\n", "_".repeat(number + 1))));
    many += "  links:\n";
    many.extend((0..1000).map(|number| {
        format!(
            "    - endpoints: [\"{}:eth1\", \"br:p{number}\"]\n",
            "_".repeat(number + 1)
        )
    }));
    let lab = imported(&many).unwrap_or_else(|errors| panic!("{}", errors.render("x")));
    assert!(lab.text("x").contains("n-1000:eth1"));
}

#[test]
fn texts_of_a_topology_stay_inside_of_comments_and_values() {
    let topology = "name: x\ntopology: {nodes: {a: {kind: linux, image: alpine, runtime: \"x\\nname: y\\u2028z\\e[31m\"}}}\n";
    let lab = imported(topology).unwrap();
    let text = lab.text("evil\nname: z.yml");
    assert_eq!(Lab::parse(&text).unwrap().name.value, "x", "{text}");
    assert!(
        !text.contains('\u{1b}') && !text.contains('\u{2028}'),
        "{text}"
    );
}
