//! A client of an overlay daemon's control socket: a line, and its answer.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// A live daemon answers at once, on a machine that is not overloaded.
const TIMEOUT: Duration = Duration::from_secs(20);

pub(super) struct Control {
    stream: BufReader<UnixStream>,
}

impl Control {
    pub(super) fn connect(socket: &Path) -> io::Result<Control> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        let stream = BufReader::new(stream);
        Ok(Control { stream })
    }

    /// The lines of the answer: each begins with a space, and a last one says `ok` or what is wrong.
    pub(super) fn say(&mut self, line: &str) -> io::Result<Vec<String>> {
        self.stream
            .get_mut()
            .write_all(format!("{line}\n").as_bytes())?;
        let mut lines = Vec::new();
        loop {
            let mut answer = String::new();
            if self.stream.read_line(&mut answer)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let answer = answer.trim_end_matches('\n');
            match answer.strip_prefix(' ') {
                Some(line) => lines.push(line.to_owned()),
                None if answer == "ok" => return Ok(lines),
                None => return Err(io::Error::other(format!("`{line}`: {answer}"))),
            }
        }
    }
}
