//! `redis-benchmark` of a Redis server that keeps all in memory: SET, then GET, of keys at random.
//!
//! The client takes a number of requests and no time. The number comes from the rate of a first round, which warms up too.

use latlab_model::results::Figure;
use latlab_model::spec::Redis as Asked;

use super::times::{NS_PER_MS, NS_PER_S, Times};
use super::work::{Evidence, Files, Place, Server, Work, figure, shell, split};
use crate::endpoint::strings;
use crate::workload::figure::of_regex;
use crate::workload::node::Ended;

const PORT: &str = "6379";
/// Requests of each kind in the first round.
const FIRST_ROUND: u64 = 20_000;
const KINDS: [&str; 2] = ["SET", "GET"];

pub(super) struct Redis {
    pub asked: Asked,
    pub times: Times,
}

/// The results of one kind of request.
#[derive(Debug, PartialEq)]
struct Row {
    rate: f64,
    mean_ms: f64,
    p50_ms: f64,
    p99_ms: f64,
    max_ms: f64,
}

impl Redis {
    /// Whole pipelines of every connection, so that as many are sent as are asked for.
    fn rounded(&self, requests: u64) -> u64 {
        let whole = u64::from(self.asked.pipeline) * u64::from(self.asked.connections);
        requests.div_ceil(whole) * whole
    }

    fn benchmark(&self, at: &Place, requests: u64) -> String {
        let asked = &self.asked;
        format!(
            "redis-benchmark -h {} -p {PORT} -t set,get -n {requests} -c {} -P {} -d {} -r {} --csv",
            at.server, asked.connections, asked.pipeline, asked.value_size.0, asked.keys
        )
    }

    /// Requests of each kind that take the asked time in all.
    fn requests(&self, prepared: &str) -> Result<u64, String> {
        let [set, get] = rows(prepared)?;
        let seconds = self.times.duration_ns as f64 / NS_PER_S as f64;
        let requests = seconds / (1.0 / set.rate + 1.0 / get.rate);
        Ok(self.rounded((requests as u64).max(1)))
    }

    /// The server counts what the client claims: SET and GET, and none that failed.
    fn agrees(&self, requests: u64, checked: &str) -> Result<(), String> {
        let claimed = (self.rounded(FIRST_ROUND) + requests) as f64;
        for kind in KINDS {
            let name = format!("cmdstat_{}", kind.to_ascii_lowercase());
            let count = |what: &str| of_regex(&format!("{name}:(?:.*,)?{what}=([0-9]+)"), checked);
            let (calls, failed) = (count("calls")?, count("failed_calls")?);
            let refused = count("rejected_calls")?;
            if calls != claimed || failed + refused > 0.0 {
                return Err(format!(
                    "claims {claimed} {kind}, and the server had {calls}, of which {} failed",
                    failed + refused
                ));
            }
        }
        let keys = of_regex(r"(?m)^([0-9]+)\s*$", checked)?;
        if keys < 1.0 || keys > f64::from(self.asked.keys) {
            return Err(format!("left {keys} keys of {}", self.asked.keys));
        }
        Ok(())
    }
}

/// Columns by their names: versions add some.
fn rows(text: &str) -> Result<[Row; 2], String> {
    let cells = |line: &str| -> Vec<String> {
        let cells = line.split(',').map(|cell| cell.trim().trim_matches('"'));
        cells.map(str::to_owned).collect()
    };
    let mut lines = text
        .lines()
        .skip_while(|line| !line.starts_with("\"test\""));
    let heads = cells(lines.next().ok_or("wrote no table")?);
    let rows: Vec<Vec<String>> = lines.map(cells).collect();
    let row = |kind: &str| {
        let row = rows.iter().find(|row| row[0] == kind);
        let row = row.ok_or_else(|| format!("wrote no row of {kind}"))?;
        let number = |name: &str| {
            let at = heads.iter().position(|head| head == name);
            let cell = at.and_then(|at| row.get(at)?.parse::<f64>().ok());
            let number = cell.filter(|n| n.is_finite() && *n >= 0.0);
            number.ok_or_else(|| format!("wrote no `{name}` of {kind}"))
        };
        let row = Row {
            rate: number("rps")?,
            mean_ms: number("avg_latency_ms")?,
            p50_ms: number("p50_latency_ms")?,
            p99_ms: number("p99_latency_ms")?,
            max_ms: number("max_latency_ms")?,
        };
        match row.rate > 0.0 {
            true => Ok(row),
            false => Err(format!("had no answer to {kind}")),
        }
    };
    Ok([row("SET")?, row("GET")?])
}

impl Work for Redis {
    fn name(&self) -> &str {
        "redis"
    }

    fn files(&self) -> Files {
        Files::Memory
    }

    fn server(&self, at: &Place) -> Option<Server> {
        Some(Server {
            name: "redis-server",
            argv: strings(&[
                "redis-server",
                "--save",
                "",
                "--appendonly",
                "no",
                "--protected-mode",
                "no",
                "--daemonize",
                "no",
                "--port",
                PORT,
                "--bind",
                &at.listen,
                "--dir",
                &at.directory,
            ]),
            ready: strings(&["redis-cli", "-h", &at.server, "-p", PORT, "ping"]),
        })
    }

