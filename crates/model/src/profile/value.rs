//! The values that a profile may want of a knob or a boot parameter, and how they are written.
//!
//! Every knob has one kind of value, so that a wrong unit is found in the document and not in the
//! kernel, which takes `500` for centiseconds, microseconds or pages as it pleases.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::diagnostic::{hint_one_of, shown};
use crate::units::{Bytes, CpuList, Nanos};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `on` or `off`.
    Switch,
    Number {
        least: u64,
        most: u64,
    },
    /// A duration in whole units of what the kernel counts in, `off` where the knob can be.
    Duration {
        /// The unit that the kernel counts in, in nanoseconds.
        unit: u64,
        /// Longest, in nanoseconds.
        most: u64,
        /// Whether `off` has a meaning of its own.
        off: bool,
    },
    Size {
        /// Most, in bytes.
        most: u64,
    },
    Word(&'static [&'static str]),
    Cpus,
    /// Scheduling policies by the names of threads.
    Threads,
    Names,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// The value of [`Kind::Switch`], and the `off` of a [`Kind::Duration`].
    Switch(bool),
    Number(u64),
    Duration(Nanos),
    Size(Bytes),
    Word(&'static str),
    Cpus(CpuChoice),
    /// The value of [`Kind::Threads`], in the order of the text: the first pattern that fits a thread counts.
    Threads(Vec<ThreadPolicy>),
    /// The value of [`Kind::Names`]: names with `*` for any characters.
    Names(Vec<String>),
}

/// CPUs, by what they are for or by number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CpuChoice {
    /// Those that carry everything that is not measured.
    Housekeeping,
    /// Those that are kept quiet.
    Isolated,
    All,
    /// None: the mechanism is off.
    None,
    List(CpuList),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadPolicy {
    /// The thread's name (`comm`), `*` for any characters.
    pub pattern: String,
    pub policy: Policy,
}

/// A scheduling policy (sched(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// `other:NICE`
    Other(i8),
    /// `fifo:PRIORITY`
    Fifo(u8),
    /// `rr:PRIORITY`
    RoundRobin(u8),
    /// `deadline:RUNTIME/DEADLINE/PERIOD`
    Deadline {
        runtime: Nanos,
        /// Latest end of it after the period's begin.
        deadline: Nanos,
        period: Nanos,
    },
}

/// Why a text is no value: what was expected, and a hint.
pub type Mistake = (String, String);

impl Kind {
    /// Reads a single value; threads are read with [`Policy::parse`], one a name.
    pub fn parse(self, text: &str) -> Result<Wanted, Mistake> {
        let text = text.trim();
        let value = match self {
            Kind::Switch => switch(text).map(Wanted::Switch),
            Kind::Number { least, most } => text
                .parse()
                .ok()
                .filter(|n| (least..=most).contains(n))
                .map(Wanted::Number),
            Kind::Duration { off: true, .. } if switch(text) == Some(false) => {
                Some(Wanted::Switch(false))
            }
            Kind::Duration { unit, most, .. } => Nanos::parse(text)
                .filter(|d| d.0 % unit == 0 && d.0 <= most)
                .map(Wanted::Duration),
            Kind::Size { most } => Bytes::parse(text)
                .filter(|b| b.0 <= most && (b.0 == 0 || text.ends_with('B')))
                .map(Wanted::Size),
            Kind::Word(words) => words.iter().find(|w| **w == text).map(|w| Wanted::Word(w)),
            Kind::Cpus => CpuChoice::parse(text).map(Wanted::Cpus),
            Kind::Threads => None,
            Kind::Names => {
                let names: Vec<String> = text.split(',').map(|n| n.trim().to_string()).collect();
                names
                    .iter()
                    .all(|n| good_pattern(n))
                    .then_some(Wanted::Names(names))
            }
        };
        value.ok_or_else(|| (self.expected(), self.hint(text)))
    }

    pub fn expected(self) -> String {
        match self {
            Kind::Switch => "`on` or `off`".into(),
            Kind::Number { least, most } => format!("a whole number from {least} to {most}"),
            Kind::Duration { unit, most, off } => format!(
                "{}a duration with its unit in steps of {}, at most {}",
                if off { "`off` or " } else { "" },
                Nanos(unit),
                Nanos(most)
            ),
            Kind::Size { most } => format!("a size with its unit, at most {}", Bytes(most)),
            Kind::Word(words) => format!("one of {}", words.join(", ")),
            Kind::Cpus => "`housekeeping`, `isolated`, `all`, `none` or a list of CPUs".into(),
            Kind::Threads => "a mapping of threads' names to policies".into(),
            Kind::Names => format!("names of processes of at most {MAX_PATTERN} characters"),
        }
    }

