//! The labs of a run, on their hosts.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use latlab_host::dirs::Dirs;
use latlab_measure::run::record::now;
use latlab_measure::run::{Deployed, Error, Failure, Labs, NotDeployed, Order, record};
use latlab_measure::trial;
use latlab_model::plan::{Machines, Places};
use latlab_model::results::{NodeStart, Trial};
use latlab_samples::{RunDir, carried};

use super::nodes::NodesOnHosts;
use super::plan::StudyPlan;
use super::reboot;
use super::watch::Watches;
use crate::hosts::connected::{Connected, Refused};
use crate::hosts::deploy::deploy;
use crate::hosts::destroy::{destroy, reasons};
use crate::hosts::record::{Host, Record};
use crate::hosts::remote::{Answer, each};

pub struct OnHosts<'a> {
    pub dirs: &'a Dirs,
    pub plan: &'a StudyPlan,
    /// The study as it was read, for hosts that measure by themselves.
    pub study: &'a str,
    pub stop: &'a AtomicBool,
}

/// A lab that is up on its hosts.
struct Lab<'a> {
    of: &'a OnHosts<'a>,
    record: Record,
    places: &'a Places,
    nodes: NodesOnHosts<'a>,
}

impl Labs for OnHosts<'_> {
    fn deploy(&self, lab: usize) -> Result<Box<dyn Deployed + '_>, NotDeployed> {
        let wanted = &self.plan.labs[lab];
        let failed = |failure: crate::failure::Failure| NotDeployed::Failed(failure.lines().0);
        let size = wanted.text.len();
        let connected = Connected::open(&wanted.lab, size, true, Some(&wanted.places));
        let connected = connected.map_err(|refused| match refused {
            Refused::Failure(failure) => failed(failure),
            Refused::Mistakes(all) => NotDeployed::Failed(all.to_string()),
        })?;
        let (text, isolation) = (&wanted.text, self.plan.isolation);
        let deployed = deploy(self.dirs, connected, text, isolation, self.stop, &|_, _| ());
        let (record, _) = deployed.map_err(|failure| match self.stop.load(Ordering::Relaxed) {
            true => NotDeployed::Interrupted,
            false => failed(failure),
        })?;
        let (plan, places) = (&self.plan.run.labs[lab], &self.plan.run.places[lab]);
        Ok(Box::new(Lab {
            of: self,
            nodes: NodesOnHosts::new(plan, places, record.clone()),
            record,
            places,
        }))
    }

    fn between_replicates(&self) -> Result<(), String> {
        match self.plan.reboots {
            true => reboot::all(self.plan, self.stop),
            false => Ok(()),
        }
    }
}

impl Deployed for Lab<'_> {
    fn starts(&self) -> &[NodeStart] {
        &[]
    }

    fn measure(&self, order: &Order<'_>, dir: &RunDir) -> Result<Trial, Error> {
        let mut hosts = self.record.hosts.iter();
        let host = match self.places.of(order.measurement) {
            Machines::One(name) => hosts.find(|host| host.name == name),
            Machines::Several | Machines::NotChosen => None,
        };
        match host {
            Some(host) => self.measure_on(host, order, dir),
            None => self.measure_between(order, dir),
        }
    }

    fn wait_for_quiet(&self, _: &AtomicBool) {
        each(&self.record.hosts, |host| {
            host.ask(&["part", "quiet", &self.record.lab])
        });
    }

    fn destroy(self: Box<Self>) -> Result<(), Error> {
        let lab = self.record.lab.clone();
        drop(self.nodes);
        let left = match destroy(self.of.dirs, self.record) {
            Ok(left) if left.is_empty() => return Ok(()),
            Ok(left) => reasons(&left),
            Err(failure) => failure.lines().0,
        };
        Err(Error::Destroy {
            lab,
            source: left.into(),
        })
    }
}

impl Lab<'_> {
    /// The host measures by itself, and sends the trial's files.
    fn measure_on(&self, host: &Host, order: &Order<'_>, dir: &RunDir) -> Result<Trial, Error> {
        let started = now();
        let (size, number) = (self.of.study.len().to_string(), order.number.to_string());
        let (replicate, repeats) = (order.replicate.to_string(), order.repeats.to_string());
        let seed = order.seed.to_string();
        let words = [
            "part",
            "measure",
            &self.record.lab,
            "--measurement",
            &order.measurement.name,
            "--trial",
            &number,
            "--cell",
            order.cell,
            "--replicate",
            &replicate,
            "--repeats",
            &repeats,
            "--seed",
            &seed,
            "--study-bytes",
            &size,
        ];
        let measured = host.start(&words).map_err(|error| error.to_string());
        let measured = measured.and_then(|mut child| {
            let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
            if let Some(mut stdin) = stdin.as_ref() {
                // A host whose connection has ended reads nothing; its status tells.
                stdin.write_all(self.of.study.as_bytes()).ok();
            }
            let unpacked = stdout.map(|mut stdout| {
                let unpacked = carried::unpack(dir, order.number, &mut stdout);
                io::copy(&mut stdout, &mut io::sink()).ok();
                unpacked
            });
            // The host measures as long as it is open.
            drop(stdin);
            let answer = Answer::of(child.wait_with_output());
            match unpacked {
                Some(Ok(trial)) if answer.is_good() => Ok(trial),
                Some(Err(error)) if answer.is_good() => Err(error.to_string()),
                _ => Err(answer.reason()),
            }
        });
        match measured {
            Ok(trial) => Ok(trial),
            Err(reason) => {
                let reason = Failure::new(format!("host `{}`: {reason}", host.name));
                record::write(dir, order, started, Err(reason))
            }
        }
    }

    /// Commands in the nodes of several hosts measure, while each of these hosts watches itself.
    fn measure_between(&self, order: &Order<'_>, dir: &RunDir) -> Result<Trial, Error> {
        let started = now();
        let ends = order.measurement.ends.iter();
        let nodes = ends.flat_map(|ends| [&ends.from.node, &ends.to.node]);
        let names: BTreeSet<&str> = nodes.map(|node| self.places.host_of(node)).collect();
        let mut hosts = self.record.hosts.clone();
        hosts.retain(|host| names.contains(host.name.as_str()));
        let result = Watches::begin(&hosts, &self.record.lab).and_then(|watches| {
            let measured = trial::measure_between_hosts(&self.nodes, order.measurement, order.seed);
            let watched = watches.end();
            if measured.is_err() {
                // A channel may have ended with its node or its host.
                self.nodes.forget();
            }
            let (watched, dead) = watched?;
            match (measured, dead) {
                (Ok(mut measured), _) => {
                    measured.add_watched(watched);
                    Ok(measured)
                }
                // The error of a probe whose node died says only that the probe ended.
                (Err(_), Some(dead)) => Err(Failure::new(dead)),
                (Err(error), None) => Err(error.into()),
            }
        });
        record::write(dir, order, started, result)
    }
}
