//! The daemons of an overlay, watched and changed once a second.

use std::time::Duration;

use latlab_model::adapt::{Adaptation, Allowed};

use super::hosts::Hosts;
use super::probes::Probes;
use super::told::Told;
use super::watch::Watch;
use crate::failure::Failure;

/// Daemons, and what is known of them.
pub(super) struct Overlay {
    pub hosts: Hosts,
    adaptation: Adaptation,
    pub watch: Watch,
    probes: Probes,
}

impl Overlay {
    pub(super) fn begin(
        mut hosts: Hosts,
        mut allowed: Allowed,
        told: &Told,
    ) -> Result<Overlay, Failure> {
        if allowed.carriers || allowed.routes {
            hosts.claim()?;
        }
        if let Some(host) = hosts.with_own_routes() {
            told.note(&format!(
                "host {host} has routes already: they stay, and no way is changed"
            ));
            allowed.routes = false;
        }
        let probes = Probes::start(&hosts)?;
        let adaptation = Adaptation::new(allowed, hosts.segment().is_some());
        let watch = Watch::begin(&mut hosts)?;
        Ok(Overlay {
            hosts,
            adaptation,
            watch,
            probes,
        })
    }

    pub(super) fn second(
        &mut self,
        at: Duration,
        samples: bool,
        told: &Told,
    ) -> Result<(), Failure> {
        let sample = self.watch.sample(&mut self.hosts, &self.probes, at)?;
        if samples {
            told.sample(&sample);
        }
        for decision in self.adaptation.step(sample) {
            told.decision(&decision);
            let Some([from, to]) = decision.change() else {
                continue;
            };
            if let Err(failure) = self.hosts.carry_out(decision.object, to) {
                told.note(&format!("this failed, and is as before: {failure}"));
                self.adaptation.failed(at, decision.object, from);
            }
        }
        Ok(())
    }

    pub(super) fn take_back(&mut self) -> Result<bool, Failure> {
        let is_changed = self.hosts.is_changed();
        if is_changed {
            self.hosts.take_back()?;
        }
        Ok(is_changed)
    }
}
