//! Boots real guests. Only with `LATLAB_TEST_GUEST=1`, because a boot under software emulation takes
//! seconds and the first run downloads a kernel; with it, anything missing is an error, not a skip.

use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use latlab_host::nodes::vm::accel;
use latlab_host::nodes::vm::channel::{Channel, Error as ChannelError};
use latlab_host::nodes::vm::clock::{self, ClockOffset};
use latlab_host::nodes::vm::kernel::{self, Transport};
use latlab_host::nodes::vm::{Access, Share};
use latlab_host::nodes::vm::{Error, initramfs};
use latlab_host::sys::netns::{self, NetNs};
use latlab_host::sys::process::Process;
use latlab_host::sys::tap::create_tap;
use latlab_model::kinds::GuestRoot;
use latlab_netlink::{Address, Handle, LinkChange};
use latlab_wire::channel::{Exec, ExitStatus, Interface, NetworkConfig, Route};
use rustix::process::Signal;

mod guests;

use guests::{BOOT, COMMAND, Guest, agent, asked_for, kernels, shell, text};

#[test]
fn a_standard_guest_runs_commands_and_turns_off() {
    if !asked_for() {
        return;
    }
    let mut guest = Guest::boot("standard", |config| {
        config.hardware.features.push("-rdrand".into());
    });
    let channel = guest.channel();
    hardware(&channel);
    assert!(text(&channel, "cat /proc/version").starts_with("Linux version "));
    assert_eq!(text(&channel, "uname -n"), "third\n");
    assert_eq!(text(&channel, "cat /proc/1/comm"), "init\n");
    commands(&channel);
    two_sessions_at_once(&channel);
    a_slow_reader_blocks_no_other_session(&channel);
    another_client(&guest);
    the_image_is_not_written(&channel);
    orphans_are_reaped(&channel);
    clocks(&guest.vm().clock_page(), &channel);
    channel.power_off().unwrap();
    drop(channel);
    let vm = guest.vm.take().unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    let error = loop {
        match vm.health() {
            Ok(()) => assert!(Instant::now() < deadline, "the guest does not turn off"),
            Err(error) => break error,
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(
        matches!(&error, Error::GuestEnded { how, .. } if how == "QEMU returned 0"),
        "{error}"
    );
    vm.stop(Duration::from_secs(1)).unwrap();
}

fn hardware(channel: &Channel) {
    let flags = text(channel, "grep -m1 ^flags /proc/cpuinfo");
    let mut flags = flags.split_whitespace();
    assert!(flags.clone().any(|flag| flag == "sse2"));
    assert!(!flags.any(|flag| flag == "rdrand"));
    let clocks = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
    let clocks = text(channel, &format!("cat {clocks}"));
    assert!(
        clocks.contains("tsc") && !clocks.contains("hpet"),
        "{clocks}"
    );
}

fn commands(channel: &Channel) {
    let cat = Exec {
        argv: vec!["cat".into()],
        ..Exec::default()
    };
    let finished = channel.run(cat, b"over there and back", COMMAND).unwrap();
    assert_eq!(finished.stdout, b"over there and back");
    let finished = channel
        .run(shell("echo wrong >&2; exit 7"), b"", COMMAND)
        .unwrap();
    assert_eq!(
        (finished.status, &finished.stderr[..]),
        (ExitStatus::Code(7), &b"wrong\n"[..])
    );
    let mut exec = shell("echo $HELLO; pwd; id -u");
    exec.env = vec![("HELLO".into(), "a b".into())];
    exec.cwd = Some("/usr".into());
    exec.uid = Some(65534);
    let finished = channel.run(exec, b"", COMMAND).unwrap();
    assert_eq!(
        String::from_utf8(finished.stdout).unwrap(),
        "a b\n/usr\n65534\n"
    );
    let absent = Exec {
        argv: vec!["no-such-program".into()],
        ..Exec::default()
    };
    match channel.run(absent, b"", COMMAND) {
        Err(ChannelError::Refused { errno: 2, message }) => {
            assert!(message.starts_with("run no-such-program"), "{message}");
        }
        other => panic!("{other:?}"),
    }
    let mut session = channel.exec(shell("echo ready; sleep 1000")).unwrap();
    let mut ready = [0; 6];
    session
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut ready)
        .unwrap();
    session.signal(15).unwrap();
    assert_eq!(session.wait_for(COMMAND).unwrap(), ExitStatus::Signal(15));
}

fn two_sessions_at_once(channel: &Channel) {
    // Each waits for what the other writes: they only end if both run.
    let relay = |mine: &str, other: &str| {
        shell(&format!(
            "echo > /tmp/{mine}; until [ -e /tmp/{other} ]; do sleep 0.1; done; echo {mine}"
        ))
    };
    let (first, second) = (relay("a", "b"), relay("b", "a"));
    std::thread::scope(|scope| {
        let first = scope.spawn(|| channel.run(first, b"", COMMAND).unwrap());
        let second = channel.run(second, b"", COMMAND).unwrap();
        assert_eq!(second.stdout, b"b\n");
        assert_eq!(first.join().unwrap().stdout, b"a\n");
    });
}

fn a_slow_reader_blocks_no_other_session(channel: &Channel) {
    let mut slow = channel.exec(shell("head -c 3000000 /dev/zero")).unwrap();
    drop(slow.stdin.take());
    assert_eq!(text(channel, "echo quick"), "quick\n");
    let mut bytes = Vec::new();
    slow.stdout.take().unwrap().read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes.len(), 3_000_000);
    assert_eq!(slow.wait_for(COMMAND).unwrap(), ExitStatus::Code(0));
}

