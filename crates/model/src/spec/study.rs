//! `study.yaml` as written: a lab, factors over its fields, measurements, replicates and a seed.
//!
//! Factors are set in the lab's *tree*, before it is read, so any field of a lab can be one, and a
//! combination that makes no sense is refused with the same messages as a lab written by hand.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::lab::{Lab, check_name};
use super::reader::{Object, read, words};
use super::yaml::{Value, Yaml};
use crate::diagnostic::{Diagnostics, Mark, Spanned, hint_one_of};
use crate::units::{BitsPerSecond, Bytes, Nanos};

/// A study, as written.
#[derive(Debug, Clone, PartialEq)]
pub struct Study {
    /// Its name.
    pub name: Spanned<String>,
    /// Its own words about itself.
    pub description: Option<String>,
    /// The lab.
    pub lab: LabSource,
    /// Factors, in order.
    pub factors: Vec<FactorSpec>,
    /// What is measured in every combination.
    pub measurements: Vec<Measurement>,
    /// Trials of each cell.
    pub replicates: u32,
    /// Seed of the order and of every random choice.
    pub seed: u64,
    /// Levels against which the others are compared.
    pub baseline: BTreeMap<String, String>,
}

/// Where the lab comes from.
#[derive(Debug, Clone, PartialEq)]
pub enum LabSource {
    /// `lab: FILE`, relative to the study.
    File(Spanned<String>),
    /// `lab: {name: …, topology: …}`.
    Inline(Yaml),
}

/// A factor: fields of the lab and the values that they take together.
#[derive(Debug, Clone, PartialEq)]
pub struct FactorSpec {
    /// Its name.
    pub name: Spanned<String>,
    /// Fields that it sets, each a path such as `topology.nodes.server.kind`.
    pub paths: Vec<Spanned<String>>,
    /// Its levels.
    pub levels: Vec<Level>,
}

/// One level of a factor.
#[derive(Debug, Clone, PartialEq)]
pub struct Level {
    /// As shown.
    pub label: String,
    /// As set.
    pub value: Yaml,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Probe {
    /// Request/response, one transaction in flight.
    Rr,
    /// Open-loop packets at a fixed rate, timed one way from their intended send time.
    Packets,
    /// Bulk transfer by iperf3.
    Stream,
}
words!(Probe, "a probe", { "rr" => Rr, "packets" => Packets, "stream" => Stream });

/// Transport of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// ICMP echo.
    Icmp,
}
words!(Protocol, "a protocol", { "tcp" => Tcp, "udp" => Udp, "icmp" => Icmp });

/// One end of a measurement: a node, and optionally which of its interfaces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Node.
    pub node: String,
    /// Interface; the first link that joins both nodes otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
}

/// A measurement, as written, with its defaults.
#[derive(Debug, Clone, PartialEq)]
pub struct Measurement {
    /// Its name.
    pub name: Spanned<String>,
    /// What is measured.
    pub probe: Probe,
    /// Transport.
    pub protocol: Protocol,
    /// Sender.
    pub from: Spanned<Target>,
    /// Receiver.
    pub to: Spanned<Target>,
    /// Measured time.
    pub duration: Nanos,
    /// Time before it that is not recorded.
    pub warmup: Nanos,
    /// Packets per second (`packets`).
    pub rate: u64,
    /// Bytes of an Ethernet frame, FCS included (`packets`), or of the message (`stream` over UDP).
    pub size: u32,
    /// Request and response bytes (`rr`); Felter 2014 used 100 and 200.
    pub request: u32,
    /// See `request`.
    pub response: u32,
    /// Offered rate of a UDP stream; unlimited for TCP.
    pub bitrate: Option<BitsPerSecond>,
    /// IP version: 4 or 6.
    pub ip: u32,
}

/// One combination of factor levels.
#[derive(Debug, Clone, PartialEq)]
pub struct Combination {
    /// Level of each factor, in the study's order: (factor, label).
    pub levels: Vec<(String, String)>,
    /// The lab that it makes.
    pub lab: Lab,
}

/// Most cells × replicates of one study: beyond, it is surely a mistake.
const MAX_TRIALS: usize = 100_000;

