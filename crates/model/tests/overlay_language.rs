//! The overlay's control language: read back as written, mistakes with their column, refusals that
//! change nothing.

use latlab_model::overlay::language::{parse, parse_file};
use latlab_model::overlay::{Command, Overlay};

const WHOLE: &str = r#"
# two networks, every kind of thing
set dispatch dispatchers 2 cpus 2-3 mode adaptive:rate=10000/1000/10ms idle timed:20us realtime off
add network lan vni 7
add network quiet vni 8 learning off flood 100 age 2s
add interface v1 network lan vhost-user /run/v1.sock mac 52:54:00:00:00:01 mtu 9000 mode vmm
add interface v2 network lan vhost-user "/run/with blank.sock" client on queues 4 interrupts early cut-through off tx-coalesce 50us kick-coalesce 0s
add interface t0 network quiet tap tap0 netns /run/netns/a queues 2
add interface c0 network lan veth veth0 mac 02:00:00:00:00:01,02:00:00:00:00:02
add link b vxlan 10.0.0.2 networks quiet,lan
add link c udp [fd00::2]:7000 local [fd00::1]:7000
add link j udp 10.0.0.9 networks lan
add link n udp 10.0.0.9:20001 local 10.0.0.1:20001 netns /run/netns/host
add link d sealed 10.0.0.3 key /etc/overlay.key peer 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff
add link e connect 10.0.0.4:5000 certificate a.pem certificate-key a.key authority ca.pem
add link f listen 0.0.0.0:5000 peer 10.0.0.5
add link i listen 0.0.0.0:5001 peer B.example certificate a.pem certificate-key a.key authority ca.pem
add link g direct eth1 network quiet
add route lan any 52:54:00:00:00:09 link b
add route lan not-52:54:00:00:00:01 any interface v1 from link b
add route lan any none link c
"#;

fn apply(overlay: &mut Overlay, line: &str) -> Result<(), String> {
    let command = parse(line, overlay)
        .map_err(|m| format!("{}: {} ({})", m.column, m.message, m.hint))?
        .expect("a command");
    overlay
        .apply(&command)
        .map_err(|r| format!("{} ({})", r.message, r.hint))
}

#[test]
fn an_overlay_is_read_back_as_it_is_written() {
    let overlay = parse_file(WHOLE).expect("a good file");
    let written = overlay.to_string();
    assert_eq!(parse_file(&written).expect("what was written"), overlay);
    assert_eq!(overlay.routes.len(), 3);
    assert!(written.contains("add link i listen 0.0.0.0:5001 peer b.example certificate a.pem"));
    assert!(written.contains("add link b vxlan 10.0.0.2:4789 networks lan,quiet\n"));
}

