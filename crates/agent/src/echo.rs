//! One connection whose bytes come back, to try CRIU with: a process as small as one with a socket can be.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

/// After this time it ends by itself: the latlab that started it may have been killed.
const LIFE: Duration = Duration::from_secs(600);

pub fn run(port: &str) -> Result<(), String> {
    let port: u16 = port
        .parse()
        .map_err(|_| format!("`{port}` is not a port"))?;
    let failed = |what: &'static str| move |e: std::io::Error| format!("cannot {what}: {e}");
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).map_err(failed("listen"))?;
    crate::os::end_after(LIFE);
    let (mut stream, _) = listener.accept().map_err(failed("accept"))?;
    drop(listener);
    let mut bytes = [0; 4096];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return Ok(()),
            Ok(count) => stream
                .write_all(&bytes[..count])
                .map_err(failed("answer"))?,
            // A dump and a restore may interrupt it.
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed("read")(error)),
        }
    }
}
