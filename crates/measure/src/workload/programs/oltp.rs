//! `sysbench oltp_read_write` of a MariaDB server: transactions that read and change rows of tables.

use latlab_model::results::Figure;
use latlab_model::spec::Oltp as Asked;

use super::sysbench::check_threads;
use super::times::{NS_PER_MS, Times};
use super::work::{Evidence, Files, Place, Server, Work, figure, shell, split};
use crate::workload::figure::of_regex;
use crate::workload::node::Ended;

const PORT: u16 = 3306;
/// User and database.
const NAME: &str = "latlab";
/// Memory for pages of tables, and for the log of changes; the defaults are for a server of its own machine.
const SIZES: &str = "--innodb-buffer-pool-size=64M --innodb-log-file-size=16M --innodb-buffer-pool-dump-at-shutdown=0";

pub(super) struct Oltp {
    pub asked: Asked,
    pub times: Times,
}

impl Oltp {
    fn sysbench(&self, at: &Place) -> String {
        let asked = &self.asked;
        format!(
            "sysbench oltp_read_write --db-driver=mysql --mysql-host={} --mysql-port={PORT} --mysql-user={NAME} \
             --mysql-db={NAME} --tables={} --table-size={} --threads={} --percentile=99 --histogram=on",
            at.server, asked.tables, asked.table_size, asked.threads
        )
    }

    fn client(at: &Place) -> String {
        let server = &at.server;
        format!("mariadb --no-defaults --protocol=tcp -h {server} -P {PORT} -u {NAME} -N -B {NAME}")
    }
}

impl Work for Oltp {
    fn name(&self) -> &str {
        "oltp"
    }

    fn files(&self) -> Files {
        match &self.asked.directory {
            None => Files::Memory,
            Some(directory) => Files::In {
                directory: directory.clone(),
                storage: false,
            },
        }
    }

    /// The user has no password: the server is reached from the lab's own network only.
    fn server(&self, at: &Place) -> Option<Server> {
        let (directory, listen) = (&at.directory, &at.listen);
        let rights = format!(
            "CREATE DATABASE IF NOT EXISTS {NAME};\n\
             CREATE USER IF NOT EXISTS {NAME}@\"%\";\n\
             GRANT ALL ON {NAME}.* TO {NAME}@\"%\";\n"
        );
        let line = format!(
            "set -e; cd '{directory}'; printf %s '{rights}' >rights.sql; \
             mariadb-install-db --no-defaults --user=root --datadir='{directory}/db' --skip-name-resolve \
             --auth-root-authentication-method=normal --skip-test-db --innodb-log-file-size=16M; \
             exec mariadbd --no-defaults --user=root --datadir='{directory}/db' --socket=socket --port={PORT} \
             --bind-address={listen} --skip-name-resolve --skip-log-bin --init-file='{directory}/rights.sql' \
             --pid-file='{directory}/pid' {SIZES}"
        );
        Some(Server {
            name: "mariadbd",
            argv: shell(&line),
            ready: shell(&format!("{} -e 'select 1'", Self::client(at))),
        })
    }

    fn preparation(&self, at: &Place) -> Vec<String> {
        let (sysbench, client) = (self.sysbench(at), Self::client(at));
        let mut line = format!(
            "set -e; sysbench --version; {client} -e 'select version()'; {sysbench} prepare"
        );
        if self.times.warmup_ns > 0 {
            line += &format!("; {sysbench} --time={} run", self.times.warmup_seconds());
        }
        shell(&line)
    }

    fn command(&self, at: &Place, _prepared: &str) -> Result<Vec<String>, String> {
        let line = format!("{} --time={} run", self.sysbench(at), self.times.seconds());
        Ok(split(&line))
    }

    fn check(&self, at: &Place) -> Vec<String> {
        let tables = 1..=self.asked.tables;
        let counts = tables.map(|table| format!("select \"rows\", count(*) from sbtest{table}; "));
        let counts: String = counts.collect();
        let status = "show global status like \"Com_commit\"";
        shell(&format!("{} -e '{counts}{status}'", Self::client(at)))
    }

    fn figures(&self) -> Vec<Figure> {
        vec![
            figure("metric", "Transactions", "1/s", true),
            figure("latency-mean", "Transaction, mean", "ns", false),
            figure("latency-p95", "Transaction, p95", "ns", false),
            figure("latency-p99", "Transaction, p99", "ns", false),
            figure("latency-max", "Transaction, longest", "ns", false),
            figure("retried", "Transactions tried again", "1/s", false),
        ]
    }

