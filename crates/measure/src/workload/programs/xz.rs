//! `xz` of a generated text, again and again: bytes of text a second, and how much smaller it becomes.

use latlab_model::results::Figure;
use latlab_model::spec::Xz as Asked;
use latlab_wire::corpus::{Digest, MADE, TEXT};
use latlab_wire::scratch::runs;

use super::times::Times;
use super::work::{Evidence, Files, Place, Work, figure, shell};
use crate::workload::node::Ended;

pub(super) struct Xz {
    pub asked: Asked,
    pub times: Times,
}

impl Xz {
    fn repeat(&self, at: &Place, time_ns: u64) -> Vec<String> {
        let directory = &at.directory;
        let threads = self.asked.threads.unwrap_or(0);
        [
            at.agent.clone(),
            "repeat".into(),
            time_ns.to_string(),
            format!("{directory}/{MADE}"),
            "xz".into(),
            format!("-{}", self.asked.level),
            format!("-T{threads}"),
            "-k".into(),
            "-c".into(),
            format!("{directory}/{TEXT}"),
        ]
        .to_vec()
    }
}

impl Work for Xz {
    fn name(&self) -> &str {
        "xz"
    }

    fn files(&self) -> Files {
        Files::Memory
    }

    fn preparation(&self, at: &Place) -> Vec<String> {
        let (agent, directory) = (&at.agent, &at.directory);
        let bytes = self.asked.size.0;
        let mut line =
            format!("set -e; xz --version; '{agent}' text {bytes} '{directory}/{TEXT}'; ");
        if self.times.warmup_ns > 0 {
            let words = self.repeat(at, self.times.warmup_ns).into_iter();
            line.extend(words.map(|word| format!("'{word}' ")));
        }
        shell(&line)
    }

    fn command(&self, at: &Place, _prepared: &str) -> Result<Vec<String>, String> {
        Ok(self.repeat(at, self.times.duration_ns))
    }

    fn check(&self, at: &Place) -> Vec<String> {
        let (agent, directory) = (&at.agent, &at.directory);
        shell(&format!(
            "cd '{directory}' && '{agent}' digest <{TEXT} && xz -dc {MADE} | '{agent}' digest && wc -c <{MADE}"
        ))
    }

    fn figures(&self) -> Vec<Figure> {
        vec![
            figure("metric", "Text", "MB/s", true),
            figure("ratio", "Text / compressed", "B/B", true),
        ]
    }

    fn read(&self, ended: &Ended, evidence: &Evidence) -> Result<Vec<f64>, String> {
        let bytes = self.asked.size.0;
        let expected = Digest::of_text(bytes).to_string();
        let lines: Vec<&str> = evidence.checked.lines().map(str::trim).collect();
        let [text, back, made] = lines[..] else {
            return Err(format!(
                "left no text and result, but `{}`",
                evidence.checked.trim()
            ));
        };
        if text != expected {
            return Err(format!(
                "worked on a corrupted text: {text} instead of {expected}"
            ));
        }
        if back != expected {
            return Err(format!(
                "made what decompresses to {back} instead of {expected}"
            ));
        }
        let made: f64 = made.parse().map_err(|_| format!("made `{made}` bytes"))?;
        let runs = runs(&ended.text());
        let took_ns: u64 = runs.iter().sum();
        if runs.is_empty() || took_ns == 0 || made < 1.0 {
            return Err("did not run once".into());
        }
        let text = bytes as f64;
        let bytes_per_ns = text * runs.len() as f64 / took_ns as f64;
        Ok(vec![bytes_per_ns * 1e3, text / made])
    }

    fn version(&self, prepared: &str, _output: &str) -> Option<String> {
        let line = prepared.lines().next()?;
        line.split_whitespace().next_back().map(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use latlab_model::units::Bytes;

    use super::*;

    fn read(checked: &str, output: &str) -> Result<Vec<f64>, String> {
        let work = Xz {
            asked: Asked {
                size: Bytes(65536),
                level: 2,
                threads: None,
            },
            times: Times {
                duration_ns: 1,
                warmup_ns: 0,
            },
        };
        let evidence = Evidence {
            checked: checked.into(),
            ..Evidence::default()
        };
        work.read(&Ended::saying(output), &evidence)
    }

    #[test]
    fn rate_is_text_over_the_time_of_all_runs() {
        let good = Digest::of_text(65536);
        let checked = format!("{good}\n{good}\n16384\n");
        let values = read(&checked, "latlab-run 1000000\nlatlab-run 3000000\n").unwrap();
        assert_eq!(values, [32.768, 4.0]);
        assert_eq!(read(&checked, "").unwrap_err(), "did not run once");
    }

    #[test]
    fn another_text_is_no_result() {
        let (good, bad) = (Digest::of_text(65536), Digest::of_text(65535));
        let runs = "latlab-run 1000000\n";
        let other = read(&format!("{bad}\n{bad}\n9\n"), runs).unwrap_err();
        assert!(other.starts_with("worked on a corrupted text"), "{other}");
        let other = read(&format!("{good}\n{bad}\n9\n"), runs).unwrap_err();
        assert!(other.starts_with("made what decompresses to"), "{other}");
        let none = read("", runs).unwrap_err();
        assert!(none.starts_with("left no text"), "{none}");
    }
}
