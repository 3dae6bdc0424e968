//! Evidence of a guest that a test waited for in vain.

use std::fs;
use std::path::Path;
use std::time::Duration;

use latlab_host::nodes::vm;
use latlab_host::nodes::vm::qmp::Qmp;
use serde_json::json;

const TIMEOUT: Duration = Duration::from_secs(10);

/// Whether these are the files of a guest that runs, and not of another kind of node.
#[allow(dead_code, reason = "not every test has other kinds")]
pub fn is_guest(node: &Path) -> bool {
    vm::qmp_path(node).exists()
}

/// Where its CPUs are, and the last that its kernel said; `node` is the directory of its files.
pub fn of(node: &Path) -> String {
    let console = fs::read_to_string(vm::console_path(node)).unwrap_or_default();
    let ask = json!({"command-line": "info registers -a"});
    let registers = Qmp::connect(&vm::qmp_path(node), TIMEOUT)
        .and_then(|mut qmp| qmp.execute("human-monitor-command", &ask));
    match registers {
        Ok(registers) => format!("{}\n{console}", registers.as_str().unwrap_or_default()),
        Err(error) => format!("{error}\n{console}"),
    }
}
