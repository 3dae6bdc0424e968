//! Every file in `tests/bad` holds a mistake; what a person is told about it is the file beside it.
//!
//! The messages are read aloud, not only compared: each names the object, stands at the right place,
//! and its hint says what to do. `UPDATE_EXPECT=1 cargo test -p latlab-model --test bad` rewrites
//! them; look at the difference before you commit it.

mod common;

use std::collections::HashMap;

#[test]
fn every_bad_file_is_answered_with_place_and_hint() {
    let facts = common::facts("small");
    let mut wrong = Vec::new();
    let mut answers: HashMap<String, String> = HashMap::new();
    let files = common::yaml_files(&common::tests("bad"));
    assert!(files.len() >= 40, "only {} bad files", files.len());
    for file in &files {
        let name = file
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let Err(answer) = common::check(file, &facts) else {
            wrong.push(format!("{name} is accepted"));
            continue;
        };
        wrong.extend(common::against_golden(&file.with_extension("expected"), &answer).err());
        wrong.extend(badly_formed(&name, &answer));
        // Places differ in every file; two files with the same words are one case too many.
        let words = answer
            .lines()
            .map(|l| l.splitn(4, ':').last().unwrap_or(l))
            .collect();
        if let Some(other) = answers.insert(words, name.clone()) {
            wrong.push(format!("{name} tests what {other} tests"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Messages come in pairs of lines, `FILE:LINE:COLUMN: message` and `  hint: …`.
fn badly_formed(name: &str, answer: &str) -> Option<String> {
    let lines: Vec<&str> = answer.lines().collect();
    let good = |pair: &[&str]| {
        let [message, hint] = pair else { return false };
        let mut parts = message.splitn(4, ':');
        let file = parts.next().is_some_and(|f| f.ends_with(".yaml"));
        let mut number = || {
            parts
                .next()
                .and_then(|n| n.parse::<u32>().ok())
                .is_some_and(|n| n > 0)
        };
        let place = number() && number();
        let text = parts.next().is_some_and(|t| t.len() > 10);
        file && place && text && hint.strip_prefix("  hint: ").is_some_and(|h| h.len() > 5)
    };
    let bad = lines.is_empty() || !lines.chunks(2).all(good);
    bad.then(|| format!("{name} is answered in a wrong form:\n{answer}"))
}
