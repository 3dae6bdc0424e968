//! Messages to QEMU's 9p server that no kernel makes, from a real guest: its program drives the device itself and
//! speaks 9P2000.L and 9P2000.u. Only with `LATLAB_TEST_GUEST=1`.
//!
//! Each of the three rights that a lab can give has a share. Beside the shares lie secrets. The guest's part reads
//! every answer for them; the host compares all files before and after.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use latlab_host::nodes::vm::channel::Channel;
use latlab_host::nodes::vm::{Access, Share};
use latlab_host::sys::process::Process;
use latlab_wire::channel::ExitStatus;
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

mod guests;
mod raw_9p;

use guests::{Guest, asked_for, shell, text};
use raw_9p::{Order, SECRET, VARIABLE};

/// By tag; the image is `root`, the kernel's modules are `share1`.
const SHARES: [(&str, &str, Access); 3] = [
    ("share2", "everybody", Access::Everybody),
    ("share3", "read", Access::Read),
    ("share4", "write", Access::Write),
];
const PROGRAM: &str = "/mnt/program";
const ATTACK: Duration = Duration::from_secs(120);

/// Three directories that guests have, and what is none of their business; gone with the test.
struct Host(PathBuf);

impl Host {
    fn new(test: &str) -> Self {
        let base = PathBuf::from(format!("/srv/latlab-9p-{}-{test}", std::process::id()));
        let host = Self(base);
        host.file("beside/file", SECRET);
        host.file(&format!("beside/{SECRET}"), "");
        host.file(&format!("{SECRET}-of-the-parent"), "");
        for (_, share, _) in SHARES {
            let at = |name: &str| host.0.join(share).join(name);
            host.file(&format!("{share}/public"), "public");
            host.file(&format!("{share}/inner/more"), "public");
            host.file(&format!("{share}/covered/file"), SECRET);
            symlink("../beside", at("out")).unwrap();
            symlink(host.0.join("beside"), at("absolute")).unwrap();
            let all_users = Mode::from_raw_mode(0o666);
            for (name, kind, device) in [
                ("null", FileType::CharacterDevice, makedev(1, 3)),
                ("disk", FileType::BlockDevice, makedev(254, 0)),
                ("pipe", FileType::Fifo, 0),
                ("socket", FileType::Socket, 0),
            ] {
                mknodat(CWD, at(name), kind, all_users, device).unwrap();
                fs::set_permissions(at(name), fs::Permissions::from_mode(0o666)).unwrap();
            }
        }
        host
    }