impl Study {
    /// Reads a study from its text.
    ///
    /// # Errors
    /// All mistakes of the study itself; those of the lab come from [`Study::combinations`].
    pub fn parse(text: &str) -> Result<Study, Diagnostics> {
        let yaml = Yaml::parse(text)?;
        let mut errors = Diagnostics::default();
        let mut o = Object::new(&yaml, "the study", &mut errors);
        let name = match o.require("name", &mut errors) {
            Some(y) => read::<String>(y, "`name` of the study", &mut errors),
            None => None,
        };
        let name = name.unwrap_or(Spanned::new("unnamed".into(), yaml.at));
        check_name("study", &name, &mut errors);
        let lab = read_lab_source(o.require("lab", &mut errors), yaml.at);
        let factors = o
            .take("factors")
            .map(|y| read_factors(y, &mut errors))
            .unwrap_or_default();
        let measurements = read_measurements(o.require("measurements", &mut errors), &mut errors);
        let replicates = o.get::<u32>("replicates", &mut errors);
        if let Some(r) = replicates
            .as_ref()
            .filter(|r| r.value == 0 || r.value > 1000)
        {
            errors.add(
                r.at,
                "`replicates` must be between 1 and 1000",
                "5 gives intervals; 10 good ones",
            );
        }
        let baseline = o
            .take("baseline")
            .map(|y| read_baseline(y, &factors, &mut errors));
        let study = Study {
            name,
            description: o.get::<String>("description", &mut errors).map(|s| s.value),
            lab,
            measurements,
            replicates: replicates.map_or(5, |r| r.value),
            seed: o.get::<u64>("seed", &mut errors).map_or(1, |s| s.value),
            baseline: baseline.unwrap_or_else(|| default_baseline(&factors)),
            factors,
        };
        o.finish(&mut errors);
        study.check_size(&mut errors);
        errors.into_result(study)
    }

    fn check_size(&self, errors: &mut Diagnostics) {
        let cells = self
            .factors
            .iter()
            .map(|f| f.levels.len())
            .try_fold(1usize, usize::checked_mul);
        let trials = cells
            .and_then(|c| c.checked_mul(self.measurements.len().max(1)))
            .and_then(|c| c.checked_mul(self.replicates as usize));
        if trials.is_none_or(|t| t > MAX_TRIALS) {
            let message = format!("the study asks for more than {MAX_TRIALS} trials");
            errors.add(
                self.name.at,
                message,
                "drop factors or levels: the levels multiply",
            );
        }
    }

    /// The labs of every combination of levels, the first factor varying slowest.
    ///
    /// `lab` is the tree of the study's lab.
    ///
    /// # Errors
    /// A path that does not exist, or a combination that is not a correct lab; mistakes inside the
    /// lab carry the lab's own places.
    pub fn combinations(&self, lab: &Yaml) -> Result<Vec<Combination>, Diagnostics> {
        let mut done = vec![(Vec::new(), lab.clone())];
        for factor in &self.factors {
            let mut next = Vec::new();
            for (levels, tree) in &done {
                for level in &factor.levels {
                    let mut tree = tree.clone();
                    for path in &factor.paths {
                        set_path(&mut tree, path, &level.value)?;
                    }
                    let mut levels = levels.clone();
                    levels.push((factor.name.value.clone(), level.label.clone()));
                    next.push((levels, tree));
                }
            }
            done = next;
        }
        done.into_iter()
            .map(|(levels, tree)| {
                Ok(Combination {
                    levels,
                    lab: Lab::read(&tree)?,
                })
            })
            .collect()
    }

    /// Checks the ends of every measurement against a lab's nodes.
    ///
    /// # Errors
    /// A node or interface that the lab does not have.
    pub fn check_targets(&self, lab: &Lab) -> Result<(), Diagnostics> {
        let mut errors = Diagnostics::default();
        let names: Vec<&str> = lab.nodes.iter().map(|n| n.name.value.as_str()).collect();
        for m in &self.measurements {
            for (key, end) in [("from", &m.from), ("to", &m.to)] {
                if !names.contains(&end.node.as_str()) {
                    let message = format!(
                        "`{key}` of measurement `{}` names node `{}`, which the lab does not have",
                        *m.name, end.node
                    );
                    errors.add(end.at, message, hint_one_of(&end.node, &names));
                }
            }
            if m.from.node == m.to.node {
                let message = format!(
                    "measurement `{}` goes from `{1}` to `{1}`",
                    *m.name, m.to.node
                );
                errors.add(m.to.at, message, "name two different nodes");
            }
        }
        errors.into_result(())
    }
}

