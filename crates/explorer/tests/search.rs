//! The list of runs: found, counted, sorted, kept like the directory.

mod site;

use latlab_model::results::{HostBrief, RunState};
use site::{Site, encoded};

fn filled() -> Site {
    let site = Site::start();
    for (n, (path, study)) in [
        ("a", "quick"),
        ("nights/b", "forwarder-quick"),
        ("c", "quick"),
        ("d", "boot"),
    ]
    .into_iter()
    .enumerate()
    {
        site.add(path, |manifest, _| {
            manifest.study = study.to_owned();
            manifest.started = format!("2026-11-0{}T10:00:00Z", n + 1);
            manifest.host = HostBrief {
                cpu: if n < 2 { "AMD EPYC 9B45" } else { "Intel Xeon" }.to_owned(),
                cores: 2,
                kernel: format!("6.{n}.0"),
                ..manifest.host.clone()
            };
        });
    }
    site
}

#[test]
fn runs_are_found_by_words_fields_factors_and_dates() {
    let site = filled();
    for (query, paths) in [
        ("", ["a", "nights/b", "c", "d"].as_slice()),
        ("quick", &["a", "nights/b", "c"]),
        ("qui epy", &["a", "nights/b"]),
        ("\"intel xeon\"", &["c", "d"]),
        ("study:quick", &["a", "nights/b", "c"]),
        ("study=quick", &["a", "c"]),
        ("-study=quick", &["nights/b", "d"]),
        ("machine:epyc study=quick", &["a"]),
        ("kind=vm", &["a", "nights/b", "c", "d"]),
        ("kind=podman", &[]),
        ("measurement=rr-udp kernel:6.2", &["c"]),
        ("path:nights", &["nights/b"]),
        ("after:2026-11-02 before:2026-11-04", &["nights/b", "c"]),
        ("rr-udp", &["a", "nights/b", "c", "d"]),
        ("zzz", &[]),
    ] {
        assert_eq!(site.find(query), paths, "{query}");
    }
}

#[test]
fn the_list_is_sorted_paged_and_counted() {
    let site = filled();
    let list = site.list("sort=-started&limit=2&offset=1");
    let paths: Vec<&str> = list["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["path"].as_str().unwrap())
        .collect();
    assert_eq!(paths, ["c", "nights/b"]);
    assert_eq!(
        (list["total"].as_u64(), list["matched"].as_u64()),
        (Some(4), Some(4))
    );
    let study = &list["facets"]["study"];
    assert_eq!(
        study.to_string(),
        r#"[["quick",2],["boot",1],["forwarder-quick",1]]"#
    );
    assert_eq!(list["facets"]["machine"][0][0], "AMD EPYC 9B45 · 2 CPUs");

    let by_study = site.list("sort=study");
    assert_eq!(by_study["runs"][0]["study"], "boot");
}

#[test]
fn a_bad_query_or_order_is_told() {
    let site = Site::start();
    for (fields, error) in [
        ("q=nosuch%3Ax", "`nosuch:` is no field"),
        ("q=%22open", "a quotation mark has no end"),
        ("sort=colour", "runs cannot be sorted by \"colour\""),
    ] {
        let answer = site.get(&format!("/api/runs?{fields}"));
        assert_eq!(answer.status, 400);
        assert_eq!(answer.json()["error"], error);
        assert!(answer.json()["hint"].is_string());
    }
    assert_eq!(site.get("/api/runs?limit=many").status, 400);
}

#[test]
fn new_changed_and_removed_directories_are_noticed() {
    let mut site = filled();
    assert_eq!(site.find("").len(), 4);
    site.add("e", |manifest, _| manifest.state = RunState::Running);
    site.list_when("q=state%3Drunning", |list| list["matched"] == 1);

    // The index outlives the server; what happened in between is noticed.
    std::fs::remove_dir_all(site.runs().join("d")).unwrap();
    std::fs::rename(site.runs().join("a"), site.runs().join("z")).unwrap();
    site.restart();
    site.list_when("q=path%3Dd", |list| {
        list["matched"] == 0 && list["total"] == 4
    });
    site.list_when("q=path%3Dz", |list| list["matched"] == 1);
}

#[test]
fn directories_that_cannot_be_read_are_listed_with_their_problem() {
    let site = filled();
    std::fs::write(site.runs().join("c/summary.json"), "{").unwrap();
    std::fs::create_dir(site.runs().join("other")).unwrap();
    std::fs::write(site.runs().join("other/manifest.json"), "{\"format\": 3}").unwrap();
    let list = site.list_when("", |list| {
        let runs = list["runs"].as_array().unwrap();
        runs.iter().filter(|run| run["problem"].is_string()).count() == 2
    });
    assert_eq!(list["total"], 5);
    let details = site.get("/api/run?run=c").json();
    assert!(
        details["run"]["problem"]
            .as_str()
            .unwrap()
            .contains("not a summary")
    );
    assert_eq!(details["run"]["study"], "quick");
    assert_eq!(details["has_report"], false);
    assert_eq!(site.get("/api/run?run=a").json()["has_report"], true);
}

#[test]
fn cells_of_a_run_are_named_by_all_of_their_levels() {
    let site = Site::start();
    site.add("a", |_, _| {});
    site.list("");
    let details = site.get("/api/run?run=a").json();
    let cells = details["cells"].as_array().unwrap().iter();
    let labels = cells.map(|cell| cell["label"].as_str().unwrap());
    let labels: Vec<&str> = labels.collect();
    let kinds = ["native · veth", "container · veth", "vm · veth"];
    assert_eq!(labels, [kinds, kinds].concat());
}

#[test]
fn an_index_that_is_damaged_or_of_another_version_is_built_anew() {
    let mut site = filled();
    assert_eq!(site.find("").len(), 4);
    let index = std::fs::read_dir(site.cache())
        .unwrap()
        .map(|file| file.unwrap().path());
    let index = index
        .filter(|file| file.extension().is_some_and(|e| e == "sqlite"))
        .collect::<Vec<_>>();
    assert_eq!(index.len(), 1);
    std::fs::write(
        &index[0],
        "no database at all, but longer than its header would be ".repeat(100),
    )
    .unwrap();
    site.restart();
    assert_eq!(site.find("study=quick"), ["a", "c"]);
}

#[test]
fn an_index_that_is_removed_under_a_running_server_is_built_anew() {
    let site = filled();
    assert_eq!(site.find("").len(), 4);
    std::fs::remove_dir_all(site.cache()).unwrap();
    // Also where a page asks for something else than the list.
    site.when("/api/run?run=a", |answer| answer.status == 200);
    assert_eq!(site.find("study=quick"), ["a", "c"]);
}

#[test]
fn names_of_any_letters_are_found() {
    let site = Site::start();
    let names = [
        "spaces and \"quotes\"",
        "ünï/cödé",
        "a%2e%2e",
        "<img src=x>",
    ];
    for name in names {
        site.add(name, |_, _| {});
    }
    let mut found = site.find("");
    found.sort();
    let mut expected = names.map(str::to_owned);
    expected.sort();
    assert_eq!(found, expected);
    for name in names {
        let details = site.get(&format!("/api/run?run={}", encoded(name)));
        assert_eq!(details.json()["run"]["path"], name);
    }
}