    fn read(&self, ended: &Ended, evidence: &Evidence) -> Result<Vec<f64>, String> {
        let text = ended.text();
        let of = |regex: &str| of_regex(regex, &text);
        check_threads(&text, self.asked.threads)?;
        let transactions = of(r"transactions: +([0-9]+)")?;
        let lasted = of(r"total time: +([0-9.]+)s")?;
        let lost = of(r"reconnects: +([0-9]+)")?;
        if transactions < 1.0 || lasted < self.times.seconds() as f64 * 0.98 {
            return Err(format!(
                "ended after {lasted} s and {transactions} transactions"
            ));
        }
        if lost > 0.0 {
            return Err(format!("lost its connection {lost} times"));
        }
        self.agrees(transactions, &evidence.checked)?;
        let p95 = percentile(&text, transactions, 0.95)?;
        Ok(vec![
            of(r"transactions: +[0-9]+ +\(([0-9.]+) per sec")?,
            of(r"avg: +([0-9.]+)")? * NS_PER_MS,
            p95 * NS_PER_MS,
            of(r"99th percentile: +([0-9.]+)")? * NS_PER_MS,
            of(r"max: +([0-9.]+)")? * NS_PER_MS,
            of(r"ignored errors: +[0-9]+ +\(([0-9.]+) per sec")?,
        ])
    }

    fn version(&self, prepared: &str, _output: &str) -> Option<String> {
        let mut lines = prepared.lines();
        let sysbench = lines.next()?.trim().to_owned();
        Some(format!("{}, {sysbench}", lines.next()?.trim()))
    }
}

impl Oltp {
    /// A transaction deletes a row and inserts one, so tables stay as large; the server committed what the client claims.
    fn agrees(&self, transactions: f64, checked: &str) -> Result<(), String> {
        let rows: Vec<&str> = checked
            .lines()
            .filter_map(|line| line.strip_prefix("rows\t"))
            .collect();
        let expected = self.asked.table_size.to_string();
        if rows.len() != self.asked.tables as usize
            || rows.iter().any(|rows| rows.trim() != expected)
        {
            let found = rows.join(", ");
            return Err(format!(
                "left {found} rows in its tables instead of {expected} in each"
            ));
        }
        let commits = of_regex(r"Com_commit\s+([0-9]+)", checked)?;
        if commits < transactions {
            return Err(format!(
                "claims {transactions} transactions, and the server had {commits}"
            ));
        }
        Ok(())
    }
}

/// The smallest value of sysbench's histogram, in milliseconds, that this share of events does not exceed.
fn percentile(text: &str, events: f64, share: f64) -> Result<f64, String> {
    let lines = text
        .lines()
        .skip_while(|line| !line.contains("- distribution -"));
    let mut seen = 0.0;
    for line in lines.skip(1).take_while(|line| line.contains('|')) {
        let mut words = line.split_whitespace();
        let value = words.next().and_then(|word| word.parse::<f64>().ok());
        let count = words.next_back().and_then(|word| word.parse::<f64>().ok());
        let (value, count) = value
            .zip(count)
            .ok_or("wrote a histogram that cannot be read")?;
        seen += count;
        if seen >= share * events {
            return Ok(value);
        }
    }
    Err(format!("wrote a histogram of {seen} of {events} events"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = include_str!("../../../tests/programs/oltp.txt");
    const CHECKED: &str = "rows\t10000\nrows\t10000\nCom_commit\t1584\n";

    fn read(output: &str, checked: &str) -> Result<Vec<f64>, String> {
        let work = Oltp {
            asked: Asked {
                threads: 4,
                tables: 2,
                table_size: 10_000,
                directory: None,
            },
            times: Times {
                duration_ns: 3_000_000_000,
                warmup_ns: 0,
            },
        };
        let evidence = Evidence {
            checked: checked.into(),
            ..Evidence::default()
        };
        let values = work.read(&Ended::saying(output), &evidence)?;
        assert_eq!(values.len(), work.figures().len());
        Ok(values)
    }

    #[test]
    fn rate_and_times_of_a_real_run_are_read() {
        let values = read(OUTPUT, CHECKED).unwrap();
        assert_eq!(values[0], 526.82);
        let rounded: Vec<u64> = values[1..]
            .iter()
            .map(|value| value.round() as u64)
            .collect();
        assert_eq!(rounded, [7_580_000, 14_465_000, 33_720_000, 47_500_000, 0]);
    }

    #[test]
    fn tables_and_commits_of_the_server_are_the_evidence() {
        let fewer = read(OUTPUT, &CHECKED.replacen("10000", "9999", 1)).unwrap_err();
        assert_eq!(
            fewer,
            "left 9999, 10000 rows in its tables instead of 10000 in each"
        );
        let none = read(OUTPUT, "Com_commit\t1584\n").unwrap_err();
        assert!(none.starts_with("left  rows"), "{none}");
        let commits = read(OUTPUT, &CHECKED.replace("1584", "1583")).unwrap_err();
        assert_eq!(commits, "claims 1584 transactions, and the server had 1583");
        let lost = OUTPUT.replace("reconnects:                          0", "reconnects:    2");
        assert_eq!(
            read(&lost, CHECKED).unwrap_err(),
            "lost its connection 2 times"
        );
        let cut = read(&OUTPUT[..600], CHECKED).unwrap_err();
        assert!(cut.starts_with("wrote nothing that"), "{cut}");
    }
}
