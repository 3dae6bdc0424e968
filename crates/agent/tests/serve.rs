//! The agent as a process, over a socket instead of a guest's port, with the host's end of the channel.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use latlab_host::nodes::vm::channel::{Channel, Error, Finished};
use latlab_wire::begin::READY;
use latlab_wire::channel::{
    Decoder, Exec, ExitStatus, MAX_PAYLOAD, Message, Stream, UNLIMITED_CREDIT, VERSION,
    WINDOW_BYTES, encode,
};

const TIMEOUT: Duration = Duration::from_secs(30);

/// An agent serving a socket of its own, ended with the test.
struct Agent {
    process: Child,
    path: PathBuf,
}

impl Agent {
    fn start(name: &str) -> Self {
        Self::start_by(name, Command::new(env!("CARGO_BIN_EXE_latlab-agent")))
    }

    /// Started by a command that executes the agent with the arguments that follow.
    fn start_by(name: &str, mut command: Command) -> Self {
        let path = std::env::temp_dir().join(format!("latlab-agent-{name}-{}", std::process::id()));
        let process = command
            .args(["serve", "--unix"])
            .arg(&path)
            .spawn()
            .unwrap();
        let agent = Self { process, path };
        let deadline = Instant::now() + TIMEOUT;
        // The socket has a name a moment before it listens.
        while UnixStream::connect(&agent.path).is_err() {
            assert!(Instant::now() < deadline, "the agent makes no socket");
            std::thread::sleep(Duration::from_millis(1));
        }
        agent
    }

    fn connect(&self) -> UnixStream {
        UnixStream::connect(&self.path).unwrap()
    }

    fn channel(&self) -> Channel {
        Channel::on_stream(self.connect(), TIMEOUT).unwrap()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // Ended already by the test that asks for power off.
        let _ = self.process.kill();
        self.process.wait().unwrap();
        std::fs::remove_file(&self.path).unwrap();
    }
}

fn shell(line: &str) -> Exec {
    let argv = ["/bin/sh", "-c", line].map(str::to_owned).to_vec();
    Exec {
        argv,
        ..Exec::default()
    }
}

fn run(channel: &Channel, line: &str) -> Finished {
    channel.run(shell(line), b"", TIMEOUT).unwrap()
}

