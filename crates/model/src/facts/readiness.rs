//! Which kinds of nodes a machine can run, concluded from its facts.

use super::document::Facts;
use crate::spec::NodeKind;

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
    /// Whether native, container and VM nodes can run here, in this order.
    ///
    /// Limits, impairments and every kind of link but a veth are optional: a lab that asks for one
    /// that is missing is refused by the planner, by name.
    pub fn readiness(&self) -> [Readiness; 3] {
        let native = self.missing(&[Facts::NAMESPACES, Facts::VETH]);
        let mut container = native.clone();
        container.extend(self.missing(&[Facts::OVERLAYFS]));
        if self.lacks_tool("crun") && self.lacks_tool("runc") {
            container.push("crun or runc is not installed".into());
        }
        let mut vm = native.clone();
        vm.extend(self.missing(&[Facts::TAP]));
        let qemu = format!("qemu-system-{}", self.qemu_architecture());
        if self.lacks_tool(&qemu) {
            vm.push(format!("{qemu} is not installed"));
        }
        if self.machine.guest_kernels.is_empty()
            && (self.lacks_tool("apt-get") || self.lacks_tool("dpkg-deb"))
        {
            vm.push("no guest kernel is cached and apt-get is not there to fetch one".into());
        }
        let note = match (self.has(Facts::KVM), self.lacks(Facts::KVM)) {
            (true, _) => "KVM",
            (false, Some(_)) => "software emulation",
            (false, None) => "KVM not tried",
        };
        let ready = |kind, missing, note: Option<&str>| Readiness {
            kind,
            missing,
            note: note.map(Into::into),
        };
        [
            ready(NodeKind::Native, native, None),
            ready(NodeKind::Container, container, None),
            ready(NodeKind::Vm, vm, Some(note)),
        ]
    }

    /// QEMU's name for this machine's architecture.
    fn qemu_architecture(&self) -> &str {
        match self.machine.processors.architecture.as_str() {
            "" => "x86_64",
            other => other,
        }
    }

    /// Those of the capabilities that are not proven to work, each with the reason.
    fn missing(&self, capabilities: &[&str]) -> Vec<String> {
        let reason = |name: &str| match self.capabilities.get(name) {
            Some(found) if found.works => None,
            Some(found) => Some(format!("{name}: {}", found.reason)),
            None => match self.unproven.get(name) {
                Some(why) => Some(format!("{name}: {why}")),
                None => Some(format!("{name}: not tried")),
            },
        };
        capabilities
            .iter()
            .filter_map(|name| reason(name))
            .collect()
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
        assert_eq!(readiness[2].note.as_deref(), Some("software emulation"));
    }

    #[test]
    fn each_kind_names_its_missing_capabilities() {
        let mut facts = able(&[Facts::NAMESPACES, Facts::VETH], &["crun"]);
        facts
            .unproven
            .insert(Facts::TAP.into(), "needs root to prove".into());
        let [native, container, vm] = facts.readiness();
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
