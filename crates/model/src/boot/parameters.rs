//! The parameters of a profile, as words of the command line.

use serde::Serialize;

use super::catalogue;
use crate::plan::blueprint::Blueprint;
use crate::profile::catalogue::BOOT;
use crate::profile::{Cores, Profile, Wanted};
use crate::units::CpuList;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Parameter {
    pub name: &'static str,
    /// As it stands on the command line.
    pub text: String,
    /// A source that found it to help, or its effect by the kernel's documentation.
    pub evidence: &'static str,
    /// Its cost, or its risk.
    pub risk: &'static str,
}

pub fn cores(blueprint: &Blueprint) -> Cores {
    Cores {
        housekeeping: blueprint.housekeeping.cpus.clone(),
        isolated: blueprint.given(),
    }
}

/// The parameters that a profile wants on these CPUs, in the kernel's usual order. One that would name no CPU is left
/// out. Fails when the profile names a CPU that is not there: what, and what to do.
pub fn parameters(profile: &Profile, cores: &Cores) -> Result<Vec<Parameter>, (String, String)> {
    let mut parameters = Vec::new();
    for (name, _) in BOOT {
        let Some(wanted) = profile.boot.get(name) else {
            continue;
        };
        if let Some(text) = text(name, wanted, cores)? {
            let (evidence, risk) = catalogue::of(name);
            parameters.push(Parameter {
                name,
                text,
                evidence,
                risk,
            });
        }
    }
    Ok(parameters)
}

pub fn command_line(parameters: &[Parameter]) -> String {
    let words: Vec<&str> = parameters.iter().map(|p| p.text.as_str()).collect();
    words.join(" ")
}

/// The parameters for a guest with `vcpus` virtual CPUs: its first one does the housekeeping.
/// What is the hardware's business (power, machine checks, the IOMMU) is the host's.
pub fn of_guest(profile: &Profile, vcpus: u32) -> Vec<String> {
    let cores = Cores {
        housekeeping: CpuList::new(vec![0]),
        isolated: CpuList::new((1..vcpus).collect()),
    };
    let mut inside = profile.clone();
    inside.boot.retain(|name, wanted| {
        // A list of the host's CPUs means nothing inside, and with one there is nothing to divide.
        let cpus = matches!(wanted, Wanted::Cpus(choice) if vcpus < 2 || cores.of(choice).is_err());
        catalogue::means_something_in_a_guest(name) && !cpus
    });
    let parameters = parameters(&inside, &cores).unwrap_or_default();
    parameters.into_iter().map(|p| p.text).collect()
}

fn text(name: &str, wanted: &Wanted, cores: &Cores) -> Result<Option<String>, (String, String)> {
    Ok(match wanted {
        Wanted::Cpus(choice) => {
            let list = cores.of(choice)?;
            // Managed interrupts, those that the kernel places itself, keep away too (Linux 5.6).
            let flags = if name == "isolcpus" {
                "managed_irq,domain,"
            } else {
                ""
            };
            (!list.is_empty()).then(|| format!("{name}={flags}{list}"))
        }
        Wanted::Switch(on) => match (catalogue::form(name), on) {
            (catalogue::Form::Alone, true) => Some(name.to_string()),
            (catalogue::Form::Alone, false) => None,
            (catalogue::Form::Number, on) => Some(format!("{name}={}", u8::from(*on))),
            (catalogue::Form::Word, on) => {
                Some(format!("{name}={}", if *on { "on" } else { "off" }))
            }
        },
        Wanted::Number(number) => Some(format!("{name}={number}")),
        Wanted::Word(word) => Some(format!("{name}={word}")),
        // No boot parameter is of another kind.
        Wanted::Duration(_) | Wanted::Size(_) | Wanted::Threads(_) | Wanted::Names(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn four() -> Cores {
        Cores {
            housekeeping: CpuList::new(vec![0]),
            isolated: CpuList::new(vec![1, 2, 3]),
        }
    }

    fn profile(text: &str) -> Profile {
        Profile::parse(text, &|_| None).expect("a profile")
    }

    #[test]
    fn the_real_time_profile_becomes_welchs_and_daichendts_line() {
        let realtime = Profile::builtin("realtime").expect("a profile");
        let line = command_line(&parameters(&realtime, &four()).expect("parameters"));
        assert_eq!(
            line,
            "nohz_full=1-3 rcu_nocbs=1-3 rcu_nocb_poll irqaffinity=0 nohz=on skew_tick=1 \
             nmi_watchdog=0 nosoftlockup mce=ignore_ce audit=0 idle=poll intel_idle.max_cstate=0 \
             tsc=reliable"
        );
    }

    #[test]
    fn everything_that_a_profile_may_name_has_a_form_evidence_and_a_risk() {
        let text = "name: all\nabout: x\ncores: isolated\nboot:\n  isolcpus: isolated\n  nosmt: on\n  \
            mitigations: off\n  default_hugepagesz: 1G\n  hugepagesz: 1G\n  hugepages: 4\n  \
            intel_iommu: off\n  threadirqs: off\n  audit: on\n  apparmor: off\n  random.trust_cpu: on\n";
        let line = command_line(&parameters(&profile(text), &four()).expect("parameters"));
        assert_eq!(
            line,
            "isolcpus=managed_irq,domain,1-3 nosmt audit=1 apparmor=0 random.trust_cpu=on \
             mitigations=off default_hugepagesz=1G hugepagesz=1G hugepages=4 intel_iommu=off"
        );
        for (name, _) in BOOT {
            let (evidence, risk) = catalogue::of(name);
            assert!(evidence.len() > 10 && risk.len() > 10, "{name}");
        }
    }

    #[test]
    fn a_guest_gets_parameters_that_work_inside() {
        let realtime = Profile::builtin("realtime").expect("a profile");
        let words = of_guest(&realtime, 2).join(" ");
        assert_eq!(
            words,
            "nohz_full=1 rcu_nocbs=1 rcu_nocb_poll irqaffinity=0 nohz=on skew_tick=1 nmi_watchdog=0 \
             nosoftlockup audit=0 tsc=reliable"
        );
        assert!(!of_guest(&realtime, 1).join(" ").contains("rcu_nocbs"));
        let named = profile("name: n\nabout: x\ncores: 4-5\nboot: {nohz_full: 4-5, audit: off}\n");
        assert_eq!(of_guest(&named, 2), ["audit=0"]);
    }

    #[test]
    fn without_isolation_no_cpus_are_named() {
        let isolated = Profile::builtin("isolated").expect("a profile");
        let shared = Cores::shared(&CpuList::new(vec![0, 1]));
        let line = command_line(&parameters(&isolated, &shared).expect("parameters"));
        assert_eq!(line, "irqaffinity=0-1 skew_tick=1 nmi_watchdog=0 audit=0");
        assert!(
            parameters(
                &profile("name: n\nabout: x\ncores: 8\nboot: {nohz_full: 8}\n"),
                &shared
            )
            .is_err()
        );
    }
}
