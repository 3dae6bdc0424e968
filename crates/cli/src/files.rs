//! The documents named on the command line.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use latlab_host::dirs::Dirs;
use latlab_host::facts::{self, ReadOptions};
use latlab_host::lab;
use latlab_model::diagnostic::Diagnostics;
use latlab_model::facts::Facts;
use latlab_model::plan::{
    Blueprint, Part, Plan, PlanLab, PlannedPart, RunPlan, blueprint, plan_run, plan_run_with,
    plan_with, settle,
};
use latlab_model::profile::Profile;
use latlab_model::spec::yaml::Yaml;
use latlab_model::spec::{DocumentKind, Lab, LabSource, Probe, Study};
use latlab_model::units::CpuList;

use crate::failure::{Failure, Hint, Mistakes};
use crate::{machine_file, profiles, studies};

/// A text and its name in messages.
#[derive(Debug)]
pub struct Source {
    /// As typed, or the name of a built-in study.
    pub name: String,
    pub text: String,
    /// The directory of its relative paths.
    pub directory: PathBuf,
}

impl Source {
    /// Reads a file, or standard input for `-`.
    pub fn read(path: &Path) -> Result<Source, Failure> {
        if path == Path::new("-") {
            let text = std::io::read_to_string(std::io::stdin());
            return Ok(Source {
                name: "standard input".into(),
                text: text.hint("the text must be UTF-8")?,
                directory: PathBuf::new(),
            });
        }
        let text = std::fs::read_to_string(path).map_err(|e| {
            let hint = match e.kind() {
                std::io::ErrorKind::NotFound => "check the path; `labs/` has examples",
                std::io::ErrorKind::IsADirectory => "name a file in it",
                std::io::ErrorKind::InvalidData => "the file must be UTF-8 text",
                _ => "check the file's permissions",
            };
            Failure::new(format!("cannot read {}: {e}", path.display()), hint)
        })?;
        let directory = path.parent().map(Path::to_path_buf).unwrap_or_default();
        Ok(Source {
            name: path.display().to_string(),
            text,
            directory,
        })
    }

    /// A study's file, or one that comes with latlab.
    pub fn study(name: &str) -> Result<Source, Failure> {
        if Path::new(name).exists() {
            return Source::read(Path::new(name));
        }
        let Some(text) = studies::built_in(name) else {
            let known: Vec<&str> = studies::names().collect();
            let message = format!("no study `{name}`: neither a file nor one of latlab's own");
            let hint = format!("latlab's own: {}", known.join(", "));
            return Err(Failure::new(message, hint));
        };
        Ok(Source {
            name: name.into(),
            text: text.into(),
            directory: PathBuf::new(),
        })
    }

    /// Refuses a study instead of a lab, or a lab instead of a study: otherwise each of its keys would be a mistake.
    pub fn must_be_study(&self, wanted: bool) -> Result<(), Failure> {
        let name = &self.name;
        let one = |key| Yaml::parse(&self.text).is_ok_and(|yaml| yaml.get(key).is_some());
        let is_study = self.kind() == DocumentKind::Study;
        match wanted {
            false if is_study => Err(Failure::new(
                format!("{name} is a study, and a lab is needed here"),
                format!("`latlab run {name}` deploys its labs and measures in them"),
            )),
            true if !is_study && one("topology") => Err(Failure::new(
                format!("{name} is a lab, and a study is needed here"),
                format!(
                    "`latlab deploy {name}`; a study names it as `lab:` and says what to measure"
                ),
            )),
            _ => Ok(()),
        }
    }

    /// Mistakes in this text.
    pub fn mistakes(&self, all: Diagnostics) -> Failure {
        let files = vec![self.name.clone()];
        Mistakes { files, all }.into()
    }

    /// The document that it is. A text that is no YAML is read as a lab, whose reader reports it.
    pub fn kind(&self) -> DocumentKind {
        let yaml = Yaml::parse(&self.text);
        yaml.map_or(DocumentKind::Lab, |yaml| DocumentKind::of(&yaml))
    }
}

#[derive(Debug, Clone, Copy)]
pub enum Machine<'a> {
    /// This one; only the capabilities that the document needs are proven.
    Here,
    /// The machine that a file describes.
    File(&'a Path),
}

