//! A command of the user's own.

use latlab_model::results::Figure;
use latlab_model::spec::{Better, OwnCommand};

use super::work::{Evidence, Place, Work, figure};
use crate::workload::figure::of_metric;
use crate::workload::node::Ended;

pub(super) struct Own(pub OwnCommand);

impl Work for Own {
    fn name(&self) -> &str {
        "command"
    }

    fn command(&self, _at: &Place, _prepared: &str) -> Result<Vec<String>, String> {
        Ok(self.0.argv.clone())
    }

    fn figures(&self) -> Vec<Figure> {
        let metric = &self.0.metric;
        let is_higher = metric.better == Better::Higher;
        vec![figure("metric", "Metric", &metric.unit, is_higher)]
    }

    fn read(&self, ended: &Ended, _evidence: &Evidence) -> Result<Vec<f64>, String> {
        Ok(vec![of_metric(&self.0.metric, &ended.text())?])
    }
}
