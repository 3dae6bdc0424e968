//! `latlab cache`: what is kept, and its removal beside deployed labs.

mod common;

use std::fs::{self, File, FileTimes};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use common::{Bench, Said, enter, finish, tool, until};
use serde_json::Value;

/// An OCI archive of a busybox.
fn archive(bench: &Bench, root: &Path, name: &str, text: &str) -> String {
    fs::write(root.join("etc/motd"), text).unwrap();
    let files = bench.root().join("files");
    let work = bench.root().join("oci");
    let _ = fs::remove_dir_all(&work);
    fs::create_dir_all(&work).unwrap();
    let tar = |of: &Path, to: &Path, what: &[&str]| {
        let (of, to) = (of.to_str().unwrap(), to.to_str().unwrap());
        tool(&[&["tar", "-C", of, "-cf", to], what].concat());
    };
    let layer = work.join("layer.tar");
    tar(root, &layer, &["."]);
    let digest = tool(&["sha256sum", layer.to_str().unwrap()]);
    let digest = digest.split_whitespace().next().unwrap();
    let config =
        format!(r#"{{"rootfs":{{"type":"layers","diff_ids":["sha256:{digest}"]}},"config":{{}}}}"#);
    fs::write(work.join("config.json"), config).unwrap();
    let manifest = r#"[{"Config":"config.json","RepoTags":[],"Layers":["layer.tar"]}]"#;
    fs::write(work.join("manifest.json"), manifest).unwrap();
    let file = format!("{name}.tar");
    let members = ["manifest.json", "config.json", "layer.tar"];
    tar(&work, &files.join(&file), &members);
    file
}

fn command(bench: &Bench, words: &[&str]) -> Command {
    let mut command = bench.command(words);
    command.env("LATLAB_CACHE_DIR", bench.root().join("cache"));
    command
}

fn latlab(bench: &Bench, words: &[&str]) -> Said {
    finish(&mut command(bench, words))
}

fn entries(bench: &Bench, words: &[&str]) -> Vec<Value> {
    let words = [&["cache"], words, &["--format", "json"]].concat();
    serde_json::from_str(&latlab(bench, &words).good().out).unwrap()
}

fn lab(bench: &Bench, name: &str, image: &str) -> String {
    let text = format!(
        "name: NAME\ntopology:\n  defaults: {{image: {image}}}\n  nodes: {{a: {{kind: container}}, b: {{kind: container}}}}\n  \
         links: [{{endpoints: ['a:eth0', 'b:eth0']}}]\n"
    );
    bench.file(name, &text)
}

#[test]
fn the_cache_is_listed_and_cleaned_but_for_what_labs_use() {
    const NAME: &str = "the_cache_is_listed_and_cleaned_but_for_what_labs_use";
    enter(NAME, |bench| {
        let said = latlab(bench, &["cache"]).good();
        assert!(said.out.starts_with("the cache is empty: "), "{said:#?}");
        latlab(bench, &["cache", "clean", "--all"]).good();
        let root = bench.small_root();
        let (first, second) = (
            archive(bench, &root, "first", "one\n"),
            archive(bench, &root, "second", "two\n"),
        );
        let lab_file = lab(bench, "first", &first);
        latlab(bench, &["deploy", &lab_file]).good();
        let name = bench.name("first");
        // Another image, used by no lab any more.
        let other = lab(bench, "second", &second);
        latlab(bench, &["deploy", &other]).good();
        latlab(bench, &["destroy", &bench.name("second")]).good();

        let all = entries(bench, &[]);
        let images: Vec<&Value> = all.iter().filter(|e| e["kind"] == "image").collect();
        assert_eq!(images.len(), 2, "{all:#?}");
        let used: Vec<&&Value> = images
            .iter()
            .filter(|e| e["labs"][0] == name.as_str())
            .collect();
        assert_eq!(used.len(), 1, "{all:#?}");
        let path = used[0]["path"].as_str().unwrap().to_owned();
        assert!(used[0]["bytes"].as_u64().unwrap() > 100_000);
        let table = latlab(bench, &["cache"]).good();
        assert!(table.out.starts_with("KIND   NAME"), "{table:#?}");
        assert!(table.out.contains(&name) && table.err.contains("2 entries in"));

        // Used just now.
        let said = latlab(bench, &["cache", "clean"]).good();
        assert_eq!(said.err, "freed 0.0 MiB, 0 entries\n");
        assert_eq!(entries(bench, &["clean", "--all", "--dry-run"]).len(), 1);
        let said = latlab(bench, &["cache", "clean", "--all"]).good();
        assert!(
            said.err.contains(&format!("stays: {name} uses it")),
            "{said:#?}"
        );
        assert!(
            said.err.contains("freed ") && said.err.contains("1 entry"),
            "{said:#?}"
        );
        let left = entries(bench, &[]);
        assert_eq!(left.len(), 1, "{left:#?}");
        assert_eq!(left[0]["path"], path.as_str());
        let said = latlab(bench, &["exec", &name, "a", "--", "cat", "/etc/motd"]).good();
        assert_eq!(said.out, "one\n");

        // An old one goes once its lab has gone.
        let old = SystemTime::now() - Duration::from_secs(40 * 86_400);
        let times = FileTimes::new().set_modified(old);
        File::open(&path).unwrap().set_times(times).unwrap();
        assert!(entries(bench, &["clean"]).is_empty());
        latlab(bench, &["destroy", &name]).good();
        assert_eq!(entries(bench, &["clean"]).len(), 1);
        assert!(entries(bench, &[]).is_empty());
        // The image is unpacked again where it is needed.
        latlab(bench, &["deploy", &lab_file]).good();
        latlab(bench, &["destroy", &name]).good();
    });
}

#[test]
fn nothing_is_removed_beside_one_who_uses_the_cache() {
    const NAME: &str = "nothing_is_removed_beside_one_who_uses_the_cache";
    enter(NAME, |bench| {
        let cache = bench.root().join("cache");
        fs::create_dir_all(&cache).unwrap();
        let mark = bench.root().join("held");
        let script = format!("touch {} && cat >/dev/null", mark.display());
        // As one that deploys.
        let mut holder = Command::new("flock")
            .args(["--shared", cache.join("in-use.lock").to_str().unwrap()])
            .args(["sh", "-c", &script])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        until("the lock is held", || mark.exists());
        let said = latlab(bench, &["cache", "clean", "--all"]);
        said.refused(2, "takes from or fills the cache", "try again");
        latlab(bench, &["cache"]).good();
        drop(holder.stdin.take());
        holder.wait().unwrap();
        latlab(bench, &["cache", "clean", "--all"]).good();
        latlab(bench, &["cache", "clean", "--older-than", "soon"]);
    });
}