/// Why a command could not be started.
fn refused(channel: &Channel, argv: &[&str]) -> (u32, String) {
    let exec = Exec {
        argv: argv.iter().map(|word| (*word).to_owned()).collect(),
        ..Exec::default()
    };
    match channel.run(exec, b"", TIMEOUT) {
        Err(Error::Refused { errno, message }) => (errno, message),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_process_gets_its_input_and_gives_its_output_and_status() {
    let agent = Agent::start("exec");
    let channel = agent.channel();
    let input: Vec<u8> = (0..3_000_000_u32).map(|i| (i % 251) as u8).collect();
    let cat = Exec {
        argv: vec!["cat".into()],
        ..Exec::default()
    };
    let finished = channel.run(cat, &input, TIMEOUT).unwrap();
    assert_eq!(finished.status, ExitStatus::Code(0));
    assert!(
        finished.stdout == input,
        "{} bytes came back",
        finished.stdout.len()
    );
    let finished = run(&channel, "echo out; echo err >&2; exit 9");
    assert_eq!(
        (&finished.stdout[..], &finished.stderr[..]),
        (&b"out\n"[..], &b"err\n"[..])
    );
    assert_eq!(finished.status, ExitStatus::Code(9));
    assert_eq!(run(&channel, "kill -11 $$").status, ExitStatus::Signal(11));
}

#[test]
fn a_failed_start_gives_the_reason() {
    let agent = Agent::start("refused");
    let channel = agent.channel();
    missing_and_unusable_programs_are_named(&channel);
    let elsewhere = Exec {
        cwd: Some("/no/such".into()),
        ..shell("true")
    };
    match channel.run(elsewhere, b"", TIMEOUT) {
        Err(Error::Refused { errno: 2, message }) => {
            assert!(message.starts_with("enter directory /no/such"), "{message}");
        }
        other => panic!("{other:?}"),
    }
    let (_, message) = refused(&channel, &[]);
    assert!(message.starts_with("run an empty command"), "{message}");
    let long = shell(&"x".repeat(MAX_PAYLOAD));
    assert!(matches!(
        channel.run(long, b"", TIMEOUT),
        Err(Error::TooLong(_))
    ));
    assert_eq!(run(&channel, "true").status, ExitStatus::Code(0));
}

fn missing_and_unusable_programs_are_named(channel: &Channel) {
    for (program, expected) in [("no-such", 2), ("/etc/passwd", 13)] {
        let (errno, message) = refused(channel, &[program]);
        assert_eq!(errno, expected, "{message}");
        assert!(
            message.starts_with(&format!("run {program}: ")),
            "{message}"
        );
    }
}

/// In mounts of its own the agent finds what tuning leaves in a guest. The cgroup's file is an ordinary one, which shows what
/// was written.
#[test]
fn commands_in_a_tuned_guest_enter_its_cgroup_and_a_missing_one_is_named() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root makes mounts");
        return;
    }
    let script = "mount -t tmpfs x /run && mkdir -p /run/latlab/inside && mount -t tmpfs x /sys/fs/cgroup && \
                  mkdir /sys/fs/cgroup/latlab.isolated && : > /sys/fs/cgroup/latlab.isolated/cgroup.procs && \
                  exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]);
    command.arg(env!("CARGO_BIN_EXE_latlab-agent"));
    let agent = Agent::start_by("tuned", command);
    let channel = agent.channel();
    missing_and_unusable_programs_are_named(&channel);
    let group = "/sys/fs/cgroup/latlab.isolated";
    let finished = run(&channel, &format!("cat {group}/cgroup.procs; exit 9"));
    let seen = (finished.status, &finished.stdout[..]);
    assert_eq!(seen, (ExitStatus::Code(9), &b"0"[..]));
    // A partition that goes is no reason not to run.
    run(&channel, &format!("rm -r {group}"));
    assert_eq!(run(&channel, "echo runs").stdout, b"runs\n");
}

#[test]
fn a_signal_reaches_the_whole_group() {
    let agent = Agent::start("signal");
    let channel = agent.channel();
    let mut session = channel
        .exec(shell("sleep 1000 & sleep 1000 & echo ready; wait"))
        .unwrap();
    let mut ready = [0; 6];
    session
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut ready)
        .unwrap();
    session.signal(15).unwrap();
    assert_eq!(session.wait_for(TIMEOUT).unwrap(), ExitStatus::Signal(15));
    let mut rest = Vec::new();
    // Ends only when the last holder of the pipe is gone, or the session is over.
    session
        .stdout
        .take()
        .unwrap()
        .read_to_end(&mut rest)
        .unwrap();
}

#[test]
fn a_daemon_that_keeps_the_pipes_does_not_keep_the_session() {
    let agent = Agent::start("daemon");
    let channel = agent.channel();
    let start = Instant::now();
    let finished = run(&channel, "sleep 20 & echo started");
    assert_eq!(finished.stdout, b"started\n");
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[test]
fn an_unread_session_blocks_only_itself() {
    let agent = Agent::start("window");
    let channel = agent.channel();
    let line = "head -c 5000000 /dev/zero; echo end >&2";
    let mut stuck = channel.exec(shell(line)).unwrap();
    assert_eq!(run(&channel, "echo other").stdout, b"other\n");
    // Unread, the process cannot have got to its end: the pipe and the window hold far less.
    let ended = stuck.wait_for(Duration::from_millis(200));
    assert!(matches!(ended, Err(Error::Silent { .. })), "{ended:?}");
    // Its output dropped, it runs to its end.
    drop(stuck.stdout.take());
    let mut end = String::new();
    stuck
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut end)
        .unwrap();
    assert_eq!(
        (end.as_str(), stuck.wait_for(TIMEOUT).unwrap()),
        ("end\n", ExitStatus::Code(0))
    );
}

#[test]
fn unread_input_ends_with_the_process() {
    let agent = Agent::start("input");
    let channel = agent.channel();
    let finished = channel
        .run(shell("exit 3"), &vec![1; 2_000_000], TIMEOUT)
        .unwrap();
    assert_eq!(finished.status, ExitStatus::Code(3));
    let finished = channel.run(shell("exec <&-; sleep 0.2"), &vec![1; 2_000_000], TIMEOUT);
    assert_eq!(finished.unwrap().status, ExitStatus::Code(0));
}

