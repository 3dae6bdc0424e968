//! `latency.hlog`: an HdrHistogram interval log with one histogram a trial, tagged `cell#replicate`, as
//! HistogramLogAnalyzer opens it.
//!
//! The report does not use it: its numbers are exact and come from the samples. A histogram keeps three
//! significant digits and cannot hold a negative latency, which counts as 0.

use std::time::Duration;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

use crate::summarise::trials::TrialData;

/// Significant decimal digits of every histogram.
const SIGNIFICANT_DIGITS: u8 = 3;

#[derive(Debug, thiserror::Error)]
#[error("cannot encode the histogram of {tag}: {what}")]
pub struct HlogError {
    tag: String,
    what: String,
}

/// A trial's line of the log: a few kilobytes instead of its samples.
pub(crate) struct Line {
    start: Duration,
    text: Vec<u8>,
}

/// Encodes a trial; `None` when it has no latencies. `run_started` is the log's base time.
pub(crate) fn line(run_started: &str, trial: &TrialData) -> Result<Option<Line>, HlogError> {
    if trial.sorted.is_empty() {
        return Ok(None);
    }
    let tag = tag(&trial.summary.cell, trial.summary.replicate);
    let error = |what: String| HlogError {
        tag: tag.clone(),
        what,
    };
    let base = unix_seconds(run_started).unwrap_or(0.0);
    let start = unix_seconds(&trial.summary.started).map_or(0.0, |at| at - base);
    let start = Duration::from_secs_f64(start.clamp(0.0, 1e12));
    let length = trial.summary.series.last().map_or(0.0, |point| point.0);
    let length = Duration::from_secs_f64(length.clamp(0.0, 1e12));
    let histogram = histogram(&trial.sorted).map_err(error)?;

    let (mut text, mut serializer) = (Vec::new(), V2DeflateSerializer::new());
    IntervalLogWriterBuilder::new()
        .begin_log_with(&mut text, &mut serializer)
        .map_err(|source| error(source.to_string()))?
        .write_histogram(&histogram, start, length, Tag::new(&tag))
        .map_err(|source| error(source.to_string()))?;
    Ok(Some(Line { start, text }))
}

/// The whole log, by time.
pub(crate) fn log(run_started: &str, mut lines: Vec<Line>) -> Vec<u8> {
    lines.sort_by_key(|line| line.start);
    let base = unix_seconds(run_started).unwrap_or(0.0);
    let mut log = format!(
        "#[Histogram log format version 1.3]\n\
         #[Logged with latlab; values in ns, one histogram a trial, tag cell#replicate]\n\
         #[StartTime: {base:.3} (seconds since epoch)]\n\
         #[BaseTime: {base:.3} (seconds since epoch)]\n\
         \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n"
    )
    .into_bytes();
    for line in lines {
        log.extend(line.text);
    }
    log
}

fn histogram(sorted: &[i64]) -> Result<Histogram<u64>, String> {
    let mut histogram = Histogram::new(SIGNIFICANT_DIGITS).map_err(|source| source.to_string())?;
    for equal in sorted.chunk_by(|a, b| a == b) {
        let value = u64::try_from(equal[0]).unwrap_or(0);
        histogram
            .record_n(value, equal.len() as u64)
            .map_err(|source| source.to_string())?;
    }
    Ok(histogram)
}

/// Seconds since 1970-01-01T00:00:00Z; `None` when the text is not a time (RFC 3339).
fn unix_seconds(text: &str) -> Option<f64> {
    let time: jiff::Timestamp = text.parse().ok()?;
    Some(time.as_duration().as_secs_f64())
}

/// A tag ends at a comma and a line at a newline; levels are free text.
fn tag(cell: &str, replicate: u32) -> String {
    let safe = |c: char| {
        if c == ',' || c.is_whitespace() || c.is_control() {
            '_'
        } else {
            c
        }
    };
    format!("{}#{replicate}", cell.chars().map(safe).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_latencies_are_counted_at_zero() {
        let histogram = histogram(&[-5, -5, 7]).unwrap();
        assert_eq!((histogram.len(), histogram.count_at(0)), (3, 2));
    }

    #[test]
    fn tags_survive_any_level() {
        assert_eq!(tag("rr/image=a, b\n", 3), "rr/image=a__b_#3");
    }
}
