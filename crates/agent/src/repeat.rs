//! Runs a program again and again for a time, and tells how long each run took.

use std::fs::File;
use std::process::{Command, Stdio};

use latlab_probe::now_ns;
use latlab_wire::scratch::run_line;

/// Its standard output goes to a file, each run's in place of the one before. The last run begins within the time, and
/// is not cut off. Fails with the first run that does.
pub fn run(time_ns: &str, output: &str, program: &str, arguments: &[&str]) -> Result<(), String> {
    let time_ns: u64 = time_ns
        .parse()
        .map_err(|error| format!("{time_ns}: {error}"))?;
    let first = now_ns();
    loop {
        let file = File::create(output).map_err(|error| format!("write {output}: {error}"))?;
        let began = now_ns();
        let status = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(file)
            .status()
            .map_err(|error| format!("run {program}: {error}"))?;
        let ended = now_ns();
        if !status.success() {
            return Err(format!("{program} failed ({status})"));
        }
        println!("{}", run_line(ended - began));
        if ended - first >= time_ns {
            return Ok(());
        }
    }
}
