//! A hostile root in a guest: every way that was thought of to read what is not the guest's, to write anything of the
//! host's, or to bring the host's process to a halt. [`READS`], [`WRITES`] and [`DEVICES`] are the ways, each with a
//! name; a way that succeeds prints [`GOT`]. The same lists run over QEMU's own 9p (kernel `standard`) and over
//! virtiofs (`cloud`), where a second mount of the export is the guest's to make, writable unless the host refuses.
//! Only with `LATLAB_TEST_GUEST=1`.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use latlab_host::images::{self, Cache, Image, RootView};
use latlab_host::nodes::vm::channel::Channel;
use latlab_host::nodes::vm::clock;
use latlab_host::nodes::vm::{Access, Share};

mod guests;

use guests::{COMMAND, Guest, asked_for, shell, text};

/// The line of an attack that succeeded. The shell joins it, so that no echo of a command looks so.
const GOT: &str = "GOTCHA";

/// `/m` is the image without what is mounted over it in the guest, `HERE` the test's own directory of the host.
const READS: [(&str, &str); 16] = [
    ("passwords", "grep -q : /m/etc/shadow && got"),
    ("old passwords", "grep -q : /m/etc/shadow- && got"),
    ("group passwords", "grep -q : /m/etc/gshadow && got"),
    (
        "a file of root's only",
        "grep -q secret /mHERE/private && got",
    ),
    ("a file of a group's", "grep -q secret /mHERE/group && got"),
    (
        "a file in root's directory",
        "grep -rq secret /mHERE/closed && got",
    ),
    (
        "the list of root's directory",
        "ls -A /mHERE/closed | grep -q . && got",
    ),
    (
        "through a relative link",
        "grep -q : /mHERE/relative && got",
    ),
    (
        "through an absolute link",
        "chroot /m cat HERE/absolute | grep -q : && got",
    ),
    (
        "out of the export by `..`",
        "cd /mHERE; grep -q : ../../../../../../m/etc/shadow && got",
    ),
    ("root's home", "ls -A /m/root | grep -q . && got"),
    (
        "the host's processes",
        "head -c 1 /m/proc/1/environ | grep -q . && got",
    ),
    (
        "the host's devices of sysfs",
        "ls -A /m/sys | grep -q . && got",
    ),
    ("the host's /run", "ls -A /m/run | grep -q . && got"),
    (
        "latlab's state",
        "ls -A /m/var/lib/latlab | grep -q . && got",
    ),
    (
        "latlab's cache",
        "ls -A /m/var/cache/latlab | grep -q . && got",
    ),
];

/// In each of these `$at` is a directory of the host's that is not the guest's to change.
const WRITES: [(&str, &str); 18] = [
    ("a new file", "echo x > $at/new && got"),
    ("a new directory", "mkdir $at/newdir && got"),
    ("more in a file", "echo x >> $at/public && got"),
    ("less in a file", ": > $at/public && got"),
    ("a file's removal", "rm -f $at/public && got"),
    ("a rename", "mv $at/public $at/moved && got"),
    ("a mode", "chmod 600 $at/public && got"),
    ("set-user-ID", "chmod u+s $at/public && got"),
    ("an owner", "chown 1:1 $at/public && got"),
    ("a hard link", "ln $at/public $at/hard && got"),
    ("a symbolic link", "ln -s /etc/shadow $at/soft && got"),
    ("a pipe", "mknod $at/pipe p && got"),
    ("a character device", "mknod $at/null c 1 3 && got"),
    ("a block device", "mknod $at/disk b 254 0 && got"),
    ("times", "touch -d 2001-01-01 $at/public && got"),
    (
        "an extended attribute",
        "setfattr -n user.x -v y $at/public && got",
    ),
    ("an allocation", "fallocate -l 1M $at/public && got"),
    ("an open for update", UPDATE),
];

const UPDATE: &str = "perl -e 'open(my $f, \"+<\", $ARGV[0]) or exit 1; print $f \"x\" or exit 1; \
    close($f) or exit 1' $at/public && got";

