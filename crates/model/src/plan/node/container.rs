//! A container's own part of its plan.

use serde::{Deserialize, Serialize};

use super::root::RootPlan;
use crate::diagnostic::Diagnostics;
use crate::kinds::{CgroupNeed, Runtime, Security};
use crate::plan::lacks::{Lacks, package};
use crate::spec::Node;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContainerPlan {
    pub root: RootPlan,
    pub runtime: Runtime,
    /// Rights beyond the default.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub security: Security,
}

impl ContainerPlan {
    pub(super) fn of(node: &Node) -> ContainerPlan {
        let fields = &node.fields;
        let security = fields.security.as_ref();
        ContainerPlan {
            root: RootPlan::of(node),
            runtime: fields.runtime.map(|r| r.value).unwrap_or_default(),
            security: security.map(|s| s.value.clone()).unwrap_or_default(),
        }
    }

    pub(super) fn facts(&self) -> Vec<String> {
        let mut facts = vec![self.runtime.to_string()];
        facts.extend(self.security.facts());
        facts
    }
}

pub(super) fn check(node: &Node, lacks: &mut Lacks<'_>, errors: &mut Diagnostics) {
    check_programs(node, lacks, errors);
    check_cgroups(node, lacks, errors);
    check_memory(node, errors);
}

/// Runtimes that need something of the machine's cgroups are refused where it is not, before anything is made.
fn check_cgroups(node: &Node, lacks: &mut Lacks<'_>, errors: &mut Diagnostics) {
    let Some(runtime) = node.fields.runtime else {
        return;
    };
    let (lack, remedy) = match (runtime.value.cgroup(), lacks.facts.brief.cgroup.as_str()) {
        (Some(_), "none") => (
            "no tree of cgroups is mounted",
            "mount -t cgroup2 none /sys/fs/cgroup",
        ),
        (Some(CgroupNeed::Unified), "v1") => (
            "the unified tree of cgroups is not mounted",
            "mkdir -p /sys/fs/cgroup/unified && mount -t cgroup2 none /sys/fs/cgroup/unified",
        ),
        _ => return,
    };
    if lacks.is_new(&format!("cgroups of {}", runtime.value)) {
        let (name, runtime, at) = (&node.name.value, runtime.value, runtime.at);
        let message = format!("node `{name}` is a container of {runtime}, and {lack}");
        errors.add(at, message, format!("{remedy}, or `runtime: crun`"));
    }
}

fn check_memory(node: &Node, errors: &mut Diagnostics) {
    let runtime = node.fields.runtime.map(|runtime| runtime.value);
    let least = runtime.and_then(|runtime| Some((runtime, runtime.least_memory()?)));
    let (Some((runtime, least)), Some(memory)) = (least, node.fields.memory) else {
        return;
    };
    if memory.value < least {
        let message = format!(
            "`memory` of node `{}` is {}; {runtime} does not start in it",
            node.name.value, memory.value
        );
        errors.add(
            memory.at,
            message,
            format!("at least {least}, or `runtime: crun`"),
        );
    }
}

/// The runtime must be installed. With another one at hand, naming that is the shorter way.
fn check_programs(node: &Node, lacks: &mut Lacks<'_>, errors: &mut Diagnostics) {
    let (name, at, runtime) = (&node.name.value, node.name.at, node.fields.runtime);
    let wanted = runtime.map(|r| r.value).unwrap_or_default();
    let mut others = Runtime::ALL.iter().filter(|other| **other != wanted);
    let is_here = |runtime: &Runtime| {
        let mut programs = runtime.programs().iter();
        !programs.any(|program| lacks.facts.lacks_tool(program))
    };
    let other = others.find(|other| is_here(other));
    let missing = wanted.programs().iter();
    let missing = missing.filter(|program| lacks.facts.lacks_tool(program));
    let missing: Vec<&str> = missing.copied().collect();
    for program in missing {
        let Some(other) = other else {
            lacks.program(
                program,
                &format!("node `{name}` is a container"),
                at,
                errors,
            );
            continue;
        };
        if lacks.is_new(program) {
            let at = runtime.map_or(at, |r| r.at);
            let message = format!("node `{name}` wants `{program}`, which is not installed");
            let package = package(program);
            let hint = format!("apt-get install {package}, or `runtime: {other}`");
            errors.add(at, message, hint);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::facts::Facts;
    use crate::kinds::Runtime;
    use crate::plan::plan;
    use crate::spec::Lab;
    use crate::units::CpuList;

    /// Mistakes of a container on a machine with these cgroups and all programs; empty if nothing.
    fn said(cgroup: &str, runtime: Runtime, memory: &str) -> String {
        let programs = Runtime::ALL.iter().flat_map(|runtime| runtime.programs());
        let mut facts = Facts {
            tools: programs
                .map(|program| (program.to_string(), "1".into()))
                .collect(),
            cpus: CpuList::new(vec![0]),
            ..Facts::default()
        };
        facts.brief.cgroup = cgroup.into();
        let node = format!("a: {{kind: container, runtime: {runtime}, memory: {memory}}}");
        let lab = Lab::parse(&format!("name: t\ntopology: {{nodes: {{{node}}}}}\n")).unwrap();
        let planned = plan(&lab, &facts);
        planned.map_or_else(|errors| errors.render("lab"), |_| String::new())
    }

    #[test]
    fn runtimes_are_refused_where_their_cgroups_are_not() {
        for (cgroup, refused) in [
            (
                "none",
                &[Runtime::Podman, Runtime::Docker, Runtime::Nspawn][..],
            ),
            ("v1", &[Runtime::Nspawn]),
            ("hybrid", &[]),
            ("v2", &[]),
        ] {
            for runtime in Runtime::ALL {
                let said = said(cgroup, *runtime, "256MiB");
                let is_refused = said.contains("mounted\n  hint: m");
                assert_eq!(is_refused, refused.contains(runtime), "{cgroup}: {said}");
            }
        }
    }

    #[test]
    fn daemons_beside_a_container_need_memory() {
        for runtime in Runtime::ALL {
            let refused = said("v2", *runtime, "64MiB").contains("at least 128MiB");
            assert_eq!(refused, *runtime == Runtime::Docker, "{runtime}");
            assert_eq!(said("v2", *runtime, "128MiB"), "");
        }
    }
}