#[test]
fn sessions_end_with_their_client_but_detached_processes_do_not() {
    let agent = Agent::start("vanish");
    let (first, second) = (agent.channel(), agent.channel());
    let mut session = first.exec(shell("echo $$; exec sleep 1000")).unwrap();
    let mut line = [0; 32];
    let count = session.stdout.as_mut().unwrap().read(&mut line).unwrap();
    let pid = std::str::from_utf8(&line[..count])
        .unwrap()
        .trim()
        .to_owned();
    let mark = std::env::temp_dir().join(format!("latlab-detached-{}", std::process::id()));
    let mut detached = shell(&format!(
        "echo $$ > {0}.new; mv {0}.new {0}; exec sleep 1000",
        mark.display()
    ));
    detached.detach = true;
    assert_eq!(
        first.run(detached, b"", TIMEOUT).unwrap().status,
        ExitStatus::Code(0)
    );
    let deadline = Instant::now() + TIMEOUT;
    while !mark.exists() {
        assert!(
            Instant::now() < deadline,
            "the detached process does not run"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
    let detached = std::fs::read_to_string(&mark).unwrap().trim().to_owned();
    std::fs::remove_file(mark).unwrap();
    drop((session, first));
    while run(&second, &format!("kill -0 {pid} 2>/dev/null")).status == ExitStatus::Code(0) {
        assert!(
            Instant::now() < deadline,
            "a dead client's process lives on"
        );
    }
    assert_eq!(
        run(&second, &format!("kill -9 {detached}")).status,
        ExitStatus::Code(0)
    );
}

#[test]
fn a_file_takes_the_place_of_another_when_it_is_whole() {
    let agent = Agent::start("files");
    let channel = agent.channel();
    let path = std::env::temp_dir().join(format!("latlab-files-{}/deep/file", std::process::id()));
    let text = path.to_str().unwrap();
    let content = "seven\n".repeat(100_000);
    channel.put("before", text).unwrap();
    channel.put(&content, text).unwrap();
    assert!(channel.put("x", "/proc/nothing/can/be/made").is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
    let finished = run(
        &channel,
        &format!("ls -A $(dirname {text}); rm -r $(dirname $(dirname {text}))"),
    );
    assert_eq!(String::from_utf8(finished.stdout).unwrap(), "file\n");
}

/// Speaks the protocol by hand.
struct Raw {
    stream: UnixStream,
    decoder: Decoder,
}

impl Raw {
    fn say(&mut self, message: &Message) {
        let mut bytes = Vec::new();
        encode(message, &mut bytes).unwrap();
        self.stream.write_all(&bytes).unwrap();
    }

    fn hear(&mut self) -> Message {
        loop {
            if let Some(message) = self.decoder.next() {
                return message;
            }
            let mut bytes = [0; 4096];
            let count = self.stream.read(&mut bytes).unwrap();
            assert!(count > 0, "the agent hung up");
            self.decoder.push(&bytes[..count]);
        }
    }
}

fn raw(agent: &Agent) -> Raw {
    let stream = agent.connect();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    Raw {
        stream,
        decoder: Decoder::default(),
    }
}

#[test]
fn garbage_before_a_greeting_is_skipped_and_a_second_greeting_ends_the_first() {
    let agent = Agent::start("garbage");
    let mut client = raw(&agent);
    client.stream.write_all(&[b'L'; 100_000]).unwrap();
    client.say(&Message::Hello {
        version: VERSION,
        nonce: 1,
    });
    assert!(matches!(
        client.hear(),
        Message::HelloAck {
            nonce: 1,
            failure: None,
            ..
        }
    ));
    client.say(&Message::Exec {
        session: 5,
        exec: shell("echo hi; exec sleep 1000"),
    });
    let data = Message::Data {
        session: 5,
        stream: Stream::Stdout,
        data: b"hi\n".to_vec(),
    };
    assert_eq!(client.hear(), data);
    client.say(&Message::Hello {
        version: VERSION,
        nonce: 2,
    });
    assert!(matches!(client.hear(), Message::HelloAck { nonce: 2, .. }));
    // The number is free again, so the session is gone.
    client.say(&Message::Exec {
        session: 5,
        exec: shell("exit 4"),
    });
    loop {
        match client.hear() {
            Message::Exit { session: 5, status } => break assert_eq!(status, ExitStatus::Code(4)),
            Message::End { session: 5, .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

/// The client is killed, so that no end of the input comes first. The program has a process group of its own, which no
/// signal to the session reaches.
#[test]
fn a_program_that_began_at_its_time_ends_with_its_client() {
    let agent = Agent::start("begun");
    let (mut client, other) = (raw(&agent), agent.channel());
    let script = "echo $$; exec sleep 1000";
    let argv = ["latlab-agent", "begin", "/bin/sh", "-c", script];
    client.say(&Message::Exec {
        session: 1,
        exec: Exec {
            argv: argv.map(str::to_owned).to_vec(),
            ..Exec::default()
        },
    });
    // A time that has passed.
    client.say(&Message::Data {
        session: 1,
        stream: Stream::Stdin,
        data: b"0\n".to_vec(),
    });
    let mut said = String::new();
    while said.lines().count() < 2 || !said.ends_with('\n') {
        match client.hear() {
            Message::Data { data, .. } => said.push_str(std::str::from_utf8(&data).unwrap()),
            Message::Credit { .. } => {}
            message => panic!("{message:?}"),
        }
    }
    let (ready, pid) = said.trim_end().split_once('\n').unwrap();
    assert_eq!(ready, READY);
    let lives = || run(&other, &format!("kill -0 {pid} 2>/dev/null")).status == ExitStatus::Code(0);
    assert!(lives());
    drop(client);
    let deadline = Instant::now() + TIMEOUT;
    while lives() {
        assert!(Instant::now() < deadline, "it lives on without its client");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn the_output_of_a_process_comes_whole_beside_that_of_one_left_behind() {
    let agent = Agent::start("beside");
    let channel = agent.channel();
    let finished = run(&channel, "yes & head -c 60000 /dev/zero >&2; exit 5");
    assert_eq!(finished.status, ExitStatus::Code(5));
    assert_eq!(finished.stderr.len(), 60_000);
}

#[test]
fn input_beyond_the_window_ends_the_session() {
    let agent = Agent::start("beyond");
    let mut client = raw(&agent);
    client.say(&Message::Exec {
        session: 1,
        exec: shell("exec sleep 1000"),
    });
    let data = vec![0; MAX_PAYLOAD];
    // The process reads nothing: its pipe takes some, the window the rest, then it is too much.
    for _ in 0..=2 * WINDOW_BYTES as usize / MAX_PAYLOAD {
        client.say(&Message::Data {
            session: 1,
            stream: Stream::Stdin,
            data: data.clone(),
        });
    }
    loop {
        match client.hear() {
            Message::Credit { session: 1, .. } => {}
            Message::Failed {
                session: 1,
                message,
                ..
            } => {
                break assert!(message.contains("beyond its credit"), "{message}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn unlimited_credit_is_never_used_up() {
    let agent = Agent::start("unlimited");
    let mut client = raw(&agent);
    client.say(&Message::Exec {
        session: 1,
        exec: shell("head -c 1000000 /dev/zero"),
    });
    client.say(&Message::Credit {
        session: 1,
        stream: Stream::Stdout,
        bytes: UNLIMITED_CREDIT,
    });
    let mut bytes = 0;
    loop {
        match client.hear() {
            Message::Data { data, .. } => bytes += data.len(),
            Message::End { .. } => {}
            Message::Exit { status, .. } => break assert_eq!(status, ExitStatus::Code(0)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(bytes, 1_000_000);
}

#[test]
fn power_off_ends_a_served_socket() {
    let mut agent = Agent::start("off");
    agent.channel().power_off().unwrap();
    let deadline = Instant::now() + TIMEOUT;
    while agent.process.try_wait().unwrap().is_none() {
        assert!(Instant::now() < deadline, "the agent serves on");
        std::thread::sleep(Duration::from_millis(2));
    }
}
