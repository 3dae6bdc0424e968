//! Finding a program: the machine's own, else the cache's, else the archive's.

use std::path::Path;
use std::time::Duration;

use super::catalogue::Tool;
use super::fetch::{self, Error};
use super::program::{Borrowed, is_at_least, version_in};
use crate::packages::Progress;
use crate::programs;
use crate::sys::command::output;

/// A program tells its version in milliseconds.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The program, if it is here already; nothing is fetched.
pub fn find(tool: Tool, cache: &Path) -> Option<Borrowed> {
    installed(tool).or_else(|| fetch::chosen(tool, cache))
}

/// The program; its packages are fetched if need be. Fails when they cannot be.
pub fn get(
    tool: Tool,
    cache: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Borrowed, Error> {
    match find(tool, cache) {
        Some(found) => Ok(found),
        None => fetch::fetch(tool, cache, progress),
    }
}

/// The machine's own, if it is new enough.
fn installed(tool: Tool) -> Option<Borrowed> {
    let program = programs::find(tool.program())?;
    let said = output(program.as_os_str(), &["--version"], "", TIMEOUT).ok()?;
    let version = version_in(&said)?;
    is_at_least(&version, tool.oldest()).then(|| Borrowed {
        origin: format!("{} {version}", program.display()),
        program,
        arguments: Vec::new(),
        version,
    })
}
