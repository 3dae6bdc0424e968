//! The name of a capture.

use std::fmt;
use std::path::PathBuf;

/// Packets of one point at most: 24 bytes of memory each, and as much again while they are matched.
pub const MAX_PACKETS: usize = 50_000_000;

/// One side of a pair: a file, and of several interfaces in it, one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    pub path: PathBuf,
    /// Number or name of the interface.
    pub interface: Option<String>,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.interface {
            Some(interface) => write!(f, "{path}#{interface}"),
            None => write!(f, "{path}"),
        }
    }
}

impl Source {
    /// Whether an interface of this number and name is the one that was named.
    pub fn is(&self, number: usize, name: &str) -> bool {
        let wanted = self.interface.as_deref();
        wanted.is_none_or(|wanted| wanted == name || wanted == number.to_string())
    }
}
