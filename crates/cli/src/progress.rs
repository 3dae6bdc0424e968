//! The bar of a long work.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar for a number of units of work.
pub fn bar(count: usize, unit: &str) -> ProgressBar {
    let template = format!("{{bar:30}} {{pos}}/{{len}} {unit}, {{eta}} left  {{wide_msg}}");
    let bar = styled(count, &template);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// One of another form. Drawn only on a terminal.
pub fn styled(count: usize, template: &str) -> ProgressBar {
    let bar = ProgressBar::new(count as u64);
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}