/// A second invocation of latlab has a port of its own; what it started ends with it, and its port
/// serves the next.
fn another_client(guest: &Guest) {
    let other = guest.channel();
    let mut session = other.exec(shell("echo $$; exec sleep 1000")).unwrap();
    let mut pid = [0; 2];
    session
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut pid)
        .unwrap();
    drop((session, other));
    let other = guest.channel();
    let deadline = Instant::now() + COMMAND;
    while text(&other, "pgrep -c -x sleep || true").trim() != "0" {
        assert!(
            Instant::now() < deadline,
            "a dead client's process lives on"
        );
    }
}

fn the_image_is_not_written(channel: &Channel) {
    text(
        channel,
        "echo guest > /etc/latlab-guest-test && rm /etc/hostname && cat /etc/latlab-guest-test",
    );
    assert!(!Path::new("/etc/latlab-guest-test").exists());
    assert!(Path::new("/etc/hostname").exists());
}

fn orphans_are_reaped(channel: &Channel) {
    text(channel, "(sleep 0.1 &) ; (sleep 0.2 &)");
    let zombies = "grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l";
    let deadline = Instant::now() + COMMAND;
    while text(channel, zombies).trim() != "0"
        || text(channel, "pgrep -c sleep || true").trim() != "0"
    {
        assert!(Instant::now() < deadline, "orphans are left");
    }
}

fn clocks(page: &Path, channel: &Channel) {
    let first = clock::exchange(page, channel).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    // The time since boot is the monotonic clock of a guest that was never suspended.
    let uptime = text(channel, "cut -d' ' -f1 /proc/uptime");
    let guest_ns = uptime.trim().parse::<f64>().unwrap() * 1e9;
    let second = clock::exchange(page, channel).unwrap();
    eprintln!("clock exchanges: {first:?}, {second:?}");
    // The reading lies between the two exchanges, on the guest's own clock.
    let guest_at = |offset: &ClockOffset| offset.at_host_ns as i64 + offset.offset_ns;
    assert!(guest_at(&first) < guest_ns as i64 && (guest_ns as i64) < guest_at(&second));
    assert!(first.error_ns > 0 && first.error_ns <= first.median_round_trip_ns);
}

