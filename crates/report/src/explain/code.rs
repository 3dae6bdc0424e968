//! Where in its code a device was: sampled stacks of its slowest packets beside all others.
//!
//! A function counts once for each stack that it is in, as the caller of others too. One that is in most stacks of
//! slow packets and in few others is where the time went. The program's main loop is in all of both.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use latlab_model::results::tail::{self, Called};
use latlab_samples::table::Stack;

use crate::attribution::joined;

/// Functions whose shares differ by less are told apart by their depth: the innermost tells most.
const ALIKE: f64 = 0.02;
/// Frames of a stack at most: a damaged table may hold any number.
const MAX_DEPTH: usize = 256;
/// A function with fewer of both kinds of samples is not drawn: it would be narrower than a pixel.
const DRAWN: f64 = 0.000_5;

/// Sampled stacks, by whether one of the slowest packets was in the device then.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Code {
    /// Samples in a second of a thread's running.
    pub rate: u32,
    /// Samples for which there was no room.
    pub lost: u32,
    pub slow: Folded,
    pub otherwise: Folded,
}

/// Number of samples of each stack, in the folded form.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Folded {
    pub stacks: BTreeMap<String, u64>,
    pub samples: u64,
}

/// Each function's share of some stacks, and its depth.
type Shares<'a> = HashMap<&'a str, (f64, usize)>;

/// A function, with its share of the stacks.
#[derive(Debug, Clone, PartialEq)]
pub struct Function {
    pub name: String,
    pub slow: f64,
    pub otherwise: f64,
}

impl Folded {
    fn add(&mut self, frames: &str, count: u64) {
        *self.stacks.entry(frames.to_owned()).or_insert(0) += count;
        self.samples += count;
    }

    fn join(&mut self, other: &Folded) {
        for (frames, count) in &other.stacks {
            self.add(frames, *count);
        }
    }

    /// Each function's share of the stacks, and its depth where it is deepest.
    fn shares(&self) -> Shares<'_> {
        let mut all = Shares::new();
        for (frames, count) in &self.stacks {
            // The first is the thread's name.
            let functions: Vec<&str> = frames.split(';').skip(1).collect();
            for (depth, name) in functions.iter().enumerate() {
                let share = all.entry(*name).or_default();
                share.1 = share.1.max(depth);
            }
            for name in functions.into_iter().collect::<BTreeSet<&str>>() {
                if let Some(share) = all.get_mut(name) {
                    share.0 += *count as f64 / self.samples as f64;
                }
            }
        }
        all
    }

    /// Lines of flamegraph.pl's input.
    #[must_use]
    pub fn lines(&self) -> String {
        let line = |(frames, count): (&String, &u64)| format!("{frames} {count}\n");
        self.stacks.iter().map(line).collect()
    }
}

impl Code {
    /// Divides the stacks by the times of the slowest packets, begin and end of each.
    #[must_use]
    pub fn of(stacks: &[Stack], slow: Vec<(u64, u64)>, rate: u32, lost: u32) -> Code {
        let slow = joined(slow);
        let mut code = Code {
            rate,
            lost,
            ..Code::default()
        };
        for stack in stacks {
            let next = slow.partition_point(|&(_, end)| end < stack.time_ns);
            let is_slow = slow
                .get(next)
                .is_some_and(|&(begin, _)| begin <= stack.time_ns);
            let side = match is_slow {
                true => &mut code.slow,
                false => &mut code.otherwise,
            };
            side.add(&stack.frames, 1);
        }
        code
    }

    /// Joins the stacks of another trial.
    pub fn join(&mut self, other: &Code) {
        self.rate = self.rate.max(other.rate);
        self.lost = self.lost.saturating_add(other.lost);
        self.slow.join(&other.slow);
        self.otherwise.join(&other.otherwise);
    }

    #[must_use]
    pub fn samples(&self) -> u64 {
        self.slow.samples + self.otherwise.samples
    }

