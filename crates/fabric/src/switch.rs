//! The daemon of a host, as an agent of the fabric speaks with it.

use std::io;

use latlab_overlay::control::{Client, Refusal};

/// A connection to a daemon: lines of the control language, and their answers.
pub trait Switch {
    /// Errors: the connection has ended.
    fn say(&mut self, line: &str) -> io::Result<Result<Vec<String>, Refusal>>;
}

impl Switch for Client {
    fn say(&mut self, line: &str) -> io::Result<Result<Vec<String>, Refusal>> {
        Client::say(self, line)
    }
}
