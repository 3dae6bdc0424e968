//! Commands at a terminal, in every kind of node, through a real pseudo-terminal.

mod common;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use common::{Bench, enter, finish, guests, kinds, signal, until};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcgetwinsize, tcsetwinsize};

/// A terminal with a program at it.
struct Terminal {
    terminal: Arc<OwnedFd>,
    /// Kept open, so that its settings can be looked at after the program.
    peer: OwnedFd,
    child: Child,
    shown: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    fn with(mut command: Command, columns: u16, rows: u16) -> Terminal {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let terminal = Arc::new(openpt(flags).unwrap());
        grantpt(&*terminal).unwrap();
        unlockpt(&*terminal).unwrap();
        let peer = ioctl_tiocgptpeer(&*terminal, flags).unwrap();
        tcsetwinsize(&*terminal, size(columns, rows)).unwrap();
        let end = || Stdio::from(peer.try_clone().unwrap());
        command.stdin(end()).stdout(end()).stderr(end());
        // A group of its own: the test's terminal, if it has one, is not this one.
        let child = command.process_group(0).spawn().unwrap();
        let shown = Arc::new(Mutex::new(Vec::new()));
        let (mut from, into) = (
            File::from(terminal.try_clone().unwrap()),
            Arc::clone(&shown),
        );
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = from.read(&mut bytes) {
                into.lock().unwrap().extend_from_slice(&bytes[..count]);
            }
        });
        Terminal {
            terminal,
            peer,
            child,
            shown,
        }
    }

    fn text(&self) -> String {
        common::text(&self.shown.lock().unwrap())
    }

    fn keys(&self, keys: &str) {
        let mut terminal = File::from(self.terminal.try_clone().unwrap());
        terminal.write_all(keys.as_bytes()).unwrap();
    }

    #[track_caller]
    fn shows(&self, what: &str) {
        until(&format!("{what:?} is shown"), || self.text().contains(what));
    }

    fn resize(&self, columns: u16, rows: u16) {
        tcsetwinsize(&*self.terminal, size(columns, rows)).unwrap();
        // The kernel tells the foreground group of the terminal's session, which a program of a test is not.
        signal(self.child.id(), "WINCH");
    }

    /// Lines, echo and keys with a meaning are back.
    fn is_as_before(&self) -> bool {
        let modes = tcgetattr(&self.peer).unwrap().local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }

    /// The exit code, 128 and more for a signal.
    fn end(mut self) -> i32 {
        use std::os::unix::process::ExitStatusExt;
        until("the command ends", || {
            self.child.try_wait().unwrap().is_some()
        });
        let status = self.child.wait().unwrap();
        assert!(
            self.is_as_before(),
            "the terminal was left raw: {}",
            self.text()
        );
        status.code().unwrap_or(128 + status.signal().unwrap_or(0))
    }
}

fn size(columns: u16, rows: u16) -> Winsize {
    Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

fn lab() -> String {
    let vm = kinds().contains(&"vm") || guests();
    let guest = if vm {
        ", vm: {kind: vm, memory: 256MiB, start: clone}"
    } else {
        ""
    };
    format!(
        "name: NAME\ntopology:\n  nodes: {{native: {{kind: native}}, container: {{kind: container}}{guest}, \
         host: {{kind: host}}}}\n"
    )
}

fn nodes() -> Vec<&'static str> {
    let vm = kinds().contains(&"vm") || guests();
    let mut nodes = vec!["native", "container", "host"];
    nodes.extend(vm.then_some("vm"));
    nodes
}

#[test]
fn commands_have_the_persons_terminal_in_every_kind() {
    enter(
        "commands_have_the_persons_terminal_in_every_kind",
        |bench| {
            let lab = bench.deploy("terminal", &lab());
            for node in nodes() {
                println!("{node}");
                shell(bench, &lab, node);
                ends(bench, &lab, node);
            }
            let refused = bench.latlab(&["exec", "--tty", &lab, "native", "--", "true"]);
            refused.refused(2, "is not a terminal", "leave out --tty");
            let piped = format!(
                "echo 'tty; exit 3' | {} shell {lab} native",
                env!("CARGO_BIN_EXE_latlab")
            );
            let command = bench.command(&[]);
            let mut shell = Command::new("sh");
            shell.args(["-c", &piped]).current_dir(bench.root());
            for (name, value) in command.get_envs() {
                shell.env(name, value.unwrap_or_default());
            }
            let said = finish(&mut shell);
            assert_eq!((said.code, said.out.trim()), (3, "not a tty"), "{said:#?}");
        },
    );
}

