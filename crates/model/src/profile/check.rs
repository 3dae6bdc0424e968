//! Mistakes between values that are each good, and between a profile and a machine's CPUs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::document::{Isolation, Profile};
use super::value::{CpuChoice, Policy, Wanted, fits};
use crate::diagnostic::Mark;
use crate::units::CpuList;

/// The places of a profile's own lines, for mistakes that are found later.
#[derive(Default)]
pub(super) struct Places {
    pub cores: Option<Mark>,
    pub knobs: BTreeMap<&'static str, Mark>,
    pub boot: BTreeMap<&'static str, Mark>,
}

pub(super) struct Contradiction {
    /// The knob or boot parameter at whose place it is shown.
    of: &'static str,
    pub message: String,
    pub hint: String,
}

impl Contradiction {
    fn new(of: &'static str, message: String, hint: &str) -> Contradiction {
        let hint = hint.to_string();
        Contradiction { of, message, hint }
    }

    /// Where the profile's own text says one half of it; none when both were inherited.
    pub(super) fn place(&self, places: &Places) -> Option<Mark> {
        let knob = places.knobs.get(self.of);
        knob.or(places.boot.get(self.of)).copied().or(places.cores)
    }
}

pub(super) fn contradictions(profile: &Profile) -> Vec<Contradiction> {
    let mut all = Vec::new();
    cores(profile, &mut all);
    boot(profile, &mut all);
    threads(profile, &mut all);
    power(profile, &mut all);
    all
}

/// Values that name isolated cores need some; what makes noise must not be sent to them.
fn cores(profile: &Profile, all: &mut Vec<Contradiction>) {
    let both = profile.knobs.iter().chain(&profile.boot);
    for (name, wanted) in both {
        let isolates = *name == "cpuset" || matches!(wanted, Wanted::Cpus(CpuChoice::Isolated));
        if isolates && profile.cores == Isolation::Shared {
            let message = format!("`{name}: {wanted}` isolates cores, and `cores` is `shared`");
            let hint = "write `cores: isolated`, or leave it out";
            all.push(Contradiction::new(name, message, hint));
        }
    }
    let quiet = [
        "irq-affinity",
        "irq-default",
        "irqbalance",
        "workqueues",
        "kernel-threads",
        "watchdog-cpus",
        "irqaffinity",
    ];
    for name in quiet {
        let wanted = profile.knobs.get_key_value(name);
        let Some((name, Wanted::Cpus(choice))) =
            wanted.or_else(|| profile.boot.get_key_value(name))
        else {
            continue;
        };
        let invades = match (choice, &profile.cores) {
            (_, Isolation::Shared) => false,
            (CpuChoice::Isolated | CpuChoice::None, _) => true,
            (CpuChoice::List(list), Isolation::Listed(cores)) => {
                list.iter().any(|cpu| cores.contains(cpu))
            }
            _ => false,
        };
        if invades {
            let message = format!("`{name}: {choice}` brings noise to the cores that are isolated");
            let hint = "write `housekeeping`, or name CPUs that are not isolated";
            all.push(Contradiction::new(name, message, hint));
        }
    }
    // `none` is for steering that can be off; interrupts and threads must be somewhere.
    for name in &quiet[..6] {
        if profile.cores == Isolation::Shared
            && profile.knobs.get(name) == Some(&Wanted::Cpus(CpuChoice::None))
        {
            let message = format!("`{name}: none` leaves it no CPU");
            all.push(Contradiction::new(name, message, "write `all`"));
        }
    }
}