/// The kernel's eth0 becomes the lab's eth1 and the other way round; addresses work at once; the guest's
/// modules can be loaded.
#[test]
fn a_guests_network_is_set_up_by_hardware_address() {
    if !asked_for() {
        return;
    }
    let netns = std::thread::spawn(|| {
        netns::unshare().unwrap();
        NetNs::current().unwrap()
    });
    let netns = netns.join().unwrap();
    let taps = ["tap0", "tap1"].map(|name| create_tap(netns.as_fd(), name, 1).unwrap().remove(0));
    let listener = netns.run(host_side).unwrap();
    let guest = Guest::boot_with("standard", &taps);
    let channel = guest.channel();
    let interface = |name: &str, last, address: [&str; 2]| Interface {
        mac: [2, 0, 0, 0, 9, last],
        own_mac: None,
        name: name.into(),
        mtu: Some(1400),
        addresses: vec![
            (address[0].parse().unwrap(), 24),
            (address[1].parse().unwrap(), 64),
        ],
    };
    let config = NetworkConfig {
        interfaces: vec![
            interface("eth1", 0, ["10.9.0.2", "fd09::2"]),
            interface("eth0", 1, ["10.9.1.2", "fd19::2"]),
        ],
        routes: vec![Route {
            destination: ("0.0.0.0".parse().unwrap(), 0),
            gateway: Some("10.9.0.1".parse().unwrap()),
            interface: None,
        }],
        hosts: Some("10.9.0.1 host-side\n".into()),
    };
    channel.configure_network(config, COMMAND).unwrap();
    assert_eq!(text(&channel, "cat /etc/hosts"), "10.9.0.1 host-side\n");
    let server = std::thread::spawn(move || {
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(b"hello\n").unwrap();
        }
    });
    let fetch = |address: &str| {
        let line = format!("exec 3<>/dev/tcp/{address}/4000; cat <&3");
        let argv = ["bash", "-c", &line].map(str::to_owned).to_vec();
        let exec = Exec {
            argv,
            ..Exec::default()
        };
        channel.run(exec, b"", COMMAND).unwrap()
    };
    // IPv6 first: an address still under duplicate detection could not be used.
    for address in ["fd09::1", "10.9.0.1"] {
        let fetched = fetch(address);
        assert_eq!(fetched.stdout, b"hello\n", "{address}: {fetched:?}");
    }
    server.join().unwrap();
    assert_eq!(
        text(&channel, "cat /sys/class/net/eth1/address"),
        "02:00:00:00:09:00\n"
    );
    assert_eq!(
        text(&channel, "cat /sys/class/net/eth0/address"),
        "02:00:00:00:09:01\n"
    );
    assert_eq!(text(&channel, "cat /sys/class/net/eth1/mtu"), "1400\n");
    ipv6_is_quiet(&channel);
    text(
        &channel,
        "modprobe sch_netem && grep sch_netem /proc/modules",
    );
    let unknown = NetworkConfig {
        interfaces: vec![interface("eth2", 77, ["10.9.2.2", "fd29::2"])],
        ..NetworkConfig::default()
    };
    let error = channel.configure_network(unknown, COMMAND).unwrap_err();
    assert!(error.to_string().contains("02:00:00:00:09:4d"), "{error}");
}

/// As in a namespace of the host's, although the cards are older than the guest's defaults.
fn ipv6_is_quiet(channel: &Channel) {
    for interface in ["eth0", "eth1", "default"] {
        let line = format!(
            "cd /proc/sys/net/ipv6/conf/{interface} && cat accept_dad accept_ra \
             router_solicitations mldv2_unsolicited_report_interval"
        );
        assert_eq!(text(channel, &line), "0\n0\n0\n86400000\n", "{interface}");
    }
}

/// The other end of the first tap, with a listener for both families.
fn host_side() -> TcpListener {
    let mut handle = Handle::open().unwrap();
    for (name, addresses) in [("tap0", vec!["10.9.0.1", "fd09::1"]), ("tap1", Vec::new())] {
        let index = handle.link_index(name).unwrap();
        handle
            .apply(&LinkChange::of_index(index).mtu(1400).up(true).request())
            .unwrap();
        for address in addresses {
            let address: IpAddr = address.parse().unwrap();
            let prefix_length = if address.is_ipv4() { 24 } else { 64 };
            let address = Address {
                interface: index,
                address,
                prefix_length,
            };
            handle.apply(&address.add()).unwrap();
        }
    }
    TcpListener::bind("[::]:4000").unwrap()
}

#[test]
fn a_guest_whose_kernel_panics_says_so() {
    if !asked_for() {
        return;
    }
    let guest = Guest::boot("standard", |config| {
        config.boot_parameters.push("rdinit=/nonexistent".into());
    });
    match guest.vm().channel(BOOT) {
        Err(Error::GuestPanicked { console, .. }) => {
            assert!(
                console[0].contains("Kernel panic - not syncing"),
                "{console:?}"
            );
        }
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("a guest without init answered"),
    }
}

