//! Mistakes of a study's combinations. Nine combinations of one lab with a misspelt key have one
//! mistake, not nine; a level that only some combinations have is named.

use std::collections::BTreeSet;

use super::study::{FactorSpec, Study};
use crate::diagnostic::{Diagnostic, Diagnostics};

/// Mistakes of many combinations, each told once; one that only some combinations have says which.
pub(crate) struct Gathered<'a> {
    study: &'a Study,
    found: Vec<(Diagnostic, Seen)>,
    failed: usize,
}

struct Seen {
    combinations: usize,
    first: Vec<usize>,
    /// For each factor, its levels among those combinations.
    levels: Vec<BTreeSet<usize>>,
}

/// Maximum of different mistakes; further combinations are not looked at.
const MAX_GATHERED: usize = 200;

impl<'a> Gathered<'a> {
    pub fn new(study: &'a Study) -> Self {
        Gathered {
            study,
            found: Vec::new(),
            failed: 0,
        }
    }

    pub fn note(&mut self, errors: &Diagnostics, choice: &[usize]) {
        self.failed += 1;
        if self.found.len() > MAX_GATHERED {
            return;
        }
        for mistake in errors.iter() {
            let at = self.found.iter().position(|(known, _)| known == mistake);
            let at = at.unwrap_or_else(|| {
                let seen = Seen {
                    combinations: 0,
                    first: choice.to_vec(),
                    levels: vec![BTreeSet::new(); choice.len()],
                };
                self.found.push((mistake.clone(), seen));
                self.found.len() - 1
            });
            let seen = &mut self.found[at].1;
            seen.combinations += 1;
            for (levels, level) in seen.levels.iter_mut().zip(choice) {
                levels.insert(*level);
            }
        }
    }

    /// All mistakes, when there are any; `good` is the number of combinations without.
    pub fn into_result(self, good: usize) -> Result<(), Diagnostics> {
        let all = self.failed + good;
        let mut errors = Diagnostics::default();
        for (mistake, seen) in self.found {
            let with = if seen.combinations == all {
                String::new()
            } else {
                format!(" ({})", seen.words(self.study))
            };
            errors.add(mistake.at, mistake.message + &with, mistake.hint);
        }
        errors.into_result(())
    }
}

impl Seen {
    /// `with link=nat` when just that level has the mistake, whatever the other factors are.
    fn words(&self, study: &Study) -> String {
        let factors = || study.factors.iter().zip(&self.levels).zip(&self.first);
        let label = |f: &FactorSpec, level: &usize| f.levels[*level].label.clone();
        let product: usize = self.levels.iter().map(BTreeSet::len).product();
        if product != self.combinations {
            let first = factors().map(|((f, _), level)| format!("{}={}", *f.name, label(f, level)));
            return format!("for example with {}", first.collect::<Vec<_>>().join(", "));
        }
        let narrow = factors().filter(|((f, seen), _)| seen.len() < f.levels.len());
        let each = narrow.map(|((f, seen), _)| {
            let labels: Vec<String> = seen.iter().map(|level| label(f, level)).collect();
            format!("{}={}", *f.name, labels.join(" or "))
        });
        format!("with {}", each.collect::<Vec<_>>().join(", "))
    }
}
