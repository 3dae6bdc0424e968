//! Requests that no kernel sends, to virtiofsd as latlab confines it: the test is the front end itself, as a guest is
//! that has the device to itself.

use std::collections::BTreeMap;
use std::io::{IoSlice, Read};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::MemfdFlags;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use super::*;

const DESCRIPTORS: u64 = 0;
const AVAILABLE: u64 = 0x1000;
const USED: u64 = 0x2000;
const REQUEST: u64 = 0x10000;
const REPLY: u64 = 0x40000;
const ROOM: u32 = 0x20000;
const SIZE: u64 = 0x80000;
/// The front end's address of its memory; any number.
const ADDRESS: u64 = 0x7000_0000;
const ENTRIES: u16 = 64;
/// The queue of requests; the one before it is for urgent ones.
const QUEUE: u32 = 1;
const ROOT: u64 = 1;

/// A front end of virtiofsd: memory, one ring, the socket.
struct Guest {
    socket: UnixStream,
    memory: fs::File,
    kick: OwnedFd,
    call: OwnedFd,
    sent: u16,
    patience_ms: u32,
}

/// An answer: 0 or a negative error number, and what follows the header.
#[derive(Debug)]
struct Answer {
    error: i32,
    body: Vec<u8>,
}

impl Answer {
    fn is_secret(&self) -> bool {
        self.body.windows(6).any(|part| part == b"secret")
    }
}

impl Guest {
    fn connect(socket: &Path) -> Guest {
        let memory = rustix::fs::memfd_create("guest", MemfdFlags::CLOEXEC).unwrap();
        let memory = fs::File::from(memory);
        memory.set_len(SIZE).unwrap();
        let event = || eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let mut guest = Guest {
            socket: UnixStream::connect(socket).unwrap(),
            memory,
            kick: event(),
            call: event(),
            sent: 0,
            patience_ms: 20_000,
        };
        let timeout = Some(Duration::from_secs(60));
        guest.socket.set_read_timeout(timeout).unwrap();
        guest.begin();
        let answer = guest
            .ask(26, 0, &numbers(&[7, 31, 0, 0], &[]))
            .expect("FUSE_INIT is answered");
        assert_eq!(answer.error, 0);
        guest
    }

    /// The vhost-user handshake.
    fn begin(&mut self) {
        let words = |all: &[u64]| all.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>();
        let state = |number: u64| words(&[u64::from(QUEUE) | number << 32]);
        self.tell(1, &[], None);
        let mut features = [0; 20];
        self.socket.read_exact(&mut features).unwrap();
        self.tell(3, &[], None);
        self.tell(2, &words(&[1 << 32]), None);
        let memory: OwnedFd = self.memory.try_clone().unwrap().into();
        self.tell(5, &words(&[1, 0, SIZE, ADDRESS, 0]), Some(&memory));
        self.tell(8, &state(ENTRIES.into()), None);
        self.tell(10, &state(0), None);
        let rings = [DESCRIPTORS, USED, AVAILABLE].map(|at| ADDRESS + at);
        let ring = words(&[u64::from(QUEUE), rings[0], rings[1], rings[2], 0]);
        self.tell(9, &ring, None);
        self.tell(13, &words(&[QUEUE.into()]), Some(&self.call));
        self.tell(12, &words(&[QUEUE.into()]), Some(&self.kick));
    }

    fn tell(&self, request: u32, payload: &[u8], descriptor: Option<&OwnedFd>) {
        let mut message = numbers(&[request, 1, payload.len() as u32], &[]);
        message.extend(payload);
        let descriptors = descriptor.map(|fd| [fd.as_fd()]);
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if let Some(descriptors) = &descriptors {
            assert!(ancillary.push(SendAncillaryMessage::ScmRights(descriptors)));
        }
        let parts = [IoSlice::new(&message)];
        sendmsg(&self.socket, &parts, &mut ancillary, SendFlags::NOSIGNAL).unwrap();
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        self.memory.write_all_at(bytes, at).unwrap();
    }

    fn read(&self, at: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.memory.read_exact_at(&mut bytes, at).unwrap();
        bytes
    }

    /// A request with the header that belongs to it.
    fn ask(&mut self, operation: u32, node: u64, body: &[u8]) -> Option<Answer> {
        self.ask_as(40 + body.len() as u32, operation, node, body)
    }

