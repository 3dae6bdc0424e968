//! Lines about packages that are downloaded.

use std::cell::RefCell;

use latlab_host::packages::Progress;

/// Says each line once.
#[derive(Default)]
pub struct Lines {
    last: RefCell<String>,
}

impl Lines {
    pub fn tell(&self, text: &str) {
        let mut last = self.last.borrow_mut();
        if *last != text {
            eprintln!("{text}");
            text.clone_into(&mut last);
        }
    }
}

/// Says each package once.
pub fn told() -> impl FnMut(Progress) {
    let lines = Lines::default();
    move |progress| lines.tell(&progress.to_string())
}
