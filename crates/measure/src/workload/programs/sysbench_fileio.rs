//! `sysbench fileio`: reads and writes of files whose blocks carry checksums.
//!
//! sysbench checks each block that it reads in the measured time, and all of them are read once more afterwards.

use latlab_model::results::Figure;
use latlab_model::spec::SysbenchFileio as Asked;

use super::sysbench::{PERCENTILE, check_threads, latencies, tail, version};
use super::times::{NS_PER_MS, Times};
use super::work::{Evidence, Files, Place, Work, figure, shell};
use crate::workload::figure::of_regex;
use crate::workload::node::Ended;

const MIB: f64 = 1_048_576.0;
/// Numbers that it says twice may differ by rounding, and by the last request of each thread.
const TOLERANCE: f64 = 0.02;

pub(super) struct SysbenchFileio {
    pub asked: Asked,
    pub times: Times,
}

impl SysbenchFileio {
    /// A line for the shell. sysbench makes its files where it is started.
    fn line(&self, at: &Place, command: &str) -> String {
        let asked = &self.asked;
        // A tmpfs is the page cache: nothing is past it, and before Linux 6.6 it refuses O_DIRECT.
        let flags = match asked.direct && !at.in_tmpfs {
            true => " --file-extra-flags=direct",
            false => "",
        };
        format!(
            "cd '{}' && sysbench fileio --validate=on --file-num={} --file-total-size={} --file-block-size={}{flags} {command}",
            at.directory, asked.files, asked.size.0, asked.block_size.0
        )
    }

    fn timed(&self, at: &Place, seconds: u64) -> String {
        let Asked {
            mode,
            threads,
            fsync_every,
            ..
        } = &self.asked;
        let end = if *fsync_every == 0 { "off" } else { "on" };
        let command = format!(
            "--file-test-mode={mode} --threads={threads} --file-fsync-freq={fsync_every} --file-fsync-end={end} \
             --time={seconds} --events=0 --percentile={PERCENTILE} run"
        );
        self.line(at, &command)
    }

    fn blocks(&self) -> u64 {
        self.asked.size.0 / self.asked.block_size.0.max(1)
    }
}

impl Work for SysbenchFileio {
    fn name(&self) -> &str {
        "sysbench-fileio"
    }

    fn files(&self) -> Files {
        Files::In {
            directory: self.asked.directory.clone(),
            storage: true,
        }
    }

    fn preparation(&self, at: &Place) -> Vec<String> {
        let layout = self.line(at, "prepare");
        let mut line = format!("set -e; sysbench --version; {layout} >&2; ");
        if self.times.warmup_ns > 0 {
            line += &format!("{} >&2", self.timed(at, self.times.warmup_seconds()));
        }
        shell(&line)
    }

    fn command(&self, at: &Place, _prepared: &str) -> Result<Vec<String>, String> {
        Ok(shell(&self.timed(at, self.times.seconds())))
    }

    /// Ends with an error at the first block whose checksum differs.
    fn check(&self, at: &Place) -> Vec<String> {
        let events = self.blocks();
        let command = format!("--file-test-mode=seqrd --threads=1 --time=0 --events={events} run");
        shell(&self.line(at, &command))
    }

    fn figures(&self) -> Vec<Figure> {
        let mut all = vec![
            figure("metric", "Requests", "1/s", true),
            figure("bandwidth", "Bandwidth", "MB/s", true),
        ];
        all.extend(latencies("Request"));
        all
    }