    /// A request of a length that it says itself. Without an answer the server has ended.
    fn ask_as(&mut self, length: u32, operation: u32, node: u64, body: &[u8]) -> Option<Answer> {
        let mut request = numbers(&[length, operation, 77, 0], &[]);
        request.extend(node.to_le_bytes());
        request.extend([0; 16]);
        request.extend(body);
        self.write(REQUEST, &request);
        self.write(REPLY, &[0; 64]);
        let descriptor = |at: u64, length: u32, flags: u16, next: u16| {
            let mut bytes = at.to_le_bytes().to_vec();
            bytes.extend(length.to_le_bytes());
            bytes.extend(flags.to_le_bytes());
            bytes.extend(next.to_le_bytes());
            bytes
        };
        self.write(
            DESCRIPTORS,
            &descriptor(REQUEST, request.len() as u32, 1, 1),
        );
        self.write(DESCRIPTORS + 16, &descriptor(REPLY, ROOM, 2, 0));
        let slot = u64::from(self.sent % ENTRIES);
        self.write(AVAILABLE + 4 + 2 * slot, &0u16.to_le_bytes());
        self.sent += 1;
        self.write(AVAILABLE + 2, &self.sent.to_le_bytes());
        rustix::io::write(&self.kick, &1u64.to_ne_bytes()).unwrap();
        for _ in 0..self.patience_ms {
            if self.read(USED + 2, 2) == self.sent.to_le_bytes() {
                let number = |at| i32::from_le_bytes(self.read(at, 4).try_into().unwrap());
                let (length, error) = (number(REPLY), number(REPLY + 4));
                let body = (length.clamp(16, ROOM as i32) - 16) as usize;
                let body = self.read(REPLY + 16, body);
                return Some(Answer { error, body });
            }
            self.socket.set_nonblocking(true).unwrap();
            if matches!(self.socket.read(&mut [0]), Ok(0)) {
                return None;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        None
    }

    /// The number that the server gives a name; none if it refuses.
    fn look_up(&mut self, node: u64, name: &str) -> Option<u64> {
        let answer = self.ask(1, node, &text(name))?;
        let known = answer.error == 0 && answer.body.len() >= 8;
        known.then(|| u64::from_le_bytes(answer.body[..8].try_into().unwrap()))
    }

    /// Opens and reads a file; nothing if that is refused.
    fn contents(&mut self, node: u64) -> Vec<u8> {
        let Some(open) = self.ask(14, node, &[0; 8]).filter(|open| open.error == 0) else {
            return Vec::new();
        };
        let mut read = open.body[..8].to_vec();
        read.extend(0u64.to_le_bytes());
        read.extend(4096u32.to_le_bytes());
        read.extend([0; 20]);
        let answer = self.ask(15, node, &read);
        answer.map(|answer| answer.body).unwrap_or_default()
    }
}

/// A name as requests have it.
fn text(name: &str) -> Vec<u8> {
    [name.as_bytes(), b"\0"].concat()
}

fn numbers(all: &[u32], names: &[&str]) -> Vec<u8> {
    let numbers = all.iter().flat_map(|n| n.to_le_bytes());
    numbers.chain(names.iter().flat_map(|n| text(n))).collect()
}

/// Names that lead out, or nowhere.
const NAMES: [&str; 9] = [
    "..",
    "../outside",
    "../outside/file",
    "/",
    "inner/../../outside/file",
    "inner/..",
    "",
    "out/file",
    "hidden/../../outside/file",
];

/// A directory to serve, and one beside it that is none of the guest's business.
struct Host(PathBuf);

impl Host {
    fn new(test: &str) -> Host {
        let name = format!("latlab-{test}-{}", std::process::id());
        let base = std::env::temp_dir().join(name);
        for directory in ["outside", "share/inner", "node"] {
            fs::create_dir_all(base.join(directory)).unwrap();
        }
        for (name, mode) in [
            ("outside/file", 0o644),
            ("share/hidden", 0o644),
            ("share/public", 0o644),
        ] {
            let content = if name == "share/public" {
                "public"
            } else {
                "secret"
            };
            fs::write(base.join(name), content).unwrap();
            fs::set_permissions(base.join(name), Permissions::from_mode(mode)).unwrap();
        }
        std::os::unix::fs::symlink("../outside", base.join("share/out")).unwrap();
        Host(base)
    }

    fn serve(&self, access: Access) -> (Process, Guest) {
        let this = std::env::current_exe().unwrap();
        let beside = this.ancestors().nth(2).unwrap().join("latlab-agent");
        let agent = std::env::var_os("LATLAB_AGENT").map_or(beside, PathBuf::from);
        assert!(agent.exists(), "no {}: LATLAB_AGENT=PATH", agent.display());
        let program = PROGRAMS.into_iter().find(|path| Path::new(path).exists());
        let mut share = Share::new(self.0.join("share"), "/", access);
        share.covered.push("hidden".into());
        let dir = self.0.join("node");
        let log = fs::File::options()
            .append(true)
            .create(true)
            .open(self.0.join("log"))
            .unwrap();
        let surroundings = Surroundings {
            program: program.unwrap(),
            dir: &dir,
            agent: &agent,
            lab: "test-fuse",
            cgroup: None,
        };
        let server = surroundings.serve(0, &share, &log.into()).unwrap();
        (server, Guest::connect(&virtiofs_socket(&dir, 0)))
    }

    /// Everything that is there: numbers, modes, owners, contents.
    fn state(&self, below: &str) -> BTreeMap<PathBuf, String> {
        let mut all = BTreeMap::new();
        let mut left = vec![self.0.join(below)];
        while let Some(path) = left.pop() {
            let at = fs::symlink_metadata(&path).unwrap();
            let kind = at.file_type();
            assert!(
                !kind.is_block_device() && !kind.is_char_device(),
                "{path:?}"
            );
            let content = if at.is_file() {
                fs::read_to_string(&path).unwrap()
            } else {
                String::new()
            };
            let state = format!(
                "{} {:o} {} {} {content}",
                at.ino(),
                at.mode(),
                at.uid(),
                at.nlink()
            );
            if at.is_dir() {
                left.extend(
                    fs::read_dir(&path)
                        .unwrap()
                        .map(|entry| entry.unwrap().path()),
                );
            }
            all.insert(path, state);
        }
        all
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn can_run() -> bool {
    let there = PROGRAMS.into_iter().any(|path| Path::new(path).exists());
    let root = rustix::process::geteuid().is_root();
    if !there || !root {
        println!("skipped: needs root and virtiofsd");
    }
    there && root
}

/// Requests that hold a name each, as operation and body.
fn with_name(name: &str, inner: u64) -> Vec<(u32, Vec<u8>)> {
    let inner = [inner as u32, (inner >> 32) as u32];
    let attribute = "security.capability";
    let mut set = numbers(&[4, 0], &[attribute]);
    set.extend([1; 4]);
    vec![
        (1, text(name)),
        (6, numbers(&[], &[name, "/etc"])),
        (8, numbers(&[0o060_666, 0x0801, 0, 0], &[name])),
        (8, numbers(&[0o100_666, 0, 0, 0], &[name])),
        (9, numbers(&[0o777, 0], &[name])),
        (10, text(name)),
        (11, text(name)),
        (12, numbers(&inner, &["public", name])),
        (12, numbers(&inner, &[name, "stolen"])),
        (13, numbers(&inner, &[name])),
        (21, set),
        (35, numbers(&[0o102, 0o4777, 0, 0], &[name])),
        (45, numbers(&[inner[0], inner[1], 2, 0], &[name, "public"])),
    ]
}

#[test]
fn names_in_hand_written_requests_lead_out_of_no_share() {
    if !can_run() {
        return;
    }
    let host = Host::new("names");
    let outside = host.state("outside");
    let numbers: Vec<u64> = ["", "outside", "outside/file"]
        .map(|path| fs::metadata(host.0.join(path)).unwrap().ino())
        .into();
    for access in [Access::Everybody, Access::Read, Access::Write] {
        let share = host.state("share");
        let (server, mut guest) = host.serve(access);
        let public = guest.look_up(ROOT, "public").unwrap();
        assert_eq!(guest.contents(public), b"public");
        let inner = guest.look_up(ROOT, "inner").unwrap();
        let link = guest.look_up(ROOT, "out").unwrap();
        if let Some(hidden) = guest.look_up(ROOT, "hidden") {
            assert_eq!(guest.contents(hidden), b"", "{access:?}");
        }
        assert_eq!(guest.look_up(link, "file"), None, "through a symbolic link");
        for name in NAMES {
            for node in [ROOT, inner] {
                for (operation, body) in with_name(name, inner) {
                    let answer = guest.ask(operation, node, &body).expect("an answer");
                    let case = format!("{access:?} {operation} {name}: {answer:?}");
                    assert!(!answer.is_secret(), "{case}");
                    if operation != 1 {
                        assert!(answer.error < 0, "{case}");
                    } else if answer.error == 0 {
                        // `..` of the share is the share.
                        let number = u64::from_le_bytes(answer.body[40..48].try_into().unwrap());
                        assert!(!numbers.contains(&number), "{case}");
                    }
                }
            }
        }
        drop(guest);
        drop(Servers(vec![server]));
        assert_eq!(host.state("outside"), outside, "{access:?}");
        assert_eq!(host.state("share"), share, "{access:?}");
    }
}

#[test]
fn requests_that_no_kernel_makes_reach_nothing() {
    if !can_run() {
        return;
    }
    let host = Host::new("requests");
    let (outside, share) = (host.state("outside"), host.state("share"));
    let long = "n".repeat(256);
    let without_end = vec![b'x'; 60_000];
    let (all, none) = ([0xff; 64], [0; 64]);
    let device = numbers(&[0o060_666, 0x0801, 0, 0], &["device"]);
    let read: Vec<u8> = [&[0; 16][..], &[0xff; 4], &[0; 20]].concat();
    let attribute = |size: u32, name: &str| [numbers(&[size, 0], &[name]), vec![1; 4]].concat();
    let requests: Vec<(u32, u64, Vec<u8>)> = vec![
        (1, ROOT, text(&long)),
        (1, ROOT, without_end.clone()),
        (1, u64::MAX, text("public")),
        (1, 0, text("public")),
        (3, 0xdead_beef, none.to_vec()),
        (4, ROOT, all.to_vec()),
        (5, 0x4141_4141, Vec::new()),
        (8, ROOT, device),
        (14, 0x4141_4141, none[..8].to_vec()),
        (15, ROOT, read),
        (15, ROOT, all[..40].to_vec()),
        (16, ROOT, all.to_vec()),
        (18, ROOT, all.to_vec()),
        (21, ROOT, attribute(u32::MAX, "user.x")),
        (21, ROOT, attribute(4, "security.capability")),
        (21, ROOT, attribute(4, "trusted.overlay.opaque")),
        (21, ROOT, without_end.clone()),
        (22, ROOT, attribute(u32::MAX, "user.x")),
        (23, ROOT, all[..8].to_vec()),
        (26, 0, none[..16].to_vec()),
        (27, 0x4141_4141, none[..8].to_vec()),
        (28, ROOT, all[..40].to_vec()),
        (42, 0, numbers(&[u32::MAX, 0], &[])),
        (43, ROOT, all[..32].to_vec()),
        (44, ROOT, all[..40].to_vec()),
        (47, ROOT, all[..56].to_vec()),
        (48, ROOT, all[..40].to_vec()),
        (49, ROOT, all.to_vec()),
        (4096, ROOT, none.to_vec()),
        (u32::MAX, u64::MAX, without_end),
    ];
    for access in [Access::Everybody, Access::Read, Access::Write] {
        for (number, (operation, node, body)) in requests.iter().enumerate() {
            for length in [None, Some(0), Some(8), Some(41), Some(u32::MAX)] {
                // One that gives up serves its own guest no more; each guest has its own.
                let (server, mut guest) = host.serve(access);
                // Some requests have no answer.
                guest.patience_ms = 200;
                let answer = match length {
                    None => guest.ask(*operation, *node, body),
                    Some(length) => guest.ask_as(length, *operation, *node, body),
                };
                let case = format!("{access:?} {number} {operation} {length:?}: {answer:?}");
                if let Some(answer) = &answer {
                    assert!(answer.error <= 0 && !answer.is_secret(), "{case}");
                }
                drop(guest);
                drop(Servers(vec![server]));
            }
        }
        assert_eq!(host.state("outside"), outside, "{access:?}");
        assert_eq!(host.state("share"), share, "{access:?}");
    }
}
