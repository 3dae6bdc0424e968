//! `security:` of a container: what it may do beyond the default.
//!
//! The default is that of Docker, without device nodes and with the administration of its own
//! network. What a lab grants beyond it is part of the plan, and so of every result.

use super::reader::{FromYaml, Object, words};
use crate::diagnostic::{Diagnostics, Spanned, hint_one_of, shown};
use crate::kinds::{CAPABILITIES, Devices, Pids, Seccomp, Security};

words!(Seccomp, "a seccomp profile", { "default" => Default, "unconfined" => Unconfined });

words!(Devices, "a choice of devices", { "default" => Default, "all" => All });

/// The kernel numbers processes up to this (proc(5), `pid_max`).
const PIDS_MAX: u64 = 1 << 22;

impl FromYaml for Pids {
    const EXPECTED: &'static str = "a number of processes or `unlimited`";
    const EXAMPLE: &'static str = "`4096`";
    fn from_text(text: &str) -> Option<Self> {
        match text {
            "unlimited" => Some(Pids::Unlimited),
            _ => {
                let number = text.parse().ok()?;
                (1..=PIDS_MAX)
                    .contains(&number)
                    .then_some(Pids::AtMost(number))
            }
        }
    }
    fn hint(_: &str) -> String {
        format!("from 1 to {PIDS_MAX}, or `unlimited`")
    }
}

/// Reads `security:` of `o`, with the mark of the whole.
pub(super) fn read(o: &mut Object<'_>, errors: &mut Diagnostics) -> Option<Spanned<Security>> {
    let mut own = o.object("security", errors)?;
    let at = own.at;
    let mut capabilities = Vec::new();
    for written in own.list::<String>("capabilities", errors) {
        let upper = written.to_uppercase();
        let name = upper.strip_prefix("CAP_").unwrap_or(&upper);
        if CAPABILITIES.contains(&name) {
            capabilities.push(name.to_string());
        } else {
            errors.add(
                written.at,
                format!("{}: `{}` is not a capability", own.what, shown(&written)),
                hint_one_of(name, &CAPABILITIES),
            );
        }
    }
    let security = Security {
        capabilities,
        seccomp: own.value("seccomp", errors).unwrap_or_default(),
        pids: own.value("pids", errors).unwrap_or_default(),
        devices: own.value("devices", errors).unwrap_or_default(),
    };
    own.finish(errors);
    Some(Spanned::new(security, at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Lab;

    fn security(text: &str) -> Security {
        let node = format!("{{kind: container, security: {text}}}");
        let lab = format!("name: l\ntopology:\n  nodes:\n    a: {node}\n");
        let lab = Lab::parse(&lab).unwrap_or_else(|errors| panic!("{}", errors.render("l")));
        let written = lab.nodes[0].fields.security.as_ref();
        written.map(|s| s.value.clone()).unwrap_or_default()
    }

    #[test]
    fn granted_rights_are_listed() {
        assert_eq!(security("{}"), Security::default());
        assert!(
            security("{pids: 4096, seccomp: default}")
                .facts()
                .is_empty()
        );
        let all = "{capabilities: [CAP_SYS_NICE, bpf], seccomp: unconfined, pids: unlimited, devices: all}";
        let expected = [
            "with SYS_NICE, BPF",
            "any system call",
            "any number of processes",
            "all devices",
        ];
        assert_eq!(security(all).facts(), expected);
        assert_eq!(security("{pids: 9}").facts(), ["9 processes"]);
    }
}
