//! `npb`: kernels as the NAS Parallel Benchmarks specify them, one MPI job over all nodes of a measurement.
//!
//! The programs are latlab's own (`crates/agent/mpi`), and verify themselves against the published values: "NPB-specified",
//! not NPB.

use latlab_model::results::Figure;
use latlab_model::spec::Npb as Asked;

use super::mpi_compiled::Job;
use super::work::figure;
use crate::workload::figure::{group, of_regex};

pub(super) struct Npb {
    asked: Asked,
    /// In all nodes.
    ranks: u32,
}

impl Npb {
    pub fn new(asked: Asked, nodes: usize) -> Self {
        Npb {
            ranks: asked.processes * nodes as u32,
            asked,
        }
    }

    /// Its rate in Mop/s and its time in seconds, if it ran as asked and is verified.
    fn read_kernel(&self, kernel: &str, text: &str) -> Result<[f64; 2], String> {
        if let Some(line) = text.lines().find(|line| {
            line.starts_with(&format!("npb-check {kernel} ")) && !line.ends_with(" ok")
        }) {
            let words: Vec<&str> = line.split(' ').collect();
            let [_, _, name, found, published, _] = words[..] else {
                return Err(format!("says `{line}`"));
            };
            return Err(format!(
                "computed {name} {found} in {kernel}, where {published} is published"
            ));
        }
        let line = format!(
            r"npb {kernel} class {} ranks {}",
            self.asked.class, self.ranks
        );
        let verified = format!(r"(?m)^{line} .* verification (\S+)$");
        if group(&verified, text) != Ok("successful") {
            return Err(format!("does not say that `{line}` is verified"));
        }
        let of = |name: &str| of_regex(&format!(r"(?m)^{line} .*\b{name} (\S+)"), text);
        let [rate, seconds] = [of("mops")?, of("seconds")?];
        if !(rate > 0.0 && seconds > 0.0) {
            return Err(format!("says {rate} Mop/s in {seconds} s of {kernel}"));
        }
        Ok([rate, seconds])
    }
}

fn geometric_mean(values: &[f64]) -> f64 {
    let logarithms: f64 = values.iter().map(|value| value.ln()).sum();
    (logarithms / values.len() as f64).exp()
}

impl Job for Npb {
    const NAME: &'static str = "npb";
    const PROGRAM: &'static str = "latlab-npb";
    const SOURCES: &'static str = "npb*.c";

    fn processes(&self) -> u32 {
        self.asked.processes
    }

    fn arguments(&self) -> String {
        let kernels: Vec<&str> = self.asked.kernels.iter().map(|k| k.word()).collect();
        format!("{} {}", self.asked.class, kernels.join(" "))
    }

    fn figures(&self) -> Vec<Figure> {
        let mut all = vec![figure("metric", "geometric mean", "Mop/s", true)];
        for kernel in &self.asked.kernels {
            let (name, title) = (kernel.word(), kernel.word().to_uppercase());
            all.push(figure(name, &title, "Mop/s", true));
        }
        for kernel in &self.asked.kernels {
            let (name, title) = (kernel.word(), kernel.word().to_uppercase());
            let title = format!("{title}, time");
            all.push(figure(&format!("{name}-time"), &title, "s", false));
        }
        all
    }

    fn read(&self, text: &str) -> Result<Vec<f64>, String> {
        let kernels = self.asked.kernels.iter();
        let read = kernels.map(|kernel| self.read_kernel(kernel.word(), text));
        let read = read.collect::<Result<Vec<_>, _>>()?;
        let [rates, times] = [0, 1].map(|part| read.iter().map(|kernel| kernel[part]).collect());
        let (rates, times): (Vec<f64>, Vec<f64>) = (rates, times);
        let mean = geometric_mean(&rates);
        Ok([vec![mean], rates, times].concat())
    }
}

#[cfg(test)]
mod tests {
    use latlab_model::spec::{Class, Kernel};

    use super::*;

    const OUTPUT: &str = include_str!("../../../tests/programs/npb.txt");

    fn work(kernels: &[Kernel], nodes: usize) -> Npb {
        let asked = Asked {
            kernels: kernels.to_vec(),
            class: Class::S,
            processes: 1,
        };
        Npb::new(asked, nodes)
    }

    fn read(work: &Npb, output: &str) -> Result<Vec<f64>, String> {
        work.read(output)
    }

    #[test]
    fn figures_of_a_real_run_over_two_nodes_are_read() {
        let all = work(Kernel::ALL, 2);
        let values = read(&all, OUTPUT).unwrap();
        assert_eq!(values.len(), all.figures().len());
        assert_eq!(values[1..6], [93.496, 216.524, 726.743, 1082.401, 2002.064]);
        assert_eq!(
            values[6..],
            [0.358885, 0.003027, 0.091716, 0.007023, 0.088492]
        );
        let mean = values[1..6].iter().product::<f64>().powf(0.2);
        assert!((values[0] - mean).abs() < 1e-9 * mean);
        let two = work(&[Kernel::Mg, Kernel::Ep], 2);
        assert_eq!(read(&two, OUTPUT).unwrap()[1..3], [values[4], values[1]]);
    }

    #[test]
    fn a_kernel_that_computed_another_value_is_no_result() {
        let all = work(Kernel::ALL, 2);
        let wrong = OUTPUT.replace(
            "zeta 8.59717750786481 8.5971775078648 ok",
            "zeta 8.59717750786999 8.5971775078648 wrong",
        );
        assert_eq!(
            read(&all, &wrong).unwrap_err(),
            "computed zeta 8.59717750786999 in cg, where 8.5971775078648 is published"
        );
        // Another kernel's value is its own matter.
        assert!(read(&work(&[Kernel::Ep], 2), &wrong).is_ok());
        let failed = OUTPUT.replace("successful", "failed");
        assert_eq!(
            read(&all, &failed).unwrap_err(),
            "does not say that `npb ep class S ranks 2` is verified"
        );
    }

    #[test]
    fn a_run_of_another_size_or_in_fewer_nodes_is_no_result() {
        let expected = "does not say that `npb ep class S ranks 4` is verified";
        assert_eq!(read(&work(Kernel::ALL, 4), OUTPUT).unwrap_err(), expected);
        let larger = OUTPUT.replace("npb ft class S", "npb ft class W");
        let error = read(&work(Kernel::ALL, 2), &larger).unwrap_err();
        assert!(error.contains("`npb ft class S ranks 2`"), "{error}");
        assert!(read(&work(Kernel::ALL, 2), "").is_err());
    }
}