#[test]
fn mistakes_say_where_and_what_to_do() {
    let cases = [
        (
            "ad network x vni 1",
            "1: unknown command `ad` (did you mean `add`?)",
        ),
        (
            "add netwrk x vni 1",
            "5: unknown thing `netwrk` (did you mean `network`?)",
        ),
        (
            "add network x",
            "15: `vni` is missing (add `vni` and a number below 16777216)",
        ),
        (
            "add network x vni 16777216",
            "19: `16777216` cannot be the vni (write a number below 16777216)",
        ),
        (
            "add network a/b vni 1",
            "13: `a/b` is no name (1 to 63 letters, digits, dots, dashes and underscores)",
        ),
        (
            "add network x vni 1 vni 2",
            "21: `vni` is given twice (give it once)",
        ),
        (
            "add network x vni 1 learning maybe",
            "30: `maybe` cannot be the learning (write on or off)",
        ),
        (
            "add interface i network lan",
            "29: how the interface is reached is missing (add `vhost-user SOCKET`, `tap DEVICE` or `veth DEVICE`)",
        ),
        (
            "add interface i network lan tap a-very-long-device-name",
            "33: `a-very-long-device-name` is no name of an interface (1 to 15 bytes without blanks, `/` and `:`)",
        ),
        (
            "add interface i network lan tap t0 client on",
            "43: a tap interface has no `client` (leave it out)",
        ),
        (
            "add interface i network lan tap t0 mac 02:0",
            "40: `02:0` cannot be the mac (write addresses as 02:00:00:00:00:01, with commas)",
        ),
        (
            "add link l vxlan nowhere",
            "18: `nowhere` is not where a link leads (write an address as 10.0.0.2, 10.0.0.2:4789 or [fd00::2]:4789)",
        ),
        (
            "add link l vxlan 10.0.0.2 local [fd00::1]:4789",
            "33: `[fd00::1]:4789` cannot be the local (write an address as 10.0.0.2, 10.0.0.2:4789 or [fd00::2]:4789)",
        ),
        (
            "add link l connect 10.0.0.2",
            "20: `10.0.0.2` is not where a link leads (write an address with a port, as 10.0.0.2:5000 or [fd00::2]:5000)",
        ),
        (
            "add link l listen 0.0.0.0:1 certificate a",
            "43: `certificate-key` is missing (add `certificate-key` and a PEM file)",
        ),
        (
            "add link l listen 0.0.0.0:1",
            "29: `peer` is missing (add `peer` and the other's address, or any (a name needs certificates))",
        ),
        (
            "add link l listen 0.0.0.0:1 peer b.example",
            "34: `b.example` cannot be the peer (write the other's address, or any (a name needs certificates))",
        ),
        (
            "add route lan any some interface v1",
            "19: `some` cannot be the destination of a route (write `any`, `none`, a MAC address, or `not-` and one)",
        ),
        (
            "add route lan any any port v1",
            "23: unknown port `port` (one of interface, link)",
        ),
        (
            "set dispatch mode adaptive:rate=5/10/1ms",
            "19: `adaptive:rate=5/10/1ms` cannot be the mode (write guest, vmm, adaptive, adaptive:wakeups=10/5/50us or adaptive:rate=10000/1000/10ms)",
        ),
        (
            "set interface v9 mode vmm",
            "5: there is no interface `v9` (did you mean `v1`?)",
        ),
        ("show me", "6: `me` is too much (end the line before it)"),
        (
            "add network \"x",
            "13: a quoted word does not end (close it with \")",
        ),
        (
            "list everything",
            "6: unknown list `everything` (one of networks, interfaces, links, routes, holds, moves)",
        ),
        (
            "hold for 2s",
            "6: `for` is no MAC address (write it as 02:00:00:00:00:01)",
        ),
        (
            "hold 52:54:00:00:00:01 01:00:5e:00:00:01 for 2s",
            "24: 01:00:5e:00:00:01 is the address of a group (frames to groups neither wait nor move; name a guest's own address)",
        ),
        (
            "hold 52:54:00:00:00:01 limit 65MiB for 2s",
            "30: `65MiB` cannot be the limit (write a size as 4MiB, at most 64MiB)",
        ),
        (
            "hold 52:54:00:00:00:01 for 2m",
            "28: `2m` cannot be the for (write a time as 2s, at most 60s)",
        ),
        (
            "release 52:54:00:00:00:01 now",
            "27: `now` is too much (end the line before it)",
        ),
        (
            "move 52:54:00:00:00:01 interface v1 revision 2",
            "24: unknown word `interface` (one of to)",
        ),
        (
            "move 52:54:00:00:00:01 to interface v1",
            "40: `revision` is missing (add `revision` and a number that grows with each move)",
        ),
    ];
    let overlay = parse_file(WHOLE).expect("a good file");
    for (line, expected) in cases {
        let mistake = parse(line, &overlay).expect_err(line);
        let found = format!("{}: {} ({})", mistake.column, mistake.message, mistake.hint);
        assert_eq!(found, expected, "{line}");
    }
}

#[test]
fn contradictions_are_refused_and_nothing_changes() {
    let cases = [
        ("add network lan vni 9", "there is a network `lan` already"),
        ("add network other vni 7", "vni 7 is the network `lan`"),
        (
            "add interface b network lan tap t9",
            "there is a link `b` already",
        ),
        (
            "add interface x network lam tap t9",
            "there is no network `lam` (did you mean `lan`?)",
        ),
        (
            "add interface x network lan tap tap0 netns /run/netns/a",
            "interface `t0` has the device tap0 in /run/netns/a already",
        ),
        (
            "add interface x network lan tap t9 mac 52:54:00:00:00:01",
            "52:54:00:00:00:01 is bound to the interface `v1`",
        ),
        (
            "add link x vxlan 10.0.0.2",
            "link `b` is VXLAN to 10.0.0.2:4789 already",
        ),
        (
            "add route quiet any any interface v1",
            "interface `v1` is in the network `lan`, the route in `quiet`",
        ),
        (
            "add route lan any any link g",
            "link `g` carries the network `quiet` only",
        ),
        (
            "add route quiet any any link j",
            "link `j` does not carry the network `quiet`",
        ),
        (
            "add link x udp 10.0.0.8 networks lan,lam",
            "there is no network `lam` (did you mean `lan`?)",
        ),
        (
            "add route lan any any link b from link b",
            "the route leads back to `b`",
        ),
        (
            "add route lan any none link c",
            "there is such a route already",
        ),
        ("delete link b", "`b` is still used: route lan"),
        (
            "delete network quiet",
            "network `quiet` still has the interface `t0`",
        ),
        ("delete route lan any any link b", "there is no such route"),
    ];
    let before = parse_file(WHOLE).expect("a good file");
    for (line, expected) in cases {
        let mut overlay = before.clone();
        let refused = apply(&mut overlay, line).expect_err(line);
        assert!(refused.starts_with(expected), "{line}: {refused}");
        assert_eq!(overlay, before, "{line}");
    }
}

