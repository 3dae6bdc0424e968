//! `netpipe`: NetPIPE's ping-pong over MPI between two nodes, as a witness beside latlab's own in [`super::mpi_micro`].
//!
//! A time is of the fastest of seven rounds of a size. Two runs are one measurement: with known contents, and for the times.

use latlab_model::results::Figure;

use super::mpi;
use super::work::{Evidence, Files, Place, Server, Work, figure, shell};
use crate::workload::node::Ended;

const SMALL: u32 = 64;
const LARGE: u32 = 1 << 20;
const MIDDLE: u32 = 256 << 10;
/// Messages of a round. A number that it chooses itself depends on one message's time.
const REPEATS: u32 = 100;
/// Round trips of a size whose contents are checked.
const CHECKS: u32 = 2;
const FAILED: &str = "Integrity check failed";

pub(super) struct Netpipe {
    /// A secret of one measurement.
    token: String,
}

impl Netpipe {
    pub fn new() -> Self {
        Netpipe {
            token: mpi::token(),
        }
    }
}

/// Seconds of the way of a message of this size, in lines of its file: bytes, rate, seconds. The rate is in 2^20 bits a second.
fn seconds_of(size: u32, text: &str) -> Result<f64, String> {
    let times = text.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [bytes, _, time] if bytes == size.to_string() => time.parse().ok(),
            _ => None,
        }
    });
    let time = { times }.next().filter(|time| *time > 0.0);
    time.ok_or_else(|| format!("wrote no time of messages of {size} bytes"))
}

/// Whether the file of the first run has a size: its number and that of the round trips. The program ends at a byte that is
/// wrong.
fn is_checked(size: u32, text: &str) -> bool {
    let wanted = [size, CHECKS].map(|number| number.to_string());
    let mut lines = text.lines();
    lines.any(|line| {
        line.split_whitespace()
            .eq(wanted.iter().map(String::as_str))
    })
}

impl Work for Netpipe {
    fn name(&self) -> &str {
        "netpipe"
    }

    fn files(&self) -> Files {
        Files::Memory
    }

    fn server(&self, at: &Place) -> Option<Server> {
        mpi::server(at, &self.token)
    }

    fn preparation(&self, _at: &Place) -> Vec<String> {
        shell("mpirun --version")
    }

    fn command(&self, at: &Place, _prepared: &str) -> Result<Vec<String>, String> {
        // Its check of contents sets sizes of its own, so that ours stand behind.
        let run = |rest: &str| {
            let program = format!("NPopenmpi {rest} -p 0 -l {SMALL} -u {LARGE}");
            mpi::run(at, &self.token, 1, &program)
        };
        let check = run(&format!("-i -n {CHECKS} -o check.txt"))?;
        let measure = run(&format!("-n {REPEATS} -o times.txt"))?;
        let directory = &at.directory;
        // Files tell what was done: `mpirun` may lose the last line that a program writes to its standard error.
        Ok(shell(&format!(
            "cd '{directory}' && {check} 2>&1 && {measure} && cat check.txt times.txt"
        )))
    }

    fn figures(&self) -> Vec<Figure> {
        vec![
            figure("metric", "ping-pong, 64 B", "µs", false),
            figure("bandwidth-256KiB", "ping-pong, 256 KiB", "GB/s", true),
            figure("bandwidth-1MiB", "ping-pong, 1 MiB", "GB/s", true),
        ]
    }

    fn read(&self, ended: &Ended, _evidence: &Evidence) -> Result<Vec<f64>, String> {
        let text = ended.text();
        if text.contains(FAILED) {
            return Err("says that an integrity check failed".into());
        }
        for size in [SMALL, MIDDLE, LARGE] {
            if !is_checked(size, &text) {
                return Err(format!(
                    "does not say that messages of {size} bytes arrived as they were sent"
                ));
            }
        }
        let gigabytes = |size| seconds_of(size, &text).map(|time| f64::from(size) / time / 1e9);
        let small_us = seconds_of(SMALL, &text)? * 1e6;
        Ok(vec![small_us, gigabytes(MIDDLE)?, gigabytes(LARGE)?])
    }

    fn version(&self, prepared: &str, _output: &str) -> Option<String> {
        prepared.lines().next().map(|line| line.trim().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = include_str!("../../../tests/programs/netpipe.txt");

    fn read(output: &str) -> Result<Vec<f64>, String> {
        Netpipe::new().read(&Ended::saying(output), &Evidence::default())
    }

    #[test]
    fn figures_of_a_real_run_over_two_nodes_are_read() {
        let values = read(OUTPUT).unwrap();
        assert_eq!(values.len(), Netpipe::new().figures().len());
        let rounded: Vec<f64> = values.iter().map(|v| (v * 1e3).round() / 1e3).collect();
        assert_eq!(rounded, [5.47, 1.757, 1.111]);
    }

    #[test]
    fn messages_that_changed_on_their_way_are_no_result() {
        let failed = format!("{OUTPUT}Integrity check failed: Expecting 7 but received 8\n");
        assert_eq!(
            read(&failed).unwrap_err(),
            "says that an integrity check failed"
        );
        let unchecked = OUTPUT.replace(" 1048576 2\n", "");
        assert_eq!(
            read(&unchecked).unwrap_err(),
            "does not say that messages of 1048576 bytes arrived as they were sent"
        );
        let times = OUTPUT.find(" 1048576 2\n").unwrap() + " 1048576 2\n".len();
        let untimed = &OUTPUT[..times];
        assert!(read(untimed).unwrap_err().starts_with("wrote no time"));
    }
}
