//! `fio`: reads and writes of one file, whose blocks carry checksums.
//!
//! The file is written as a whole first. What is written in the measured time has checksums too, and all of the file is
//! read and compared afterwards.

use latlab_model::results::Figure;
use latlab_model::spec::Fio as Asked;
use serde_json::Value;

use super::times::Times;
use super::work::{Evidence, Files, Place, Work, figure, shell};
use crate::endpoint::strings;
use crate::workload::node::Ended;

/// Numbers that it says twice may differ by rounding.
const TOLERANCE: f64 = 0.02;

pub(super) struct Fio {
    pub asked: Asked,
    pub times: Times,
}

impl Fio {
    fn job(&self, at: &Place, rw: &str, more: &[&str]) -> Vec<String> {
        let asked = &self.asked;
        // A tmpfs is the page cache: nothing is past it, and before Linux 6.6 it refuses O_DIRECT.
        let direct = asked.direct && !at.in_tmpfs;
        let mut all = strings(&["fio", "--name=latlab"]);
        all.extend([
            format!("--filename={}/file", at.directory),
            format!("--size={}", asked.size.0),
            format!("--bs={}", asked.block_size.0),
            format!("--ioengine={}", asked.engine),
            format!("--iodepth={}", asked.depth),
            format!("--direct={}", u8::from(direct)),
            format!("--rw={rw}"),
        ]);
        all.extend(strings(&["--verify_state_save=0", "--output-format=json"]));
        all.extend(strings(more));
        all
    }

    fn timed(&self, at: &Place, seconds: u64) -> Vec<String> {
        let runtime = format!("--runtime={seconds}");
        let mut more = vec![
            "--time_based",
            &runtime,
            "--lat_percentiles=1",
            "--clat_percentiles=0",
        ];
        if self.asked.rw.writes() {
            more.extend(["--verify=crc32c", "--do_verify=0"]);
        }
        self.job(at, self.asked.rw.word(), &more)
    }

    /// The two ways, of which those that the pattern has.
    fn ways(&self) -> Vec<&'static str> {
        let rw = self.asked.rw;
        let ways = [(rw.reads(), "read"), (rw.writes(), "write")];
        ways.into_iter()
            .filter(|way| way.0)
            .map(|way| way.1)
            .collect()
    }
}

impl Work for Fio {
    fn name(&self) -> &str {
        "fio"
    }

    fn files(&self) -> Files {
        Files::In {
            directory: self.asked.directory.clone(),
            storage: true,
        }
    }

    fn preparation(&self, at: &Place) -> Vec<String> {
        let layout = self.job(at, "write", &["--verify=crc32c", "--do_verify=0"]);
        let mut line = format!("set -e; fio --version; {} >&2; ", layout.join(" "));
        if self.times.warmup_ns > 0 {
            let warm = self.timed(at, self.times.warmup_seconds());
            line += &format!("{} >&2", warm.join(" "));
        }
        shell(&line)
    }

    fn command(&self, at: &Place, _prepared: &str) -> Result<Vec<String>, String> {
        Ok(self.timed(at, self.times.seconds()))
    }

    /// Ends with an error at the first block whose checksum differs.
    fn check(&self, at: &Place) -> Vec<String> {
        self.job(at, "read", &["--verify=crc32c", "--verify_fatal=1"])
    }

    fn figures(&self) -> Vec<Figure> {
        let mut all = vec![
            figure("metric", "Requests", "1/s", true),
            figure("bandwidth", "Bandwidth", "MB/s", true),
        ];
        for way in self.ways() {
            let title = if way == "read" { "Read" } else { "Write" };
            for what in ["mean", "p99"] {
                let (name, title) = (format!("{way}-{what}"), format!("{title}, {what}"));
                all.push(figure(&name, &title, "ns", false));
            }
        }
        all
    }