#[test]
fn holds_and_moves_are_no_part_of_a_file() {
    let mut overlay = parse_file(WHOLE).expect("a good file");
    for line in [
        "hold 52:54:00:00:00:01 for 2s",
        "release 52:54:00:00:00:01",
        "move 52:54:00:00:00:01 to interface v1 revision 2",
    ] {
        let refused = apply(&mut overlay, line).expect_err(line);
        assert!(refused.starts_with("this changes no configuration"));
    }
    let line = "hold 52:54:00:00:00:01 52:54:00:00:00:02 limit 1MiB for 2s";
    let Ok(Some(Command::Hold(hold))) = parse(line, &overlay) else {
        panic!("{line}");
    };
    assert_eq!((hold.addresses.len(), hold.limit.0), (2, 1 << 20));
    assert_eq!(hold.time.0, 2_000_000_000);
    assert_eq!(hold.when_stopped, None);
    let line = "hold 52:54:00:00:00:01 for 2s when-stopped v1";
    let Ok(Some(Command::Hold(hold))) = parse(line, &overlay) else {
        panic!("{line}");
    };
    assert_eq!(hold.when_stopped.as_deref(), Some("v1"));
    assert!(!hold.stays);
    let line = "hold 52:54:00:00:00:01 for 2s on-close stay";
    let Ok(Some(Command::Hold(hold))) = parse(line, &overlay) else {
        panic!("{line}");
    };
    assert!(hold.stays);
}

#[test]
fn a_move_names_one_network_that_learns() {
    let overlay = parse_file(WHOLE).expect("a good file");
    let network = |line: &str| {
        let Ok(Some(Command::Move(wanted))) = parse(line, &overlay) else {
            panic!("{line}");
        };
        let network = overlay.network_of_move(&wanted);
        network.map(|(name, _)| name).map_err(|r| r.message)
    };
    let mac = "move 52:54:00:00:00:05 to";
    let good = |name: &str| Ok(name.to_string());
    assert_eq!(
        network(&format!("{mac} interface v1 revision 1")),
        good("lan")
    );
    assert_eq!(network(&format!("{mac} link j revision 1")), good("lan"));
    assert_eq!(
        network(&format!("{mac} link b network lan revision 1")),
        good("lan")
    );
    let several = network(&format!("{mac} link b revision 1")).unwrap_err();
    assert_eq!(several, "link b carries 2 networks");
    let fixed = network(&format!("{mac} link g revision 1")).unwrap_err();
    assert_eq!(fixed, "network `quiet` learns no addresses");
    let routed = network("move 52:54:00:00:00:09 to interface v1 revision 1").unwrap_err();
    assert!(routed.starts_with("an address has a route of its own: lan any 52:54"));
}

#[test]
fn setting_changes_only_named_options() {
    let mut overlay = parse_file(WHOLE).expect("a good file");
    apply(
        &mut overlay,
        "set interface v1 interrupts early tx-coalesce 0s",
    )
    .expect("good");
    apply(&mut overlay, "set network quiet flood 5").expect("good");
    let text = overlay.to_string();
    assert!(text.contains(
        "interrupts early cut-through on tx-coalesce 0s kick-coalesce 50us mac 52:54:00:00:00:01 mtu 9000 mode vmm"
    ));
    assert!(text.contains("add network quiet vni 8 learning off flood 5 age 2s"));
    assert_eq!(parse("  # nothing", &overlay), Ok(None));
    assert_eq!(
        parse("counters openmetrics", &overlay),
        Ok(Some(Command::Counters { openmetrics: true }))
    );
}