/// A login shell: keys arrive, sizes follow, ^C goes inside, the exit code comes out.
fn shell(bench: &Bench, lab: &str, node: &str) {
    let mut command = bench.command(&["shell", lab, node]);
    command.env("TERM", "xterm").env("PS1", "$ ");
    let terminal = Terminal::with(command, 111, 33);
    terminal.keys("stty size; echo term=$TERM; tty; echo rea''dy\r");
    terminal.shows("ready");
    let text = terminal.text();
    assert!(
        text.contains("33 111") && text.contains("term=xterm"),
        "{text}"
    );
    assert!(text.contains("/dev/pts/"), "{text}");
    assert!(!terminal.is_as_before(), "keys are looked at on the way");
    terminal.resize(77, 22);
    until("the size follows", || {
        terminal.keys("stty size\r");
        std::thread::sleep(std::time::Duration::from_millis(100));
        terminal.text().contains("22 77")
    });
    terminal.keys("sleep 600; echo inter''rupted\r");
    std::thread::sleep(std::time::Duration::from_millis(300));
    until("^C reaches the command", || {
        terminal.keys("\u{3}");
        std::thread::sleep(std::time::Duration::from_millis(200));
        terminal.keys("echo aft''er\r");
        std::thread::sleep(std::time::Duration::from_millis(200));
        terminal.text().contains("after")
    });
    terminal.keys("exit 5\r");
    assert_eq!(terminal.end(), 5);
}

/// The terminal is as before however the command ends.
fn ends(bench: &Bench, lab: &str, node: &str) {
    let at = |words: &[&str]| {
        let mut args = vec!["exec", "-t", lab, node, "--"];
        args.extend(words);
        Terminal::with(bench.command(&args), 80, 24)
    };
    assert_eq!(
        at(&["sh", "-c", "test -t 0 && test -t 2 && exit 9"]).end(),
        9
    );
    assert_eq!(at(&["sh", "-c", "kill -9 $$"]).end(), 128 + 9);
    let absent = at(&["no-such-program"]);
    absent.shows("no-such-program");
    assert_eq!(absent.end(), 127);
    // More than any buffer holds, and all of it is shown.
    let much = at(&["sh", "-c", "seq 1 20000; echo e''nd"]);
    much.shows("20000\r\nend");
    assert_eq!(much.end(), 0);
    // From outside: what runs inside is hung up.
    let slept = at(&["sh", "-c", "echo rea''dy; exec sleep 601"]);
    slept.shows("ready");
    signal(slept.child.id(), "TERM");
    assert_eq!(slept.end(), 128 + 15);
    until("it is hung up", || {
        let look = "! grep -qz '^60[1]$' /proc/[0-9]*/cmdline 2> /dev/null";
        bench.exec(lab, node, &["sh", "-c", look]).code == 0
    });
}

#[test]
fn the_terminal_is_restored_when_the_node_goes() {
    enter("the_terminal_is_restored_when_the_node_goes", |bench| {
        let lab = bench.deploy("gone", &lab());
        for node in nodes().into_iter().filter(|node| *node != "host") {
            let terminal = Terminal::with(
                bench.command(&[
                    "exec",
                    "-t",
                    &lab,
                    node,
                    "--",
                    "sh",
                    "-c",
                    "echo rea''dy; exec cat",
                ]),
                80,
                24,
            );
            terminal.shows("ready");
            assert!(tcgetwinsize(&terminal.peer).unwrap().ws_col == 80);
            bench.latlab(&["destroy", &lab]).good();
            assert_ne!(terminal.end(), 0);
            bench.deploy("gone", &self::lab());
        }
    });
}