impl<'a> Machine<'a> {
    /// The file's machine if one is named, else this one.
    pub fn of(file: Option<&'a Path>) -> Machine<'a> {
        file.map_or(Machine::Here, Machine::File)
    }

    fn facts<'l>(
        self,
        labs: impl Iterator<Item = &'l Lab>,
        also: &[&str],
        detail: bool,
    ) -> Result<Facts, Failure> {
        match self {
            Machine::File(path) => {
                facts::load(path).hint("make one with `latlab doctor --format json > machine.json`")
            }
            Machine::Here => {
                let mut options = here();
                let mut has_cards = false;
                options.prove = also.iter().map(ToString::to_string).collect();
                options.detail = detail;
                for lab in labs {
                    let of_lab = ReadOptions::for_lab(lab, options.cpus.clone());
                    options.prove.extend(of_lab.prove);
                    options.placement |= of_lab.placement;
                    has_cards |= lab.has_cards();
                    // Whether KVM works is proven by booting a kernel, which may have to be fetched
                    // first; a VM needs one anyway.
                    options.detail |= lab.nodes.iter().any(|n| n.kind.is_guest());
                }
                if facts::fetches_kernel(&options) {
                    eprintln!("fetching a guest kernel (about 70 MB, once)");
                }
                let mut facts = facts::read(&options);
                if has_cards {
                    machine_file::add_to(&mut facts)?;
                }
                Ok(facts)
            }
        }
    }

    /// The facts that a machine's file is held against.
    pub fn facts_of_ports(self) -> Result<Facts, Failure> {
        match self {
            Machine::File(_) => self.facts(std::iter::empty(), &[], false),
            Machine::Here => Ok(facts::read(&ReadOptions {
                prove: [Facts::VFIO.to_owned()].into(),
                placement: true,
                ..here()
            })),
        }
    }
}

/// Plans a lab that was read from a source.
pub fn plan_read(source: &Source, lab: &Lab, machine: Machine<'_>) -> Result<Plan, Failure> {
    let facts = machine.facts([lab].into_iter(), &[], false)?;
    plan_with(lab, &facts, &profile).map_err(|all| source.mistakes(all))
}

/// A host of a lab on several, as it is told.
pub struct PartOf<'a> {
    pub host: &'a str,
    /// The other hosts' public keys.
    pub keys: &'a BTreeMap<String, String>,
    /// The hosts of nodes that leave the choice.
    pub places: &'a BTreeMap<String, String>,
}

/// Reads a lab, and plans the part of one of its hosts on this machine, of which `prove` is proven too.
pub fn planned_part(
    source: &Source,
    of: &PartOf<'_>,
    isolation: bool,
    prove: &[String],
) -> Result<PlannedPart, Failure> {
    let lab = read_lab(source, isolation)?;
    let lab = settle(lab, of.places).map_err(|all| source.mistakes(all))?;
    let private = Dirs::from_env().host_key();
    let part = Part::of(&lab, of.host).and_then(|part| part.with_keys(&private, of.keys));
    let part = part.map_err(|all| source.mistakes(all))?;
    let prove: Vec<&str> = prove.iter().map(String::as_str).collect();
    let facts = Machine::Here.facts([&part.lab].into_iter(), &prove, false)?;
    let plan = part.plan(&facts, &profile);
    let plan = plan.map_err(|all| source.mistakes(all))?;
    Ok(PlannedPart { plan, facts })
}

/// Reads a lab, with or without its isolation.
pub fn read_lab(source: &Source, isolation: bool) -> Result<Lab, Failure> {
    let lab = Lab::parse(&source.text).map_err(|all| source.mistakes(all))?;
    let lab = match isolation {
        true => lab,
        false => lab.without_isolation(),
    };
    profiles_are_sound(&lab)?;
    Ok(lab)
}

/// Reads a lab and places it. No capability is proven, so this needs no root.
pub fn place_lab(source: &Source, machine: Machine<'_>) -> Result<Blueprint, Failure> {
    let lab = read_lab(source, true)?;
    blueprint(&lab, &unproven(machine)?, &profile).map_err(|all| source.mistakes(all))
}

/// The usable CPUs.
pub fn cpus(machine: Machine<'_>) -> Result<CpuList, Failure> {
    Ok(unproven(machine)?.cpus)
}

