//! Requests to a Docker daemon (Docker Engine API), over its socket.
//!
//! The answer ends with the connection, as in HTTP/1.0. Paths carry no version, so each daemon takes its own.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

/// A tar archive without files: two empty blocks (tar(5)).
pub const NO_FILES: &[u8] = &[0; 1024];

const JSON: &str = "application/json";
const TAR: &str = "application/x-tar";

pub struct Api<'a> {
    pub socket: &'a str,
}

impl Api<'_> {
    pub fn answers(&self) -> bool {
        self.request("GET", "/_ping", JSON, b"").is_ok()
    }

    /// Makes an image of an archive.
    pub fn import(&self, name: &str, archive: &[u8]) -> Result<(), String> {
        let path = format!("/images/create?fromSrc=-&repo={name}");
        let said = self.request("POST", &path, TAR, archive)?;
        // The daemon answers before it has read the archive.
        match said.contains("\"error\"") {
            true => Err(said),
            false => Ok(()),
        }
    }

    pub fn create(&self, name: &str, settings: &str) -> Result<(), String> {
        let path = format!("/containers/create?name={name}");
        self.request("POST", &path, JSON, settings.as_bytes())?;
        Ok(())
    }

    pub fn start(&self, name: &str) -> Result<(), String> {
        let path = format!("/containers/{name}/start");
        self.request("POST", &path, JSON, b"")?;
        Ok(())
    }

    /// The answer's body, or as an error the reason in it.
    fn request(&self, method: &str, path: &str, kind: &str, body: &[u8]) -> Result<String, String> {
        let failed = |error: std::io::Error| format!("{method} {path}: {error}");
        let mut stream = UnixStream::connect(self.socket).map_err(failed)?;
        let head = format!(
            "{method} {path} HTTP/1.0\r\nHost: docker\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let mut answer = String::new();
        stream
            .write_all(&[head.as_bytes(), body].concat())
            .and_then(|()| stream.read_to_string(&mut answer))
            .map_err(failed)?;
        read(&answer).map_err(|reason| format!("{method} {path}: {reason}"))
    }
}

/// Takes an answer apart.
fn read(answer: &str) -> Result<String, String> {
    let status = answer.split(' ').nth(1).unwrap_or_default();
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    if status.starts_with('2') {
        return Ok(body.to_owned());
    }
    let message = body.trim().strip_prefix("{\"message\":\"");
    let message = message.and_then(|rest| rest.strip_suffix("\"}"));
    match message {
        Some(message) => Err(message.replace("\\\"", "\"").replace("\\n", " ")),
        None => Err(format!("it answered {status} {}", body.trim())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_its_body_or_its_reason() {
        let head = "HTTP/1.0 200 OK\r\nServer: Docker\r\n\r\n";
        assert_eq!(read(&format!("{head}OK")).unwrap(), "OK");
        let refused =
            "HTTP/1.0 409 Conflict\r\n\r\n{\"message\":\"the name \\\"node\\\" is taken\"}\n";
        assert_eq!(read(refused).unwrap_err(), "the name \"node\" is taken");
        let other = "HTTP/1.0 404 Not Found\r\n\r\nno such page";
        assert_eq!(read(other).unwrap_err(), "it answered 404 no such page");
        assert!(read("").is_err());
    }
}