fn set_path(tree: &mut Yaml, path: &Spanned<String>, value: &Yaml) -> Result<(), Diagnostics> {
    // `links[0].type` and `links.0.type` mean the same.
    let dotted = path.replace('[', ".").replace(']', "");
    let steps: Vec<&str> = dotted.split('.').filter(|s| !s.is_empty()).collect();
    tree.set(&steps, value).map_err(|why| {
        let mut errors = Diagnostics::default();
        let message = format!("factor path `{}` does not fit the lab: {why}", **path);
        errors.add(
            path.at,
            message,
            "for example `topology.nodes.server.kind` or `topology.links.0.type`",
        );
        errors
    })
}

fn read_lab_source(yaml: Option<&Yaml>, at: Mark) -> LabSource {
    match yaml {
        Some(y) => match y.scalar() {
            Some(path) => LabSource::File(Spanned::new(path.to_string(), y.at)),
            None => LabSource::Inline(y.clone()),
        },
        None => LabSource::File(Spanned::new(String::new(), at)),
    }
}

/// `PATH: [levels]`, or `NAME: {path: PATH | paths: […], levels: […]}`.
fn read_factors(yaml: &Yaml, errors: &mut Diagnostics) -> Vec<FactorSpec> {
    let all = Object::new(yaml, "`factors`", errors);
    let mut factors: Vec<FactorSpec> = Vec::new();
    for (key, yaml) in all.entries() {
        let factor = match &yaml.value {
            Value::Seq(levels) => {
                let name = key.rsplit('.').next().unwrap_or(&key).to_string();
                let path = Spanned::new(key.value.to_string(), key.at);
                FactorSpec {
                    name: Spanned::new(name, key.at),
                    paths: vec![path],
                    levels: labels(levels),
                }
            }
            _ => {
                let mut o = Object::new(yaml, format!("factor `{}`", *key), errors);
                let mut paths = o.list::<String>("path", errors);
                paths.extend(o.list::<String>("paths", errors));
                let levels = match o.require("levels", errors).map(|y| &y.value) {
                    Some(Value::Seq(items)) => labels(items),
                    _ => Vec::new(),
                };
                if paths.is_empty() {
                    let hint = "add `path: topology.nodes.NAME.kind` or another field of the lab";
                    errors.add(key.at, format!("factor `{}` sets no field", *key), hint);
                }
                o.finish(errors);
                FactorSpec {
                    name: Spanned::new(key.value.to_string(), key.at),
                    paths,
                    levels,
                }
            }
        };
        check_levels(&factor, errors);
        if factors.iter().any(|f| f.name.value == factor.name.value) {
            let message = format!("two factors are named `{}`", *factor.name);
            errors.add(
                factor.name.at,
                message,
                "use the form `NAME: {path: …, levels: […]}`",
            );
        }
        factors.push(factor);
    }
    factors
}

fn labels(items: &[Yaml]) -> Vec<Level> {
    items
        .iter()
        .map(|y| Level {
            label: y.compact(),
            value: y.clone(),
        })
        .collect()
}

fn check_levels(factor: &FactorSpec, errors: &mut Diagnostics) {
    if factor.levels.is_empty() {
        let message = format!("factor `{}` has no levels", *factor.name);
        errors.add(
            factor.name.at,
            message,
            "list its values, for example `[native, container, vm]`",
        );
    }
    for (i, level) in factor.levels.iter().enumerate() {
        if factor.levels[..i].iter().any(|l| l.label == level.label) {
            let message = format!(
                "factor `{}` has the level `{}` twice",
                *factor.name, level.label
            );
            errors.add(level.value.at, message, "remove one");
        }
    }
}

