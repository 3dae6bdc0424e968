//! `mpi-micro`: microbenchmarks of MPI over all nodes of a measurement, with patterns of the Intel MPI Benchmarks.
//!
//! The program is latlab's own (`crates/agent/mpi/micro.c`). It compares what is received with what was sent.

use latlab_model::results::Figure;
use latlab_model::spec::MpiMicro as Asked;
use latlab_model::units::Bytes;

use super::mpi_compiled::Job;
use super::work::figure;

/// Words of the program, titles, and what a rank sends in one repetition as multiples of the size.
const PATTERNS: [(&str, &str, Sent); 5] = [
    ("ping-pong", "ping-pong", Sent::Messages(1.0)),
    // One message goes out while one comes in.
    ("sendrecv", "Sendrecv", Sent::Messages(2.0)),
    ("exchange", "Exchange", Sent::Messages(4.0)),
    ("allreduce", "Allreduce", Sent::Nothing),
    ("alltoall", "Alltoall", Sent::Nothing),
];
const BARRIER: &str = "barrier";
/// Messages below are told by their latency, others by their bandwidth if their bytes are known.
const LARGE: Bytes = Bytes(16 << 10);

/// Messages that pass a rank in one repetition, in both directions together as the Intel MPI Benchmarks count them.
#[derive(Clone, Copy)]
enum Sent {
    Messages(f64),
    /// Bytes depend on the algorithm: only the time is told.
    Nothing,
}

pub(super) struct MpiMicro {
    asked: Asked,
    /// In all nodes.
    ranks: u32,
}

/// A pattern with messages of one size, as a line of the output and as a figure.
struct Case {
    pattern: &'static str,
    title: &'static str,
    size: Bytes,
    sent: Sent,
}

impl Case {
    /// Messages of a repetition, if its figure is a bandwidth.
    fn messages(&self) -> Option<f64> {
        match self.sent {
            Sent::Messages(count) if self.size >= LARGE => Some(count),
            _ => None,
        }
    }

    fn figure(&self) -> Figure {
        let Case {
            pattern,
            title,
            size,
            ..
        } = self;
        if *pattern == BARRIER {
            return figure(pattern, title, "µs", false);
        }
        let (name, title) = (format!("{pattern}-{size}"), format!("{title}, {size}"));
        match self.messages() {
            Some(_) => figure(&name, &title, "GB/s", true),
            None => figure(&name, &title, "µs", false),
        }
    }

    /// The value of the figure, if all ranks took part and received what they should.
    fn read(&self, ranks: u32, text: &str) -> Result<f64, String> {
        let pattern = self.pattern;
        let start = format!("mpi-micro {pattern} bytes {} ranks {ranks} ", self.size.0);
        let line = text.lines().find_map(|line| line.strip_prefix(&start));
        let line = line.ok_or_else(|| format!("wrote no line of `{}`", start.trim()))?;
        let words: Vec<&str> = line.split(' ').collect();
        let ["repetitions", _, "usec", time, "check", check] = words[..] else {
            return Err(format!("says `{line}` of {pattern}"));
        };
        match check {
            "ok" => {}
            // A barrier carries no bytes.
            "none" if pattern == BARRIER => {}
            _ => return Err(format!("received other bytes than were sent in {pattern}")),
        }
        let time = time.parse().ok().filter(|time: &f64| *time > 0.0);
        let time_us = time.ok_or_else(|| format!("says `{line}` of {pattern}"))?;
        Ok(match self.messages() {
            // Bytes in a microsecond are megabytes in a second.
            Some(count) => count * self.size.0 as f64 / time_us / 1e3,
            None => time_us,
        })
    }
}

impl MpiMicro {
    pub fn new(asked: Asked, nodes: usize) -> Self {
        MpiMicro {
            ranks: asked.processes * nodes as u32,
            asked,
        }
    }

    /// The metric is the smallest ping-pong.
    fn cases(&self) -> Vec<Case> {
        let mut all = Vec::new();
        for (pattern, title, sent) in PATTERNS {
            all.extend(self.asked.sizes.iter().map(|size| Case {
                pattern,
                title,
                size: *size,
                sent,
            }));
        }
        all.push(Case {
            pattern: BARRIER,
            title: "Barrier",
            size: Bytes(0),
            sent: Sent::Nothing,
        });
        all
    }
}

impl Job for MpiMicro {
    const NAME: &'static str = "mpi-micro";
    const PROGRAM: &'static str = "latlab-mpi-micro";
    const SOURCES: &'static str = "micro.c";

    fn processes(&self) -> u32 {
        self.asked.processes
    }

    fn arguments(&self) -> String {
        let sizes: Vec<String> = self.asked.sizes.iter().map(|s| s.0.to_string()).collect();
        sizes.join(" ")
    }

    fn figures(&self) -> Vec<Figure> {
        let mut all: Vec<Figure> = self.cases().iter().map(Case::figure).collect();
        "metric".clone_into(&mut all[0].name);
        all
    }

    fn read(&self, text: &str) -> Result<Vec<f64>, String> {
        let cases = self.cases();
        cases.iter().map(|c| c.read(self.ranks, text)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = include_str!("../../../tests/programs/mpi-micro.txt");

    fn work(sizes: &[u64], nodes: usize) -> MpiMicro {
        let asked = Asked {
            sizes: sizes.iter().map(|size| Bytes(*size)).collect(),
            processes: 1,
        };
        MpiMicro::new(asked, nodes)
    }

    fn read(work: &MpiMicro, output: &str) -> Result<Vec<f64>, String> {
        work.read(output)
    }

    #[test]
    fn figures_of_a_real_run_over_two_nodes_are_read() {
        let micro = work(&[8, 1 << 20], 2);
        let values = read(&micro, OUTPUT).unwrap();
        let figures = micro.figures();
        assert_eq!(values.len(), figures.len());
        let rounded: Vec<f64> = values.iter().map(|v| (v * 1e3).round() / 1e3).collect();
        assert_eq!(
            rounded,
            [
                10.567, 1.728, 18.642, 1.55, 35.315, 2.308, 22.836, 1511.448, 22.39, 1763.148,
                15.464
            ]
        );
        let names: Vec<&str> = figures.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(names[..3], ["metric", "ping-pong-1MiB", "sendrecv-8B"]);
        assert_eq!(names[10], "barrier");
        let units: Vec<&str> = figures.iter().map(|f| f.unit.as_str()).collect();
        assert_eq!(units[..3], ["µs", "GB/s", "µs"]);
        assert_eq!(units[7], "µs");
    }

    #[test]
    fn bytes_that_others_sent_are_no_result() {
        let micro = work(&[8, 1 << 20], 2);
        let at = OUTPUT.find("mpi-micro alltoall bytes 1048576").unwrap();
        let (before, rest) = OUTPUT.split_at(at);
        let wrong = format!("{before}{}", rest.replacen("check ok", "check wrong", 1));
        assert_eq!(
            read(&micro, &wrong).unwrap_err(),
            "received other bytes than were sent in alltoall"
        );
        // Nothing but a barrier may go without a check.
        let unchecked = OUTPUT.replacen("check ok", "check none", 1);
        assert!(read(&micro, &unchecked).unwrap_err().contains("ping-pong"));
    }

    #[test]
    fn a_run_in_fewer_nodes_or_of_another_size_is_no_result() {
        assert_eq!(
            read(&work(&[8], 3), OUTPUT).unwrap_err(),
            "wrote no line of `mpi-micro ping-pong bytes 8 ranks 3`"
        );
        assert!(read(&work(&[64], 2), OUTPUT).is_err());
    }
}