    fn file(&self, name: &str, content: &str) {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn number(&self, name: &str) -> u64 {
        fs::symlink_metadata(self.0.join(name)).unwrap().ino()
    }

    /// A guest with the shares, and with this test's program.
    fn boot(&self) -> Guest {
        Guest::boot("standard", |config| {
            // The image shows what every user of the host may read, and these are not to be found so.
            let own = self.0.strip_prefix("/").unwrap();
            config.root.covered.push(own.to_owned());
            for (_, name, access) in SHARES {
                let mut share = Share::new(self.0.join(name), format!("/mnt/{name}"), access);
                share.covered.push("covered".into());
                config.shares.push(share);
            }
            let program = std::env::current_exe().unwrap();
            let beside = program.parent().unwrap();
            let share = Share::new(beside, PROGRAM, Access::Everybody);
            config.shares.push(share);
        })
    }

    fn order(&self, tag: &str, share: &str, access: Access) -> String {
        let outside = ["", "beside", "beside/file", &format!("beside/{SECRET}")];
        let covered = format!("{share}/covered/file");
        let mut numbers: Vec<u64> = outside.iter().map(|name| self.number(name)).collect();
        numbers.push(self.number(&covered));
        for path in ["/", "/srv", "/etc", "/etc/passwd", "/etc/shadow"] {
            numbers.push(fs::metadata(path).unwrap().ino());
        }
        let order = Order {
            tag: tag.into(),
            writable: access == Access::Write,
            seed: 18,
            root: self.number(share),
            outside: numbers,
        };
        order.to_text()
    }

    /// Everything that is there but the writable share: numbers, modes, owners, times, contents.
    fn state(&self) -> BTreeMap<PathBuf, String> {
        let mut all = BTreeMap::new();
        let mut left = vec![self.0.clone()];
        while let Some(path) = left.pop() {
            let at = fs::symlink_metadata(&path).unwrap();
            let content = match at.file_type() {
                kind if kind.is_file() => fs::read_to_string(&path).unwrap(),
                kind if kind.is_symlink() => format!("{:?}", fs::read_link(&path).unwrap()),
                kind if kind.is_dir() => {
                    let below = fs::read_dir(&path).unwrap();
                    left.extend(below.map(|entry| entry.unwrap().path()));
                    String::new()
                }
                _ => String::new(),
            };
            let (number, mode, owner, group) = (at.ino(), at.mode(), at.uid(), at.gid());
            let (links, size, changed) = (at.nlink(), at.size(), at.ctime_nsec());
            let state =
                format!("{number} {mode:o} {owner} {group} {links} {size} {changed} {content}");
            if path != self.0.join("write") {
                all.insert(path, state);
            } else {
                left.retain(|path| !path.starts_with(self.0.join("write")));
            }
        }
        all
    }

    /// The device nodes, by number: a guest may move one that the host made, and makes none.
    fn devices(below: &Path) -> BTreeSet<(u64, u64)> {
        let mut found = BTreeSet::new();
        for entry in fs::read_dir(below).unwrap() {
            let path = entry.unwrap().path();
            let at = fs::symlink_metadata(&path).unwrap();
            let kind = at.file_type();
            if kind.is_dir() {
                found.extend(Self::devices(&path));
            } else if kind.is_block_device() || kind.is_char_device() {
                found.insert((at.ino(), at.rdev()));
            }
        }
        found
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

/// The guest's part of a test, as a command there.
fn inside(test: &str, order: &str, share: &str) -> String {
    let program = std::env::current_exe().unwrap();
    let program = Path::new(PROGRAM).join(program.file_name().unwrap());
    format!(
        "umount /mnt/{share} && {VARIABLE}='{order}' exec {} {test} --exact --nocapture 2>&1",
        program.display()
    )
}

fn echoes(channel: &Channel) {
    assert_eq!(text(channel, "echo still here"), "still here\n");
}

#[test]
fn messages_that_no_kernel_makes_lead_out_of_no_share() {
    const NAME: &str = "messages_that_no_kernel_makes_lead_out_of_no_share";
    if let Ok(order) = std::env::var(VARIABLE) {
        return raw_9p::attack(&order);
    }
    if !asked_for() {
        return;
    }
    let host = Host::new("messages");
    let guest = host.boot();
    let channel = guest.channel();
    let before = host.state();
    let devices = Host::devices(&host.0);
    for (tag, share, access) in SHARES {
        let line = inside(NAME, &host.order(tag, share, access), share);
        let finished = channel.run(shell(&line), b"", ATTACK).unwrap();
        let said = String::from_utf8_lossy(&finished.stdout).into_owned();
        assert_eq!(finished.status, ExitStatus::Code(0), "{share}: {said}");
        let sent = said.lines().find(|line| line.ends_with("resets"));
        println!(
            "{share}: {}",
            sent.expect("the guest's part came to its end")
        );
        echoes(&channel);
        assert_eq!(host.state(), before, "{share}");
    }
    let left = Host::devices(&host.0);
    assert!(left.is_subset(&devices), "{left:?}, not only {devices:?}");
}

/// QEMU 7.2 asserts that no name has a slash, and a rename of 9P2000.u brings one there. What else the host has is
/// not that guest's to end.
#[test]
fn a_rename_with_a_slash_costs_at_most_the_guest_that_asks_for_it() {
    const NAME: &str = "a_rename_with_a_slash_costs_at_most_the_guest_that_asks_for_it";
    if let Ok(order) = std::env::var(VARIABLE) {
        return raw_9p::rename_with_a_slash(&order);
    }
    if !asked_for() {
        return;
    }
    let host = Host::new("rename");
    let (neighbour, guest) = (host.boot(), host.boot());
    let (beside, channel) = (neighbour.channel(), guest.channel());
    let before = host.state();
    for (tag, share, access) in SHARES {
        let line = inside(NAME, &host.order(tag, share, access), share);
        let ended = channel.run(shell(&line), b"", ATTACK);
        let qemu = Process::open(guest.vm().id()).unwrap();
        let has_ended = |qemu: &Process| qemu.wait(Duration::from_secs(10)).unwrap();
        match &ended {
            Ok(finished) if finished.status == ExitStatus::Code(0) => echoes(&channel),
            Err(_) if access == Access::Write && qemu.as_ref().is_none_or(has_ended) => {
                println!("{share}: this QEMU ended");
            }
            _ => panic!("{share}: {ended:?}"),
        }
        echoes(&beside);
        let public = text(&beside, "cat /mnt/write/public");
        assert_eq!(public, "public", "{share}");
        assert_eq!(host.state(), before, "{share}");
    }
}
