//! `image:` of a node: a name or a place, or the packages that it is made of.

use std::fmt;

use super::reader::{self, Object};
use super::recipe::Recipe;
use super::yaml::Value;
use crate::diagnostic::{Diagnostics, Spanned};

#[derive(Debug, Clone, PartialEq)]
pub enum NodeImage {
    /// `host`, `empty`, or a path: a directory, an OCI archive, or a description of packages.
    Named(String),
    /// A description of packages in the lab itself.
    Recipe(Box<Recipe>),
}

impl NodeImage {
    /// Whether it is the one that a word stands for.
    pub fn is(&self, word: &str) -> bool {
        matches!(self, NodeImage::Named(name) if name == word)
    }

    /// The name or place, where it is one.
    pub fn named(&self) -> Option<&str> {
        match self {
            NodeImage::Named(name) => Some(name),
            NodeImage::Recipe(_) => None,
        }
    }

    /// The description that stands in the lab.
    pub fn recipe(&self) -> Option<&Recipe> {
        match self {
            NodeImage::Named(_) => None,
            NodeImage::Recipe(recipe) => Some(recipe),
        }
    }

    /// Whether a description says which kernel belongs to it. That of a file (`.yaml`) is unknown until it is read.
    pub fn may_have_kernel(&self) -> bool {
        match self {
            NodeImage::Named(name) => [".yaml", ".yml"].iter().any(|end| name.ends_with(end)),
            NodeImage::Recipe(recipe) => recipe.kernel.is_some(),
        }
    }
}

impl fmt::Display for NodeImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeImage::Named(name) => f.write_str(name),
            NodeImage::Recipe(recipe) => f.write_str(&recipe.title()),
        }
    }
}

pub(super) fn read(o: &mut Object<'_>, errors: &mut Diagnostics) -> Option<Spanned<NodeImage>> {
    let yaml = o.take("image")?;
    let what = format!("`image` of {}", o.what);
    if matches!(yaml.value, Value::Map(_)) {
        let recipe = Recipe::read(yaml, &what, errors)?;
        return Some(Spanned::new(NodeImage::Recipe(Box::new(recipe)), yaml.at));
    }
    let named = reader::read::<String>(yaml, &what, errors)?;
    Some(Spanned::new(NodeImage::Named(named.value), named.at))
}
