//! The root file system of a node that has one of its own.

use serde::{Deserialize, Serialize};

use crate::kinds::Bind;
use crate::spec::{Node, Recipe};

/// The files that a node sees.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RootPlan {
    /// `host`, `empty`, a directory, a file as written, or a few words about `recipe`.
    pub image: String,
    /// The packages of the image, where they stand in the lab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipe: Option<Recipe>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub binds: Vec<Bind>,
    /// Paths of the image that are covered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hide: Vec<String>,
}

impl RootPlan {
    pub(super) fn of(node: &Node) -> RootPlan {
        let fields = &node.fields;
        let image = fields.image.as_ref();
        RootPlan {
            image: image.map_or_else(|| HOST_IMAGE.into(), |image| image.value.to_string()),
            recipe: image.and_then(|image| image.recipe().cloned()),
            binds: fields.binds.iter().map(|bind| bind.value.clone()).collect(),
            hide: fields.hide.iter().map(|path| path.value.clone()).collect(),
        }
    }
}

/// The host's own files as an image.
pub(in crate::plan) const HOST_IMAGE: &str = "host";

/// No files but latlab's agent: enough for measurements between nodes.
pub(in crate::plan) const EMPTY_IMAGE: &str = "empty";
