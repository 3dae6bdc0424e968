//! `latlab validate` and `latlab schema`.

use std::process::ExitCode;

use latlab_host::facts::pci_driver;
use latlab_model::diagnostic::Diagnostics;
use latlab_model::plan::{DriverOf, PlannedLab, addressed, wiring};
use latlab_model::spec::{DocumentKind, MachineFile, ManagedHosts, Recipe, schema};
use latlab_report::text::plural;

use crate::args::{Document, Validate};
use crate::failure::{Failure, Mistakes, Outcome};
use crate::files::{self, Machine, Source};
use crate::format::counted;
use crate::print;

pub fn run(args: &Validate) -> Outcome {
    let mut worst = ExitCode::SUCCESS;
    let mut documents = Vec::new();
    for path in &args.files {
        let machine = Machine::of(args.facts.as_deref());
        let (name, checked) = match Source::read(path) {
            Ok(source) => (source.name.clone(), check(source, machine)),
            Err(failure) => (path.display().to_string(), Err(failure)),
        };
        let mut document = match checked {
            Ok((text, json)) => {
                if !args.json {
                    print::out_if_read(&format!("{name}: good ({text})\n"))?;
                }
                json
            }
            Err(failure) if args.files.len() == 1 && failure.mistakes().is_none() => {
                return Err(failure);
            }
            Err(failure) => {
                worst = failure.code();
                told(&failure, args.json)
            }
        };
        if args.files.len() > 1 {
            document["file"] = name.into();
        }
        documents.push(document);
    }
    if args.json {
        let text = match documents.as_slice() {
            [one] => format!("{one:#}\n"),
            all => format!("{:#}\n", serde_json::Value::from(all)),
        };
        print::out_if_read(&text)?;
    }
    Ok(worst)
}

/// Tells why a document cannot be used; the reason as JSON, which has the mistakes in place of the text.
fn told(failure: &Failure, as_json: bool) -> serde_json::Value {
    let mistakes = failure.mistakes();
    if mistakes.is_none() || !as_json {
        eprint!("{failure}");
    }
    match mistakes {
        Some(mistakes) => to_json(mistakes),
        None => {
            let (error, hint) = failure.lines();
            serde_json::json!({ "error": error, "hint": hint })
        }
    }
}

/// Plans a document: its size as text, and the plan.
fn check(source: Source, machine: Machine<'_>) -> Result<(String, serde_json::Value), Failure> {
    match source.kind() {
        DocumentKind::Hosts => {
            let hosts = ManagedHosts::parse(&source.text).map_err(|all| source.mistakes(all))?;
            let names: Vec<&str> = hosts.hosts.iter().map(|host| host.name.as_str()).collect();
            let text = counted(names.len(), "host");
            Ok((text, serde_json::json!({ "hosts": names })))
        }
        DocumentKind::Machine => check_machine(&source, machine),
        DocumentKind::Image => {
            let recipe = Recipe::parse(&source.text).map_err(|all| source.mistakes(all))?;
            let text = format!(
                "an image with {}",
                counted(recipe.packages.len(), "package")
            );
            Ok((text, serde_json::json!({ "image": recipe })))
        }
        DocumentKind::Study => {
            let file = files::read_study(source)?;
            // The capabilities of hosts are known there.
            let plan = match file.labs()?.iter().any(|lab| !lab.hosts.is_empty()) {
                true => file.plan_with(&mut |lab, _| PlannedLab::on_unknown_hosts(lab))?,
                false => file.plan(machine, false)?.0,
            };
            let cells = plural(plan.cells.len(), "cell");
            let text = format!("{cells}, {}", plural(plan.trials(), "trial"));
            let json = serde_json::json!({ "cells": plan.cells, "order": plan.order() });
            Ok((text, json))
        }
        DocumentKind::Lab => check_lab(&source, machine),
    }
}

fn check_lab(
    source: &Source,
    machine: Machine<'_>,
) -> Result<(String, serde_json::Value), Failure> {
    let lab = files::read_lab(source, true)?;
    if lab.hosts.is_empty() {
        let plan = files::plan_read(source, &lab, machine)?;
        let text = format!("{} nodes, {} links", plan.nodes.len(), plan.links.len());
        return Ok((text, serde_json::json!(plan)));
    }
    // The capabilities of the hosts are known there.
    let (nodes, links) = addressed(&lab).map_err(|all| source.mistakes(all))?;
    let hosts = lab.hosts.len();
    let text = format!(
        "{} nodes, {} links on {hosts} hosts",
        nodes.len(),
        links.len()
    );
    Ok((text, serde_json::json!({ "nodes": nodes, "links": links })))
}

/// Holds the ports of a machine's file against the machine.
fn check_machine(
    source: &Source,
    machine: Machine<'_>,
) -> Result<(String, serde_json::Value), Failure> {
    let file = MachineFile::parse(&source.text).map_err(|all| source.mistakes(all))?;
    let mut facts = machine.facts_of_ports()?;
    // Another machine's buses are not here.
    let driver: DriverOf<'_> = match machine {
        Machine::Here => &pci_driver,
        Machine::File(_) => &|_| None,
    };
    let mut errors = Diagnostics::default();
    let wired = wiring(&file, &source.name, &mut facts, driver, &mut errors);
    errors.into_result(()).map_err(|all| source.mistakes(all))?;
    let (ports, cables) = (wired.ports.len(), wired.cables.len());
    let text = format!("{}, {}", counted(ports, "port"), counted(cables, "cable"));
    Ok((text, serde_json::json!({ "machine": wired })))
}

fn to_json(mistakes: &Mistakes) -> serde_json::Value {
    let one = |d: &latlab_model::diagnostic::Diagnostic| {
        serde_json::json!({
            "file": mistakes.file(d.at), "line": d.at.line, "column": d.at.column,
            "message": d.message, "hint": d.hint,
        })
    };
    serde_json::json!({ "mistakes": mistakes.all.iter().map(one).collect::<Vec<_>>() })
}

pub fn schema(of: Document) -> Outcome {
    print::document(match of {
        Document::Lab => schema::LAB,
        Document::Study => schema::STUDY,
    })
}
