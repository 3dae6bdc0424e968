//! The verbs of `latlab campaign`.

use super::record::CampaignDir;
use super::{cancel, part, resume, status, submit};
use crate::args::Campaign;
use crate::failure::Outcome;

pub fn run(verb: &Campaign) -> Outcome {
    match verb {
        Campaign::Submit(args) => submit::submit(args),
        Campaign::Status(args) => status::status(args),
        Campaign::Resume(args) => resume::resume(&CampaignDir::open(&args.campaign)?),
        Campaign::Cancel(args) => cancel::cancel(&CampaignDir::open(&args.campaign)?),
        Campaign::Part(args) => part::measure(&CampaignDir::open(&args.campaign)?, args.number),
    }
}
