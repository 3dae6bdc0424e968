//! The nodes of a lab on several hosts, each by its command channel.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use latlab_host::nodes::session::{Command, Session};
use latlab_host::nodes::vm::channel::exec_of;
use latlab_measure::nodes::{Nodes, NotStarted};
use latlab_model::plan::{Places, Plan};

use super::attached::Attached;
use crate::hosts::record::Record;

pub struct NodesOnHosts<'a> {
    plan: &'a Plan,
    places: &'a Places,
    record: Record,
    /// Opened when first needed.
    attached: Mutex<BTreeMap<String, Arc<Attached>>>,
}

impl<'a> NodesOnHosts<'a> {
    pub fn new(plan: &'a Plan, places: &'a Places, record: Record) -> NodesOnHosts<'a> {
        NodesOnHosts {
            plan,
            places,
            record,
            attached: Mutex::default(),
        }
    }

    /// Closes all channels; the next command opens its node's again.
    pub fn forget(&self) {
        self.all().clear();
    }

    fn all(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Arc<Attached>>> {
        self.attached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attached(&self, node: &str) -> Result<Arc<Attached>, NotStarted> {
        let mut all = self.all();
        if let Some(attached) = all.get(node) {
            return Ok(Arc::clone(attached));
        }
        let host = self.record.host_of(node).map_err(|e| e.lines().0)?;
        let attached = Attached::open(host, &self.record.lab, node)?;
        let attached = Arc::new(attached);
        all.insert(node.to_owned(), Arc::clone(&attached));
        Ok(attached)
    }
}

impl Nodes for NodesOnHosts<'_> {
    fn plan(&self) -> &Plan {
        self.plan
    }

    fn start(&self, node: &str, command: &Command) -> Result<Box<dyn Session>, NotStarted> {
        let attached = self.attached(node)?;
        Ok(Box::new(attached.channel.exec(exec_of(command))?))
    }

    fn agent(&self, _: &str) -> String {
        // The agent itself starts the command.
        "/proc/self/exe".into()
    }

    fn node_cpu_ns(&self, _: &str) -> Option<u64> {
        None
    }

    fn machine(&self, node: &str) -> (String, Vec<u32>) {
        let host = self.places.host_of(node);
        (host.to_owned(), self.places.cpus_of(host))
    }
}
