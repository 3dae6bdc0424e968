//! `latlab export`: a lab's file in the words of another tool. Needs no root.

use latlab_model::containerlab;
use latlab_model::spec::Lab;

use crate::args::{Export, Tool};
use crate::conversion;
use crate::failure::Outcome;
use crate::files::Source;

pub fn run(args: &Export) -> Outcome {
    let source = Source::read(&args.lab)?;
    source.must_be_study(false)?;
    let Tool::Containerlab = args.to;
    let exported =
        Lab::parse(&source.text).and_then(|lab| containerlab::export(&lab, args.image.as_deref()));
    let exported = exported.map_err(|all| source.mistakes(all))?;
    args.output.write(&exported.text(&source.name))?;
    Ok(conversion::tell(&exported.remarks, &source.name))
}
