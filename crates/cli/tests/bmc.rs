//! A machine that is switched by its management controller: a QEMU behind OpenIPMI's simulator, asked by ipmitool.

mod cluster;
mod common;

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cluster::Cluster;
use common::{Bench, Said, enter, fetch, finish, finished, tool, until};
use latlab_samples::RunDir;
use serde_json::Value;

const PORT: u16 = 9623;

/// The simulator calls it for each change of the chassis. The machine does not hear that it is to shut down.
const CHASSIS: &str = r#"#!/bin/sh
up() { [ -s DIR/pid ] && kill -0 "$(cat DIR/pid)" 2>/dev/null; }
start() {
    order=c
    [ "$(cat DIR/boot 2>/dev/null)" != pxe ] || order=n
    rm -f DIR/boot
    qemu-system-x86_64 -machine q35,graphics=off,accel=tcg -m 256 -display none -nodefaults \
        -boot order=$order,strict=on -drive file=DIR/disk,format=raw,if=virtio \
        -device virtio-net-pci,netdev=net -netdev user,id=net,restrict=on,tftp=DIR/live,bootfile=boot.ipxe \
        -chardev socket,id=tty,path=DIR/tty -serial chardev:tty \
        >DIR/qemu.log 2>&1 </dev/null &
    echo $! >DIR/pid
}
stop() {
    ! up || kill -KILL "$(cat DIR/pid)"
    rm -f DIR/pid
}
case "$2 $3" in
"get power") if up; then echo power:1; else echo power:0; fi ;;
"get boot") echo "boot:$(cat DIR/boot 2>/dev/null || echo none)" ;;
"set boot") echo "$4" >DIR/boot ;;
"set power") if [ "$4" = 1 ]; then up || start; else stop; fi ;;
"set reset") stop; start ;;
esac
exit 0
"#;

const LAN: &str = r#"name "dut"
set_working_mc 0x20
startlan 1
  addr 127.0.0.1 9623
  priv_limit admin
  allowed_auths_admin none md2 md5 straight
  allowed_auths_operator none md2 md5 straight
  allowed_auths_user none md2 md5 straight
  allowed_auths_callback none md2 md5 straight
  guid 0123456789abcdef0123456789abcdef
endlan
chassis_control "DIR/chassis 0x20"
sol "tcp:127.0.0.1:9703" 115200
user 2 true "admin" "secret" admin 10 none md2 md5 straight
"#;

/// The wire of the serial port: the simulator is at one end whenever a console is open, the machine at the other whenever it
/// runs. A machine without a console waits. The simulator alone would come back seconds after the machine had started.
fn lay_wire(directory: &Path) {
    let console = TcpListener::bind("127.0.0.1:9703").unwrap();
    let port = UnixListener::bind(directory.join("tty")).unwrap();
    let end: Arc<Mutex<Option<TcpStream>>> = Arc::default();
    let newest = Arc::clone(&end);
    // Both threads end with the test's process.
    std::thread::spawn(move || {
        for stream in console.incoming().flatten() {
            *newest.lock().unwrap() = Some(stream);
        }
    });
    std::thread::spawn(move || {
        for mut machine in port.incoming().flatten() {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = machine.read(&mut bytes) {
                send(&end, &bytes[..count]);
            }
        }
    });
}

