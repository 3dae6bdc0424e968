//! A lab drawn from its plan: as lines of text, as Mermaid for Markdown, as an SVG picture. The
//! interactive drawing of the report is the web page's own.

mod mermaid;
mod svg;
mod text;

pub use mermaid::mermaid;
pub use svg::svg;
pub use text::text;