fn read_baseline(
    yaml: &Yaml,
    factors: &[FactorSpec],
    errors: &mut Diagnostics,
) -> BTreeMap<String, String> {
    let mut baseline = BTreeMap::new();
    for (name, value) in Object::new(yaml, "`baseline`", errors).entries() {
        let Some(factor) = factors.iter().find(|f| f.name.value == *name) else {
            let names: Vec<&str> = factors.iter().map(|f| f.name.value.as_str()).collect();
            let message = format!("`baseline` names `{}`, which is not a factor", *name);
            errors.add(name.at, message, hint_one_of(&name, &names));
            continue;
        };
        let label = value.compact();
        let labels: Vec<&str> = factor.levels.iter().map(|l| l.label.as_str()).collect();
        if !labels.contains(&label.as_str()) {
            let message = format!("`{label}` is not a level of factor `{}`", *name);
            errors.add(value.at, message, hint_one_of(&label, &labels));
        }
        baseline.insert(name.value.to_string(), label);
    }
    baseline
}

/// The first level of the first factor: what people list first is what they compare against.
fn default_baseline(factors: &[FactorSpec]) -> BTreeMap<String, String> {
    let first = factors
        .first()
        .and_then(|f| Some((f.name.value.clone(), f.levels.first()?.label.clone())));
    first.into_iter().collect()
}

fn read_measurements(yaml: Option<&Yaml>, errors: &mut Diagnostics) -> Vec<Measurement> {
    let Some(yaml) = yaml else { return Vec::new() };
    let Value::Seq(items) = &yaml.value else {
        errors.add(
            yaml.at,
            "`measurements` must be a list",
            "begin each with `- `",
        );
        return Vec::new();
    };
    let mut all: Vec<Measurement> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let Some(m) = read_measurement(item, index, errors) else {
            continue;
        };
        if all.iter().any(|other| other.name.value == m.name.value) {
            let message = format!("two measurements are named `{}`", *m.name);
            errors.add(m.name.at, message, "give each its own `name:`");
        }
        all.push(m);
    }
    all
}

fn read_measurement(yaml: &Yaml, index: usize, errors: &mut Diagnostics) -> Option<Measurement> {
    let mut o = Object::new(yaml, format!("measurement {index}"), errors);
    let probe = o
        .require("probe", errors)
        .and_then(|y| read::<Probe>(y, "`probe`", errors));
    let protocol = o.get::<Protocol>("protocol", errors);
    let name = o.get::<String>("name", errors);
    if let Some(n) = &name {
        o.what = format!("measurement `{}`", **n);
        check_name("measurement", n, errors);
    }
    let from = o
        .require("from", errors)
        .and_then(|y| read_target(y, &o.what, errors));
    let to = o
        .require("to", errors)
        .and_then(|y| read_target(y, &o.what, errors));
    let duration = o
        .get::<Nanos>("duration", errors)
        .map_or(Nanos(2_000_000_000), |s| s.value);
    let warmup = o
        .get::<Nanos>("warmup", errors)
        .map_or(Nanos(200_000_000), |s| s.value);
    let rate = o.get::<u64>("rate", errors);
    let size = o.get::<Bytes>("size", errors);
    let request = o
        .get::<Bytes>("request", errors)
        .map_or(100, |s| s.value.0 as u32);
    let response = o
        .get::<Bytes>("response", errors)
        .map_or(200, |s| s.value.0 as u32);
    let bitrate = o.get::<BitsPerSecond>("bitrate", errors).map(|s| s.value);
    let ip = o.get::<u32>("ip", errors);
    check_numbers(
        &o,
        duration,
        rate.as_ref(),
        size.as_ref(),
        ip.as_ref(),
        errors,
    );
    let at = o.at;
    o.finish(errors);
    let probe = probe?;
    let protocol_value = protocol
        .as_ref()
        .map(|p| p.value)
        .unwrap_or(match probe.value {
            Probe::Stream => Protocol::Tcp,
            Probe::Rr | Probe::Packets => Protocol::Udp,
        });
    let fits = match probe.value {
        Probe::Rr => true,
        Probe::Packets => protocol_value == Protocol::Udp,
        Probe::Stream => protocol_value != Protocol::Icmp,
    };
    if let Some(p) = protocol.filter(|_| !fits) {
        let message = format!("probe `{}` cannot use {}", probe.value, p.value);
        errors.add(
            p.at,
            message,
            "packets: udp; stream: tcp or udp; rr: tcp, udp or icmp",
        );
    }
    let named = format!("{}-{protocol_value}", probe.value);
    Some(Measurement {
        name: name.unwrap_or(Spanned::new(named, at)),
        probe: probe.value,
        protocol: protocol_value,
        from: from?,
        to: to?,
        duration,
        warmup,
        rate: rate.map_or(10_000, |s| s.value),
        size: size.map_or(
            if probe.value == Probe::Packets {
                64
            } else {
                1472
            },
            |s| s.value.0 as u32,
        ),
        request,
        response,
        bitrate,
        ip: ip.map_or(4, |s| s.value),
    })
}

