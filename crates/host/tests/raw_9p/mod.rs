//! A hostile client of a 9p share: it speaks to the server in messages that no kernel sends, and reads every answer for
//! what is not the share's.
//!
//! This part runs in the guest, as the test's own program there. [`ways`] are the messages that were thought of, [`garbage`]
//! is the rest.

pub mod device;
pub mod garbage;
pub mod messages;
pub mod ways;

use std::time::Duration;

use device::Device;
use messages::{
    ATTACH, Answer, CLUNK, GETATTR, LOPEN, Message, NO_FID, OPEN, READ, READDIR, READLINK, STAT,
    VERSION, WALK, WSTAT,
};

/// In everything that a guest must not see: contents and names.
pub const SECRET: &str = "latlab-secret";
/// Where the host tells the guest's part what to do.
pub const VARIABLE: &str = "LATLAB_RAW_9P";

pub const LINUX: &str = "9P2000.L";
pub const UNIX: &str = "9P2000.u";
const MAXIMUM: u32 = 8192;
const TIMEOUT: Duration = Duration::from_secs(20);

/// Fids that every case finds.
pub const ROOT: u32 = 0;
pub const INNER: u32 = 1;
pub const PUBLIC: u32 = 2;
pub const LINK_OUT: u32 = 3;
pub const LINK_ABSOLUTE: u32 = 4;
/// One that a case makes.
pub const MADE: u32 = 10;

/// A share, as the host describes it.
pub struct Order {
    pub tag: String,
    pub writable: bool,
    pub seed: u64,
    /// The share's own file number, and those of files outside.
    pub root: u64,
    pub outside: Vec<u64>,
}

impl Order {
    pub fn to_text(&self) -> String {
        let outside = self.outside.iter().map(u64::to_string);
        let outside = outside.collect::<Vec<_>>().join(",");
        let Self {
            tag, seed, root, ..
        } = self;
        format!("{tag} {} {seed} {root} {outside}", self.writable)
    }

    pub fn from_text(text: &str) -> Self {
        let words: Vec<&str> = text.split(' ').collect();
        Self {
            tag: words[0].into(),
            writable: words[1].parse().unwrap(),
            seed: words[2].parse().unwrap(),
            root: words[3].parse().unwrap(),
            outside: words[4]
                .split(',')
                .map(|word| word.parse().unwrap())
                .collect(),
        }
    }
}

pub struct Client {
    pub order: Order,
    pub dialect: &'static str,
    device: Device,
    /// QEMU moves numbers of files to the left, and adds bits that tell file systems apart: how many, and which.
    numbering: Option<(u32, u64)>,
    pub sent: usize,
    pub resets: usize,
    /// Each failure, with its case.
    pub wrong: Vec<String>,
}

impl Client {
    pub fn new(order: Order) -> Self {
        let device = Device::take(&order.tag);
        Self {
            order,
            dialect: LINUX,
            device,
            numbering: None,
            sent: 0,
            resets: 0,
            wrong: Vec::new(),
        }
    }

    /// Forgets all fids and begins with those that every case finds.
    pub fn begin(&mut self) {
        let version = Message::new(VERSION).w(MAXIMUM).n(self.dialect);
        let attach = Message::new(ATTACH).w(ROOT).w(NO_FID).n("root").n("").w(0);
        let answer = self.ask("version", &version);
        assert!(answer.is_some_and(|answer| answer.kind == VERSION + 1));
        let answer = self.ask("attach", &attach).expect("an answer");
        let root = answer.files()[0];
        if self.numbering.is_none() {
            let moves = |bits: &u32| root >> bits == self.order.root;
            let bits = (0..32).find(moves).expect("the share's own number");
            self.numbering = Some((bits, root & ((1 << bits) - 1)));
        }
        for (fid, name) in [
            (INNER, "inner"),
            (PUBLIC, "public"),
            (LINK_OUT, "out"),
            (LINK_ABSOLUTE, "absolute"),
        ] {
            self.ask(name, &walk(ROOT, fid, &[name]));
        }
    }

    /// The device after a message that it did not survive, as a driver that starts again.
    fn restart(&mut self) {
        self.resets += 1;
        self.device.reset();
    }

    /// Sends a message that is whole; its answer, unless the device gave up.
    pub fn ask(&mut self, case: &str, message: &Message) -> Option<Answer> {
        self.ask_raw(case, &message.encoded(), MAXIMUM as usize)
    }

