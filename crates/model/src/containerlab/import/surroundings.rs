//! Everything beside its text that a topology refers to. The model asks for it and reads nothing itself.

use crate::containerlab::variables::Environment;

pub struct Surroundings<'a> {
    pub variable: Environment<'a>,
    /// Reads a file, whose path is relative to the topology's. Errors: the reason in a few words.
    pub file: &'a dyn Fn(&str) -> Result<String, String>,
    /// The directory of relative paths, as the lab's file has to name it; empty if it is the lab's own.
    pub directory: &'a str,
    /// The image of all containers, instead of those that the topology names.
    pub image: Option<&'a str>,
}
