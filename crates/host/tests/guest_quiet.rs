//! Quiet CPUs inside guests with Debian's standard and real-time kernels: what the command line
//! and cgroups of version 2 were asked for is looked for from the inside, by what the kernel says
//! and by what it does. Only with `LATLAB_TEST_GUEST=1`.

mod guests;

use guests::{Guest, asked_for, text};
use latlab_host::nodes::vm::channel::Channel;
use latlab_host::nodes::vm::pin;
use latlab_model::boot;
use latlab_model::plan::{Given, GuestMemory, NodePlace, Share};
use latlab_model::profile::Profile;
use latlab_model::units::CpuList;

/// Boots a kernel with a profile that keeps CPU 1 of 3 to itself.
fn boot_quiet(which: &str) -> Guest {
    let profile = "name: q\nabout: x\nextends: realtime\ncores: 1\nboot:\n  isolcpus: 1\n  \
        nohz_full: 1\n  rcu_nocbs: 1\n";
    let profile = Profile::parse(profile, &|_| None).expect("a profile");
    Guest::boot(which, |config| {
        config.vcpus = 3;
        config.memory = GuestMemory {
            preallocated: true,
            ..GuestMemory::default()
        };
        config.boot_parameters = boot::of_guest(&profile, 3);
    })
}

fn flavour(which: &str) {
    let guest = boot_quiet(which);
    let channel = guest.channel();
    let line = text(&channel, "cat /proc/cmdline");
    for word in [
        "isolcpus=managed_irq,domain,1",
        "nohz_full=1",
        "rcu_nocbs=1",
        "irqaffinity=0",
    ] {
        assert!(line.split_whitespace().any(|w| w == word), "{word}: {line}");
    }
    isolated(&channel);
    without_tick(&channel);
    callbacks_elsewhere(&channel);
    real_time(&channel, which);
    partitions(&channel);
}

#[test]
fn a_standard_kernel_keeps_its_isolated_cpus_quiet() {
    if asked_for() {
        flavour("standard");
    }
}

#[test]
fn a_real_time_kernel_keeps_its_isolated_cpus_quiet() {
    if asked_for() {
        flavour("rt");
    }
}

/// The scheduler puts nothing on CPU 1 by itself, however much there is to do.
fn isolated(channel: &Channel) {
    assert_eq!(text(channel, "cat /sys/devices/system/cpu/isolated"), "1\n");
    let ran = text(
        channel,
        "for i in 1 2 3 4 5 6; do (while :; do :; done) & all=\"$all $!\"; done; sleep 1
         for p in $all; do awk '{print $39}' /proc/$p/stat; done; kill $all",
    );
    let ran: Vec<&str> = ran.lines().collect();
    assert_eq!(ran.len(), 6, "{ran:?}");
    assert!(ran.iter().all(|cpu| *cpu != "1"), "{ran:?}");
}

/// One busy task on CPU 1 has a tick now and then, one on CPU 2 every few milliseconds.
fn without_tick(channel: &Channel) {
    assert_eq!(
        text(channel, "cat /sys/devices/system/cpu/nohz_full"),
        "1\n"
    );
    let ticks = |cpu: u32| -> u64 {
        let column = cpu + 2;
        let count = format!("awk '/LOC:/ {{print ${column}}}' /proc/interrupts");
        let told = text(
            channel,
            &format!(
                "taskset -c {cpu} sh -c 'while :; do :; done' & sleep 1; a=$({count}); sleep 3
                 b=$({count}); kill $!; echo $((b - a))"
            ),
        );
        told.trim().parse().expect("a count")
    };
    let (quiet, ordinary) = (ticks(1), ticks(2));
    assert!(
        quiet < ordinary / 2,
        "{quiet} ticks on CPU 1, {ordinary} on 2"
    );
    println!(
        "local timer interrupts in 3 s of a busy loop: {quiet} with nohz_full, {ordinary} without"
    );
}

/// The callbacks of CPU 1, and of no other, have threads.
fn callbacks_elsewhere(channel: &Channel) {
    let threads = text(
        channel,
        "cat /proc/[0-9]*/comm | grep -E '^rcuo[a-z]/' | sort",
    );
    assert!(threads.lines().any(|t| t.ends_with("/1")), "{threads}");
    let said = text(channel, "dmesg | grep -i 'Offload RCU callbacks'");
    assert!(said.contains("CPUs: 1."), "{said}");
}