    /// All stacks together.
    #[must_use]
    pub fn all(&self) -> Folded {
        let mut all = self.slow.clone();
        all.join(&self.otherwise);
        all
    }

    /// Functions of the slowest packets, those first whose share there exceeds their share otherwise by most.
    #[must_use]
    pub fn functions(&self) -> Vec<Function> {
        beside(&self.slow, &self.otherwise.shares())
    }

    /// Names the device's functions by its stacks, which must be in the order of time.
    #[must_use]
    pub fn namer<'a>(&'a self, stacks: &'a [Stack]) -> Namer<'a> {
        Namer {
            stacks,
            otherwise: self.otherwise.shares(),
        }
    }
}

/// The device's stacks in order, and the usual shares of its functions.
pub struct Namer<'a> {
    stacks: &'a [Stack],
    otherwise: Shares<'a>,
}

impl Namer<'_> {
    /// The function in which the device was between two instants, beside where it usually is; `None` without a
    /// sample there.
    #[must_use]
    pub fn function(&self, from: u64, to: u64) -> Option<String> {
        let first = self.stacks.partition_point(|stack| stack.time_ns < from);
        let mut inside = Folded::default();
        for stack in self.stacks[first..]
            .iter()
            .take_while(|stack| stack.time_ns <= to)
        {
            inside.add(&stack.frames, 1);
        }
        let functions = beside(&inside, &self.otherwise);
        functions.into_iter().next().map(|function| function.name)
    }
}

/// Counts of the functions under one caller, and what those call.
#[derive(Default)]
struct Tree<'a> {
    below: BTreeMap<&'a str, Tree<'a>>,
    slow: u64,
    otherwise: u64,
}

impl<'a> Tree<'a> {
    fn add(&mut self, folded: &'a Folded, count: for<'t> fn(&'t mut Tree<'a>) -> &'t mut u64) {
        for (frames, samples) in &folded.stacks {
            let mut at = &mut *self;
            for name in frames.split(';').take(MAX_DEPTH) {
                at = at.below.entry(name).or_default();
                *count(at) += samples;
            }
        }
    }
}

impl Code {
    /// The tree that the page draws.
    #[must_use]
    pub fn drawn(&self) -> tail::Code {
        let mut root = Tree::default();
        root.add(&self.slow, |tree| &mut tree.slow);
        root.add(&self.otherwise, |tree| &mut tree.otherwise);
        let share = |samples: u64, of: &Folded| samples as f64 / of.samples.max(1) as f64;
        let is_wide = |tree: &Tree<'_>| {
            share(tree.slow, &self.slow).max(share(tree.otherwise, &self.otherwise)) >= DRAWN
        };
        let mut functions = Vec::new();
        let mut left: Vec<(Option<usize>, &str, &Tree<'_>)> = Vec::new();
        left.extend(root.below.iter().map(|(name, tree)| (None, *name, tree)));
        while let Some((caller, name, tree)) = left.pop() {
            if !is_wide(tree) {
                continue;
            }
            let place = functions.len();
            functions.push(Called {
                name: name.to_owned(),
                caller,
                slow: tree.slow,
                otherwise: tree.otherwise,
            });
            left.extend(
                tree.below
                    .iter()
                    .map(|(name, tree)| (Some(place), *name, tree)),
            );
        }
        tail::Code {
            rate: self.rate,
            slow: self.slow.samples,
            otherwise: self.otherwise.samples,
            lost: self.lost,
            functions,
        }
    }
}

