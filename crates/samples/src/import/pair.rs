//! Two captures of the same packets, read and matched.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

use latlab_model::results::Check;

use super::capture::{self, Interface, Packet};
use super::error::ImportError;
use super::identity::{By, Layers};
use super::matching::{self, Matched, Seen, WRAP_NS};
use super::source::{MAX_PACKETS, Source};
use crate::run_dir::sha256;

/// Time that a counter of 32 bits may have gone on between two packets.
const WRAP_TOLERANCE_NS: i64 = 1_000_000_000;
/// Queues of a card are written to a file by turns, so that its packets are a little out of order.
const MAX_DISORDER_NS: i64 = 10_000_000;
/// Part of the median latency that a step of the timestamps may be.
const MAX_STEP: f64 = 0.1;
/// Directions that are named at most.
const MAX_NAMED: usize = 100;

/// Two captures whose packets have been matched.
#[derive(Debug)]
pub struct Pair {
    pub sources: [Source; 2],
    pub points: [Point; 2],
    pub matched: Matched,
    /// From where to where the packets go.
    pub directions: Vec<String>,
}

/// One capture.
#[derive(Debug)]
pub struct Point {
    pub seen: Vec<Seen>,
    pub interface: Interface,
    /// SHA-256 of the file.
    pub digest: String,
    /// How often its timestamps go back.
    steps_back: u64,
    /// Directions in words, by their hashes.
    ends: HashMap<u64, String>,
}

impl Pair {
    /// Reads and matches both captures. Both are read twice: packets of one may be cut shorter than those of the other.
    pub fn read(sources: [Source; 2], by: By) -> Result<Pair, ImportError> {
        let mut limit = usize::MAX;
        for source in &sources {
            limit = limit.min(shortest_cut(source, by)?);
        }
        let [before, after] = sources
            .each_ref()
            .map(|source| Point::read(source, by, limit));
        let points = [before?, after?];
        let matched = matching::matched(&points[0].seen, &points[1].seen);
        if matched.samples.is_empty() {
            let [before, after] = sources;
            return Err(match matched.other_way {
                0 => ImportError::NothingInCommon { before, after },
                _ => ImportError::BackToFront { before, after },
            });
        }
        let count = matched.jumps_of_a_cycle();
        if count > 0 {
            let [before, after] = sources;
            return Err(ImportError::CyclesApart {
                before,
                after,
                count,
            });
        }
        let named = matched
            .ends
            .iter()
            .filter_map(|ends| points[0].ends.get(ends));
        let mut directions: Vec<String> = named.cloned().collect();
        directions.sort();
        Ok(Pair {
            sources,
            points,
            matched,
            directions,
        })
    }

    /// The times of the first and of the last packet before the device, RFC 3339, by the capture's clock.
    pub fn span(&self) -> (String, String) {
        let seen = &self.points[0].seen;
        let text = |seen: Option<&Seen>| {
            let time = seen.map_or(0, |seen| seen.time_ns);
            let time = jiff::Timestamp::from_nanosecond(time.into()).unwrap_or_default();
            time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
        };
        (text(seen.first()), text(seen.last()))
    }

    /// Packets that are not in the result, with the reason; one line each.
    pub fn left_out(&self) -> Vec<String> {
        let found = &self.matched;
        let reasons = [
            (found.other_way, "went the other way"),
            (
                found.elsewhere,
                "are of directions of which none is at both points",
            ),
            (found.outside, "are from before or after the other capture"),
            (
                found.alike,
                "are equal to others, and not as many at both points",
            ),
        ];
        let some = reasons.iter().filter(|(count, _)| *count > 0);
        some.map(|(count, reason)| format!("{count} packets {reason}"))
            .collect()
    }

    pub fn checks(&self) -> Vec<Check> {
        let check = |name: &str, question: &str, value: f64, limit: f64, unit: &str| Check {
            name: name.to_owned(),
            question: question.to_owned(),
            value,
            limit,
            unit: unit.to_owned(),
            passed: value <= limit,
            consumers: Vec::new(),
        };
        let steps: u64 = self.points.iter().map(|point| point.steps_back).sum();
        let mut latencies = self.matched.latencies();
        let negative = latencies.iter().filter(|ns| **ns < 0).count();
        latencies.sort_unstable();
        let median = latencies[latencies.len() / 2].max(1);
        let step = self.points.iter().map(|point| point.interface.step_ns());
        let step = step.max().unwrap_or(1) as f64 / median as f64;
        vec![
            check(
                "clock-steps",
                "Do timestamps go back within a capture?",
                steps as f64,
                0.0,
                "times",
            ),
            check(
                "causality",
                "Are packets at the second point before they are at the first?",
                negative as f64,
                0.0,
                "packets",
            ),
            check(
                "timestamps",
                "How large is a step of the timestamps, beside the median?",
                step,
                MAX_STEP,
                "of the median",
            ),
        ]
    }
}

impl Point {
    fn read(source: &Source, by: By, limit: usize) -> Result<Point, ImportError> {
        let (mut seen, mut ends) = (Vec::new(), HashMap::new());
        let (mut last, mut steps_back, mut wraps) = (i64::MIN, 0, 0);
        let interface = capture::read(source, &mut |packet| {
            if seen.len() == MAX_PACKETS {
                let path = source.path.clone();
                return Err(ImportError::TooMany { path });
            }
            let layers = layers(source, packet)?;
            let back = last.saturating_sub(packet.time_ns);
            if (WRAP_NS - WRAP_TOLERANCE_NS..=WRAP_NS).contains(&back) {
                wraps += 1;
            } else if back > MAX_DISORDER_NS && last != i64::MIN {
                steps_back += 1;
            }
            last = packet.time_ns;
            let direction = layers.ends();
            if ends.len() < MAX_NAMED {
                ends.entry(direction).or_insert_with(|| layers.ends_text());
            }
            seen.push(Seen {
                time_ns: packet.time_ns,
                key: layers.key(by, limit),
                ends: direction,
            });
            Ok(())
        })?;
        if wraps > 0 {
            return Err(ImportError::Wraps {
                path: source.path.clone(),
                count: wraps,
            });
        }
        seen.sort_by_key(|one| one.time_ns);
        Ok(Point {
            seen,
            interface,
            digest: digest(&source.path)?,
            steps_back,
            ends,
        })
    }
}

/// Bytes that were kept of the shortest packet that is not whole; without one, all that there can be.
fn shortest_cut(source: &Source, by: By) -> Result<usize, ImportError> {
    let mut shortest = usize::MAX;
    capture::read(source, &mut |packet| {
        let layers = layers(source, packet)?;
        if packet.is_cut() {
            shortest = shortest.min(layers.kept(by));
        }
        Ok(())
    })?;
    Ok(shortest)
}

fn layers<'a>(source: &Source, packet: &Packet<'a>) -> Result<Layers<'a>, ImportError> {
    Layers::of(packet).ok_or_else(|| ImportError::LinkType {
        path: source.path.clone(),
        number: packet.link.0,
    })
}

fn digest(path: &Path) -> Result<String, ImportError> {
    let failed = |cause| ImportError::Open {
        path: path.to_owned(),
        cause,
    };
    let mut file = File::open(path).map_err(failed)?;
    sha256(&mut file).map_err(failed)
}
