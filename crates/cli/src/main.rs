//! The `latlab` command.
fn main() {}