fn send(end: &Mutex<Option<TcpStream>>, bytes: &[u8]) {
    loop {
        let mut end = end.lock().unwrap();
        if let Some(stream) = &mut *end {
            if stream.write_all(bytes).is_ok() {
                return;
            }
            *end = None;
        }
        drop(end);
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A controller with its machine, which is off. Both end with it.
struct Controlled {
    directory: PathBuf,
    simulator: Child,
}

impl Controlled {
    fn start(bench: &Bench) -> Controlled {
        let directory = bench.root().join("bmc");
        fs::create_dir_all(directory.join("state")).unwrap();
        let path = directory.to_str().unwrap();
        let file = |name: &str, content: &str| {
            fs::write(directory.join(name), content.replace("DIR", path)).unwrap();
        };
        file("chassis", CHASSIS);
        file("lan.conf", LAN);
        file("dut.emu", &emulation());
        tool(&["chmod", "755", &format!("{path}/chassis")]);
        tool(&["truncate", "--size=1M", &format!("{path}/disk")]);
        lay_wire(&directory);
        let log = fs::File::create(directory.join("simulator.log")).unwrap();
        let simulator = Command::new("ipmi_sim")
            .args(["-n", "-c", &format!("{path}/lan.conf")])
            .args([
                "-f",
                &format!("{path}/dut.emu"),
                "-s",
                &format!("{path}/state"),
            ])
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        Controlled {
            directory,
            simulator,
        }
    }
}

impl Drop for Controlled {
    fn drop(&mut self) {
        if let Ok(pid) = fs::read_to_string(self.directory.join("pid")) {
            // Gone, if it was switched off.
            Command::new("kill")
                .args(["-KILL", pid.trim()])
                .status()
                .ok();
        }
        self.simulator.kill().ok();
        self.simulator.wait().ok();
    }
}

/// A controller with two sensors.
fn emulation() -> String {
    let mut text = String::from(
        "mc_setbmc 0x20\nmc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr\n",
    );
    for (number, kind, unit, value, name) in [(1, 1, 1, 61, "CPU Temp"), (2, 0x0b, 6, 187, "Power")]
    {
        // First, since it enables the sensor.
        text += &format!("main_sdr_add 0x20 {}\n", record(number, kind, unit, name));
        text += &format!("sensor_add 0x20 0 {number} {kind} 1\n");
        text += &format!("sensor_set_value 0x20 0 {number} {value} 0\n");
    }
    text + "mc_enable 0x20\n"
}

/// A full sensor record (IPMI 2.0, 43.1) of a linear sensor with factor 1.
fn record(number: u8, kind: u8, unit: u8, name: &str) -> String {
    let mut body = vec![0x20, 0, number, 3, 1, 0x67, 0x88, kind, 1];
    body.extend([0, 0, 0, 0, 0, 0, 0, unit, 0, 0, 1]);
    body.extend([0; 9]);
    body.push(0xff);
    body.extend([0; 12]);
    body.push(0xc0 | u8::try_from(name.len()).unwrap());
    body.extend(name.bytes());
    let header = [0, 0, 0x51, 1, u8::try_from(body.len()).unwrap()];
    let bytes = header.iter().chain(&body);
    bytes.map(|byte| format!("{byte:#x} ")).collect()
}

fn hosts(bench: &Bench) -> String {
    let live = bench.root().join("bmc/live").display().to_string();
    let bmc = |port: u16, user: &str, more: &str| {
        format!(
            "{{type: ipmi, address: 127.0.0.1, port: {port}, user: {user}, password: {{env: BMC_PASSWORD}}, {more}}}"
        )
    };
    let text = format!(
        "hosts:\n  dut: {{live: {live}, bmc: {}}}\n  dead: {{live: {live}, bmc: {}}}\n  stranger: {{bmc: {}}}\n  \
         strong: {{bmc: {}}}\n  here: {{ssh: n1, live: {live}, bmc: {}}}\n  silent: {{ssh: n9, bmc: {}}}\n",
        bmc(PORT, "admin", "cipher: 3"),
        bmc(9999, "admin", "cipher: 3"),
        bmc(PORT, "nobody", "cipher: 3"),
        bmc(PORT, "admin", "cipher: 17"),
        bmc(PORT, "admin", "cipher: 3"),
        bmc(PORT, "admin", "cipher: 3"),
    );
    let path = bench.root().join("files/hosts.yaml");
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// `latlab host …` with the controller's password.
fn host(bench: &Bench, words: &[&str]) -> Said {
    finish(command(bench, words).env("BMC_PASSWORD", "secret"))
}

fn command(bench: &Bench, words: &[&str]) -> Command {
    bench.command(&[&["host"], words].concat())
}

fn is_recorded(path: &Path, text: &str) -> bool {
    let bytes = fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes).contains(text)
}

#[test]
fn ipmi_switches_a_machine_and_records_its_console() {
    enter("ipmi_switches_a_machine_and_records_its_console", |bench| {
        // A network with an ssh host of this machine.
        let mut cluster = Cluster::new(bench, 1);
        cluster.start_ssh(bench);
        hosts(bench);
        let controlled = Controlled::start(bench);
        until("the controller answers", || {
            host(bench, &["dut", "power"]).code == 0
        });
        refusals(bench);

        let log = bench.root().join("console.log");
        let recording = begin_recording(bench, &log);
        let is_off = |said: Said| assert_eq!(said.good().out, "dut: off\n");
        is_off(host(bench, &["dut", "power", "off"]));
        let said = host(bench, &["dut", "power", "on"]).good();
        assert_eq!(said.out, "dut: on\n");
        until("the console has the firmware's first words", || {
            is_recorded(&log, "SeaBIOS (version")
        });
        until("it boots from its disk", || {
            is_recorded(&log, "Booting from Hard Disk")
        });
        assert!(!is_recorded(&log, "Booting from ROM"));
        let second = bench.root().join("second.log");
        let busy = ["dut", "console", "--record", second.to_str().unwrap()];
        host(bench, &busy).ended_badly(2, "is in use by another session", "--take");
        assert!(!second.exists(), "nothing was recorded");

        host(bench, &["dut", "boot-device", "pxe"]).good();
        let said = host(bench, &["dut", "power", "cycle", "--format", "json"]).good();
        let said: Value = serde_json::from_str(&said.out).unwrap();
        assert_eq!(said, serde_json::json!({"host": "dut", "power": "on"}));
        until("it boots from the network", || {
            is_recorded(&log, "Booting from ROM")
        });
        host(bench, &["dut", "power", "soft", "--wait", "1"]).refused(
            2,
            "still on 1 s after it was told to shut down",
            "`power off` does not ask",
        );
        let said = end_recording(recording);
        let bytes = fs::metadata(&log).unwrap().len();
        assert!(said.out.contains(&format!("{bytes} bytes")), "{said:#?}");
        assert!(!is_recorded(&log, "SOL Session"), "the tool's own words");
        let again = ["dut", "console", "--seconds", "1", "--record"];
        let third = bench.root().join("third.log");
        let said = host(bench, &[&again[..], &[third.to_str().unwrap()]].concat());
        said.good();
        let again = ["dut", "console", "--record", log.to_str().unwrap()];
        host(bench, &again).refused(2, "File exists", "never overwritten");
        is_off(host(bench, &["dut", "power", "off"]));
        drop(controlled);
    });
}

/// Refusals while the machine is off, and its sensors.
fn refusals(bench: &Bench) {
    let said = bench.latlab(&["validate", "hosts.yaml"]).good();
    assert_eq!(said.out, "hosts.yaml: good (6 hosts)\n");
    let bad = bench.root().join("files/bad.yaml");
    fs::write(&bad, "hosts: {dut: {bmc: {type: impi}}}\n").unwrap();
    let said = bench.latlab(&["validate", "bad.yaml"]);
    assert_eq!(said.code, 2, "{said:#?}");
    assert!(said.err.contains("did you mean `ipmi`?"), "{said:#?}");
    let said = host(bench, &["dut", "sensors", "--format", "csv"]).good();
    assert_eq!(
        said.out,
        "SENSOR,VALUE,UNIT,STATE\nCPU Temp,61,degrees C,ok\nPower,187,Watts,ok\n"
    );
    let dead = host(bench, &["dead", "power"]);
    dead.refused(2, "does not answer at 127.0.0.1", "management network");
    host(bench, &["stranger", "power"]).refused(2, "knows no user `nobody`", "check `user`");
    host(bench, &["strong", "power"]).refused(2, "does not have the cipher suite", "often 17 or 3");
    host(bench, &["other", "power"]).refused(2, "has no host `other`", "dut, dead");
    finish(command(bench, &["dut", "power"]).env("BMC_PASSWORD", "wrong")).refused(
        2,
        "refuses the password of `admin`",
        "check `password`",
    );
    finish(&mut command(bench, &["dut", "power"])).refused(2, "BMC_PASSWORD is not set", "`file:`");
    for change in ["off", "soft", "cycle", "reset"] {
        let said = host(bench, &["here", "power", change]);
        said.refused(2, "is the machine on which latlab runs", "another machine");
    }
    // A host that ssh does not reach is another one, or off.
    host(bench, &["silent", "power", "off"]).good();
}

/// The first process of the live image: text by which a lost byte is noticed, and then nothing.
const INIT: &str = "#!/bin/sh
i=0
while [ $i -lt 2000 ]; do
    echo \"line $i of the console, whose bytes are counted: 0123456789\"
    i=$((i + 1))
done
echo the console is done
exec sleep 1000000
";

/// A live system of busybox, for the machine behind the simulator.
fn make_live(bench: &Bench) -> PathBuf {
    let root = bench.small_root();
    fs::create_dir_all(root.join("sbin")).unwrap();
    fs::write(root.join("sbin/init"), INIT).unwrap();
    tool(&["chmod", "755", root.join("sbin/init").to_str().unwrap()]);
    let live = bench.root().join("bmc/live");
    fs::create_dir_all(&live).unwrap();
    let words = [
        "image",
        root.to_str().unwrap(),
        "--live",
        live.to_str().unwrap(),
        // Quickly decompressed, which is half of an emulated start.
        "--kernel",
        "cloud",
        // On a busy machine the emulated timer is late, and the kernel would take it for broken.
        "--cmdline",
        "no_timer_check",
    ];
    let said = bench.latlab(&words).good();
    assert!(said.out.contains("boot.ipxe starts Linux"), "{said:#?}");
    live
}

/// Starts of the live system in this test.
fn rounds() -> usize {
    let rounds = std::env::var("LATLAB_TEST_ROUNDS").ok();
    rounds.and_then(|text| text.parse().ok()).unwrap_or(2)
}

#[test]
fn a_machine_boots_a_live_system_with_the_parameters_asked_for() {
    const NAME: &str = "a_machine_boots_a_live_system_with_the_parameters_asked_for";
    fetch("cloud");
    enter(NAME, |bench| {
        let mut cluster = Cluster::new(bench, 1);
        cluster.start_ssh(bench);
        hosts(bench);
        let boot = ["dut", "boot", "--cmdline", "isolcpus=1 a.b=c"];
        let missing = host(bench, &boot);
        missing.refused(2, "is no live system", "--live DIR");
        let live = make_live(bench);
        let script = || fs::read_to_string(live.join("boot.ipxe")).unwrap();
        let plain = script();
        let controlled = Controlled::start(bench);
        until("the controller answers", || {
            host(bench, &["dut", "power"]).code == 0
        });
        boot_refusals(bench);
        assert_eq!(script(), plain, "what is refused changes nothing");

        for round in 0..rounds() {
            let word = format!("a.b={round}");
            let words = format!("isolcpus=1 {word}");
            let said = host(bench, &["dut", "boot", "--wait", "90", "--cmdline", &words]).good();
            println!("round {round}: {}", said.out.trim_end());
            assert!(
                said.out
                    .starts_with(&format!("dut: runs with `{words}` after "))
            );
            assert!(script().contains(&words));
        }
        let log = bench.root().join("boot.log");
        let back = [
            "dut",
            "boot",
            "--format",
            "json",
            "--record",
            log.to_str().unwrap(),
        ];
        let said: Value = serde_json::from_str(&host(bench, &back).good().out).unwrap();
        let line = said["command_line"].as_str().unwrap();
        assert!(
            line.contains("latlab.live") && !line.contains("isolcpus"),
            "{said}"
        );
        assert!(is_recorded(&log, line), "the console has the answer");
        host(bench, &["dut", "boot", "--wait", "1"]).ended_badly(
            2,
            "did not answer within 1 s",
            "last words",
        );
        whole_console(bench);
        // Once: the next start is from the disk.
        let log = bench.root().join("disk.log");
        record_while(bench, &log, "Booting from Hard Disk", || {
            host(bench, &["dut", "power", "cycle"]).good();
        });
        assert!(!is_recorded(&log, "latlab: live"));
        host(bench, &["dut", "power", "off"]).good();
        drop(controlled);
    });
}

fn boot_refusals(bench: &Bench) {
    let boot = |host_name: &str, words: &str| host(bench, &[host_name, "boot", "--cmdline", words]);
    boot("dut", "a=$(reboot)").refused(2, "is no kernel parameter", "without quotes");
    boot("dut", "latlab.live").refused(2, "not for others to set", "leave it out");
    boot("dead", "quiet").refused(2, "does not answer at 127.0.0.1", "management network");
    boot("here", "quiet").refused(2, "is the machine on which latlab runs", "another machine");
    boot("stranger", "quiet").refused(2, "has no `live:` system and no `ssh:`", "--live DIR");
    let installed = host(bench, &["here", "boot", "--installed"]);
    installed.refused(2, "is the machine on which latlab runs", "another machine");
    boot("silent", "quiet").refused(2, "cannot change the boot parameters", "is off");
}

/// Records the console in a new file.
fn begin_recording(bench: &Bench, log: &Path) -> Child {
    let mut recording = command(
        bench,
        &["dut", "console", "--record", log.to_str().unwrap()],
    );
    recording
        .env("BMC_PASSWORD", "secret")
        .process_group(0)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    recording.spawn().unwrap()
}

/// Interrupts it as a terminal does: all processes of the command.
fn end_recording(recording: Child) -> Said {
    tool(&["kill", "-INT", "--", &format!("-{}", recording.id())]);
    finished(recording).good()
}

/// Records the console until it has a text.
fn record_while(bench: &Bench, log: &Path, text: &str, work: impl FnOnce()) {
    let recording = begin_recording(bench, log);
    until("the console is recorded", || log.exists());
    work();
    until(text, || is_recorded(log, text));
    end_recording(recording);
}

/// The console of a start has all that the live system writes, to the byte.
fn whole_console(bench: &Bench) {
    let log = bench.root().join("whole.log");
    record_while(bench, &log, "the console is done", || {
        host(bench, &["dut", "boot-device", "pxe"]).good();
        host(bench, &["dut", "power", "cycle"]).good();
    });
    let text = String::from_utf8_lossy(&fs::read(&log).unwrap()).into_owned();
    let lines: Vec<&str> = text
        .lines()
        .skip_while(|l| !l.starts_with("line 0 "))
        .collect();
    let expected =
        (0..2000).map(|i| format!("line {i} of the console, whose bytes are counted: 0123456789"));
    for (number, line) in expected.enumerate() {
        assert_eq!(lines[number].trim_end(), line);
    }
    assert!(text.contains("SeaBIOS (version"), "from the firmware on");
}

const STUDY: &str = "name: warm
lab:
  name: NAME
  topology:
    nodes: {a: {kind: native}, b: {kind: native}}
    links: [{endpoints: ['a:eth0', 'b:eth0']}]
measurements:
  - {probe: rr, protocol: udp, from: a, to: b, duration: 200ms}
replicates: 1
";

#[test]
fn sensors_of_a_machine_stand_beside_a_run() {
    enter("sensors_of_a_machine_stand_beside_a_run", |bench| {
        tool(&["ip", "link", "set", "lo", "up"]);
        bench.take_as_given();
        hosts(bench);
        let controlled = Controlled::start(bench);
        until("the controller answers", || {
            host(bench, &["dut", "power"]).code == 0
        });
        let study = bench.file("warm", STUDY);
        let runs = bench.root().join("runs");
        let run = |name: &str| {
            let words = ["run", &study, "--runs", runs.to_str().unwrap(), "--sensors"];
            let mut run = bench.command(&[&words[..], &[name]].concat());
            finish(run.env("BMC_PASSWORD", "secret"))
        };
        run("dead").refused(2, "does not answer at 127.0.0.1", "management network");
        run("other").refused(2, "has no host `other`", "dut, dead");
        assert!(!runs.exists(), "a run without its sensors does not begin");
        let said = run("dut").good();
        for words in ["sensors of machines", "CPU Temp", "187 [187, 187]"] {
            assert!(said.out.contains(words), "{words}: {said:#?}");
        }
        let made = fs::read_dir(&runs).unwrap().next().unwrap().unwrap();
        let run = RunDir::open(made.path()).unwrap();
        let trial = run.read_trial(1).unwrap().unwrap();
        let read: Vec<_> = trial
            .sensors
            .iter()
            .map(|s| {
                (
                    s.host.as_str(),
                    s.name.as_str(),
                    s.before,
                    s.after,
                    s.state.as_str(),
                )
            })
            .collect();
        let expected = [
            ("dut", "CPU Temp", Some(61.0), Some(61.0), "ok"),
            ("dut", "Power", Some(187.0), Some(187.0), "ok"),
        ];
        assert_eq!(read, expected);
        let manifest = run.read_manifest().unwrap();
        assert!(run.verify(&manifest.checksums).is_empty());
        let page = fs::read_to_string(made.path().join("report.html")).unwrap();
        assert!(page.contains("CPU Temp"), "the page has them");
        drop(controlled);
    });
}

/// A tool whose controller is slow: its sensors come after more than nine seconds, its power not at all.
const SLOW: &str = "#!/bin/sh
case \"$*\" in
*'mc info') ;;
*sdr*) sleep 10; echo 'CPU Temp,61,degrees C,ok' ;;
*) exec sleep 1000 ;;
esac
";

#[test]
fn a_slow_controller_is_not_taken_for_one_that_is_away() {
    enter(
        "a_slow_controller_is_not_taken_for_one_that_is_away",
        |bench| {
            hosts(bench);
            let tool_file = bench.root().join("ipmitool");
            fs::write(&tool_file, SLOW).unwrap();
            tool(&["chmod", "755", tool_file.to_str().unwrap()]);
            let path = format!(
                "{}:{}",
                bench.root().display(),
                std::env::var("PATH").unwrap()
            );
            let begin = |words: &[&str]| {
                let mut command = command(bench, words);
                command.env("BMC_PASSWORD", "secret").env("PATH", &path);
                command.stdout(Stdio::piped()).stderr(Stdio::piped());
                command.spawn().unwrap()
            };
            let sensors = begin(&["dut", "sensors", "--format", "csv"]);
            let power = begin(&["dut", "power"]);
            finished(power).refused(
                2,
                "has not done `chassis power status` within 9 s",
                "other sessions",
            );
            let said = finished(sensors).good();
            assert!(said.out.contains("CPU Temp,61,degrees C,ok"), "{said:#?}");
        },
    );
}