/// Facts for placement; no capability is proven.
fn unproven(machine: Machine<'_>) -> Result<Facts, Failure> {
    match machine {
        Machine::File(_) => machine.facts(std::iter::empty(), &[], false),
        Machine::Here => {
            let mut facts = facts::read(&ReadOptions {
                placement: true,
                ..here()
            });
            machine_file::add_to(&mut facts)?;
            Ok(facts)
        }
    }
}

/// The facts of this machine that need no proof.
pub fn facts() -> Facts {
    facts::read(&here())
}

fn here() -> ReadOptions {
    let dirs = Dirs::from_env();
    ReadOptions {
        prove: BTreeSet::new(),
        detail: false,
        placement: false,
        refresh: false,
        cpus: lab::cpus_in_use(&dirs),
        dirs,
    }
}

/// Reads the profiles that a lab names, so that a mistake in one is reported with its own file, line and column. The
/// planner reports a missing profile, because it knows the place in the lab.
fn profiles_are_sound(lab: &Lab) -> Result<(), Failure> {
    let of_nodes = lab.nodes.iter().filter_map(|node| lab.tuning_of(node));
    for text in lab.tuning.iter().chain(of_nodes) {
        let name = text.value.split_whitespace().next().unwrap_or_default();
        if profiles::is_there(name) {
            profiles::load(name)?;
        }
    }
    Ok(())
}

/// A built-in profile, or one of the machine. Unreadable ones were refused before.
fn profile(name: &str) -> Option<Profile> {
    profiles::load(name).ok()
}

/// A study and its lab.
#[derive(Debug)]
pub struct StudyFile {
    pub source: Source,
    pub study: Study,
    pub lab: Yaml,
    /// The study's file, and the lab's if it is another.
    files: Vec<String>,
}

pub fn read_study(source: Source) -> Result<StudyFile, Failure> {
    let mut files = vec![source.name.clone()];
    let study = Study::parse(&source.text).map_err(|all| source.mistakes(all))?;
    let lab = match &study.lab {
        LabSource::Inline(yaml) => yaml.clone(),
        LabSource::File(path) => {
            let read = Source::read(&source.directory.join(&path.value))?;
            files.push(read.name);
            let parsed = Yaml::parse_file(&read.text, 1);
            parsed.map_err(|all| Mistakes {
                files: files.clone(),
                all,
            })?
        }
    };
    Ok(StudyFile {
        source,
        study,
        lab,
        files,
    })
}

impl StudyFile {
    /// The lab's file; none for a built-in study.
    pub fn lab_file(&self) -> Option<PathBuf> {
        std::fs::canonicalize(self.files.last()?).ok()
    }

    fn mistakes(&self, all: Diagnostics) -> Failure {
        let files = self.files.clone();
        Mistakes { files, all }.into()
    }

    /// The lab of every combination. One that makes no lab has its mistakes told by the planning.
    pub fn labs(&self) -> Result<Vec<Lab>, Failure> {
        let choices = self.study.choices(&self.lab);
        let choices = choices.map_err(|all| self.mistakes(all))?;
        let labs = choices
            .iter()
            .map(|choice| self.study.lab_of(&self.lab, choice));
        Ok(labs.filter_map(Result::ok).collect())
    }

    /// Capabilities of a machine that the measurements need.
    pub fn needs(&self) -> &'static [&'static str] {
        let mut measurements = self.study.measurements.iter();
        match measurements.any(|m| m.probe == Probe::Forward) {
            true => &[Facts::BPF],
            false => &[],
        }
    }

    /// Plans every combination; the facts are those it was planned for.
    pub fn plan(&self, machine: Machine<'_>, detail: bool) -> Result<(RunPlan, Facts), Failure> {
        let labs = self.labs()?;
        labs.iter().try_for_each(profiles_are_sound)?;
        let facts = machine.facts(labs.iter(), self.needs(), detail)?;
        let planned = plan_run(&self.study, &self.lab, &facts, &profile);
        Ok((planned.map_err(|all| self.mistakes(all))?, facts))
    }

    /// Plans every combination, each by `plan`.
    pub fn plan_with(&self, plan: PlanLab<'_>) -> Result<RunPlan, Failure> {
        let planned = plan_run_with(&self.study, &self.lab, plan);
        planned.map_err(|all| self.mistakes(all))
    }
}
