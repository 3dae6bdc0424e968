//! `latlab graph`: a lab's file, or a deployed lab, drawn.

use std::collections::BTreeMap;
use std::path::Path;

use latlab_host::dirs::Dirs;
use latlab_host::lab;
use latlab_report::graph;

use crate::args::{Drawing, Graph};
use crate::failure::{Failure, Outcome, explain, need_root};
use crate::files::{self, Machine, Source};

pub fn run(args: &Graph) -> Outcome {
    let plan = if Path::new(&args.lab).exists() {
        let source = Source::read(Path::new(&args.lab))?;
        source.must_be_study(false)?;
        files::plan_read(&source, &files::read_lab(&source, true)?, Machine::Here)?
    } else {
        need_root(
            "graph",
            "there is no such file, and only root may read a deployed lab's state",
        )?;
        let missing = |e: lab::Error| match e {
            lab::Error::NoLab(name) => Failure::new(
                format!("`{name}` is neither a file nor a deployed lab"),
                "for example `latlab graph labs/pair.yaml`",
            ),
            other => explain(other),
        };
        lab::plan_of(&Dirs::from_env(), &args.lab).map_err(missing)?
    };
    let topology = plan.topology(BTreeMap::new());
    crate::print::document(&match args.format {
        Drawing::Terminal => graph::text(&topology),
        Drawing::Mermaid => graph::mermaid(&topology),
        Drawing::Svg => graph::svg(&topology),
    })
}
