//! `sysbench cpu`: an event tries all numbers up to `max_prime` for prime ones, by division.

use latlab_model::results::Figure;
use latlab_model::spec::SysbenchCpu as Asked;

use super::sysbench::{PERCENTILE, check_threads, latencies, tail, version};
use super::times::{NS_PER_MS, Times};
use super::work::{Evidence, Place, Work, figure, shell, split};
use crate::workload::figure::of_regex;
use crate::workload::node::Ended;

/// Numbers that it says twice may differ by rounding, and by the last event of each thread, which ends after its time.
const TOLERANCE: f64 = 0.02;

pub(super) struct SysbenchCpu {
    pub asked: Asked,
    pub times: Times,
}

impl SysbenchCpu {
    fn line(&self, seconds: u64) -> String {
        let Asked { max_prime, threads } = self.asked;
        format!(
            "sysbench cpu --cpu-max-prime={max_prime} --threads={threads} --time={seconds} --events=0 \
             --percentile={PERCENTILE} run"
        )
    }
}

impl Work for SysbenchCpu {
    fn name(&self) -> &str {
        "sysbench-cpu"
    }

    /// A guest reads the program from the host's files, and an emulator translates it, the first time.
    fn preparation(&self, _at: &Place) -> Vec<String> {
        let mut line = "sysbench --version".to_string();
        if self.times.warmup_ns > 0 {
            line += &format!(" && {}", self.line(self.times.warmup_seconds()));
        }
        shell(&line)
    }

    fn command(&self, _at: &Place, _prepared: &str) -> Result<Vec<String>, String> {
        Ok(split(&self.line(self.times.seconds())))
    }

    fn figures(&self) -> Vec<Figure> {
        let rate = figure("metric", "Events", "events/s", true);
        [vec![rate], latencies("Event").to_vec()].concat()
    }

    fn read(&self, ended: &Ended, _evidence: &Evidence) -> Result<Vec<f64>, String> {
        let text = ended.text();
        let of = |regex: &str| of_regex(regex, &text);
        check_threads(&text, self.asked.threads)?;
        let primes = of(r"Prime numbers limit: ([0-9]+)")?;
        let asked = self.asked.max_prime;
        if primes != f64::from(asked) {
            return Err(format!("ran with {primes} primes instead of {asked}"));
        }
        let rate = of(r"events per second: +([0-9.]+)")?;
        let events = of(r"total number of events: +([0-9]+)")?;
        let lasted = of(r"total time: +([0-9.]+)s")?;
        if events < 1.0 || lasted < self.times.seconds() as f64 * (1.0 - TOLERANCE) {
            return Err(format!("ended after {lasted} s and {events} events"));
        }
        let counted = events / lasted;
        if (rate - counted).abs() > TOLERANCE * counted.max(rate) && events > 50.0 {
            return Err(format!(
                "says {rate} events/s, and {events} events in {lasted} s"
            ));
        }
        let mean = of(r"avg: +([0-9.]+)")? * NS_PER_MS;
        let [percentile, longest] = tail(&text)?;
        Ok(vec![rate, mean, percentile, longest])
    }

    fn version(&self, prepared: &str, _output: &str) -> Option<String> {
        version(prepared)
    }
}

#[cfg(test)]
mod tests {
    use super::super::times::NS_PER_S;
    use super::*;

    const OUTPUT: &str = "sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)

Running the test with following options:
Number of threads: 1
Initializing random number generator from current time


Prime numbers limit: 10000

Initializing worker threads...

Threads started!

CPU speed:
    events per second:  2044.16

General statistics:
    total time:                          1.0041s
    total number of events:              2055

Latency (ms):
         min:                                    0.27
         avg:                                    0.48
         max:                                    8.47
         99th percentile:                        4.41
         sum:                                  995.19

Threads fairness:
    events (avg/stddev):           2055.0000/0.00
    execution time (avg/stddev):   0.9952/0.00
";

    fn read(text: &str, max_prime: u32, seconds: u64) -> Result<Vec<f64>, String> {
        let work = SysbenchCpu {
            asked: Asked {
                max_prime,
                threads: 1,
            },
            times: Times {
                duration_ns: seconds * NS_PER_S,
                warmup_ns: NS_PER_S,
            },
        };
        work.read(&Ended::saying(text), &Evidence::default())
    }

    #[test]
    fn rate_and_times_of_events_are_read() {
        let values = read(OUTPUT, 10_000, 1).unwrap();
        assert_eq!(values[0], 2044.16);
        let rounded: Vec<u64> = values[1..].iter().map(|v| v.round() as u64).collect();
        assert_eq!(rounded, [480_000, 4_410_000, 8_470_000]);
    }

    #[test]
    fn what_was_not_asked_for_is_no_result() {
        let primes = read(OUTPUT, 20_000, 1).unwrap_err();
        assert_eq!(primes, "ran with 10000 primes instead of 20000");
        let short = read(OUTPUT, 10_000, 5).unwrap_err();
        assert_eq!(short, "ended after 1.0041 s and 2055 events");
        let wrong = OUTPUT.replace("2044.16", "9044.16");
        let wrong = read(&wrong, 10_000, 1).unwrap_err();
        assert!(wrong.starts_with("says 9044.16 events/s"), "{wrong}");
        let cut = read(&OUTPUT[..400], 10_000, 1).unwrap_err();
        assert!(cut.starts_with("wrote nothing that"), "{cut}");
    }
}
