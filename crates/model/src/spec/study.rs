//! `study.yaml` as written: a lab, factors over its fields, measurements, replicates and a seed.
//!
//! Factors are set in the lab's *tree*, before it is read, so any field of a lab can be one, and a
//! combination that makes no sense is refused with the same messages as a lab written by hand.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::lab::Lab;
use super::measurement::{self, Measurement};
use super::name::read_name;
use super::reader::Object;
use super::yaml::{MAX_WEIGHT, Value, Yaml, steps};
use crate::diagnostic::{Diagnostics, Mark, Spanned, hint_one_of, shown};
use crate::paper::name::PaperName;
use crate::profile::fits;

#[derive(Debug, Clone, PartialEq)]
pub struct Study {
    pub name: Spanned<String>,
    pub description: Option<String>,
    pub lab: LabSource,
    pub factors: Vec<FactorSpec>,
    pub measurements: Vec<Measurement>,
    pub replicates: u32,
    /// Most repetitions of a trial that the machine disturbed.
    pub retries: u32,
    pub seed: u64,
    /// Whether its labs are tuned and isolated as they ask; without is the ablation (Daichendt 2022, 6.5).
    pub isolation: bool,
    /// `hosts: {reboot: between-replicates}`: each replicate finds its hosts freshly booted.
    pub reboots: bool,
    /// Levels against which the others are compared.
    pub baseline: BTreeMap<String, String>,
    /// Baselines of a factor whose levels are not all compared with the same: the one for each.
    pub against: Against,
    /// The paper whose study it is: its published figures stand in the report.
    pub paper: Option<PaperName>,
}

/// By factor and level, the level that it is compared with.
pub type Against = BTreeMap<String, BTreeMap<String, String>>;

#[derive(Debug, Clone, PartialEq)]
pub enum LabSource {
    /// `lab: FILE`, relative to the study.
    File(Spanned<String>),
    /// `lab: {name: …, topology: …}`.
    Inline(Yaml),
}

#[derive(Debug, Clone, PartialEq)]
pub struct FactorSpec {
    pub name: Spanned<String>,
    /// Fields that it sets, each a path such as `topology.nodes.server.kind`.
    pub paths: Vec<Spanned<String>>,
    pub levels: Vec<Level>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Level {
    pub label: String,
    pub value: Yaml,
}

/// When a study may have its hosts reboot.
const REBOOTS: &[&str] = &["between-replicates"];

/// Most cells × replicates of one study: beyond, it is surely a mistake.
const MAX_TRIALS: usize = 100_000;
/// Beyond, the machine is not fit for the study, and a run would take many times as long.
pub const MAX_RETRIES: u32 = 10;
/// Most values in all labs of a study together; a lab of 1000 nodes has about 10,000.
const MAX_WORK: usize = 20 * MAX_WEIGHT;

impl Study {
    /// Reads a study from its text. Errors: all mistakes of the study itself; those of the lab come from
    /// [`Study::lab_of`].
    pub fn parse(text: &str) -> Result<Study, Diagnostics> {
        Study::read(&Yaml::parse(text)?)
    }

