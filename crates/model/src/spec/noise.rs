//! Load that runs beside a measurement on purpose, outside the lab.
//!
//! Without it a quiet machine looks as good untuned as tuned; what isolation is worth shows under load
//! (Welch 2015 section 4 ran hackbench and others beside its guests).

use std::fmt;

use super::reader::FromYaml;

/// Load beside a measurement: on every CPU that latlab itself may use, one instance each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Noise {
    #[default]
    None,
    Spin,
    StressNg(Vec<String>),
}

const STRESS: [&str; 2] = ["--cpu", "1"];

/// Options of stress-ng that would make it outlive the measurement, or write outside its own files.
const REFUSED: &[&str] = &[
    "--daemon",
    "--timeout",
    "-t",
    "--log-file",
    "--yaml",
    "-Y",
    "--job",
];

impl FromYaml for Noise {
    const EXPECTED: &'static str = "a noise";
    const EXAMPLE: &'static str = "`spin`, `stress-ng` or `stress-ng --cpu 1 --vm 1`";

    fn from_text(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let options: Vec<String> = match (words.next()?, words.clone().next()) {
            ("none", None) => return Some(Noise::None),
            ("spin", None) => return Some(Noise::Spin),
            ("stress-ng", None) => STRESS.iter().map(ToString::to_string).collect(),
            ("stress-ng", Some(_)) => words.map(str::to_string).collect(),
            _ => return None,
        };
        let refused = |option: &String| {
            let name = option.split('=').next().unwrap_or(option);
            REFUSED.contains(&name)
        };
        (options[0].starts_with('-') && !options.iter().any(refused))
            .then_some(Noise::StressNg(options))
    }

    fn hint(_: &str) -> String {
        format!(
            "`none`, `spin`, or `stress-ng` and its options, without {}",
            REFUSED.join(", ")
        )
    }
}

impl fmt::Display for Noise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Noise::None => f.write_str("none"),
            Noise::Spin => f.write_str("spin"),
            Noise::StressNg(options) => write!(f, "stress-ng {}", options.join(" ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noises_read_back_as_written() {
        for text in [
            "none",
            "spin",
            "stress-ng --cpu 1",
            "stress-ng --vm 1 --vm-bytes 64M",
        ] {
            assert_eq!(Noise::from_text(text).unwrap().to_string(), text);
        }
        let short = Noise::from_text("stress-ng").unwrap();
        assert_eq!(short.to_string(), "stress-ng --cpu 1");
    }

    #[test]
    fn options_that_outlive_the_measurement_are_refused() {
        for text in [
            "",
            "hackbench",
            "spin 3",
            "stress-ng cpu",
            "stress-ng --cpu 1 --timeout=9",
        ] {
            assert_eq!(Noise::from_text(text), None, "{text}");
        }
    }
}
