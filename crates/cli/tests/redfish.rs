//! A machine that is switched over Redfish: OpenStack's emulator (sushy-tools) with a system that only counts as one. That
//! runs where `LATLAB_TEST_PYTHON` names a Python with the emulator; `scripts/run-tests python` sets it. A service of a few
//! documents answers what the emulator cannot.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use common::{Bench, Said, enter, finish, tool, until};
use serde_json::{Value, json};

const SYSTEM: &str = "26a5f1c4-0e2b-4b67-a0dd-2f2b8a9dc8f1";

struct Emulator(Child);

impl Emulator {
    fn start(bench: &Bench, python: &Path) -> Emulator {
        let root = bench.root().display().to_string();
        tool(&[
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=DNS:localhost",
            "-addext",
            "basicConstraints=critical,CA:FALSE",
            "-keyout",
            &format!("{root}/key.pem"),
            "-out",
            &format!("{root}/cert.pem"),
        ]);
        let hash =
            "import bcrypt; print('admin:' + bcrypt.hashpw(b'secret', bcrypt.gensalt(4)).decode())";
        let users = tool(&[python.to_str().unwrap(), "-c", hash]);
        fs::write(format!("{root}/users"), users).unwrap();
        let configuration = format!(
            "SUSHY_EMULATOR_LISTEN_IP = '127.0.0.1'\nSUSHY_EMULATOR_LISTEN_PORT = 8443\n\
             SUSHY_EMULATOR_AUTH_FILE = '{root}/users'\n\
             SUSHY_EMULATOR_SSL_CERT = '{root}/cert.pem'\nSUSHY_EMULATOR_SSL_KEY = '{root}/key.pem'\n\
             SUSHY_EMULATOR_STATE_DIR = '{root}'\n\
             SUSHY_EMULATOR_FAKE_SYSTEMS = [{{'uuid': '{SYSTEM}', 'name': 'dut', 'power_state': 'Off', \
             'external_notifier': False, 'nics': []}}]\n"
        );
        let path = format!("{root}/emulator.conf");
        fs::write(&path, configuration).unwrap();
        let log = fs::File::create(format!("{root}/emulator.log")).unwrap();
        let emulator = Command::new(python.with_file_name("sushy-emulator"))
            .args(["--fake", "--config", &path])
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn();
        Emulator(emulator.unwrap())
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn host(bench: &Bench, words: &[&str]) -> Said {
    bench.latlab(&[&["host"], words].concat())
}

#[test]
fn redfish_switches_a_machine() {
    let Some(python) = std::env::var_os("LATLAB_TEST_PYTHON") else {
        eprintln!("LATLAB_TEST_PYTHON is not set: Redfish is not tested");
        return;
    };
    enter("redfish_switches_a_machine", |bench| {
        tool(&["ip", "link", "set", "lo", "up"]);
        bench.take_as_given();
        let _emulator = Emulator::start(bench, Path::new(&python));
        let root = bench.root().display().to_string();
        let bmc = |address: &str, more: &str| {
            format!(
                "{{bmc: {{type: redfish, address: \"{address}\", user: admin, password: {{file: {root}/password}}{more}}}}}"
            )
        };
        let trusted = format!(", authority: {root}/cert.pem");
        let text = format!(
            "hosts:\n  dut: {}\n  other: {}\n  untrusted: {}\n  plain: {}\n  dead: {}\n",
            bmc("localhost:8443", &trusted),
            bmc("localhost:8443", &format!("{trusted}, system: none-such")),
            bmc("localhost:8443", ""),
            bmc("http://192.0.2.1", ""),
            bmc("127.0.0.1:9", ""),
        );
        fs::write(bench.root().join("files/hosts.yaml"), text).unwrap();
        fs::write(format!("{root}/password"), "secret\n").unwrap();
        until("the emulator answers", || {
            host(bench, &["dut", "power"]).code == 0
        });

        let power = |words: &[&str]| host(bench, &[&["dut", "power"], words].concat()).good().out;
        assert_eq!(power(&[]), "dut: off\n");
        assert_eq!(power(&["on", "--wait", "60"]), "dut: on\n");
        host(bench, &["dut", "boot-device", "pxe"]).good();
        let sensors = host(bench, &["dut", "sensors"]).good().out;
        assert!(
            sensors.contains("CPU Temp") && sensors.contains("degrees C"),
            "{sensors}"
        );
        assert_eq!(power(&["off", "--wait", "60"]), "dut: off\n");

        host(bench, &["dut", "console"]).refused(2, "no console over Redfish", "type: ipmi");
        host(bench, &["other", "power"]).refused(2, "not found", "page or log");
        host(bench, &["untrusted", "power"]).refused(2, "is not trusted", "authority");
        host(bench, &["plain", "power"]).refused(2, "no address of a Redfish", "without TLS");
        host(bench, &["dead", "power"]).refused(2, "does not answer", "check `address`");
        fs::write(format!("{root}/password"), "wrong\n").unwrap();
        host(bench, &["dut", "power"]).refused(2, "refuses the password", "check `password`");
    });
}

/// A service of documents with their status, by path; the others are missing. Its thread ends with the test's process.
fn serve(port: u16, documents: &[(&str, u16, Value)]) {
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let documents: Vec<_> = documents
        .iter()
        .map(|(path, status, body)| ((*path).to_owned(), *status, body.to_string()))
        .collect();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
            let asked = head.first().and_then(|line| line.split(' ').nth(1));
            let found = documents
                .iter()
                .find(|(path, ..)| Some(path.as_str()) == asked);
            let (status, body) = found.map_or((404, "{}"), |(_, status, body)| (*status, body));
            let answer = format!(
                "HTTP/1.1 {status} told\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
                 Connection: close\r\n\r\n{body}",
                body.len()
            );
            // A client that went away reads nothing.
            stream.write_all(answer.as_bytes()).ok();
        }
    });
}