fn check_numbers(
    o: &Object<'_>,
    duration: Nanos,
    rate: Option<&Spanned<u64>>,
    size: Option<&Spanned<Bytes>>,
    ip: Option<&Spanned<u32>>,
    errors: &mut Diagnostics,
) {
    if duration.0 < 1_000_000 || duration.0 > 3_600_000_000_000 {
        let message = format!("`duration` of {} must be between 1ms and 1h", o.what);
        errors.add(o.at, message, "2s gives p99.9 of a fast path");
    }
    if let Some(r) = rate.filter(|r| r.value == 0 || r.value > 100_000_000) {
        let message = format!(
            "`rate` of {} must be 1 to 100000000 packets per second",
            o.what
        );
        errors.add(r.at, message, "for example `rate: 10000`");
    }
    if let Some(s) = size.filter(|s| !(64..=65_535).contains(&s.value.0)) {
        let message = format!("`size` of {} must be 64 to 65535 bytes", o.what);
        errors.add(s.at, message, "64 is the smallest Ethernet frame");
    }
    if let Some(v) = ip.filter(|v| v.value != 4 && v.value != 6) {
        errors.add(
            v.at,
            format!("`ip` of {} must be 4 or 6", o.what),
            "for example `ip: 6`",
        );
    }
}

fn read_target(yaml: &Yaml, what: &str, errors: &mut Diagnostics) -> Option<Spanned<Target>> {
    let text = read::<String>(yaml, &format!("an end of {what}"), errors)?;
    let target = match text.split_once(':') {
        Some((node, interface)) => Target {
            node: node.to_string(),
            interface: Some(interface.to_string()),
        },
        None => Target {
            node: text.value.clone(),
            interface: None,
        },
    };
    Some(Spanned::new(target, text.at))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STUDY: &str = "
name: s
lab: {name: pair, topology: {nodes: {a: {kind: native}, b: {kind: native}}, links: [{endpoints: ['a:eth0', 'b:eth0']}]}}
factors:
  topology.nodes.b.kind: [native, container]
  link: {path: 'topology.links[0].type', levels: [veth, bridge, nat]}
measurements:
  - {probe: rr, protocol: tcp, from: a, to: b, duration: 1s}
replicates: 3
";

    #[test]
    fn levels_multiply_and_reach_any_field() {
        let study = Study::parse(STUDY).unwrap();
        assert_eq!(
            study.baseline.get("kind").map(String::as_str),
            Some("native")
        );
        let LabSource::Inline(lab) = &study.lab else {
            panic!()
        };
        let all = study.combinations(lab).unwrap();
        assert_eq!(all.len(), 6);
        assert_eq!(
            all[5].levels,
            [
                ("kind".into(), "container".into()),
                ("link".into(), "nat".into())
            ]
        );
        assert_eq!(all[5].lab.links[0].kind.value, super::super::LinkKind::Nat);
    }

    #[test]
    fn a_level_that_makes_no_lab_is_refused() {
        let study = Study::parse(&STUDY.replace("[native, container]", "[native, pod]")).unwrap();
        let LabSource::Inline(lab) = &study.lab else {
            panic!()
        };
        let errors = study.combinations(lab).unwrap_err().render("s");
        assert!(errors.contains("not `pod`"), "{errors}");
    }

    #[test]
    fn wrong_ends_and_baselines_are_refused() {
        let errors = Study::parse(&(STUDY.to_string() + "baseline: {knid: x}\n")).unwrap_err();
        assert!(errors.render("s").contains("did you mean `kind`?"));
        let study = Study::parse(&STUDY.replace("to: b", "to: bb")).unwrap();
        let LabSource::Inline(lab) = &study.lab else {
            panic!()
        };
        let lab = Lab::read(lab).unwrap();
        assert!(
            study
                .check_targets(&lab)
                .unwrap_err()
                .render("s")
                .contains("node `bb`")
        );
    }
}
