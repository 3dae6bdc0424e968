//! The plan of a study, made of the plans of its hosts.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use latlab_host::dirs::Dirs;
use latlab_model::diagnostic::{Diagnostics, Mark};
use latlab_model::plan::{PlannedLab, RunPlan, settle};
use latlab_model::spec::Lab;
use latlab_model::spec::yaml::Yaml;

use crate::failure::Failure;
use crate::files::StudyFile;
use crate::hosts::connected::{Connected, Refused};
use crate::hosts::record::Record;
use crate::hosts::remote::printed;

/// A run's plan, and what its hosts need to deploy its labs.
pub struct StudyPlan {
    pub run: RunPlan,
    /// In the order of the plan.
    pub labs: Vec<LabText>,
    pub isolation: bool,
    /// Hosts reboot between replicates.
    pub reboots: bool,
}

impl StudyPlan {
    /// Refuses a lab that was deployed from here already.
    pub fn must_be_new(&self, dirs: &Dirs) -> Result<(), Failure> {
        let mut labs = self.labs.iter();
        labs.try_for_each(|one| Record::of(&one.lab).must_be_new(dirs))
    }
}

/// A lab as its hosts are told of it.
pub struct LabText {
    pub lab: Lab,
    pub text: String,
    /// The hosts of nodes that leave the choice: it is made once, before the first trial.
    pub places: BTreeMap<String, String>,
}

/// Has each host plan its part of every lab.
pub fn plan(file: &StudyFile) -> Result<StudyPlan, Failure> {
    let isolation = file.study.isolation;
    let mut verb = vec!["part", "plan"];
    for capability in file.needs() {
        verb.extend(["--prove", capability]);
    }
    verb.extend((!isolation).then_some("--no-isolation"));
    let mut labs = Vec::new();
    let run = file.plan_with(&mut |lab, tree| {
        let (planned, text) = plan_lab(lab, tree, &verb)?;
        labs.push(text);
        Ok(planned)
    })?;
    Ok(StudyPlan {
        run,
        labs,
        isolation,
        reboots: file.study.reboots,
    })
}

fn plan_lab(lab: &Lab, tree: &Yaml, verb: &[&str]) -> Result<(PlannedLab, LabText), Diagnostics> {
    if lab.hosts.is_empty() {
        let hint = "give every lab of the study `hosts`, or none";
        return refused("this lab is on one machine, and others are on hosts", hint);
    }
    let text = tree.to_text();
    let connected = match Connected::open(lab, text.len(), false, None) {
        Ok(connected) => connected,
        Err(Refused::Mistakes(all)) => return Err(all),
        Err(Refused::Failure(failure)) => {
            let (message, hint) = failure.lines();
            return refused(&message, &hint);
        }
    };
    let places = connected.places.clone();
    let never = AtomicBool::new(false);
    let (record, answers) = connected.tell(verb, &text, &never, &|_, _| ());
    let parts = printed(&record, &answers);
    let parts = parts.or_else(|(message, hint)| refused(&message, &hint))?;
    let settled = settle(lab.clone(), &places)?;
    let text = LabText {
        lab: lab.clone(),
        text,
        places,
    };
    Ok((PlannedLab::on_hosts(&settled, parts)?, text))
}

fn refused<T>(message: &str, hint: &str) -> Result<T, Diagnostics> {
    Err(Diagnostics::one(Mark::default(), message, hint))
}
