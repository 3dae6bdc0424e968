//! Intruders on a lab's own CPUs are reported within a second: a program, a kernel thread, an interrupt, each brought
//! there by the test.

mod common;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Bench, Said, enter, finished, until};

const LAB: &str = "name: NAME\ntuning: isolated\ntopology:\n  nodes: {a: {kind: native}}\n";

/// The lab's isolated CPUs; none on a machine with a single CPU.
fn quiet(bench: &Bench, lab: &str) -> Option<u32> {
    let said = bench.exec(
        lab,
        "a",
        &["grep", "Cpus_allowed_list", "/proc/self/status"],
    );
    said.good()
        .out
        .split_whitespace()
        .nth(1)?
        .split(['-', ','])
        .next()?
        .parse()
        .ok()
}

/// Watches for a second; `disturb` runs once it has begun.
fn watch(bench: &Bench, disturb: impl FnOnce()) -> Said {
    let mut command = bench.command(&["tune", "watch", "--for", "1s"]);
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    begun(child.id());
    disturb();
    finished(child)
}

/// Waits until a watch has said that it watches, which is after its first look.
fn begun(pid: u32) {
    let file = format!("/proc/{pid}/io");
    until("the first look is over", || {
        let io = fs::read_to_string(&file).unwrap_or_default();
        let written = io
            .lines()
            .find_map(|l| l.strip_prefix("wchar: ")?.parse::<u64>().ok());
        written.is_some_and(|bytes| bytes > 0)
    });
}

#[test]
fn an_intruder_is_reported_within_a_second() {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if processors < 2 {
        println!("skipped: a machine with one processor has none to isolate");
        return;
    }
    enter("an_intruder_is_reported_within_a_second", |bench| {
        let lab = bench.deploy("watched", LAB);
        let cpu = quiet(bench, &lab).expect("a processor of its own");
        program(bench, cpu);
        interrupt(bench, cpu);
        another_lab(bench, cpu);
        bench.latlab(&["destroy", &lab]).good();
        bench.assert_clean();
        let said = bench.latlab(&["tune", "watch", "--for", "1s"]);
        said.refused(2, "no CPUs are kept quiet now", "tuning: isolated");
    });
}

/// A foreign program that is pinned to the CPU, from a cgroup that may run there.
fn program(bench: &Bench, cpu: u32) {
    let mut intruder = None;
    let said = watch(bench, || {
        let script = format!(
            "{} exec taskset -c {cpu} sh -c 'while :; do :; done'",
            leave_the_shield()
        );
        intruder = Some(Command::new("sh").args(["-c", &script]).spawn().unwrap());
    });
    let mut intruder = intruder.unwrap();
    intruder.kill().unwrap();
    intruder.wait().unwrap();
    assert_eq!(said.code, 1, "{said:#?}");
    let wanted = format!("process `sh` (thread {}) on CPU {cpu}", intruder.id());
    assert!(said.out.contains(&wanted), "{wanted}: {said:#?}");
}

/// A lab's program may run on that lab's CPUs only. On version 2 it cannot leave them.
fn another_lab(bench: &Bench, cpu: u32) {
    if leave_the_shield().is_empty() {
        println!("skipped: a process of another lab cannot come here with cgroup version 2");
        return;
    }
    let other = "name: NAME\ntopology:\n  nodes: {b: {kind: native}}\n";
    let other = bench.deploy("neighbour", other);
    let script = format!(
        "{} exec timeout 30 taskset -c {cpu} sh -c 'while :; do :; done'",
        leave_the_shield()
    );
    let mut exec = bench.command(&["exec", &other, "b", "--", "sh", "-c", &script]);
    let mut exec = exec.stdin(Stdio::null()).spawn().unwrap();
    // The program runs before the watch begins, so the test need not wait during it.
    until("it runs there", || {
        let said = bench.latlab(&["tune", "watch", "--for", "300ms"]);
        said.out.contains("process `sh`")
    });
    let said = watch(bench, || ());
    exec.kill().unwrap();
    exec.wait().unwrap();
    bench.latlab(&["destroy", &other]).good();
    assert_eq!(said.code, 1, "{said:#?}");
    let words = format!("on CPU {cpu} for");
    let line = said.out.lines().find(|l| l.contains("process `sh`"));
    assert!(
        line.is_some_and(|l| l.contains("neighbour")),
        "{words}: {said:#?}"
    );
}

