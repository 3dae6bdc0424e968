//! The start of MPI's daemons in other nodes, over the lab's own network, in the place of `rsh`.
//!
//! `mpirun` runs a command for each node with the node's address and a line for its shell (Open MPI:
//! `plm_rsh_agent`). Here that command is [`start`], and [`serve`] in the other node runs the line. Nodes need no
//! server of logins, and none is left behind. A token, drawn for each measurement, keeps other nodes out.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::system::{sethostname, uname};
use rustix::thread::UnshareFlags;

use crate::os;

/// A token and a line for a shell: `mpirun` names its own environment in it.
const MAX_LINE: u64 = 128 << 10;
/// The words of a shell, and the status behind them.
const MAX_SAID: u64 = 1 << 20;
/// For one that connects and says nothing.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Stands before the exit status, behind all that was said.
const END: u8 = 0;

/// A name of the node's own: MPI takes nodes of one name for one node. Native nodes have the host's.
fn take_name(name: &str) -> Result<(), String> {
    let failed = |errno: io::Error| format!("take the name {name}: {errno}");
    if uname().nodename().to_bytes() == name.as_bytes() {
        return Ok(());
    }
    os::leave_namespaces(UnshareFlags::NEWUTS).map_err(failed)?;
    sethostname(name.as_bytes()).map_err(|errno| failed(errno.into()))
}

/// Runs the lines that come to `address`, one after the other, until it is ended.
pub fn serve(name: &str, address: &str, port: &str, token: &str) -> Result<(), String> {
    take_name(name)?;
    let at = parsed(address, port)?;
    let listener = TcpListener::bind(at).map_err(|error| format!("listen at {at}: {error}"))?;
    loop {
        answer_next(&listener, token);
    }
}

/// A stranger, or a peer that went, is no reason to end: the next one may be right.
fn answer_next(listener: &TcpListener, token: &str) {
    let accepted = listener.accept();
    let _ = accepted.and_then(|(stream, _)| answer(stream, token));
}

/// An empty line asks whether the node answers.
fn answer(stream: TcpStream, token: &str) -> io::Result<()> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut lines = BufReader::new((&stream).take(MAX_LINE)).lines();
    let given = lines.next().unwrap_or_else(|| Ok(String::new()))?;
    let line = lines.next().unwrap_or_else(|| Ok(String::new()))?;
    drop(lines);
    if given != token {
        return Ok(());
    }
    let status = if line.is_empty() {
        0
    } else {
        let said = OwnedFd::from(stream.try_clone()?);
        let status = Command::new("/bin/sh")
            .args(["-c", &line])
            .stdin(Stdio::null())
            .stderr(Stdio::from(said.try_clone()?))
            .stdout(Stdio::from(said))
            .status()?;
        status.code().unwrap_or(128 + status.signal().unwrap_or(0))
    };
    let mut stream = stream;
    stream.write_all(&[END])?;
    write!(stream, "{status}")
}

/// The words for a daemon, which starts no other one. Nevertheless it wants to find the starter that its `mpirun` has, and
/// in another kind of node the agent has another path. A shell is in each, since it runs this line.
fn without_starter<'w>(words: &[&'w str]) -> Vec<&'w str> {
    let mut words = words.to_vec();
    let name = words.iter().position(|word| *word == "plm_rsh_agent");
    if let Some(value) = name.and_then(|name| words.get_mut(name + 1)) {
        *value = "/bin/sh";
    }
    words
}

/// Has the node at `address` run a line; its status is the line's.
pub fn start(port: &str, token: &str, address: &str, words: &[&str]) -> Result<u8, String> {
    let at = parsed(address, port)?;
    let failed = |error: io::Error| format!("node at {address}: {error}");
    let mut stream = TcpStream::connect_timeout(&at, TIMEOUT).map_err(failed)?;
    let line = without_starter(words).join(" ");
    if line.contains('\n') {
        return Err(format!("the command for {address} has more than one line"));
    }
    write!(stream, "{token}\n{line}\n").map_err(failed)?;
    stream.shutdown(Shutdown::Write).map_err(failed)?;
    let mut said = Vec::new();
    stream
        .take(MAX_SAID)
        .read_to_end(&mut said)
        .map_err(failed)?;
    let end = said.iter().rposition(|byte| *byte == END);
    let status = end.and_then(|end| {
        let status = std::str::from_utf8(&said[end + 1..]).ok()?;
        status.parse::<u8>().ok()
    });
    let said = &said[..end.unwrap_or(said.len())];
    io::stderr().write_all(said).map_err(failed)?;
    status.ok_or_else(|| format!("node at {address} ended the connection"))
}

/// Executes a program under a name of the node's own.
pub fn run(name: &str, program: &str, arguments: &[&str]) -> Result<(), String> {
    take_name(name)?;
    let error = Command::new(program).args(arguments).exec();
    Err(format!("run {program}: {error}"))
}

fn parsed(address: &str, port: &str) -> Result<SocketAddr, String> {
    match (address.parse(), port.parse()) {
        (Ok(ip), Ok(port)) => Ok(SocketAddr::new(ip, port)),
        _ => Err(format!(
            "`{address}` and `{port}` are no address and no port"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer of a node that knows the token `right`.
    fn asked(token: &str, line: &[&str]) -> Result<u8, String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        let server = std::thread::spawn(move || answer_next(&listener, "right"));
        let status = start(&port, token, "127.0.0.1", line);
        server.join().unwrap();
        status
    }

    #[test]
    fn a_daemon_is_told_of_a_starter_that_every_node_has() {
        let agent = "\"/run/latlab/agent mpi start 6123 token\"";
        let words = [
            "orted",
            "-mca",
            "plm_rsh_agent",
            agent,
            "-mca",
            "plm",
            "\"rsh\"",
        ];
        let told = without_starter(&words);
        assert_eq!(
            told.join(" "),
            "orted -mca plm_rsh_agent /bin/sh -mca plm \"rsh\""
        );
        assert_eq!(without_starter(&["plm_rsh_agent"]), ["plm_rsh_agent"]);
    }

    #[test]
    fn a_line_of_one_with_the_token_is_run_and_its_status_told() {
        let file = std::env::temp_dir().join(format!("latlab-mpi-{}", std::process::id()));
        let path = file.display().to_string();
        assert_eq!(asked("right", &["echo words >", &path, "; exit 3"]), Ok(3));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "words\n");
        assert_eq!(asked("right", &["kill -9 $$"]), Ok(137));
        // The question whether it is there.
        assert_eq!(asked("right", &[]), Ok(0));
        std::fs::remove_file(&file).unwrap();
        for token in ["wrong", "", "righ", "right "] {
            assert!(asked(token, &["touch", &path]).is_err(), "{token}");
            assert!(!file.exists(), "{token}");
        }
    }
}
