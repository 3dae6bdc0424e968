//! The papers that come with latlab.

use crate::spec::reader::words;

/// By year and first author.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PaperName {
    Cui2013,
    Felter2014,
    Welch2015,
    Dhar2016,
    Daichendt2022,
}
words!(PaperName, "a paper that latlab knows", {
    "cui2013" => Cui2013,
    "felter2014" => Felter2014,
    "welch2015" => Welch2015,
    "dhar2016" => Dhar2016,
    "daichendt2022" => Daichendt2022,
});

impl PaperName {
    /// The document.
    pub fn text(self) -> &'static str {
        match self {
            PaperName::Cui2013 => include_str!("../../../../papers/cui2013.yaml"),
            PaperName::Felter2014 => include_str!("../../../../papers/felter2014.yaml"),
            PaperName::Welch2015 => include_str!("../../../../papers/welch2015.yaml"),
            PaperName::Dhar2016 => include_str!("../../../../papers/dhar2016.yaml"),
            PaperName::Daichendt2022 => include_str!("../../../../papers/daichendt2022.yaml"),
        }
    }
}
