//! Stretches of time with a cause, and the interruptions that they form.

use super::cause::Cause;

/// Interruptions of one kind with a shorter pause in between are one episode.
const MAX_PAUSE_NS: u64 = 100_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    pub start_ns: u64,
    pub end_ns: u64,
    pub cause: Cause,
    /// The CPU that was used or waited for, if known.
    pub cpu: Option<u16>,
}

impl Span {
    pub fn new(start_ns: u64, end_ns: u64, cause: Cause, cpu: Option<u16>) -> Span {
        Span {
            start_ns,
            end_ns,
            cause,
            cpu,
        }
    }

    /// This span between other instants.
    pub fn within(&self, start_ns: u64, end_ns: u64) -> Span {
        Span {
            start_ns,
            end_ns,
            ..self.clone()
        }
    }

    /// Adds this span with parts of it, in order, that have other causes and CPUs.
    pub fn push_divided(
        &self,
        parts: impl Iterator<Item = (u64, u64, Cause, Option<u16>)>,
        into: &mut Vec<Span>,
    ) {
        let mut at = self.start_ns;
        for (from, to, cause, cpu) in parts {
            let (from, to) = (from.clamp(at, self.end_ns), to.clamp(at, self.end_ns));
            push(into, self.within(at, from));
            push(into, Span::new(from, to, cause, cpu));
            at = to;
        }
        push(into, self.within(at, self.end_ns));
    }
}

/// One interruption, possibly in pieces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Episode {
    pub cause: Cause,
    pub start_ns: u64,
    pub end_ns: u64,
    /// Length without the pauses.
    pub active_ns: u64,
}

/// Adds a span, joined to the one before if it has the same cause.
pub fn push(spans: &mut Vec<Span>, span: Span) {
    if span.start_ns >= span.end_ns {
        return;
    }
    match spans.last_mut() {
        Some(last)
            if last.end_ns == span.start_ns && last.cause == span.cause && last.cpu == span.cpu =>
        {
            last.end_ns = span.end_ns;
        }
        _ => spans.push(span),
    }
}

/// Joins interruptions of one kind with short pauses in between. Time that another cause took does not count as
/// a pause.
pub fn episodes(spans: &[Span]) -> Vec<Episode> {
    let mut all: Vec<Episode> = Vec::new();
    // Total time that other causes had taken the CPU, at the end of each episode.
    let mut taken_at: Vec<u64> = Vec::new();
    let mut taken = 0;
    for span in spans {
        let length = span.end_ns - span.start_ns;
        let before = taken;
        if span.cause.takes_the_cpu() {
            taken += length;
        }
        if span.cause.is_ordinary() {
            continue;
        }
        let is_near = |at: &usize| {
            let apart = span.start_ns.saturating_sub(all[*at].end_ns);
            all[*at].cause == span.cause
                && apart.saturating_sub(before - taken_at[*at]) < MAX_PAUSE_NS
        };
        match (0..all.len()).rev().take(16).find(is_near) {
            Some(at) => {
                all[at].end_ns = span.end_ns;
                all[at].active_ns += length;
                taken_at[at] = taken;
            }
            None => {
                all.push(Episode {
                    cause: span.cause.clone(),
                    start_ns: span.start_ns,
                    end_ns: span.end_ns,
                    active_ns: length,
                });
                taken_at.push(taken);
            }
        }
    }
    all
}
