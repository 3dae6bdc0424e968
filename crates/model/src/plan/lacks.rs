//! Capabilities and programs that a lab needs and the machine lacks.

use std::collections::HashSet;

use crate::diagnostic::{Diagnostics, Mark};
use crate::facts::Facts;
use crate::spec::Need;

/// A lack is told at the first place that needs it: a hundred containers without a
/// runtime are one mistake.
pub struct Lacks<'a> {
    pub facts: &'a Facts,
    told: HashSet<String>,
}

impl<'a> Lacks<'a> {
    pub fn of(facts: &'a Facts) -> Self {
        Lacks {
            facts,
            told: HashSet::new(),
        }
    }

    /// Whether nothing was said of it yet; afterwards it counts as told.
    pub fn is_new(&mut self, name: &str) -> bool {
        self.told.insert(name.to_string())
    }

    pub fn program(&mut self, program: &str, why: &str, at: Mark, errors: &mut Diagnostics) {
        if self.facts.lacks_tool(program) && self.is_new(program) {
            let message = format!("{why}, but `{program}` is not installed");
            errors.add(at, message, format!("apt-get install {}", package(program)));
        }
    }

    pub fn capability(&mut self, need: &Need, errors: &mut Diagnostics) {
        let Some(refusal) = &need.refusal else { return };
        let Some(lack) = self.facts.lacks(need.capability) else {
            return;
        };
        if self.is_new(need.capability) {
            let hint = lack.remedy.as_deref().unwrap_or(&refusal.otherwise);
            errors.add(
                refusal.at,
                format!("{}: {}", refusal.why, lack.reason),
                hint,
            );
        }
    }
}

/// Debian's package of a program that a lab may need.
pub fn package(program: &str) -> &str {
    match program {
        "dockerd" => "docker.io",
        "lxc-start" => "lxc",
        "mkfs.ext4" => "e2fsprogs",
        "mksquashfs" => "squashfs-tools",
        "nft" => "nftables",
        "qemu-img" => "qemu-utils",
        "qemu-system-x86_64" => "qemu-system-x86",
        "systemd-nspawn" => "systemd-container",
        other => other,
    }
}