/// Parameters wanted at boot must not be the opposite of knobs wanted later.
fn boot(profile: &Profile, all: &mut Vec<Contradiction>) {
    let off = Wanted::Switch(false);
    let on = Wanted::Switch(true);
    let (knob, boot) = (
        |name| profile.knobs.get(name),
        |name| profile.boot.get(name),
    );
    let mut differ = |a: &'static str, b: &'static str, against: bool| {
        if let (true, Some(x), Some(y)) = (against, knob(a), boot(b)) {
            let message = format!("knob `{a}: {x}` contradicts boot parameter `{b}: {y}`");
            all.push(Contradiction::new(
                a,
                message,
                "want the same of both, or drop one",
            ));
        }
    };
    let nmi = (knob("nmi-watchdog"), boot("nmi_watchdog"));
    differ(
        "nmi-watchdog",
        "nmi_watchdog",
        matches!(nmi, (Some(a), Some(b)) if a != b),
    );
    for (watchdog, parameter) in [
        ("nmi-watchdog", "nowatchdog"),
        ("soft-watchdog", "nowatchdog"),
        ("soft-watchdog", "nosoftlockup"),
    ] {
        let against = knob(watchdog) == Some(&on) && boot(parameter) == Some(&on);
        differ(watchdog, parameter, against);
    }
    let thp = (knob("thp"), boot("transparent_hugepage"));
    differ(
        "thp",
        "transparent_hugepage",
        matches!(thp, (Some(a), Some(b)) if a != b),
    );
    let workers = [knob("nmi-watchdog"), knob("soft-watchdog")];
    if let (Some(cpus), true) = (
        knob("watchdog-cpus"),
        workers.iter().all(|w| *w == Some(&off)),
    ) {
        let message = format!("`watchdog-cpus: {cpus}` places watchdogs that are both off");
        let hint = "drop `watchdog-cpus`, or leave one watchdog on";
        all.push(Contradiction::new("watchdog-cpus", message, hint));
    }
}

/// The kernel admits real-time threads to a share of the time only; without it one can starve a core.
fn threads(profile: &Profile, all: &mut Vec<Contradiction>) {
    let Some(Wanted::Threads(threads)) = profile.knobs.get("threads") else {
        return;
    };
    for (index, thread) in threads.iter().enumerate() {
        let twice = threads[..index]
            .iter()
            .find(|t| fits(&t.pattern, &thread.pattern) && t.policy != thread.policy);
        if let Some(first) = twice {
            let message = format!(
                "`threads` has `{}` after `{}`, which fits the same threads",
                thread.pattern, first.pattern
            );
            let hint = "the first pattern that fits counts: write the narrower one first";
            all.push(Contradiction::new("threads", message, hint));
        }
        // Moving a thread to a part of the machine's CPUs is refused while it has a deadline.
        if matches!(thread.policy, Policy::Deadline { .. }) && profile.knobs.contains_key("cpuset")
        {
            let message = format!(
                "`{}` cannot have a deadline beside `cpuset`: the kernel keeps threads with a \
                 deadline on all CPUs of their domain",
                thread.pattern
            );
            let hint = "use `fifo:PRIORITY`, or drop one of the two";
            all.push(Contradiction::new("threads", message, hint));
        }
    }
}