/// A FIFO task keeps all others off its CPU, and the kernel is what it says it is. The shell is
/// elsewhere: in a real-time kernel a `sleep` that began on that CPU would not end while the task runs,
/// because the timers of ordinary tasks expire in a thread of the kernel's, which never gets to run there.
fn real_time(channel: &Channel, which: &str) {
    let version = text(channel, "uname -v");
    assert_eq!(version.contains("PREEMPT_RT"), which == "rt", "{version}");
    let told = text(
        channel,
        "taskset -cp 0 $$ > /dev/null; echo -1 > /proc/sys/kernel/sched_rt_runtime_us
         taskset -c 2 sh -c 'while :; do :; done' & other=$!
         taskset -c 2 chrt -f 50 sh -c 'while :; do :; done' & fifo=$!
         sleep 1; chrt -p $fifo
         a=$(awk '{print $14 + $15}' /proc/$other/stat); sleep 2
         b=$(awk '{print $14 + $15}' /proc/$other/stat); kill -9 $fifo $other; echo ran $((b - a))",
    );
    assert!(
        told.contains("SCHED_FIFO") && told.contains("priority: 50"),
        "{told}"
    );
    assert!(
        told.contains("ran 0"),
        "somebody ran beside a FIFO task: {told}"
    );
}

/// Partitions of version 2: each state is what the kernel accepts, the parent loses the CPU, and
/// nothing of the parent's runs there.
fn partitions(channel: &Channel) {
    let setup = text(
        channel,
        "mkdir -p /tmp/cg && mount -t cgroup2 none /tmp/cg && cd /tmp/cg &&
         echo +cpuset > cgroup.subtree_control && mkdir quiet && echo 2 > quiet/cpuset.cpus &&
         cat quiet/cpuset.cpus.partition",
    );
    assert_eq!(setup, "member\n");
    for state in ["root", "isolated"] {
        let told = text(
            channel,
            &format!(
                "cd /tmp/cg; echo {state} > quiet/cpuset.cpus.partition
                 cat quiet/cpuset.cpus.partition quiet/cpuset.cpus.effective cpuset.cpus.effective
                 for i in 1 2 3 4; do (while :; do :; done) & all=\"$all $!\"; done
                 (echo 0 > quiet/cgroup.procs; exec sh -c 'while :; do :; done') & own=$!; sleep 1
                 for p in $all $own; do echo $p $(awk '{{print $39}}' /proc/$p/stat); done
                 echo own $own; kill $all $own"
            ),
        );
        let lines: Vec<&str> = told.lines().collect();
        assert_eq!(&lines[..2], [state, "2"], "{told}");
        let left = CpuList::parse(lines[2]).expect("a list");
        assert!(!left.contains(2), "{told}");
        let own = lines
            .iter()
            .find_map(|l| l.strip_prefix("own "))
            .expect("its number");
        let places: Vec<(&str, &str)> = lines[3..8]
            .iter()
            .filter_map(|l| l.split_once(' '))
            .collect();
        assert_eq!(places.len(), 5, "{told}");
        for (process, cpu) in places {
            assert_eq!(process == own, cpu == "2", "{told}");
        }
    }
}

/// The threads of a QEMU are where its place says.
#[test]
fn vcpus_and_emulator_are_pinned_apart() {
    if !asked_for() {
        return;
    }
    let guest = Guest::boot("standard", |config| config.vcpus = 1);
    let channel = guest.channel();
    let given = |cpu: u32| Given {
        cpus: CpuList::new(vec![cpu]),
        why: String::new(),
    };
    let place = NodePlace {
        name: "third".into(),
        share: Share::Own,
        cores: given(1),
        vcpus: vec![1],
        emulator: Some(given(0)),
        memory: None,
    };
    pin::pin(guest.vm(), &place).expect("pinned");
    let vcpus = guest
        .vm()
        .qmp()
        .expect("QMP")
        .vcpu_threads()
        .expect("threads");
    let process = guest.vm().id().pid;
    let allowed = |thread: u32| {
        let status = std::fs::read_to_string(format!("/proc/{process}/task/{thread}/status"))
            .expect("a thread");
        let line = status
            .lines()
            .find_map(|l| l.strip_prefix("Cpus_allowed_list:"));
        line.expect("a list").trim().to_string()
    };
    assert_eq!(vcpus.len(), 1);
    assert_eq!(allowed(vcpus[0].tid), "1");
    assert_eq!(allowed(process), "0");
    assert_eq!(text(&channel, "echo alive"), "alive\n");
}
