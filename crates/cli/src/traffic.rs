//! `latlab traffic`: which nodes of a lab exchange how much over its overlay, and in which topology.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use latlab_host::dirs::Dirs;
use latlab_host::lab;
use latlab_model::plan::{EndpointPlan, LinkPlan, Medium, Plan};
use latlab_model::spec::Mac;
use latlab_model::traffic::{Component, Graph, PRUNING, Rate};
use serde::Serialize;

use crate::args::Traffic;
use crate::failure::{Failure, Outcome, explain, need_root};
use crate::format::Format;
use crate::overlay::connect;
use crate::print::document;
use crate::table;

/// Frames and bytes of a link from one end to another. An end is a node, or an address that is no node's.
type Counts = BTreeMap<[String; 3], [u64; 2]>;

#[derive(Debug, Serialize)]
struct Row {
    link: String,
    from: String,
    to: String,
    frames_per_second: f64,
    bytes_per_second: f64,
}

#[derive(Debug, Serialize)]
struct Seen {
    lab: String,
    seconds: f64,
    pairs: Vec<Row>,
    topologies: Vec<Component>,
}

pub fn run(args: &Traffic) -> Outcome {
    need_root("traffic", "it asks the lab's overlay daemons")?;
    let dirs = Dirs::from_env();
    let plan = lab::plan_of(&dirs, &args.lab).map_err(explain)?;
    let links = plan.links.iter();
    let links: Vec<Counted<'_>> = links.filter_map(|link| Counted::of(&plan, link)).collect();
    if links.is_empty() {
        let message = format!("lab `{}` has no link of type overlay", args.lab);
        let hint = "frames are counted by the overlay's daemons: give a link `type: overlay`";
        return Err(Failure::new(message, hint));
    }
    let run = dirs.run(&args.lab).join("overlay");
    let count = || -> Result<(Instant, Counts), Failure> {
        let mut counts = Counts::new();
        for link in &links {
            link.add_to(&mut counts, &run)?;
        }
        Ok((Instant::now(), counts))
    };
    let (begin, before) = count()?;
    std::thread::sleep(Duration::from_nanos(args.time.0));
    let (end, after) = count()?;
    let seen = seen(&args.lab, &before, &after, (end - begin).as_secs_f64());
    print(&seen, args.format)
}

/// A link of type overlay, with what is needed to read its daemons' counters.
struct Counted<'p> {
    name: &'p str,
    /// Addresses and nodes, in the order of the link's ends.
    ends: Vec<(Mac, &'p str)>,
    /// One for all ends, or one for each.
    daemons: Vec<String>,
}

impl<'p> Counted<'p> {
    fn of(plan: &'p Plan, link: &'p LinkPlan) -> Option<Counted<'p>> {
        let Medium::Overlay(overlay) = &link.medium else {
            return None;
        };
        let end = |end: &EndpointPlan| {
            let node = &plan.nodes[end.node];
            (node.interfaces[end.interface].mac, node.name.as_str())
        };
        let name = link.name.as_str();
        let of_end = |end: usize| format!("{name}.{end}");
        Some(Counted {
            name,
            ends: link.endpoints.iter().map(end).collect(),
            daemons: match overlay.has_hosts() {
                true => (0..link.endpoints.len()).map(of_end).collect(),
                false => vec![name.to_owned()],
            },
        })
    }

    /// Adds what its daemons, below `run`, have counted since they began.
    fn add_to(&self, counts: &mut Counts, run: &Path) -> Result<(), Failure> {
        for (number, daemon) in self.daemons.iter().enumerate() {
            let answer = connect(&run.join(daemon).join("control"))?.say("matrix")?;
            let lines = answer.map_err(|refusal| Failure::new(refusal.message, refusal.hint))?;
            for (source, destination, carried) in lines.iter().filter_map(|line| parse(line)) {
                if self.is_told_by(number, source) {
                    let key = [
                        self.name.to_owned(),
                        self.shown(source),
                        self.shown(destination),
                    ];
                    let sum = counts.entry(key).or_default();
                    *sum = [sum[0] + carried[0], sum[1] + carried[1]];
                }
            }
        }
        Ok(())
    }

    /// Each of several daemons counts what it carries, so a frame between hosts is counted twice: the daemon of its
    /// sender tells, and the first one of a stranger's.
    fn is_told_by(&self, daemon: usize, source: Mac) -> bool {
        let sender = self.ends.iter().position(|(mac, _)| *mac == source);
        self.daemons.len() == 1 || sender.unwrap_or(0) == daemon
    }

    fn shown(&self, mac: Mac) -> String {
        let node = self.ends.iter().find(|(known, _)| *known == mac);
        node.map_or_else(|| mac.to_string(), |(_, node)| (*node).to_owned())
    }
}