fn power(profile: &Profile, all: &mut Vec<Contradiction>) {
    let is = |name: &str, word: &str| matches!(profile.knobs.get(name), Some(Wanted::Word(w)) if *w == word);
    if is("governor", "powersave") && profile.knobs.contains_key("cpu-dma-latency") {
        let message = "`governor: powersave` contradicts `cpu-dma-latency`, which forbids to save";
        let hint = "write `governor: performance`, or drop `cpu-dma-latency`";
        all.push(Contradiction::new("governor", message.into(), hint));
    }
    if let (Some(Wanted::Size(pages)), Some(Wanted::Number(boot))) = (
        profile.knobs.get("huge-pages"),
        profile.boot.get("hugepages"),
    ) {
        if pages.0 == 0 && *boot > 0 {
            let message = format!("`huge-pages: {pages}` gives back the {boot} reserved at boot");
            let hint = "want the same of both, or drop one";
            all.push(Contradiction::new("huge-pages", message, hint));
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cores {
    /// Carries everything that is not measured; never empty.
    pub housekeeping: CpuList,
    /// Kept quiet; may be empty.
    pub isolated: CpuList,
}

impl Cores {
    /// All of a machine's CPUs housekeeping, none isolated.
    pub fn shared(online: &CpuList) -> Cores {
        Cores {
            housekeeping: online.clone(),
            isolated: CpuList::default(),
        }
    }

    /// Divides the CPUs that are online. Fails when one of `isolated` is not there, or none would be left: what, and
    /// what to do.
    pub fn new(online: &CpuList, isolated: &CpuList) -> Result<Cores, (String, String)> {
        if let Some(missing) = isolated.iter().find(|cpu| !online.contains(*cpu)) {
            let message = format!("CPU {missing} cannot be isolated: this machine has {online}");
            return Err((message, "name CPUs that the machine has".into()));
        }
        let rest: Vec<u32> = online
            .iter()
            .filter(|cpu| !isolated.contains(*cpu))
            .collect();
        if rest.is_empty() {
            let message = format!("isolating {isolated} leaves no CPU for everything else");
            let hint = "leave at least one: interrupts, kernel threads and latlab itself need it";
            return Err((message, hint.into()));
        }
        Ok(Cores {
            housekeeping: CpuList::new(rest),
            isolated: isolated.clone(),
        })
    }

    pub fn all(&self) -> CpuList {
        CpuList::new(
            self.housekeeping
                .iter()
                .chain(self.isolated.iter())
                .collect(),
        )
    }

    /// The CPUs of a choice. Fails when it names one that is not there: what, and what to do.
    pub fn of(&self, choice: &CpuChoice) -> Result<CpuList, (String, String)> {
        match choice {
            CpuChoice::Housekeeping => Ok(self.housekeeping.clone()),
            CpuChoice::Isolated => Ok(self.isolated.clone()),
            CpuChoice::All => Ok(self.all()),
            CpuChoice::None => Ok(CpuList::default()),
            CpuChoice::List(list) => {
                let all = self.all();
                match list.iter().find(|cpu| !all.contains(*cpu)) {
                    None => Ok(list.clone()),
                    Some(missing) => Err((
                        format!("there is no CPU {missing}: this machine has {all}"),
                        "name CPUs that the machine has".into(),
                    )),
                }
            }
        }
    }
}

impl Profile {
    /// Mistakes between values that are each good, with places where there are some.
    pub fn check(&self) -> Result<(), (String, String)> {
        match contradictions(self).into_iter().next() {
            Some(found) => Err((found.message, found.hint)),
            None => Ok(()),
        }
    }

    /// The parts of a machine's CPUs for this profile; `chosen` (`--cpus`, placement) goes before the profile's own
    /// list. Fails when the profile isolates nothing although CPUs were chosen, everything, or what is not there:
    /// what, and what to do.
    pub fn cores_of(
        &self,
        online: &CpuList,
        chosen: Option<&CpuList>,
    ) -> Result<Cores, (String, String)> {
        let cores = match (&self.cores, chosen) {
            (Isolation::Shared, None) => Cores::shared(online),
            (Isolation::Shared, Some(_)) => {
                let message = format!("profile `{}` isolates no CPUs", self.name);
                let hint = "leave the choice of CPUs out, or take a profile that isolates";
                return Err((message, hint.into()));
            }
            (_, Some(chosen)) => Cores::new(online, chosen)?,
            (Isolation::Listed(list), None) => Cores::new(online, list)?,
            (Isolation::Isolated, None) => Cores::new(online, &usual(online)?)?,
        };
        for wanted in self.knobs.values().chain(self.boot.values()) {
            if let Wanted::Cpus(choice) = wanted {
                cores.of(choice)?;
            }
        }
        Ok(cores)
    }
}

/// The default choice: the first quarter of the CPUs, at least one, does the housekeeping.
fn usual(online: &CpuList) -> Result<CpuList, (String, String)> {
    let first = online.len().div_ceil(4);
    let rest: Vec<u32> = online.iter().skip(first).collect();
    if rest.is_empty() {
        Err((
            format!("no CPU can be isolated: this machine has only {online}"),
            "use a profile that isolates none".into(),
        ))
    } else {
        Ok(CpuList::new(rest))
    }
}
