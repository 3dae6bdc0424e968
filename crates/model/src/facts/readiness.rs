//! Which kinds of nodes a machine can run, concluded from its facts.

use super::document::Facts;
use crate::kinds::NodeKind;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readiness {
    pub kind: NodeKind,
    /// Its missing requirements, in words; ready when there is nothing.
    pub missing: Vec<String>,
    /// A remark although it runs, for example that it is emulated.
    pub note: Option<String>,
}

impl Readiness {
    pub fn is_ready(&self) -> bool {
        self.missing.is_empty()
    }
}

impl Facts {
    /// Whether nodes can run here, for every kind that needs anything.
    ///
    /// Limits, impairments and every kind of link but a veth are optional: a lab that asks for one
    /// that is missing is refused by the planner, by name.
    pub fn readiness(&self) -> Vec<Readiness> {
        let kinds = NodeKind::ALL.iter().copied();
        kinds
            .filter(|kind| !kind.is_host())
            .map(|kind| self.readiness_of(kind))
            .collect()
    }

    fn readiness_of(&self, kind: NodeKind) -> Readiness {
        let needs = kind.properties().needs;
        let common = [Facts::NAMESPACES, Facts::VETH];
        let own = needs.capabilities.iter().map(|(name, _)| *name);
        let own = own.filter(|name| !common.contains(name));
        let mut missing = self.missing(common.into_iter().chain(own));
        let mut programs = needs.programs.iter();
        if !needs.programs.is_empty() && programs.all(|program| self.lacks_tool(program)) {
            missing.push(format!("{} is not installed", needs.programs.join(" or ")));
        }
        let mut note = None;
        if kind.is_guest() {
            if self.machine.guest_kernels.is_empty()
                && (self.lacks_tool("apt-get") || self.lacks_tool("dpkg-deb"))
            {
                let why = "no guest kernel is cached and apt-get is not there to fetch one";
                missing.push(why.into());
            }
            let how = match (self.has(Facts::KVM), self.lacks(Facts::KVM)) {
                (true, _) => "KVM",
                (false, Some(_)) => "software emulation",
                (false, None) => "KVM not tried",
            };
            note = Some(how.to_string());
        }
        Readiness {
            kind,
            missing,
            note,
        }
    }

    /// Those of the capabilities that are not proven to work, each with the reason.
    fn missing(&self, capabilities: impl Iterator<Item = &'static str>) -> Vec<String> {
        let missing = capabilities.filter_map(|name| {
            let reason = match self.capabilities.get(name) {
                Some(found) if found.works => return None,
                Some(found) => found.reason.as_str(),
                None => self.unproven.get(name).map_or("not tried", String::as_str),
            };
            Some(format!("{name}: {reason}"))
        });
        missing.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Capability;

    fn able(names: &[&str], tools: &[&str]) -> Facts {
        let works = |name: &&str| {
            let capability = Capability {
                works: true,
                reason: "tried".into(),
                costs: String::new(),
                remedy: None,
            };
            (name.to_string(), capability)
        };
        Facts {
            capabilities: names.iter().map(works).collect(),
            tools: tools.iter().map(|t| (t.to_string(), "1".into())).collect(),
            ..Facts::default()
        }
    }

    #[test]
    fn a_machine_with_everything_but_kvm_emulates() {
        let mut facts = able(
            &[Facts::NAMESPACES, Facts::VETH, Facts::OVERLAYFS, Facts::TAP],
            &["runc", "qemu-system-x86_64", "apt-get", "dpkg-deb"],
        );
        let lacking = Capability {
            works: false,
            reason: "a guest kernel did not boot".into(),
            costs: String::new(),
            remedy: None,
        };
        facts.capabilities.insert(Facts::KVM.into(), lacking);
        let readiness = facts.readiness();
        assert!(readiness.iter().all(Readiness::is_ready), "{readiness:?}");
        let vm = facts.readiness_of(NodeKind::Vm);
        assert_eq!(vm.note.as_deref(), Some("software emulation"));
    }

    #[test]
    fn each_kind_names_its_missing_capabilities() {
        let mut facts = able(&[Facts::NAMESPACES, Facts::VETH], &["crun"]);
        facts
            .unproven
            .insert(Facts::TAP.into(), "needs root to prove".into());
        let [native, container, vm] =
            [NodeKind::Native, NodeKind::Container, NodeKind::Vm].map(|k| facts.readiness_of(k));
        assert!(native.is_ready());
        assert_eq!(container.missing, ["overlayfs: not tried"]);
        assert_eq!(vm.missing[0], "tap: needs root to prove");
        assert!(vm.missing[1].contains("qemu-system-x86_64"));
        assert!(vm.missing[2].contains("guest kernel"));
    }

    #[test]
    fn facts_survive_being_written_and_old_ones_are_read() {
        let mut facts = able(&[Facts::VETH], &["crun"]);
        facts.cpus = crate::units::CpuList::new(vec![0, 1]);
        let text = serde_json::to_string(&facts).unwrap();
        assert_eq!(serde_json::from_str::<Facts>(&text).unwrap(), facts);
        let brief = r#"{"cpu":"x","cores":1,"memory_bytes":1,"kernel":"6","distribution":"d",
            "acceleration":"kvm","cgroup":"v2","clocksource":"tsc"}"#;
        let old = format!(r#"{{"brief":{brief},"cpus":"0-127","capabilities":{{}}}}"#);
        let old: Facts = serde_json::from_str(&old).unwrap();
        assert_eq!(old.cpus.len(), 128);
        assert_eq!(old.machine, super::super::Machine::default());
    }
}