/// A line of the daemon's `matrix`: network, source, destination, `frames`, their number, `bytes`, their number.
pub(crate) fn parse(line: &str) -> Option<(Mac, Mac, [u64; 2])> {
    let words: Vec<&str> = line.split(' ').collect();
    let [_, source, destination, "frames", frames, "bytes", bytes] = words[..] else {
        return None;
    };
    let carried = [frames.parse().ok()?, bytes.parse().ok()?];
    Some((Mac::parse(source)?, Mac::parse(destination)?, carried))
}

fn seen(lab: &str, before: &Counts, after: &Counts, seconds: f64) -> Seen {
    let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
    let mut pairs: Vec<Row> = after
        .iter()
        .map(|(key, now)| {
            let then = before.get(key).copied().unwrap_or_default();
            let [link, from, to] = key.clone();
            Row {
                link,
                from,
                to,
                frames_per_second: rate(now[0], then[0]),
                bytes_per_second: rate(now[1], then[1]),
            }
        })
        .collect();
    pairs.retain(|row| row.frames_per_second > 0.0);
    pairs.sort_by(|a, b| b.bytes_per_second.total_cmp(&a.bytes_per_second));
    // Broadcasts and strangers are no part of an application's topology.
    let is_node = |name: &str| Mac::parse(name).is_none();
    let rates: Vec<Rate> = pairs
        .iter()
        .filter(|row| is_node(&row.from) && is_node(&row.to))
        .map(|row| Rate {
            from: row.from.clone(),
            to: row.to.clone(),
            bytes_per_second: row.bytes_per_second,
        })
        .collect();
    Seen {
        lab: lab.to_owned(),
        seconds,
        pairs,
        topologies: Graph::of(&rates, PRUNING).components(),
    }
}

fn print(seen: &Seen, format: Format) -> Outcome {
    if format == Format::Json {
        return document(&(serde_json::to_string_pretty(seen)? + "\n"));
    }
    let rows: Vec<Vec<String>> = seen
        .pairs
        .iter()
        .map(|row| {
            vec![
                row.link.clone(),
                row.from.clone(),
                row.to.clone(),
                format!("{:.1}", row.frames_per_second),
                format!("{:.3}", row.bytes_per_second * 8.0 / 1e6),
            ]
        })
        .collect();
    let header = ["LINK", "FROM", "TO", "FRAMES/S", "MBIT/S"];
    document(&match format {
        Format::Csv => table::csv(&header, &rows),
        _ if rows.is_empty() => format!("no frame within {:.1} s\n", seen.seconds),
        _ => {
            let mut text = table::render(&header, &rows);
            for component in &seen.topologies {
                line!(text, "{component}");
            }
            text
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(from: &str, to: &str) -> [String; 3] {
        ["lan", from, to].map(String::from)
    }

    #[test]
    fn counts_make_rates_and_a_topology_without_strangers() {
        let before = Counts::from([(key("a", "b"), [10, 1000])]);
        let after = Counts::from([
            (key("a", "b"), [30, 5000]),
            (key("b", "a"), [4, 400]),
            (key("a", "ff:ff:ff:ff:ff:ff"), [2, 84]),
            (key("c", "a"), [0, 0]),
        ]);
        let seen = seen("lab", &before, &after, 2.0);
        let shown: Vec<_> = seen
            .pairs
            .iter()
            .map(|row| (row.from.as_str(), row.to.as_str(), row.bytes_per_second))
            .collect();
        assert_eq!(
            shown,
            [
                ("a", "b", 2000.0),
                ("b", "a", 200.0),
                ("a", "ff:ff:ff:ff:ff:ff", 42.0)
            ]
        );
        let said: Vec<String> = seen.topologies.iter().map(ToString::to_string).collect();
        assert_eq!(said, ["a pair: a, b"]);
    }

    #[test]
    fn lines_of_the_matrix_are_read() {
        let line = "lan 02:00:00:00:00:01 02:00:00:00:00:02 frames 3 bytes 300";
        assert_eq!(parse(line).unwrap().2, [3, 300]);
        for other in ["others frames 3 bytes 300", "lan x y frames 1 bytes 2", ""] {
            assert_eq!(parse(other), None);
        }
    }
}