/// Capabilities of the guest's devices.
const DEVICES: [(&str, &str); 2] = [
    (
        "the firmware's files",
        "modprobe -q qemu_fw_cfg; grep -rqs latlab-attack-secret /sys/firmware/qemu_fw_cfg && got",
    ),
    (
        "ROMs of the cards",
        "for r in /sys/bus/pci/devices/*/rom; do echo 1 > $r; cat $r; done 2>&1 | grep -q latlab-attack-secret && got",
    ),
];

/// Raw bytes into the channel's port that init holds open: another program cannot open it, but root takes it over.
const PORT: &str = r#"setsid perl -e 'my $p = syscall(434, 1, 0); my $n = 0;
    my $g = pack("C*", map { int(rand(256)) } 1 .. 4096); for my $f (glob("/proc/1/fd/*")) {
    next unless (readlink($f) // "") =~ /vport/; $f =~ /(\d+)$/; my $d = syscall(438, $p, $1 + 0, 0);
    next if $d < 0; open(my $o, ">&=", $d); $n++;
    syswrite($o, $g) for 1 .. 64; syswrite($o, "\e]0;title\a\e[2J") }
    open(my $t, ">", "/run/taken"); print $t $n' > /dev/null 2> /run/why &"#;

/// A directory of the host's with things to attack; gone with the test.
struct Target(PathBuf);

impl Target {
    fn new(name: &str) -> Self {
        let dir = PathBuf::from(format!("/srv/latlab-attack-{}-{name}", std::process::id()));
        fs::create_dir_all(dir.join("closed")).unwrap();
        fs::create_dir_all(dir.join("shared")).unwrap();
        for (file, mode) in [
            ("private", 0o600),
            ("group", 0o640),
            ("public", 0o644),
            ("closed/inner", 0o644),
            ("shared/public", 0o644),
        ] {
            fs::write(dir.join(file), "latlab-attack-secret\n").unwrap();
            fs::set_permissions(dir.join(file), fs::Permissions::from_mode(mode)).unwrap();
        }
        fs::set_permissions(dir.join("closed"), fs::Permissions::from_mode(0o700)).unwrap();
        symlink("../../etc/shadow", dir.join("relative")).unwrap();
        symlink("/etc/shadow", dir.join("absolute")).unwrap();
        Self(dir)
    }

    /// All that is there: names, modes, owners, content.
    fn state(&self) -> String {
        let line = format!(
            "cd {0}; find . -path ./written -prune -o -printf '%p %M %u %g %s %T@ %n\\n' | sort; cat public shared/public",
            self.0.display()
        );
        let output = std::process::Command::new("sh")
            .args(["-c", &line])
            .output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

/// Runs ways in the guest; the names of those that succeeded.
fn succeeded(channel: &Channel, here: &Path, before: &str, ways: &[(&str, &str)]) -> Vec<String> {
    let mut found = Vec::new();
    for (name, line) in ways {
        let line = line.replace("HERE", &here.display().to_string());
        let (first, rest) = GOT.split_at(3);
        let line = format!("got() {{ echo {first}''{rest}; }}; {before}; {{ {line}; }} 2>&1; true");
        let finished = channel.run(shell(&line), b"", COMMAND).unwrap();
        let said = String::from_utf8_lossy(&finished.stdout);
        if said.contains(GOT) {
            found.push(format!("{name}: {said}"));
        }
    }
    found
}

fn image() -> RootView {
    let cache = Cache::new(std::env::temp_dir().join("unused"));
    images::prepare(&Image::Host, &cache).unwrap()
}

/// A guest of `image: host`, as a lab has it. With `binds` it also has a directory to read and one to write.
fn attack(which: &str, binds: bool) {
    let target = Target::new(&format!("{which}-{binds}"));
    let written = target.0.join("written");
    fs::create_dir(&written).unwrap();
    let image = image();
    let covered = image.fresh.iter().chain(&image.hidden);
    let covered = covered.map(|path| path.strip_prefix("/").unwrap().to_owned());
    let covered: Vec<PathBuf> = covered.collect();
    let guest = Guest::boot(which, |config| {
        config.root.covered = covered;
        if binds {
            config.shares.push(Share::new(
                target.0.join("shared"),
                "/mnt/read",
                Access::Read,
            ));
            config
                .shares
                .push(Share::new(&written, "/mnt/write", Access::Write));
        }
    });
    let channel = guest.channel();
    confined(&guest, binds);
    let before = target.state();
    let here = target.0.as_path();
    text(&channel, "mkdir /m /raw; mount --bind / /m");
    // The attacks see the export at all.
    let public = text(&channel, &format!("cat /m{}/public", here.display()));
    assert_eq!(public, "latlab-attack-secret\n");
    let mut found = succeeded(&channel, here, ":", &READS);
    if which == "cloud" {
        text(
            &channel,
            "mount -t virtiofs root /raw; mount -o remount,rw /raw",
        );
        let at = format!("at=/raw{}", here.display());
        found.extend(succeeded(&channel, here, &at, &WRITES));
    }
    if binds {
        text(&channel, "mount -o remount,rw /mnt/read");
        found.extend(succeeded(&channel, here, "at=/mnt/read", &WRITES));
        text(
            &channel,
            "echo mine > /mnt/write/file; chown 7:7 /mnt/write/file",
        );
        assert_eq!(fs::read_to_string(written.join("file")).unwrap(), "mine\n");
        let devices = &WRITES[12..14];
        assert!(devices.iter().all(|(name, _)| name.ends_with("device")));
        found.extend(succeeded(&channel, here, "at=/mnt/write", devices));
    }
    found.extend(succeeded(&channel, here, ":", &DEVICES));
    assert_eq!(found, Vec::<String>::new(), "{which}, binds: {binds}");
    assert_eq!(target.state(), before, "{which}: the host's files changed");
    if !binds {
        page(&guest, &channel);
        flood(&guest);
        port(&guest, channel);
    }
}

/// QEMU and virtiofsd print without end, as they do for a guest that makes them warn: the host's memory, where their
/// logs lie, stays bounded.
fn flood(guest: &Guest) {
    const PRINTED: usize = 8 << 20;
    let mut processes: Vec<u32> = guest.vm().helpers().iter().map(|id| id.pid).collect();
    processes.push(guest.vm().id().pid);
    let mut flooded = 0;
    for pid in processes {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap();
        if !["qemu-system-x86\n", "virtiofsd\n"].contains(&name.as_str()) {
            continue;
        }
        let stderr = fs::OpenOptions::new()
            .write(true)
            .open(format!("/proc/{pid}/fd/2"));
        stderr
            .unwrap()
            .write_all(&b"a warning\n".repeat(PRINTED / 10))
            .unwrap();
        flooded += 1;
    }
    let bytes = || -> u64 {
        let entries = fs::read_dir(&guest.dir)
            .unwrap()
            .map(|entry| entry.unwrap());
        let logs = entries.filter(|entry| entry.file_name().to_string_lossy().contains(".log"));
        logs.filter_map(|log| log.metadata().ok())
            .map(|log| log.len())
            .sum()
    };
    std::thread::sleep(Duration::from_millis(500));
    assert!(flooded > 0);
    assert!(
        bytes() < PRINTED as u64 / 4 * flooded,
        "{} bytes of logs",
        bytes()
    );
}

/// QEMU and virtiofsd, by what the kernel says of them. Each is its own user, none may anything that its shares do not
/// need, and their root is not the host's.
fn confined(guest: &Guest, binds: bool) {
    let mut processes: Vec<u32> = guest.vm().helpers().iter().map(|id| id.pid).collect();
    processes.push(guest.vm().id().pid);
    let mut seen = 0;
    for pid in processes {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap().split_whitespace().next().unwrap().to_string()
        };
        let name = field("Name:");
        if !["qemu-system-x86", "virtiofsd"].contains(&name.as_str()) {
            continue;
        }
        seen += 1;
        assert_eq!(field("NoNewPrivs:"), "1", "{name}");
        assert_eq!(field("Seccomp:"), "2", "{name}");
        let effective = u64::from_str_radix(&field("CapEff:"), 16).unwrap();
        // CAP_CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, FSETID, SETGID, SETUID.
        let files = 0b1101_1111;
        // Without binds: FOWNER alone, and of virtiofsd alone.
        let allowed = match (binds, name.as_str()) {
            (true, _) => files,
            (false, "virtiofsd") => 0b1000,
            (false, _) => 0,
        };
        assert_eq!(effective & !allowed, 0, "{name}: {effective:x}");
        let root = PathBuf::from(format!("/proc/{pid}/root"));
        for absent in ["etc/passwd", "root", "home", "var"] {
            // The root of virtiofsd is its share.
            let seen = root.join(absent).exists();
            assert!(!seen || name == "virtiofsd", "{name} sees {absent}");
        }
        for space in ["mnt", "net", "ipc"] {
            let of = |who: &str| fs::read_link(format!("/proc/{who}/ns/{space}")).unwrap();
            assert_ne!(of(&pid.to_string()), of("self"), "{name}: {space}");
        }
        if !binds {
            assert!(
                field("Uid:").parse::<u32>().unwrap() > 2_000_000_000,
                "{name}"
            );
        }
    }
    assert!(seen > 0);
}

/// The guest writes whatever it likes to its clock page while the host compares clocks.
fn page(guest: &Guest, channel: &Channel) {
    let garbage =
        "for r in /sys/bus/pci/devices/*; do grep -q 0x1110 $r/device && page=$r/resource2; done
        exec perl -e 'open(my $f, \"+<\", $ARGV[0]) or die; open(my $r, \"<\", \"/dev/urandom\");
        my $p = syscall(9, 0, 4096, 3, 1, fileno($f), 0);
        for (1 .. 3000) { syscall(0, fileno($r), $p, 4096) == 4096 or die }' $page";
    let exchange = std::thread::scope(|scope| {
        scope.spawn(|| text(channel, garbage));
        clock::exchange(&guest.vm().clock_page(), channel)
    });
    println!("the clock beside garbage: {exchange:?}");
}

/// Garbage on the channel ends that connection, if any; the guest is then reached as before, or said to be lost.
fn port(guest: &Guest, channel: Channel) {
    text(&channel, PORT);
    std::thread::sleep(Duration::from_secs(2));
    let said = channel.run(shell("echo still here"), b"", Duration::from_secs(20));
    println!("the channel beside garbage: {said:?}");
    drop(channel);
    let again = guest.vm().channel(Duration::from_secs(60)).unwrap();
    let taken = text(&again, "sleep 1; cat /run/taken /run/why");
    assert_eq!(taken, "8", "ports that were taken over");
}

#[test]
fn a_hostile_guest_gets_nothing_of_the_hosts_over_9p() {
    if asked_for() {
        attack("standard", false);
    }
}

#[test]
fn a_hostile_guest_gets_no_more_when_a_lab_binds_directories_over_9p() {
    if asked_for() {
        attack("standard", true);
    }
}

#[test]
fn a_hostile_guest_gets_nothing_of_the_hosts_over_virtiofs() {
    if asked_for() {
        attack("cloud", true);
        attack("cloud", false);
    }
}

/// Files that are not covered are refused by the kernel all the same, since the server's user owns nothing.
#[test]
fn files_made_after_the_guest_began_are_closed_to_it_too() {
    if !asked_for() {
        return;
    }
    let guest = Guest::boot("standard", |_| ());
    let target = Target::new("late");
    let channel = guest.channel();
    text(&channel, "mkdir /m; mount --bind / /m");
    // Without covers: what belongs to this boot is only not exported, which the first ways do not ask.
    let found = succeeded(&channel, &target.0, ":", &READS[..10]);
    assert_eq!(found, Vec::<String>::new());
}