    fn read(&self, ended: &Ended, evidence: &Evidence) -> Result<Vec<f64>, String> {
        let job = job(&ended.text())?;
        let checked = number(&job_of_check(&evidence.checked)?, "/read/io_bytes")?;
        if checked != self.asked.size.0 as f64 {
            return Err(format!(
                "left {checked} bytes with checksums of {}",
                self.asked.size.0
            ));
        }
        let (mut rate, mut bytes_per_s) = (0.0, 0.0);
        let mut latencies = Vec::new();
        for way in self.ways() {
            let of = |name: &str| number(&job, &format!("/{way}/{name}"));
            let (iops, bandwidth) = (of("iops")?, of("bw_bytes")?);
            let counted = of("total_ios")? / (of("runtime")? / 1e3).max(1e-3);
            if of("runtime")? < self.times.seconds() as f64 * 1e3 * (1.0 - TOLERANCE) {
                return Err(format!("ended after {} ms of {way}", of("runtime")?));
            }
            let blocks = bandwidth / self.asked.block_size.0 as f64;
            let differs = |other: f64| (iops - other).abs() > TOLERANCE * iops.max(other);
            if iops < 1.0 || differs(counted) || differs(blocks) {
                return Err(format!(
                    "says {iops} requests of {way} a second, and {counted} by their number, {blocks} by their bytes"
                ));
            }
            rate += iops;
            bytes_per_s += bandwidth;
            latencies.push(of("lat_ns/mean")?);
            latencies.push(of("lat_ns/percentile/99.000000")?);
        }
        let mut values = vec![rate, bytes_per_s / 1e6];
        values.extend(latencies);
        Ok(values)
    }

    fn version(&self, prepared: &str, _output: &str) -> Option<String> {
        let line = prepared.lines().next()?;
        line.trim().strip_prefix("fio-").map(str::to_owned)
    }
}

/// Its only job, which must have no error.
fn job(text: &str) -> Result<Value, String> {
    // Notes stand in front of the document.
    let from = text.find('{').ok_or("wrote no JSON")?;
    let all: Value =
        serde_json::from_str(&text[from..]).map_err(|error| format!("wrote no JSON ({error})"))?;
    let job = all.pointer("/jobs/0").ok_or("wrote JSON without a job")?;
    match number(job, "/error")? {
        0.0 => Ok(job.clone()),
        error => Err(format!("had error {error}")),
    }
}

fn job_of_check(text: &str) -> Result<Value, String> {
    job(text).map_err(|error| format!("could not be checked: the reader {error}"))
}

fn number(value: &Value, pointer: &str) -> Result<f64, String> {
    let found = value.pointer(pointer).and_then(Value::as_f64);
    found.ok_or_else(|| format!("wrote no number at `{pointer}`"))
}

#[cfg(test)]
mod tests {
    use latlab_model::spec::{Access, Engine};
    use latlab_model::units::Bytes;

    use super::*;

    const OUTPUT: &str = include_str!("../../../tests/programs/fio-randrw.json");
    const CHECKED: &str = r#"{"jobs": [{"error": 0, "read": {"io_bytes": 16777216}}]}"#;

    fn work(rw: Access, block: u64) -> Fio {
        Fio {
            asked: Asked {
                rw,
                block_size: Bytes(block),
                depth: 128,
                size: Bytes(16 << 20),
                directory: "/var/tmp".into(),
                engine: Engine::Libaio,
                direct: true,
            },
            times: Times {
                duration_ns: 2_000_000_000,
                warmup_ns: 0,
            },
        }
    }

    fn read(work: &Fio, output: &str, checked: &str) -> Result<Vec<f64>, String> {
        let evidence = Evidence {
            checked: checked.into(),
            ..Evidence::default()
        };
        work.read(&Ended::saying(output), &evidence)
    }

    #[test]
    fn both_ways_of_a_real_run_are_added_up() {
        let work = work(Access::RandRw, 4096);
        let values = read(&work, OUTPUT, CHECKED).unwrap();
        assert_eq!(values.len(), work.figures().len());
        let rounded: Vec<u64> = values.iter().map(|value| value.round() as u64).collect();
        assert_eq!(
            rounded,
            [54570, 224, 2_069_963, 8_585_216, 2_564_018, 9_633_792]
        );
    }

    #[test]
    fn what_was_not_asked_for_is_no_result() {
        let other = read(&work(Access::RandRw, 8192), OUTPUT, CHECKED).unwrap_err();
        assert!(other.contains("by their bytes"), "{other}");
        let way = read(&work(Access::RandRw, 4096), OUTPUT, "").unwrap_err();
        assert_eq!(way, "could not be checked: the reader wrote no JSON");
        let half = CHECKED.replace("16777216", "8388608");
        let half = read(&work(Access::RandRw, 4096), OUTPUT, &half).unwrap_err();
        assert_eq!(half, "left 8388608 bytes with checksums of 16777216");
        let failed = OUTPUT.replace("\"error\": 0", "\"error\": 28");
        let failed = read(&work(Access::RandRw, 4096), &failed, CHECKED).unwrap_err();
        assert_eq!(failed, "had error 28");
    }
}