/// A collection of these paths.
fn collection(paths: &[&str]) -> Value {
    let members = paths.iter().map(|path| json!({ "@odata.id": path }));
    json!({ "Members": members.collect::<Vec<_>>() })
}

/// Hosts on ports of this machine, which are switched over Redfish; ssh reaches them too.
fn services(bench: &Bench, hosts: &[(&str, u16)]) {
    tool(&["ip", "link", "set", "lo", "up"]);
    bench.take_as_given();
    let password = bench.root().join("password");
    fs::write(&password, "secret\n").unwrap();
    let lines = hosts.iter().map(|(name, port)| {
        format!(
            "  {name}: {{ssh: {name}, bmc: {{type: redfish, address: \"http://127.0.0.1:{port}\", user: admin, \
             password: {{file: {}}}}}}}\n",
            password.display()
        )
    });
    let text = format!("hosts:\n{}", lines.collect::<String>());
    fs::write(bench.root().join("files/hosts.yaml"), text).unwrap();
}

const SYSTEMS: &str = "/redfish/v1/Systems";
const CHASSIS: &str = "/redfish/v1/Chassis";

#[test]
fn a_user_without_the_privilege_has_no_wrong_password() {
    enter(
        "a_user_without_the_privilege_has_no_wrong_password",
        |bench| {
            services(bench, &[("dut", 8081)]);
            let refusal = json!({"error": {"message": "general", "@Message.ExtendedInfo": [
                {"Message": "The account lacks the privilege Login."}]}});
            serve(8081, &[(SYSTEMS, 403, refusal)]);
            host(bench, &["dut", "power"]).refused(
                2,
                "does not let `admin` read /redfish/v1/Systems: The account lacks the privilege Login.",
                "role",
            );
        },
    );
}

#[test]
fn sensors_of_a_service_without_lists_are_read() {
    enter("sensors_of_a_service_without_lists_are_read", |bench| {
        services(bench, &[("dut", 8082), ("bare", 8083)]);
        let sensor = |name: &str, reading: f64, unit: &str| json!({"Name": name, "Reading": reading, "ReadingUnits": unit, "Status": {"Health": "OK"}});
        serve(
            8082,
            &[
                (CHASSIS, 200, collection(&["/c/1"])),
                ("/c/1", 200, json!({"Sensors": {"@odata.id": "/c/1/s"}})),
                ("/c/1/s", 200, collection(&["/c/1/s/t", "/c/1/s/p"])),
                ("/c/1/s/t", 200, sensor("Inlet", 21.5, "Cel")),
                ("/c/1/s/p", 200, sensor("PSU", 187.0, "W")),
            ],
        );
        let bare = [
            (CHASSIS, 200, collection(&["/c/1"])),
            ("/c/1", 200, json!({"Name": "chassis"})),
        ];
        serve(8083, &bare);
        let said = host(bench, &["dut", "sensors", "--format", "csv"]).good();
        assert_eq!(
            said.out,
            "SENSOR,VALUE,UNIT,STATE\nInlet,21.5,Cel,ok\nPSU,187,W,ok\n"
        );
        host(bench, &["bare", "sensors"]).refused(2, "no chassis has `Thermal`", "page or log");
    });
}

/// An ssh to a machine that reboots when it is told to. `FAILS` says how often it does not tell its command line.
const SSH: &str = r#"#!/bin/sh
case "$*" in
*random/boot_id*)
    echo "start-$(cat DIR/starts)"
    echo "1 (init) S 0 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 17 9 10"
    ;;
*"systemctl reboot"*) echo 2 >DIR/starts ;;
*"cat /proc/cmdline"*)
    echo x >>DIR/asked
    [ "$(wc -l <DIR/asked)" -gt "$(cat DIR/fails)" ] || exit 255
    echo quiet
    ;;
*) cat >/dev/null ;;
esac
"#;

#[test]
fn a_start_that_does_not_tell_its_parameters_is_no_success() {
    enter(
        "a_start_that_does_not_tell_its_parameters_is_no_success",
        |bench| {
            services(bench, &[("dut", 8084)]);
            let system = json!({"PowerState": "On"});
            let documents = [(SYSTEMS, 200, collection(&["/s/1"])), ("/s/1", 200, system)];
            serve(8084, &documents);
            let directory = bench.root().join("machine");
            fs::create_dir(&directory).unwrap();
            let ssh = directory.join("ssh");
            fs::write(&ssh, SSH.replace("DIR", directory.to_str().unwrap())).unwrap();
            tool(&["chmod", "755", ssh.to_str().unwrap()]);
            let path = format!("{}:{}", directory.display(), std::env::var("PATH").unwrap());
            let boot = |fails: &str, wait: &str| {
                fs::write(directory.join("starts"), "1").unwrap();
                fs::write(directory.join("fails"), fails).unwrap();
                fs::write(directory.join("asked"), "").unwrap();
                let words = ["host", "dut", "boot", "--format", "json", "--wait", wait];
                finish(bench.command(&words).env("PATH", &path))
            };
            let said: Value = serde_json::from_str(&boot("1", "60").good().out).unwrap();
            assert_eq!(said["command_line"], "quiet");
            boot("1000", "2").refused(2, "is not back 2 s after its reboot", "console");
        },
    );
}
