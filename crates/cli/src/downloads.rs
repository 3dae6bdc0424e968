//! Lines about packages that are downloaded.

use latlab_host::packages::Progress;

/// Says each package once.
pub fn told() -> impl FnMut(Progress) {
    let mut last = String::new();
    move |progress| {
        let text = progress.to_string();
        if text != last {
            eprintln!("{text}");
            last = text;
        }
    }
}
