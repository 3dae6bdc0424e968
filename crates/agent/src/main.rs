//! latlab’s hand inside a node.
fn main() {}
