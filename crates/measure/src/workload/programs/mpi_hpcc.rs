//! `hpcc` as one job over all nodes of a measurement: the tests that cross the network.

use latlab_model::results::Figure;
use latlab_model::spec::Hpcc as Asked;

use super::work::{Evidence, Files, Place, Server, Work, figure};
use super::{hpcc, mpi};
use crate::workload::node::Ended;

/// A name in the summary, the figure's name, title and unit, and whether more is better. Latencies are one way.
const FIGURES: [(&str, &str, &str, &str, bool); 10] = [
    (
        "AvgPingPongLatency_usec",
        "metric",
        "ping-pong, latency",
        "µs",
        false,
    ),
    (
        "AvgPingPongBandwidth_GBytes",
        "ping-pong-bandwidth",
        "ping-pong, bandwidth",
        "GB/s",
        true,
    ),
    (
        "NaturallyOrderedRingLatency_usec",
        "natural-ring-latency",
        "natural ring, latency",
        "µs",
        false,
    ),
    (
        "NaturallyOrderedRingBandwidth_GBytes",
        "natural-ring-bandwidth",
        "natural ring, bandwidth",
        "GB/s",
        true,
    ),
    (
        "RandomlyOrderedRingLatency_usec",
        "random-ring-latency",
        "random ring, latency",
        "µs",
        false,
    ),
    (
        "RandomlyOrderedRingBandwidth_GBytes",
        "random-ring-bandwidth",
        "random ring, bandwidth",
        "GB/s",
        true,
    ),
    (
        "MPIRandomAccess_GUPs",
        "mpi-random-access",
        "MPIRandomAccess",
        "GUPS",
        true,
    ),
    ("PTRANS_GBs", "ptrans", "PTRANS", "GB/s", true),
    ("MPIFFT_Gflops", "mpi-fft", "MPIFFT", "GFLOPS", true),
    ("HPL_Tflops", "linpack", "Linpack", "TFLOPS", true),
];

pub(super) struct MpiHpcc {
    asked: Asked,
    /// In all nodes.
    ranks: u32,
    token: String,
}

impl MpiHpcc {
    pub fn new(asked: Asked, nodes: usize) -> Self {
        MpiHpcc {
            ranks: asked.processes * nodes as u32,
            asked,
            token: mpi::token(),
        }
    }
}

impl Work for MpiHpcc {
    fn name(&self) -> &str {
        "hpcc"
    }

    fn files(&self) -> Files {
        Files::Memory
    }

    fn server(&self, at: &Place) -> Option<Server> {
        mpi::server(at, &self.token)
    }

    fn preparation(&self, at: &Place) -> Vec<String> {
        hpcc::preparation(at, self.asked.n, self.ranks)
    }

    fn command(&self, at: &Place, _prepared: &str) -> Result<Vec<String>, String> {
        let line = mpi::run(at, &self.token, self.asked.processes, "hpcc")?;
        Ok(hpcc::command(at, &line))
    }

    fn figures(&self) -> Vec<Figure> {
        let all = FIGURES.iter();
        all.map(|(_, name, title, unit, is_more)| figure(name, title, unit, *is_more))
            .collect()
    }

    fn read(&self, ended: &Ended, _evidence: &Evidence) -> Result<Vec<f64>, String> {
        let text = ended.text();
        hpcc::check(&text, self.asked.n, self.ranks)?;
        let values = FIGURES.iter().map(|(name, ..)| hpcc::value_of(name, &text));
        hpcc::above_zero(values.collect::<Result<_, _>>()?)
    }

    fn version(&self, prepared: &str, output: &str) -> Option<String> {
        hpcc::version(prepared, output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = include_str!("../../../tests/programs/mpi-hpcc.txt");

    fn read(output: &str, nodes: usize) -> Result<Vec<f64>, String> {
        let asked = Asked {
            processes: 1,
            n: 1000,
        };
        MpiHpcc::new(asked, nodes).read(&Ended::saying(output), &Evidence::default())
    }

    #[test]
    fn figures_of_a_real_run_over_two_nodes_are_read() {
        let values = read(OUTPUT, 2).unwrap();
        assert_eq!(values[..4], [6.39803, 1.82337, 6.3045, 0.622304]);
        assert_eq!(
            values[4..],
            [
                6.05858, 0.352324, 0.00103283, 0.0693917, 0.133134, 0.00276058
            ]
        );
    }

    #[test]
    fn a_run_in_fewer_nodes_is_no_result() {
        assert_eq!(
            read(OUTPUT, 4).unwrap_err(),
            "ran with CommWorldProcs 2 instead of 4"
        );
        let alone = OUTPUT.replace(
            "AvgPingPongLatency_usec=6.39803",
            "AvgPingPongLatency_usec=0",
        );
        assert!(read(&alone, 2).unwrap_err().starts_with("says ["));
    }
}
