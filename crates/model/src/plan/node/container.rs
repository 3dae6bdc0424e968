//! A container's own part of its plan.

use serde::{Deserialize, Serialize};

use super::root::RootPlan;
use crate::diagnostic::Diagnostics;
use crate::kinds::{Runtime, Security};
use crate::plan::lacks::{Lacks, package};
use crate::spec::Node;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContainerPlan {
    pub root: RootPlan,
    pub runtime: Runtime,
    /// Rights beyond the default.
    #[serde(default, skip_serializing_if = "Security::is_default")]
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

/// The runtime must be installed. With another one at hand, naming that is the shorter way.
pub(super) fn check(node: &Node, lacks: &mut Lacks<'_>, errors: &mut Diagnostics) {
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