    /// Sends bytes, with room for an answer.
    pub fn ask_raw(&mut self, case: &str, bytes: &[u8], room: usize) -> Option<Answer> {
        let answers = self.ask_at_once(case, &[bytes.to_vec()], room);
        answers.into_iter().next()
    }

    /// Sends several messages before any answer is read.
    pub fn ask_at_once(&mut self, case: &str, messages: &[Vec<u8>], room: usize) -> Vec<Answer> {
        self.device.send(messages, room);
        self.sent += messages.len();
        let answers = self.device.answers(TIMEOUT);
        if answers.len() < messages.len() {
            if !self.device.gave_up() {
                let missing = messages.len() - answers.len();
                self.wrong
                    .push(format!("{case}: {missing} without an answer"));
            }
            self.restart();
        }
        let parsed = answers.iter().filter_map(|(_, bytes)| Answer::parse(bytes));
        let parsed: Vec<Answer> = parsed.collect();
        for answer in &parsed {
            self.inspect(case, answer);
        }
        parsed
    }

    /// Nothing in an answer is from outside of the share.
    fn inspect(&mut self, case: &str, answer: &Answer) {
        let mut parts = answer.body.windows(SECRET.len());
        if parts.any(|part| part == SECRET.as_bytes()) {
            self.wrong.push(format!("{case}: a secret: {answer:?}"));
        }
        let Some((bits, added)) = self.numbering else {
            return;
        };
        for file in answer.files() {
            let is_of_host = file & ((1 << bits) - 1) == added;
            let number = file >> bits;
            if is_of_host && self.order.outside.contains(&number) {
                self.wrong.push(format!("{case}: file {number} of outside"));
            }
        }
    }

    /// A message that must not succeed.
    pub fn refused(&mut self, case: &str, message: &Message) {
        let answer = self.ask(case, message);
        if let Some(answer) = answer.filter(|answer| !answer.is_error()) {
            self.wrong.push(format!("{case}: succeeded: {answer:?}"));
        }
    }

    /// Reads all that a fid leads to: attributes, a link's text, a list, contents.
    pub fn explore(&mut self, case: &str, fid: u32) -> Vec<u8> {
        let mut seen = Vec::new();
        let read = Message::new(READ).w(fid).q(0).w(4096);
        let mut messages = if self.dialect == LINUX {
            vec![
                Message::new(GETATTR).w(fid).q(u64::MAX),
                Message::new(READLINK).w(fid),
                Message::new(LOPEN).w(fid).w(0),
                Message::new(READDIR).w(fid).q(0).w(4096),
            ]
        } else {
            vec![Message::new(STAT).w(fid), Message::new(OPEN).w(fid).b(0)]
        };
        messages.push(read);
        for message in messages {
            let answer = self.ask(case, &message);
            seen.extend(answer.map(|answer| answer.body).unwrap_or_default());
        }
        self.ask(case, &Message::new(CLUNK).w(fid));
        seen
    }
}

pub fn walk(from: u32, to: u32, names: &[&str]) -> Message {
    let names: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
    Message::new(WALK).w(from).w(to).names(&names)
}

/// The guest's part. Prints what went wrong, and how much was tried.
pub fn attack(order: &str) {
    let mut client = Client::new(Order::from_text(order));
    client.begin();
    let seen = client.explore("the share itself", PUBLIC);
    let text = String::from_utf8_lossy(&seen).into_owned();
    assert!(text.contains("public"), "the share is seen at all: {text}");
    ways::before_a_version(&mut client);
    for dialect in [LINUX, UNIX] {
        client.dialect = dialect;
        ways::names(&mut client);
        ways::fids(&mut client);
        ways::sizes(&mut client);
        ways::at_once(&mut client);
        println!("{dialect}: {} messages", client.sent);
        garbage::send(&mut client);
    }
    ways::versions(&mut client);
    client.begin();
    println!("{} messages, {} resets", client.sent, client.resets);
    assert!(client.wrong.is_empty(), "{:#?}", client.wrong);
}

/// The guest's part of a test of its own: it may be the last thing that its QEMU does.
pub fn rename_with_a_slash(order: &str) {
    let mut client = Client::new(Order::from_text(order));
    client.dialect = UNIX;
    client.begin();
    for name in ["../beside/new", "inner/../../new", "/new"] {
        let stat = Message::new(WSTAT).w(PUBLIC);
        let rename = stat.stat(u32::MAX, u64::MAX, name.as_bytes());
        client.refused(name, &rename);
    }
    assert!(client.wrong.is_empty(), "{:#?}", client.wrong);
}