    pub fn read(yaml: &Yaml) -> Result<Study, Diagnostics> {
        let mut errors = Diagnostics::default();
        let mut o = Object::new(yaml, "the study", &mut errors);
        let name = read_name(&mut o, "study", &mut errors);
        let lab = read_lab_source(o.require("lab", &mut errors), yaml.at);
        let factors = o
            .take("factors")
            .map(|y| read_factors(y, &mut errors))
            .unwrap_or_default();
        let measurements = match o.require("measurements", &mut errors) {
            Some(y) => measurement::read_all(y, &mut errors),
            None => Vec::new(),
        };
        let replicates = o.get::<u32>("replicates", &mut errors);
        if let Some(r) = replicates
            .as_ref()
            .filter(|r| r.value == 0 || r.value > 1000)
        {
            let message = format!("`replicates` of the study is {}", r.value);
            errors.add(
                r.at,
                message,
                "from 1 to 1000; 5 gives intervals, 10 good ones",
            );
        }
        let retries = read_retries(&mut o, &mut errors);
        let (baseline, against) = match o.take("baseline") {
            Some(y) => read_baseline(y, &factors, &mut errors),
            None => (default_baseline(&factors), Against::new()),
        };
        let study = Study {
            name,
            description: o.value("description", &mut errors),
            lab,
            measurements,
            replicates: replicates.map_or(5, |r| r.value),
            retries,
            seed: o.value("seed", &mut errors).unwrap_or(1),
            isolation: true,
            reboots: read_reboots(&mut o, &mut errors),
            baseline,
            against,
            paper: o.value("paper", &mut errors),
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

    /// Every choice of levels, as one index a factor, the first factor varying slowest.
    ///
    /// `lab` is the tree of the study's lab; each choice will copy it. Fails when that would be more than fits in
    /// memory.
    pub fn choices(&self, lab: &Yaml) -> Result<Vec<Vec<usize>>, Diagnostics> {
        let mut choices = vec![Vec::new()];
        for factor in &self.factors {
            let longer = |c: &Vec<usize>| -> Vec<Vec<usize>> {
                let levels = 0..factor.levels.len();
                levels
                    .map(|l| c.iter().copied().chain([l]).collect())
                    .collect()
            };
            choices = choices.iter().flat_map(longer).collect();
        }
        if choices.len().saturating_mul(lab.weight()) > MAX_WORK {
            let message = format!("the study makes {} labs of this size", choices.len());
            let hint = "drop factors or levels: the levels multiply";
            return Err(Diagnostics::one(self.name.at, message, hint));
        }
        Ok(choices)
    }

    /// Level of each factor, in the study's order: (factor, label).
    pub fn levels_of(&self, choice: &[usize]) -> Vec<(String, String)> {
        let chosen = self.factors.iter().zip(choice);
        chosen
            .map(|(f, l)| (f.name.value.clone(), f.levels[*l].label.clone()))
            .collect()
    }

    /// The lab of a choice. Mistakes inside the lab carry the places of the lab or, in what a level sets, those of the
    /// study. Errors: a path that the lab does not have, or a combination that is not a correct lab.
    pub fn lab_of(&self, lab: &Yaml, choice: &[usize]) -> Result<Lab, Diagnostics> {
        self.lab_in(&self.tree_of(lab, choice)?)
    }

    /// The tree of the lab of a choice. Errors: a path that the lab does not have.
    pub fn tree_of(&self, lab: &Yaml, choice: &[usize]) -> Result<Yaml, Diagnostics> {
        let mut errors = Diagnostics::default();
        let mut tree = lab.clone();
        for (factor, level) in self.factors.iter().zip(choice) {
            for path in &factor.paths {
                set_path(&mut tree, path, &factor.levels[*level].value, &mut errors);
            }
        }
        errors.into_result(tree)
    }

    /// The lab in a tree, as the study wants it.
    pub fn lab_in(&self, tree: &Yaml) -> Result<Lab, Diagnostics> {
        let lab = Lab::read(tree)?;
        Ok(if self.isolation {
            lab
        } else {
            lab.without_isolation()
        })
    }

    /// Checks the ends of every measurement against a lab's nodes and interfaces. Errors: a node or interface that the
    /// lab does not have.
    pub fn check_targets(&self, lab: &Lab) -> Result<(), Diagnostics> {
        let mut errors = Diagnostics::default();
        let names: Vec<&str> = lab.nodes.iter().map(|n| n.name.value.as_str()).collect();
        let known: HashSet<&str> = names.iter().copied().collect();
        let mut interfaces: HashMap<&str, Vec<&str>> = HashMap::new();
        for end in lab.links.iter().flat_map(|l| &l.endpoints) {
            let all = interfaces.entry(end.node.as_str()).or_default();
            all.push(&end.interface);
        }
        for m in &self.measurements {
            if let Some(workload) = &m.workload {
                workload.check_nodes(&shown(&m.name), &names, &mut errors);
            }
            let ends = m.ends.iter();
            for (key, end) in ends.flat_map(|ends| [("from", &ends.from), ("to", &ends.to)]) {
                if errors.is_full() {
                    break;
                }
                let (node, name) = (shown(&end.node), shown(&m.name));
                let Some(interface) = &end.interface else {
                    if !known.contains(end.node.as_str()) {
                        let message = format!(
                            "`{key}` of measurement `{name}` names node `{node}`, which the lab does not have"
                        );
                        errors.add(end.at, message, hint_one_of(&end.node, &names));
                    }
                    continue;
                };
                let there = interfaces
                    .get(end.node.as_str())
                    .map_or(&[][..], Vec::as_slice);
                if !there.contains(&interface.as_str()) {
                    let interface_shown = shown(interface);
                    let message = format!(
                        "`{key}` of measurement `{name}` names interface `{interface_shown}` of node `{node}`, which the lab does not have"
                    );
                    errors.add(end.at, message, hint_one_of(interface, there));
                }
            }
        }
        errors.into_result(())
    }
}

/// Sets the field at `path`. Fields may be new, nodes may not: a misspelt one would be made.
fn set_path(tree: &mut Yaml, path: &Spanned<String>, value: &Yaml, errors: &mut Diagnostics) {
    let steps = steps(path);
    let full = shown(path);
    if let ["topology", "nodes", node, ..] = steps[..] {
        let nodes = tree.get("topology").and_then(|t| t.get("nodes"));
        if let Some(Value::Map(nodes)) = nodes.map(|n| &n.value) {
            let names: Vec<&str> = nodes.iter().filter_map(|(k, _)| k.scalar()).collect();
            if !names.contains(&node) {
                let message = format!(
                    "factor path `{full}`: the lab has no node `{}`",
                    shown(node)
                );
                errors.add(path.at, message, hint_one_of(node, &names));
                return;
            }
        }
    }
    if let Err(why) = tree.set(&steps, value, path.at) {
        let message = format!("factor path `{full}` does not fit the lab: {why}");
        let hint = "for example `topology.nodes.server.kind` or `topology.links.0.type`";
        errors.add(path.at, message, hint);
    }
}

fn read_reboots(o: &mut Object<'_>, errors: &mut Diagnostics) -> bool {
    let Some(mut hosts) = o.object("hosts", errors) else {
        return false;
    };
    let reboot = hosts.get::<String>("reboot", errors);
    hosts.finish(errors);
    let Some(when) = reboot else {
        return false;
    };
    if !REBOOTS.contains(&when.as_str()) {
        let message = format!("`{}` is no time to reboot hosts", shown(&when));
        errors.add(when.at, message, hint_one_of(&when, REBOOTS));
    }
    true
}

fn read_retries(o: &mut Object<'_>, errors: &mut Diagnostics) -> u32 {
    let Some(retries) = o.get::<u32>("retries", errors) else {
        return 0;
    };
    if retries.value > MAX_RETRIES {
        let message = format!("`retries` of the study is {}", retries.value);
        let hint = format!("from 0 to {MAX_RETRIES}; a machine that is never quiet stays so");
        errors.add(retries.at, message, hint);
    }
    retries.value
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
    let mut names: HashMap<String, Mark> = HashMap::new();
    let mut paths: HashMap<Vec<String>, String> = HashMap::new();
    for (key, yaml) in all.entries() {
        let factor = match &yaml.value {
            Value::Seq(levels) => FactorSpec {
                name: Spanned::new(short_name(&key), key.at),
                paths: vec![Spanned::new(key.value.to_string(), key.at)],
                levels: read_levels(levels, key, errors),
            },
            _ => read_long_factor(key, yaml, errors),
        };
        check_levels(&factor, errors);
        let name = &factor.name;
        if let Some(first) = names.insert(name.value.clone(), name.at) {
            let name_shown = shown(name);
            let message = format!(
                "two factors are named `{name_shown}`; the first is on line {}",
                first.line
            );
            errors.add(
                name.at,
                message,
                "name them yourself: `NAME: {path: …, levels: […]}`",
            );
        }
        for path in &factor.paths {
            let steps: Vec<String> = steps(path).into_iter().map(str::to_string).collect();
            let inside = paths
                .iter()
                .find(|(other, _)| other.len() > steps.len() && other.starts_with(&steps));
            if let Some((_, other)) = inside {
                let message = format!(
                    "factor `{}` sets `{}`, and so what factor `{other}` sets in it",
                    shown(name),
                    shown(path)
                );
                errors.add(
                    path.at,
                    message,
                    "later factors win: write the one of the whole first",
                );
            }
            if let Some(other) = paths.insert(steps, shown(name)) {
                let path_shown = shown(path);
                let message = if other == shown(name) {
                    format!("factor `{other}` sets `{path_shown}` twice")
                } else {
                    format!(
                        "factor `{}` sets `{path_shown}`, as `{other}` does",
                        shown(name)
                    )
                };
                errors.add(path.at, message, "a field can follow one factor only");
            }
        }
        factors.push(factor);
    }
    factors
}

/// The last step of a path that is a word, for people: `kind` of `topology.nodes.server.kind`.
fn short_name(path: &str) -> String {
    let last = steps(path)
        .into_iter()
        .rev()
        .find(|s| s.parse::<usize>().is_err());
    last.unwrap_or(path).to_string()
}

fn read_long_factor(key: Spanned<&str>, yaml: &Yaml, errors: &mut Diagnostics) -> FactorSpec {
    let mut o = Object::new(yaml, format!("factor `{}`", shown(&key)), errors);
    let mut paths = o.list::<String>("path", errors);
    paths.extend(o.list::<String>("paths", errors));
    let levels = match o.require("levels", errors).map(|y| (&y.value, y.at)) {
        Some((Value::Seq(items), _)) => read_levels(items, key, errors),
        Some((Value::Map(entries), _)) if !entries.is_empty() => read_named_levels(&mut o, errors),
        Some((Value::Map(_), _)) => read_levels(&[], key, errors),
        Some((_, at)) => {
            let message = format!("`levels` of {} must be a list", o.what);
            errors.add(at, message, "for example `[native, container, vm]`");
            Vec::new()
        }
        None => Vec::new(),
    };
    if paths.is_empty() && o.is_mapping() {
        let hint = "add `path: topology.nodes.NAME.kind` or another field of the lab";
        errors.add(key.at, format!("{} sets no field of the lab", o.what), hint);
    }
    o.finish(errors);
    FactorSpec {
        name: Spanned::new(key.value.to_string(), key.at),
        paths,
        levels,
    }
}

/// `levels: {NAME: value}`: names for values that are long.
fn read_named_levels(o: &mut Object<'_>, errors: &mut Diagnostics) -> Vec<Level> {
    let named = o.object("levels", errors);
    let level = |(name, value): (Spanned<&str>, &Yaml)| Level {
        label: name.value.to_string(),
        value: value.clone(),
    };
    named.iter().flat_map(Object::entries).map(level).collect()
}

fn read_levels(items: &[Yaml], name: Spanned<&str>, errors: &mut Diagnostics) -> Vec<Level> {
    if items.is_empty() {
        let hint = "list its values, for example `[native, container, vm]`";
        let message = format!("factor `{}` has no levels", shown(&name));
        errors.add(name.at, message, hint);
    }
    let level = |y: &Yaml| Level {
        label: y.compact(),
        value: y.clone(),
    };
    items.iter().map(level).collect()
}

fn check_levels(factor: &FactorSpec, errors: &mut Diagnostics) {
    let name = shown(&factor.name);
    let mut first: HashMap<&str, Mark> = HashMap::new();
    for level in &factor.levels {
        if let Some(first) = first.insert(&level.label, level.value.at) {
            let message = format!(
                "factor `{name}` has the level `{}` twice; the first is on line {}",
                shown(&level.label),
                first.line
            );
            errors.add(level.value.at, message, "remove one");
        }
    }
}

fn read_baseline(
    yaml: &Yaml,
    factors: &[FactorSpec],
    errors: &mut Diagnostics,
) -> (BTreeMap<String, String>, Against) {
    let mut baseline = BTreeMap::new();
    let mut against = Against::new();
    for (name, value) in Object::new(yaml, "`baseline`", errors).entries() {
        let Some(factor) = factors.iter().find(|f| f.name.value == *name) else {
            let names: Vec<&str> = factors.iter().map(|f| f.name.value.as_str()).collect();
            let message = format!("`baseline` names `{}`, which is not a factor", shown(&name));
            let hint = if names.is_empty() {
                "the study has no factors: remove it".to_string()
            } else {
                hint_one_of(&name, &names)
            };
            errors.add(name.at, message, hint);
            continue;
        };
        let label = if matches!(value.value, Value::Map(_)) {
            let each = read_baselines(value, factor, errors);
            let first = factor.levels.first().and_then(|l| each.get(&l.label));
            let first = first.cloned().unwrap_or_default();
            against.insert(name.value.to_string(), each);
            first
        } else {
            let label = value.compact();
            check_level(&label, value.at, factor, errors);
            label
        };
        baseline.insert(name.value.to_string(), label);
    }
    (baseline, against)
}

/// `{PATTERN: LEVEL, …}`: levels that fit the pattern are compared with that one. The first that fits counts.
fn read_baselines(
    yaml: &Yaml,
    factor: &FactorSpec,
    errors: &mut Diagnostics,
) -> BTreeMap<String, String> {
    let mut patterns = Vec::new();
    for (pattern, value) in Object::new(yaml, "`baseline`", errors).entries() {
        let label = value.compact();
        check_level(&label, value.at, factor, errors);
        if !factor.levels.iter().any(|l| fits(&pattern, &l.label)) {
            let (at, pattern, name) = (pattern.at, shown(&pattern), shown(&factor.name));
            let message = format!("`{pattern}` fits no level of factor `{name}`");
            errors.add(at, message, "`*` stands for any characters");
        }
        patterns.push((pattern.value.to_string(), label));
    }
    let mut each = BTreeMap::new();
    for level in &factor.levels {
        match patterns
            .iter()
            .find(|(pattern, _)| fits(pattern, &level.label))
        {
            Some((_, label)) => drop(each.insert(level.label.clone(), label.clone())),
            None => {
                let (label, name) = (shown(&level.label), shown(&factor.name));
                let message =
                    format!("`baseline` says nothing of level `{label}` of factor `{name}`");
                errors.add(
                    yaml.at,
                    message,
                    "end with a pattern for all others: `\"*\": LEVEL`",
                );
            }
        }
    }
    each
}

fn check_level(label: &str, at: Mark, factor: &FactorSpec, errors: &mut Diagnostics) {
    let labels: Vec<&str> = factor.levels.iter().map(|l| l.label.as_str()).collect();
    if !labels.contains(&label) {
        let name = &factor.name.value;
        let message = format!("`{}` is not a level of factor `{name}`", shown(label));
        errors.add(at, message, hint_one_of(label, &labels));
    }
}

/// The first level of the first factor: what people list first is what they compare against.
fn default_baseline(factors: &[FactorSpec]) -> BTreeMap<String, String> {
    let first = factors
        .first()
        .and_then(|f| Some((f.name.value.clone(), f.levels.first()?.label.clone())));
    first.into_iter().collect()
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
        let all = study.choices(lab).unwrap();
        assert_eq!(all.len(), 6);
        assert_eq!(
            study.levels_of(&all[5]),
            [
                ("kind".into(), "container".into()),
                ("link".into(), "nat".into())
            ]
        );
        let lab = study.lab_of(lab, &all[5]).unwrap();
        assert_eq!(lab.links[0].kind.value, super::super::LinkKind::Nat);
    }

    #[test]
    fn a_mapping_names_the_levels() {
        let named =
            "link: {path: 'topology.links[0].type', levels: {plain: veth, switched: bridge}}";
        let listed = "link: {path: 'topology.links[0].type', levels: [veth, bridge, nat]}";
        let study = Study::parse(&STUDY.replace(listed, named)).unwrap();
        let labels: Vec<&str> = study.factors[1]
            .levels
            .iter()
            .map(|level| level.label.as_str())
            .collect();
        assert_eq!(labels, ["plain", "switched"]);
        let LabSource::Inline(lab) = &study.lab else {
            panic!()
        };
        let lab = study.lab_of(lab, &[0, 1]).unwrap();
        assert_eq!(lab.links[0].kind.value, super::super::LinkKind::Bridge);
        let empty = STUDY.replace(listed, "link: {path: 'topology.links[0].type', levels: {}}");
        assert!(
            Study::parse(&empty)
                .unwrap_err()
                .render("s")
                .contains("has no levels")
        );
    }

    #[test]
    fn a_level_that_makes_no_lab_is_refused() {
        let study = Study::parse(&STUDY.replace("[native, container]", "[native, pod]")).unwrap();
        let LabSource::Inline(lab) = &study.lab else {
            panic!()
        };
        assert!(study.lab_of(lab, &[0, 0]).is_ok());
        let errors = study.lab_of(lab, &[1, 0]).unwrap_err().render("s");
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
