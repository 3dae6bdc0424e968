//! Figures in the output of a program.

use latlab_model::spec::{Extract, Metric};
use serde_json::Value;

/// The number that a metric names. The error says what was not found.
pub(super) fn of_metric(metric: &Metric, text: &str) -> Result<f64, String> {
    match &metric.by {
        Extract::Regex(regex) => of_regex(regex, text),
        Extract::Json(pointer) => of_json(pointer, text),
    }
}

pub(super) fn of_regex(regex: &str, text: &str) -> Result<f64, String> {
    number(group(regex, text)?)
}

/// The group of the first match.
pub(super) fn group<'t>(regex: &str, text: &'t str) -> Result<&'t str, String> {
    let read = regex_lite::Regex::new(regex).map_err(|error| format!("has /{regex}/: {error}"))?;
    let found = read.captures(text).and_then(|groups| groups.get(1));
    let found = found.ok_or_else(|| format!("wrote nothing that /{regex}/ finds"))?;
    Ok(found.as_str())
}

fn of_json(pointer: &str, text: &str) -> Result<f64, String> {
    let value: Value =
        serde_json::from_str(text).map_err(|error| format!("wrote no JSON ({error})"))?;
    match value.pointer(pointer) {
        None => Err(format!("wrote JSON without `{pointer}`")),
        Some(Value::Number(found)) => number(&found.to_string()),
        Some(Value::String(found)) => number(found),
        Some(_) => Err(format!("wrote JSON in which `{pointer}` is no number")),
    }
}

fn number(text: &str) -> Result<f64, String> {
    let number = text.trim().parse().ok().filter(|n: &f64| n.is_finite());
    number.ok_or_else(|| format!("wrote `{}` instead of a number", text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_the_group_of_the_first_match() {
        let regex = "rate: +([0-9.]+)";
        assert_eq!(of_regex(regex, "rate: 1.5\nrate: 2\n"), Ok(1.5));
        let missing = of_regex(regex, "score: 3\n").unwrap_err();
        assert_eq!(missing, "wrote nothing that /rate: +([0-9.]+)/ finds");
        let word = of_regex("rate: (.*)", "rate: fast\n").unwrap_err();
        assert_eq!(word, "wrote `fast` instead of a number");
        assert!(of_regex("rate: (.*)", "rate: inf\n").is_err());
    }

    #[test]
    fn a_figure_is_at_the_end_of_a_pointer() {
        let text = r#"{"runs": [{"a/b": 7}, {"rate": "2.5"}], "all": [1]}"#;
        assert_eq!(of_json("/runs/0/a~1b", text), Ok(7.0));
        assert_eq!(of_json("/runs/1/rate", text), Ok(2.5));
        for (pointer, what) in [
            ("/runs/2/rate", "without `/runs/2/rate`"),
            ("/all", "`/all` is no number"),
        ] {
            assert!(of_json(pointer, text).unwrap_err().contains(what));
        }
        assert!(
            of_json("", "rate 3")
                .unwrap_err()
                .starts_with("wrote no JSON")
        );
    }
}