#[test]
fn a_guest_goes_on_without_a_reader_of_its_console() {
    if !asked_for() {
        return;
    }
    let guest = Guest::boot("standard", |_| ());
    let channel = guest.channel();
    text(&channel, "echo said by the test > /dev/console");
    let log = guest.dir.join("console.log");
    let start = Instant::now();
    while !std::fs::read_to_string(&log)
        .unwrap()
        .contains("said by the test")
    {
        assert!(start.elapsed() < COMMAND, "never in the log");
        std::thread::sleep(Duration::from_millis(10));
    }
    let [keeper] = guest.vm().helpers()[..] else {
        panic!("{:?}", guest.vm().helpers());
    };
    let keeper = Process::open(keeper).unwrap().unwrap();
    keeper.signal(Signal::KILL).unwrap();
    // More than a pipe holds.
    text(&channel, "head -c 100000 /dev/zero > /dev/console");
}

#[test]
fn a_guest_whose_agent_is_silent_is_not_waited_for_for_ever() {
    if !asked_for() {
        return;
    }
    // A kernel told to wait before it starts init looks like an agent that hangs.
    let guest = Guest::boot("standard", |config| {
        config.boot_parameters.push("rdinit=/dev/console".into());
        config.boot_parameters.push("panic=0".into());
        config
            .boot_parameters
            .push("initcall_blacklist=populate_rootfs".into());
        config
            .boot_parameters
            .push("rootwait root=/dev/nothing".into());
    });
    match guest.vm().channel(Duration::from_secs(8)) {
        Err(Error::AgentSilent { after, .. }) => assert!(after >= Duration::from_secs(8)),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("a guest without agent answered"),
    }
}

#[test]
fn qemu_that_refuses_its_arguments_is_quoted() {
    if !asked_for() {
        return;
    }
    let guest = Guest::boot("standard", |config| config.memory_bytes = 1 << 20);
    let error = guest
        .vm()
        .channel(BOOT)
        .err()
        .expect("a guest of 1 MiB does not boot");
    assert!(
        matches!(
            error,
            Error::GuestEnded { .. } | Error::GuestPanicked { .. }
        ),
        "{error}"
    );
}

#[test]
fn a_cloud_guest_reaches_its_image_over_virtiofs_and_shares_are_writable() {
    if !asked_for() {
        return;
    }
    let shared = PathBuf::from(format!("/tmp/latlab-guest-share-{}", std::process::id()));
    std::fs::create_dir_all(&shared).unwrap();
    std::fs::write(shared.join("from-host"), "hello guest\n").unwrap();
    for which in ["cloud", "standard"] {
        let guest = Guest::boot(which, |config| {
            config
                .shares
                .push(Share::new(&shared, "/mnt/lab", Access::Write));
            let expected = if which == "cloud" {
                Transport::VirtioFs
            } else {
                Transport::NineP
            };
            assert_eq!(config.kernel.transport, expected);
        });
        let channel = guest.channel();
        assert_eq!(text(&channel, "cat /mnt/lab/from-host"), "hello guest\n");
        text(&channel, &format!("echo {which} > /mnt/lab/from-{which}"));
        let back = std::fs::read_to_string(shared.join(format!("from-{which}"))).unwrap();
        assert_eq!(back.trim(), which);
    }
    std::fs::remove_dir_all(shared).unwrap();
}

#[test]
fn kvm_is_judged_by_booting_and_remembered() {
    if !asked_for() {
        return;
    }
    let kernel = kernel::resolve("standard", &kernels(), &mut |_| ()).unwrap();
    let initramfs = initramfs::prepare(&agent(), &kernel, GuestRoot::Share, &kernels()).unwrap();
    let cache = PathBuf::from(format!("/tmp/latlab-accel-test-{}", std::process::id()));
    let first = accel::prove(&kernel, &initramfs, &cache).unwrap();
    eprintln!("{first:?}");
    let start = Instant::now();
    let second = accel::prove(&kernel, &initramfs, &cache).unwrap();
    eprintln!("remembered verdict took {:?}", start.elapsed());
    assert_eq!(first, second);
    assert!(!first.reason.is_empty());
    std::fs::remove_dir_all(cache).unwrap();
}
