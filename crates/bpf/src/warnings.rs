//! libbpf's first warning: it says why, where its error is only a number.

use std::sync::Mutex;

use libbpf_rs::{PrintLevel, set_print};

static FIRST: Mutex<String> = Mutex::new(String::new());

/// Has libbpf say its warnings to us instead of to the terminal, and forgets those of before.
pub fn listen() {
    if let Ok(mut first) = FIRST.lock() {
        first.clear();
    }
    set_print(Some((PrintLevel::Warn, |_, text| {
        if let Ok(mut first) = FIRST.lock() {
            // The first warning says what is wrong, those that follow only that it is.
            if first.is_empty() {
                first.push_str(text.trim().trim_start_matches("libbpf: "));
            }
        }
    })));
}

/// An error with libbpf's first warning since [`listen`].
#[must_use]
pub fn said(error: &libbpf_rs::Error) -> String {
    let first = FIRST.lock().map(|first| first.clone()).unwrap_or_default();
    match first.is_empty() {
        true => error.to_string(),
        false => format!("{error} ({first})"),
    }
}
