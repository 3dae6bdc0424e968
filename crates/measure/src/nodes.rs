//! The nodes of a lab as a measurement between two of them sees them, on whichever machines they are.
//!
//! Taps, a recorder and actions need the machine that the nodes are on, and so a [`Lab`]. An exchange between two programs
//! needs no more than this.

use std::error::Error;

use latlab_host::lab::Lab;
use latlab_host::nodes::session::{Command, Session};
use latlab_model::plan::Plan;

use crate::affinity::allowed_cpus;

/// Why a command could not be started in a node.
pub type NotStarted = Box<dyn Error + Send + Sync>;

pub trait Nodes {
    /// The plan of the whole lab.
    fn plan(&self) -> &Plan;

    /// Starts a command in a node. Fails when the lab has no such node, the node is not reachable, or it has no such
    /// program.
    fn start(&self, node: &str, command: &Command) -> Result<Box<dyn Session>, NotStarted>;

    /// The agent's program as a command in the node names it.
    fn agent(&self, node: &str) -> String;

    /// CPU time that a node has used, in nanoseconds; `None` where nothing counts it.
    fn node_cpu_ns(&self, node: &str) -> Option<u64>;

    /// The machine whose CPUs a node's programs run on where it is no guest: its name, empty for this one, and the CPUs
    /// of nodes that are not confined to some.
    fn machine(&self, node: &str) -> (String, Vec<u32>);
}

impl Nodes for Lab {
    fn plan(&self) -> &Plan {
        Lab::plan(self)
    }

    fn start(&self, node: &str, command: &Command) -> Result<Box<dyn Session>, NotStarted> {
        Ok(Lab::start(self, node, command)?)
    }

    fn agent(&self, node: &str) -> String {
        Lab::agent(self, node)
    }

    fn node_cpu_ns(&self, node: &str) -> Option<u64> {
        Lab::node_cpu_ns(self, node)
    }

    fn machine(&self, _: &str) -> (String, Vec<u32>) {
        (String::new(), allowed_cpus().into_iter().collect())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::RefCell;

    use latlab_model::facts::Facts;
    use latlab_model::plan;
    use latlab_model::spec::{Lab as Written, Measurement, Study};

    use super::*;
    use crate::context::Context;

    /// Two nodes in which nothing starts, to see what would.
    pub(crate) struct Noted {
        plan: Plan,
        measurement: Measurement,
        commands: RefCell<Vec<Vec<String>>>,
    }

    impl Noted {
        /// `fields` are those of the measurement from `a` to `b`.
        pub(crate) fn new(fields: &str) -> Noted {
            let lab = "{name: t, topology: {nodes: {a: {kind: native}, b: {kind: native}}, \
                       links: [{endpoints: ['a:eth0', 'b:eth0']}]}}";
            let study =
                format!("name: s\nlab: {lab}\nmeasurements: [{{from: a, to: b, {fields}}}]\n");
            let mut study = Study::parse(&study).unwrap();
            let lab = Written::parse(lab).unwrap();
            Noted {
                plan: plan::plan(&lab, &Facts::default()).unwrap(),
                measurement: study.measurements.remove(0),
                commands: RefCell::default(),
            }
        }

        pub(crate) fn context(&self) -> Context<'_, Noted> {
            let ends = self.measurement.ends.as_ref().unwrap();
            Context::new(self, &self.measurement, ends, 1).unwrap()
        }

        /// Bytes that the last command may take for records.
        pub(crate) fn max_memory(&self) -> u64 {
            let commands = self.commands.borrow();
            let mut words = commands.last().unwrap().iter();
            assert!(words.any(|word| word == "--max-memory"), "{commands:?}");
            words.next().unwrap().parse().unwrap()
        }
    }

    impl Nodes for Noted {
        fn plan(&self) -> &Plan {
            &self.plan
        }

        fn start(&self, _: &str, command: &Command) -> Result<Box<dyn Session>, NotStarted> {
            self.commands.borrow_mut().push(command.argv.clone());
            Err("nothing starts here".into())
        }

        fn agent(&self, _: &str) -> String {
            "agent".into()
        }

        fn node_cpu_ns(&self, _: &str) -> Option<u64> {
            None
        }

        fn machine(&self, _: &str) -> (String, Vec<u32>) {
            (String::new(), Vec::new())
        }
    }
}
