//! Links of `type: overlay` in labs, and `latlab overlay`, through the real binaries.

mod common;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Bench, enter, tool, whole};

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

/// A daemon on "another host": this one's loopback, under mutual TLS.
#[test]
fn a_daemon_elsewhere_is_spoken_with_under_tls() {
    enter("a_daemon_elsewhere_is_spoken_with_under_tls", |bench| {
        tool(&["ip", "link", "set", "lo", "up"]);
        let file = |name: &str| bench.root().join(name).display().to_string();
        let certificates = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
             -subj /CN=ca -keyout ca.key -out ca.pem && openssl req -newkey ec -pkeyopt \
             ec_paramgen_curve:P-256 -nodes -subj /CN=me -keyout me.key -out me.csr && \
             echo subjectAltName=IP:127.0.0.1 > ext && openssl x509 -req -in me.csr -CA ca.pem \
             -CAkey ca.key -CAcreateserial -days 2 -extfile ext -out me.pem";
        tool(&[
            "sh",
            "-c",
            &format!("cd {} && {certificates} 2>&1", bench.root().display()),
        ]);
        let (certificate, key, authority) = (file("me.pem"), file("me.key"), file("ca.pem"));
        let files = [
            "--certificate",
            &certificate,
            "--key",
            &key,
            "--authority",
            &authority,
        ];

        let program = Path::new(env!("CARGO_BIN_EXE_latlab")).with_file_name("latlab-overlay");
        let mut daemon = Command::new(program)
            .args(["--control", &file("control"), "--listen", "127.0.0.1:0"])
            .args(files)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        let said = daemon.stdout.take().unwrap();
        BufReader::new(said).read_line(&mut ready).unwrap();
        let address = ready
            .trim_end()
            .strip_prefix("ready at ")
            .unwrap()
            .to_owned();
        let say = |words: &[&str]| {
            let mut line = vec!["overlay", "--connect", &address];
            line.extend(files);
            line.extend(words);
            bench.latlab(&line)
        };

        say(&["add", "network", "lan", "vni", "7"]).good();
        let networks = say(&["list", "networks"]).good().out;
        assert!(networks.starts_with("lan vni 7 "), "{networks}");
        assert_eq!(say(&["delete", "network", "lam"]).code, 2);
        let missing = bench.latlab(&["overlay", "--connect", &address, "show"]);
        assert!(
            missing.err.contains("--certificate <FILE>"),
            "{}",
            missing.err
        );

        daemon.kill().unwrap();
        daemon.wait().unwrap();
        let gone = say(&["show"]);
        gone.refused(
            2,
            &format!("cannot speak with {address}: Connection refused"),
            "is the daemon running?",
        );
    });
}