    fn hint(self, text: &str) -> String {
        match self {
            Kind::Word(words) => hint_one_of(text, words),
            Kind::Switch => "for example `off`".into(),
            Kind::Number { least, .. } => format!("for example `{least}`"),
            Kind::Duration { unit, .. } => format!("for example `{}`", Nanos(unit)),
            Kind::Size { .. } => {
                "for example `64MiB` (units: B, KiB, MiB, GiB, kB, MB, GB)".to_string()
            }
            Kind::Cpus => match CpuChoice::WORDS
                .iter()
                .find(|w| crate::diagnostic::nearest(text, [**w]).is_some())
            {
                Some(near) => format!("did you mean `{near}`?"),
                None => "for example `housekeeping` or `0-3,8`".into(),
            },
            Kind::Threads => "for example `{ksoftirqd/*: fifo:2}`".into(),
            Kind::Names => "for example `qemu-system-*`".into(),
        }
    }
}

/// Longest name of a thread in the kernel, without its final zero.
const MAX_PATTERN: usize = 15;

/// A pattern that names something: not only stars, and not longer than a name can be.
pub(super) fn good_pattern(text: &str) -> bool {
    let named = text.chars().any(|c| c != '*' && !c.is_whitespace());
    named && text.chars().count() <= MAX_PATTERN + 1 && !text.contains(char::is_control)
}

/// Whether `name` fits `pattern`, in which `*` stands for any characters.
pub fn fits(pattern: &str, name: &str) -> bool {
    let Some((first, behind)) = pattern.split_once('*') else {
        return name == pattern;
    };
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let (between, last) = behind.rsplit_once('*').unwrap_or(("", behind));
    for part in between.split('*') {
        let Some((_, left)) = rest.split_once(part) else {
            return false;
        };
        rest = left;
    }
    rest.ends_with(last)
}

fn switch(text: &str) -> Option<bool> {
    match text {
        "on" | "On" | "ON" | "true" | "yes" => Some(true),
        "off" | "Off" | "OFF" | "false" | "no" => Some(false),
        _ => None,
    }
}

impl CpuChoice {
    pub const WORDS: &'static [&'static str] = &["housekeeping", "isolated", "all", "none"];

    pub fn parse(text: &str) -> Option<CpuChoice> {
        Some(match text {
            "housekeeping" => CpuChoice::Housekeeping,
            "isolated" => CpuChoice::Isolated,
            "all" => CpuChoice::All,
            "none" => CpuChoice::None,
            list => CpuChoice::List(CpuList::parse(list)?),
        })
    }
}

impl fmt::Display for CpuChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CpuChoice::Housekeeping => f.write_str("housekeeping"),
            CpuChoice::Isolated => f.write_str("isolated"),
            CpuChoice::All => f.write_str("all"),
            CpuChoice::None => f.write_str("none"),
            CpuChoice::List(list) => list.fmt(f),
        }
    }
}

impl Policy {
    /// Reads `fifo:50`, `rr:10`, `other:-5`, `deadline:200us/1ms/1ms`.
    pub fn parse(text: &str) -> Result<Policy, Mistake> {
        let expected = "`fifo:1` to `fifo:98`, `rr:1` to `rr:98`, `other:-20` to `other:19`, or \
                        `deadline:RUNTIME/DEADLINE/PERIOD` with runtime ≤ deadline ≤ period";
        Policy::read(text.trim()).ok_or_else(|| {
            let hint = if shown(text).contains("99") {
                "99 belongs to the kernel's own migration and watchdog threads"
            } else {
                "for example `fifo:50` or `deadline:200us/1ms/1ms`"
            };
            (expected.to_string(), hint.to_string())
        })
    }

