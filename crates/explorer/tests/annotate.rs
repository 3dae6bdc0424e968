//! Notes and tags: the only thing that is written.

mod site;

use latlab_samples::RunDir;
use serde_json::{Value, json};
use site::Site;

fn change(note: &str, tags: &[&str], was: (&str, &[&str])) -> Value {
    json!({"note": note, "tags": tags, "was": {"note": was.0, "tags": was.1}})
}

#[test]
fn a_note_and_tags_are_kept_in_the_run_directory_and_found() {
    let site = Site::start();
    site.add("a", |_, _| {});
    site.list("");
    let answer = site.put(
        "/api/note?run=a",
        &change("rolled back <b>", &["baseline"], ("", &[])),
    );
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json()["tags"], json!(["baseline"]));

    let written = RunDir::open(site.runs().join("a"))
        .unwrap()
        .read_annotation()
        .unwrap();
    assert_eq!(
        (written.note.as_str(), written.tags),
        ("rolled back <b>", vec!["baseline".to_owned()])
    );
    assert_eq!(site.find("tag=baseline"), ["a"]);
    assert_eq!(site.find("rolled"), ["a"]);
    assert_eq!(site.list("")["facets"]["tag"], json!([["baseline", 1]]));
}

#[test]
fn a_change_by_another_meanwhile_is_not_overwritten() {
    let site = Site::start();
    site.add("a", |_, _| {});
    site.list("");
    let first = site.put("/api/note?run=a", &change("mine", &[], ("", &[])));
    let second = site.put("/api/note?run=a", &change("theirs", &[], ("", &[])));
    assert_eq!((first.status, second.status), (200, 409));
    let third = site.put("/api/note?run=a", &change("both", &[], ("mine", &[])));
    assert_eq!(third.json()["note"], "both");
}

#[test]
fn what_is_no_note_and_no_tag_is_refused_and_nothing_is_written() {
    let site = Site::start();
    site.add("a", |_, _| {});
    site.list("");
    let long = "x".repeat(65 << 10);
    for bad in [
        change("", &["two words"], ("", &[])),
        change("", &[""], ("", &[])),
        change("", &["x\u{1b}"], ("", &[])),
        change("", &[&"x".repeat(65)], ("", &[])),
        change("", &["x"; 33], ("", &[])),
        change(&long, &[], ("", &[])),
        json!({"note": 3}),
    ] {
        let answer = site.put("/api/note?run=a", &bad);
        assert!((400..500).contains(&answer.status), "{answer:?}");
        assert!(answer.json()["error"].is_string());
    }
    assert_eq!(
        site.put("/api/note?run=nosuch", &change("", &[], ("", &[])))
            .status,
        404
    );
    assert!(!site.runs().join("a/annotation.json").exists());
}

#[test]
fn an_annotation_replaces_a_link_and_does_not_follow_it() {
    let site = Site::start();
    site.add("a", |_, _| {});
    let outside = site.runs().join("../outside");
    std::fs::write(&outside, "kept").unwrap();
    std::os::unix::fs::symlink(&outside, site.runs().join("a/annotation.json")).unwrap();
    site.list("");
    site.put("/api/note?run=a", &change("x", &[], ("", &[])));
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "kept");
}
