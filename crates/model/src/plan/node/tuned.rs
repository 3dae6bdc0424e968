//! The tuning of a lab as the checks of a node ask for it.

use crate::profile::Profile;

pub(in crate::plan) struct Tuned<'a> {
    /// The profile that a guest follows.
    pub profile: Option<&'a Profile>,
    /// The machine's huge pages are reserved for the lab, so that the free ones do not count yet.
    pub reserves_pages: bool,
}
