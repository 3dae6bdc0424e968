//! The bar of a long work.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar for a number of units of work.
pub fn bar(count: usize, unit: &str) -> ProgressBar {
    let bar = ProgressBar::new(count as u64);
    let template = format!("{{bar:30}} {{pos}}/{{len}} {unit}, {{eta}} left  {{wide_msg}}");
    if let Ok(style) = ProgressStyle::with_template(&template) {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