    fn preparation(&self, at: &Place) -> Vec<String> {
        let first = self.benchmark(at, self.rounded(FIRST_ROUND));
        shell(&format!("redis-benchmark --version && {first}"))
    }

    fn command(&self, at: &Place, prepared: &str) -> Result<Vec<String>, String> {
        Ok(split(&self.benchmark(at, self.requests(prepared)?)))
    }

    fn check(&self, at: &Place) -> Vec<String> {
        let client = format!("redis-cli -h {} -p {PORT}", at.server);
        shell(&format!("{client} info commandstats && {client} dbsize"))
    }

    fn figures(&self) -> Vec<Figure> {
        let mut all = vec![figure("metric", "Requests", "1/s", true)];
        for kind in KINDS {
            let name = |what: &str| format!("{}-{what}", kind.to_ascii_lowercase());
            all.push(figure(&name("rate"), kind, "1/s", true));
            for (what, title) in [
                ("mean", "mean"),
                ("p50", "p50"),
                ("p99", "p99"),
                ("max", "longest"),
            ] {
                let title = format!("{kind}, {title}");
                all.push(figure(&name(what), &title, "ns", false));
            }
        }
        all
    }

    fn read(&self, ended: &Ended, evidence: &Evidence) -> Result<Vec<f64>, String> {
        let requests = self.requests(&evidence.prepared)?;
        let [set, get] = rows(&ended.text())?;
        self.agrees(requests, &evidence.checked)?;
        let mut values = vec![2.0 / (1.0 / set.rate + 1.0 / get.rate)];
        for row in [set, get] {
            values.push(row.rate);
            let times = [row.mean_ms, row.p50_ms, row.p99_ms, row.max_ms];
            values.extend(times.map(|ms| ms * NS_PER_MS));
        }
        Ok(values)
    }

    fn version(&self, prepared: &str, _output: &str) -> Option<String> {
        let line = prepared.lines().next()?;
        line.split_whitespace().nth(1).map(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use latlab_model::units::Bytes;

    use super::*;

    const PREPARED: &str = "redis-benchmark 7.0.15\n\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\
        \"p50_latency_ms\",\"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n\
        \"SET\",\"100000.00\",\"2.326\",\"0.368\",\"1.751\",\"5.799\",\"8.999\",\"10.239\"\n\
        \"GET\",\"100000.00\",\"1.680\",\"0.400\",\"1.519\",\"2.975\",\"4.687\",\"7.087\"\n";
    const COUNTED: &str = "# Commandstats\r\n\
        cmdstat_config|get:calls=2,usec=14,usec_per_call=7.00,rejected_calls=0,failed_calls=0\r\n\
        cmdstat_set:calls=70000,usec=109226,usec_per_call=1.09,rejected_calls=0,failed_calls=0\r\n\
        cmdstat_get:calls=70000,usec=73755,usec_per_call=0.74,rejected_calls=0,failed_calls=0\r\n63085\n";

    fn work() -> Redis {
        Redis {
            asked: Asked {
                connections: 50,
                pipeline: 10,
                value_size: Bytes(50),
                keys: 100_000,
            },
            times: Times {
                duration_ns: 1_000_000_000,
                warmup_ns: 0,
            },
        }
    }

    fn read(output: &str, checked: &str) -> Result<Vec<f64>, String> {
        let evidence = Evidence {
            prepared: PREPARED.into(),
            checked: checked.into(),
        };
        work().read(&Ended::saying(output), &evidence)
    }

    #[test]
    fn a_table_is_read_by_its_heads() {
        let values = read(PREPARED, COUNTED).unwrap();
        assert_eq!(values.len(), work().figures().len());
        assert_eq!(values[0].round(), 100_000.0);
        assert_eq!(values[1..3], [100_000.0, 2_326_000.0]);
        assert_eq!(values[9], 4_687_000.0);
        assert_eq!(work().version(PREPARED, "").as_deref(), Some("7.0.15"));
        // Half of a second for each kind.
        assert_eq!(work().requests(PREPARED), Ok(50_000));
    }

    #[test]
    fn a_server_that_counted_otherwise_is_believed() {
        let fewer = COUNTED.replace("set:calls=70000", "set:calls=69000");
        let error = read(PREPARED, &fewer).unwrap_err();
        assert_eq!(
            error,
            "claims 70000 SET, and the server had 69000, of which 0 failed"
        );
        let failed = COUNTED.replace("failed_calls=0", "failed_calls=7");
        assert!(
            read(PREPARED, &failed)
                .unwrap_err()
                .ends_with("of which 7 failed")
        );
        let empty = COUNTED.replace("\n63085", "\n0");
        assert_eq!(read(PREPARED, &empty).unwrap_err(), "left 0 keys of 100000");
        let cut = PREPARED.lines().take(3).collect::<Vec<_>>().join("\n");
        assert_eq!(read(&cut, COUNTED).unwrap_err(), "wrote no row of GET");
    }
}
