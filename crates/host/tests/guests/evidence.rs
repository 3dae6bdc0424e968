//! Evidence of a guest that a test waited for in vain.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use latlab_host::nodes::vm;
use latlab_host::nodes::vm::qmp::Qmp;
use rustix::net::sockopt::socket_peercred;
use serde_json::json;

const TIMEOUT: Duration = Duration::from_secs(10);
/// QEMU says of a number that no CPU has that there is none.
const MAX_APICS: usize = 4;

/// Whether these are the files of a guest that runs, and not of another kind of node.
#[allow(dead_code, reason = "not every test has other kinds")]
pub fn is_guest(node: &Path) -> bool {
    vm::qmp_path(node).exists()
}

/// Where its CPUs are, which interrupts and timers they wait for, what the threads of QEMU do, and the last that its kernel
/// said; `node` is the directory of its files.
pub fn of(node: &Path) -> String {
    let console = fs::read_to_string(vm::console_path(node)).unwrap_or_default();
    let socket = vm::qmp_path(node);
    let cpus = match Qmp::connect(&socket, TIMEOUT) {
        Ok(mut qmp) => cpus(&mut qmp),
        Err(error) => error.to_string(),
    };
    format!("{cpus}\n{}\n{console}", threads(&socket))
}

fn cpus(qmp: &mut Qmp) -> String {
    let mut ask = |line: String| {
        let answer = qmp.execute("human-monitor-command", &json!({"command-line": line}));
        answer.map_or_else(
            |error| error.to_string(),
            |told| told.as_str().unwrap_or_default().to_owned(),
        )
    };
    let mut told = ask("info registers -a".to_owned());
    // Twice: a timer that runs has another count then.
    for _ in 0..2 {
        for apic in 0..MAX_APICS {
            told += &ask(format!("info lapic {apic}"));
        }
    }
    told
}

/// Each thread of the process that listens there, with its CPU time, and the pressure of the machine: whether the guest
/// stood still, or the machine below it.
fn threads(socket: &Path) -> String {
    let mut lines = String::new();
    for pressure in ["cpu", "io", "memory"] {
        let file = format!("/proc/pressure/{pressure}");
        let figures = fs::read_to_string(file).unwrap_or_default();
        lines += &format!("pressure of {pressure}: {figures}");
    }
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    lines += stat.lines().next().unwrap_or_default();
    lines += "\n";
    let peer = UnixStream::connect(socket).and_then(|stream| Ok(socket_peercred(&stream)?));
    let Ok(peer) = peer else { return lines };
    let tasks = fs::read_dir(format!("/proc/{}/task", peer.pid.as_raw_pid()));
    for task in tasks.into_iter().flatten().flatten() {
        for file in ["comm", "wchan", "schedstat", "stat"] {
            let text = fs::read_to_string(task.path().join(file)).unwrap_or_default();
            lines += &format!("{file}: {}\n", text.trim_end());
        }
    }
    lines
}