/// The functions of some stacks beside others, the most different first.
fn beside(some: &Folded, others: &Shares<'_>) -> Vec<Function> {
    let with_depth = some.shares().into_iter().map(|(name, (slow, depth))| {
        let otherwise = others.get(name).map_or(0.0, |share| share.0);
        let function = Function {
            name: name.to_owned(),
            slow,
            otherwise,
        };
        (function, depth)
    });
    let mut all: Vec<(Function, usize)> = with_depth.collect();
    // In steps, so that the order is one.
    let step = |function: &Function| ((function.slow - function.otherwise) / ALIKE).round() as i64;
    all.sort_by(|(a, at), (b, bt)| {
        let by_depth = bt.cmp(at).then_with(|| a.name.cmp(&b.name));
        step(b).cmp(&step(a)).then(by_depth)
    });
    all.into_iter().map(|(function, _)| function).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(time_ns: u64, frames: &str) -> Stack {
        Stack {
            time_ns,
            frames: frames.into(),
            ..Stack::default()
        }
    }

    /// Ten samples, of which those at 3 and 4 are in a slow packet.
    fn stacks() -> Vec<Stack> {
        let frames = |at| match at {
            3 => "fwd;main;turn;checksum;add",
            4 => "fwd;main;turn;checksum",
            8 => "fwd;main;turn;checksum;add",
            _ => "fwd;main;turn;receive;poll_[k]",
        };
        (0..10).map(|at| stack(at, frames(at))).collect()
    }

    #[test]
    fn the_function_of_the_slow_packets_is_first() {
        let code = Code::of(&stacks(), vec![(3, 4)], 1000, 0);
        assert_eq!((code.slow.samples, code.otherwise.samples), (2, 8));
        let functions = code.functions();
        let names: Vec<&str> = functions.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(names, ["checksum", "add", "turn", "main"]);
        assert_eq!((functions[0].slow, functions[0].otherwise), (1.0, 0.125));
        assert_eq!((functions[2].slow, functions[2].otherwise), (1.0, 1.0));
    }

    #[test]
    fn of_two_that_are_alike_the_innermost_is_named() {
        let code = Code::of(&stacks(), vec![(3, 4)], 1000, 0);
        let stacks = stacks();
        let namer = code.namer(&stacks);
        assert_eq!(namer.function(3, 3).as_deref(), Some("add"));
        assert_eq!(namer.function(3, 4).as_deref(), Some("checksum"));
        assert_eq!(namer.function(20, 30), None);
    }

    #[test]
    fn a_recursive_function_counts_once() {
        let code = Code::of(&[stack(1, "t;main;walk;walk;walk")], vec![(0, 2)], 1, 0);
        let walk = &code.functions()[0];
        assert_eq!((walk.name.as_str(), walk.slow), ("walk", 1.0));
    }

    #[test]
    fn the_tree_has_callers_before_what_they_call() {
        let drawn = Code::of(&stacks(), vec![(3, 4)], 1000, 0).drawn();
        assert_eq!((drawn.slow, drawn.otherwise), (2, 8));
        let named = |name: &str| drawn.functions.iter().find(|f| f.name == name).unwrap();
        let counts = |name: &str| (named(name).slow, named(name).otherwise);
        assert_eq!((counts("fwd"), counts("checksum")), ((2, 8), (2, 1)));
        assert_eq!((counts("add"), counts("poll_[k]")), ((1, 1), (0, 7)));
        assert_eq!(named("fwd").caller, None);
        for (place, one) in drawn.functions.iter().enumerate() {
            assert!(one.caller.is_none_or(|caller| caller < place), "{one:?}");
        }
        let caller = named("add").caller.unwrap();
        assert_eq!(drawn.functions[caller].name, "checksum");
    }

    #[test]
    fn trials_are_joined_and_folded() {
        let mut code = Code::of(&stacks(), vec![(3, 4)], 1000, 1);
        code.join(&Code::of(&stacks(), Vec::new(), 1000, 2));
        assert_eq!((code.samples(), code.lost), (20, 3));
        let lines = code.all().lines();
        assert!(
            lines.contains("fwd;main;turn;receive;poll_[k] 14\n"),
            "{lines}"
        );
        assert_eq!(code.slow.lines().lines().count(), 2);
    }
}