/// On version 1 a program of the housekeeping group cannot be bound elsewhere; the root's can.
fn leave_the_shield() -> String {
    let tasks = Path::new("/sys/fs/cgroup/cpuset/tasks");
    match tasks.exists() {
        true => format!("echo $$ > {};", tasks.display()),
        false => String::new(),
    }
}

/// Kernel threads are visible only from the initial PID namespace, so this test runs there. It changes nothing: a
/// request for fresh statistics makes the kernel run a worker on every CPU.
#[test]
fn a_kernel_thread_is_reported_within_a_second() {
    let refresh = "/proc/sys/vm/stat_refresh";
    if fs::read(refresh).is_err() {
        println!("skipped: {refresh} can be read by root only");
        return;
    }
    // The thread that starts all others of the kernel is the second of the machine's processes.
    if fs::read_to_string("/proc/2/comm").map_or(true, |name| name != "kthreadd\n") {
        println!("skipped: this is a container, in which the kernel's threads are not to be seen");
        return;
    }
    let watching = Command::new(env!("CARGO_BIN_EXE_latlab"))
        .args(["tune", "watch", "--cpus", "0", "--for", "1s"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    begun(watching.id());
    for _ in 0..50 {
        fs::read(refresh).unwrap();
    }
    let said = finished(watching);
    assert_eq!(said.code, 1, "{said:#?}");
    assert!(said.out.contains("kernel thread `kworker/0:"), "{said:#?}");
}

/// A device's interrupt, moved there unless the kernel keeps it there anyway, and raised by writing to
/// the disk.
fn interrupt(bench: &Bench, cpu: u32) {
    let Some((number, affinity)) = disk_interrupt(cpu) else {
        println!(
            "skipped: no interrupt rises with writes to the disk that can be had on CPU {cpu}"
        );
        return;
    };
    let file = format!("/proc/irq/{number}/smp_affinity_list");
    // The kernel may keep an interrupt of a queue where it is.
    fs::write(&file, cpu.to_string()).ok();
    let said = watch(bench, disturb_disk);
    fs::write(&file, affinity).ok();
    assert_eq!(said.code, 1, "{said:#?}");
    let wanted = format!("interrupt {number} `");
    let line = said.out.lines().find(|l| l.starts_with(&wanted));
    assert!(
        line.is_some_and(|l| l.contains(&format!("on CPU {cpu}"))),
        "{wanted}: {said:#?}"
    );
}

fn disturb_disk() {
    let mut file = fs::File::create("/var/tmp/latlab-watch").unwrap();
    for _ in 0..20 {
        file.write_all(&[7; 8192]).unwrap();
        file.sync_all().unwrap();
    }
    fs::remove_file("/var/tmp/latlab-watch").unwrap();
}

/// The interrupt that writing raises most, if it is on `cpu` or can be, with its affinity.
fn disk_interrupt(cpu: u32) -> Option<(u32, String)> {
    let count = || -> Vec<(u32, u64)> {
        let text = fs::read_to_string("/proc/interrupts").unwrap();
        let line = |line: &str| {
            let (number, rest) = line.split_once(':')?;
            let counts = rest.split_whitespace().map_while(|w| w.parse::<u64>().ok());
            Some((number.trim().parse().ok()?, counts.sum()))
        };
        text.lines().filter_map(line).collect()
    };
    let before = count();
    disturb_disk();
    let rose = count()
        .into_iter()
        .zip(before)
        .map(|(a, b)| (a.1 - b.1, a.0));
    let (times, number) = rose.max()?;
    let file = format!("/proc/irq/{number}/smp_affinity_list");
    let affinity = fs::read_to_string(&file).ok()?.trim().to_string();
    let effective = fs::read_to_string(format!("/proc/irq/{number}/effective_affinity_list"));
    let there = effective.is_ok_and(|e| e.trim() == cpu.to_string());
    let movable =
        || fs::write(&file, cpu.to_string()).is_ok() && fs::write(&file, &affinity).is_ok();
    (times >= 10 && (there || movable())).then_some((number, affinity))
}
