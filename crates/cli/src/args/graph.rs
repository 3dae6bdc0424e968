//! A lab's drawing.

use clap::{Args, ValueEnum};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Drawing {
    /// Lines of text.
    #[default]
    Terminal,
    /// For Markdown.
    Mermaid,
    /// An image.
    Svg,
}

#[derive(Debug, Args)]
pub struct Graph {
    /// The lab's file, or the name of a deployed lab.
    pub lab: String,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    pub format: Drawing,
}