    fn read(text: &str) -> Option<Policy> {
        let (name, value) = text.split_once(':')?;
        let priority = || value.parse().ok().filter(|p| (1..=98).contains(p));
        match name {
            "fifo" => Some(Policy::Fifo(priority()?)),
            "rr" => Some(Policy::RoundRobin(priority()?)),
            "other" => {
                let nice = value.parse().ok().filter(|n| (-20..=19).contains(n))?;
                Some(Policy::Other(nice))
            }
            "deadline" => {
                let times: Option<Vec<Nanos>> = value.split('/').map(Nanos::parse).collect();
                let [runtime, deadline, period] = times?[..] else {
                    return None;
                };
                // The kernel's own bounds (sched_setattr(2)): 1024 ns and 2^63 ns.
                let ordered = runtime.0 >= 1024 && runtime <= deadline && deadline <= period;
                (ordered && period.0 < 1 << 62).then_some(Policy::Deadline {
                    runtime,
                    deadline,
                    period,
                })
            }
            _ => None,
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Other(nice) => write!(f, "other:{nice}"),
            Policy::Fifo(priority) => write!(f, "fifo:{priority}"),
            Policy::RoundRobin(priority) => write!(f, "rr:{priority}"),
            // In nanoseconds: shown in a larger unit, a time would be rounded.
            Policy::Deadline {
                runtime,
                deadline,
                period,
            } => write!(
                f,
                "deadline:{}ns/{}ns/{}ns",
                runtime.0, deadline.0, period.0
            ),
        }
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wanted::Switch(true) => f.write_str("on"),
            Wanted::Switch(false) => f.write_str("off"),
            Wanted::Number(n) => n.fmt(f),
            Wanted::Duration(d) => d.fmt(f),
            Wanted::Size(b) => b.fmt(f),
            Wanted::Word(word) => f.write_str(word),
            Wanted::Cpus(choice) => choice.fmt(f),
            Wanted::Threads(all) => {
                let all: Vec<String> = all
                    .iter()
                    .map(|t| format!("{}: {}", t.pattern, t.policy))
                    .collect();
                write!(f, "{{{}}}", all.join(", "))
            }
            Wanted::Names(all) => f.write_str(&all.join(",")),
        }
    }
}

impl Serialize for Wanted {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_needs_its_unit_and_its_bounds() {
        let kind = Kind::Duration {
            unit: 10_000_000,
            most: 3_600_000_000_000,
            off: true,
        };
        assert_eq!(kind.parse("off"), Ok(Wanted::Switch(false)));
        assert_eq!(kind.parse("5s"), Ok(Wanted::Duration(Nanos(5_000_000_000))));
        // No unit, finer than the kernel counts, longer than allowed.
        for bad in ["500", "15ms", "2000min", "on"] {
            assert!(kind.parse(bad).is_err(), "{bad}");
        }
        let size = Kind::Size { most: 1 << 30 };
        assert_eq!(size.parse("64MiB"), Ok(Wanted::Size(Bytes(64 << 20))));
        assert_eq!(size.parse("0"), Ok(Wanted::Size(Bytes(0))));
        for bad in ["64", "2GiB", "64ms"] {
            assert!(size.parse(bad).is_err(), "{bad}");
        }
        let (expected, hint) = Kind::Cpus.parse("housekeping").unwrap_err();
        assert!(expected.contains("list of CPUs"), "{expected}");
        assert_eq!(hint, "did you mean `housekeeping`?");
    }

    #[test]
    fn policies_are_bounded_as_the_kernel_bounds_them() {
        assert_eq!(Policy::parse("fifo:50"), Ok(Policy::Fifo(50)));
        let deadline = Policy::parse("deadline:200us/1ms/1ms").unwrap();
        assert_eq!(Policy::parse(&deadline.to_string()), Ok(deadline));
        for bad in [
            "fifo:0",
            "fifo:99",
            "fifo",
            "other:20",
            "deadline:2ms/1ms/1ms",
            "deadline:1ms",
            "batch:0",
        ] {
            assert!(Policy::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_pattern_names_something() {
        assert!(fits("ksoftirqd/*", "ksoftirqd/1"));
        assert!(fits("irq/*-eth0*", "irq/41-eth0-rx"));
        assert!(fits("rcu_preempt", "rcu_preempt"));
        assert!(!fits("rcu", "rcu_preempt"));
        assert!(!fits("*x", "xy"));
        assert!(!fits("a*a", "a"));
        assert!(good_pattern("irq/*"));
        for bad in ["*", "", "**", "a name that is too long"] {
            assert!(!good_pattern(bad), "{bad}");
        }
    }
}