    fn read(&self, ended: &Ended, evidence: &Evidence) -> Result<Vec<f64>, String> {
        let text = ended.text();
        let of = |regex: &str| of_regex(regex, &text);
        check_threads(&text, self.asked.threads)?;
        let lasted = of(r"total time: +([0-9.]+)s")?;
        if lasted < self.times.seconds() as f64 * (1.0 - TOLERANCE) {
            return Err(format!("ended after {lasted} s"));
        }
        let (reads, writes) = (of(r"reads/s: +([0-9.]+)")?, of(r"writes/s: +([0-9.]+)")?);
        let bytes = |way: &str| Ok::<f64, String>(of(&format!("{way}, MiB/s: +([0-9.]+)"))? * MIB);
        let (read, written) = (bytes("read")?, bytes("written")?);
        let mode = self.asked.mode;
        for (way, rate, moved, is_asked) in [
            ("reads", reads, read, mode.reads()),
            ("writes", writes, written, mode.writes()),
        ] {
            let blocks = moved / self.asked.block_size.0 as f64;
            // Its MiB/s have two digits after the point.
            let rounding = 0.01 * MIB / self.asked.block_size.0 as f64;
            let differs = (rate - blocks).abs() > TOLERANCE * rate.max(blocks) + rounding;
            if (rate > 0.0) != is_asked || differs {
                return Err(format!(
                    "says {rate} {way} a second in mode {mode}, and {blocks} by their bytes"
                ));
            }
        }
        let checked = of_regex(r"total number of events: +([0-9]+)", &evidence.checked)
            .map_err(|reason| format!("could not be checked: the reader {reason}"))?;
        let blocks = self.blocks();
        if checked != blocks as f64 {
            return Err(format!("left {checked} blocks with checksums of {blocks}"));
        }
        // Its own mean has two digits after the point.
        let mean = of(r"sum: +([0-9.]+)")? / of(r"total number of events: +([0-9]+)")? * NS_PER_MS;
        let [percentile, longest] = tail(&text)?;
        let bandwidth = (read + written) / 1e6;
        Ok(vec![reads + writes, bandwidth, mean, percentile, longest])
    }

    fn version(&self, prepared: &str, _output: &str) -> Option<String> {
        version(prepared)
    }
}

#[cfg(test)]
mod tests {
    use latlab_model::spec::FileMode;
    use latlab_model::units::Bytes;

    use super::*;

    const OUTPUT: &str = include_str!("../../../tests/programs/sysbench-fileio-rndrw.txt");
    const CHECKED: &str = "    total number of events:              1024\n";

    fn work(mode: FileMode, block: u64, seconds: u64) -> SysbenchFileio {
        SysbenchFileio {
            asked: Asked {
                mode,
                block_size: Bytes(block),
                size: Bytes(16 << 20),
                files: 1,
                threads: 1,
                fsync_every: 100,
                directory: "/var/tmp".into(),
                direct: true,
            },
            times: Times {
                duration_ns: seconds * 1_000_000_000,
                warmup_ns: 0,
            },
        }
    }

    fn read(work: &SysbenchFileio, output: &str, checked: &str) -> Result<Vec<f64>, String> {
        let evidence = Evidence {
            checked: checked.into(),
            ..Evidence::default()
        };
        work.read(&Ended::saying(output), &evidence)
    }

    #[test]
    fn both_ways_of_a_real_run_are_added_up() {
        let work = work(FileMode::RandRw, 16_384, 2);
        let values = read(&work, OUTPUT, CHECKED).unwrap();
        assert_eq!(values.len(), work.figures().len());
        let rounded: Vec<u64> = values.iter().map(|value| value.round() as u64).collect();
        assert_eq!(rounded, [8379, 137, 117_126, 320_000, 178_800_000]);
    }

    #[test]
    fn what_was_not_asked_for_is_no_result() {
        let refused = |work: &SysbenchFileio, output: &str, checked: &str| {
            read(work, output, checked).unwrap_err()
        };
        let other = refused(&work(FileMode::RandRw, 8192, 2), OUTPUT, CHECKED);
        assert!(other.contains("by their bytes"), "{other}");
        let reads = refused(&work(FileMode::RandRead, 16_384, 2), OUTPUT, CHECKED);
        assert!(
            reads.starts_with("says 3351.54 writes a second in mode rndrd"),
            "{reads}"
        );
        let good = work(FileMode::RandRw, 16_384, 2);
        let short = refused(&work(FileMode::RandRw, 16_384, 5), OUTPUT, CHECKED);
        assert_eq!(short, "ended after 2.0116 s");
        let unread = refused(
            &good,
            OUTPUT,
            "FATAL: Checksum mismatch in block with offset: 4997120",
        );
        assert!(
            unread.starts_with("could not be checked: the reader wrote nothing that"),
            "{unread}"
        );
        let half = refused(&good, OUTPUT, &CHECKED.replace("1024", "512"));
        assert_eq!(half, "left 512 blocks with checksums of 1024");
    }
}
