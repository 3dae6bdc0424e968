//! Runs beside each other, and one cell over time.

mod site;

use latlab_model::results::{Manifest, Summary};
use latlab_report::compare::CellComparison;
use latlab_samples::RunDir;
use serde_json::Value;
use site::{Site, encoded, slow_down};

fn row<'v>(comparison: &'v Value, cell: &str, quantity: &str) -> &'v Value {
    let rows = comparison["rows"].as_array().unwrap().iter();
    let mut found = rows.filter(|row| row["cell"] == cell && row["quantity"] == quantity);
    found.next().unwrap()
}

#[test]
fn runs_are_compared_with_the_first_as_their_summaries_say() {
    let site = Site::start();
    site.add("base", |_, _| {});
    site.add("same", |_, _| {});
    site.add("slower", |manifest, summary| {
        slow_down(summary, 1.5);
        manifest.host.kernel = "7.0".to_owned();
    });
    site.list("");
    let comparison = site.get("/api/compare?run=base&run=same&run=slower").json();
    assert_eq!(comparison["warnings"][1], serde_json::json!([]));
    let warning = comparison["warnings"][2][0].as_str().unwrap();
    assert!(
        warning.starts_with("the kernel is 7.0 against "),
        "{warning}"
    );

    let summary = RunDir::open(site.runs().join("base"))
        .unwrap()
        .read_summary()
        .unwrap();
    let cell = &summary.cells[0];
    let median = &cell.latency.as_ref().unwrap().quantiles[0];
    let found = row(&comparison, &cell.id, "median latency");
    assert_eq!(found["values"][0]["value"].as_f64(), median.value_ns);
    assert_eq!(
        found["values"][0]["low"].as_f64(),
        median.ci95_ns.map(|ci| ci.0)
    );
    assert!(found["values"][0]["ratio"].is_null());
    assert_eq!(found["values"][1]["ratio"], 1.0);
    assert_eq!(found["values"][2]["verdict"], "worse");
    assert!((found["values"][2]["ratio"].as_f64().unwrap() - 1.5).abs() < 1e-9);
    let stream = row(&comparison, &summary.cells.last().unwrap().id, "Throughput");
    assert_eq!(stream["higher_is_better"], true);
}

#[test]
fn a_percentile_that_no_trial_has_alone_is_of_all_trials_and_not_judged() {
    let site = Site::start();
    for name in ["one", "two"] {
        site.add(name, |_, summary| {
            for trial in &mut summary.trials {
                trial.tail_ns = None;
            }
        });
    }
    site.list("");
    let comparison = site.get("/api/compare?run=one&run=two").json();
    let cell = comparison["rows"][0]["cell"].as_str().unwrap();
    let values = &row(&comparison, cell, "p99 latency")["values"];
    assert_eq!(values[1]["replicates"], 4);
    assert_eq!(values[1]["ratio"], 1.0);
    assert!(values[1]["verdict"].is_null(), "{values}");
    let details = site.get("/api/run?run=one").json();
    let quantities = details["cells"][0]["quantities"].as_array().unwrap();
    assert!(quantities.iter().all(|of| of["replicates"] == 4));
}

/// Both ways of comparing have the same values of metrics, so they agree on them.
#[test]
fn ratios_of_metrics_are_those_of_the_command() {
    let site = Site::start();
    let runs =
        [("one", 1), ("two", 2)].map(|(name, seed)| site.measured(&format!("runs/{name}"), seed));
    site.list("");
    let comparison = site.get("/api/compare?run=one&run=two").json();
    let [one, two] = runs.map(|run| latlab_report::analyse(&run).unwrap());
    let expected = latlab_report::compare(&one, &two, false).unwrap();
    let is_stream = |cell: &&CellComparison| cell.id.starts_with("stream-tcp");
    let streams: Vec<&CellComparison> = expected.cells.iter().filter(is_stream).collect();
    assert!(!streams.is_empty());
    for cell in streams {
        let found = &row(&comparison, &cell.id, &cell.quantity)["values"][1];
        assert_eq!(found["ratio"].as_f64(), Some(cell.ratio));
        let (low, high) = cell.ratio_ci95.unzip();
        assert_eq!(
            (found["ratio_low"].as_f64(), found["ratio_high"].as_f64()),
            (low, high)
        );
        assert_eq!(
            found["verdict"],
            serde_json::to_value(cell.verdict).unwrap()
        );
    }
}

/// A definition of `rr-udp` with this rate, and results as slow.
fn at_rate(manifest: &mut Manifest, summary: &mut Summary, rate: u32, slower: f64) {
    let measurements = manifest.measurements.iter_mut();
    for own in measurements.filter(|own| own.name == "rr-udp") {
        own.description = format!("UDP, {rate} a second");
    }
    slow_down(summary, slower);
}

#[test]
fn results_of_another_definition_are_not_judged() {
    let site = Site::start();
    site.add("base", |manifest, summary| {
        at_rate(manifest, summary, 10_000, 1.0);
    });
    site.add("slower", |manifest, summary| {
        at_rate(manifest, summary, 10_000, 1.5);
    });
    site.add("faster", |manifest, summary| {
        at_rate(manifest, summary, 100_000, 1.5);
    });
    site.list("");
    let comparison = site
        .get("/api/compare?run=base&run=slower&run=faster")
        .json();
    assert_eq!(comparison["warnings"][1], serde_json::json!([]));
    assert_eq!(
        comparison["warnings"][2],
        serde_json::json!([
            "measurement rr-udp is defined differently (UDP, 100000 a second against UDP, 10000 a second)"
        ])
    );
    let values_of = |measurement: &str, quantity: &str| {
        let cell = format!("{measurement}/kind=native/link=veth");
        row(&comparison, &cell, quantity)["values"].clone()
    };
    let values = values_of("rr-udp", "median latency");
    assert_eq!(values[1]["verdict"], "worse");
    assert!(values[2]["value"].is_number(), "{values}");
    assert!(values[2]["verdict"].is_null() && values[2]["ratio"].is_null());
    assert!(values_of("stream-tcp", "Throughput")[2]["verdict"].is_string());
}

#[test]
fn a_trend_has_a_series_for_each_definition() {
    let site = Site::start();
    for n in 0..24 {
        site.add(&format!("run-{n:02}"), |manifest, summary| {
            manifest.study = "nightly".to_owned();
            manifest.started = format!("2026-10-{:02}T10:00:00Z", n + 1);
            let (rate, slower) = if n < 16 {
                (10_000, 1.0)
            } else {
                (100_000, 1.5)
            };
            at_rate(
                manifest,
                summary,
                rate,
                slower + 0.002 * f64::from(n * 7 % 5),
            );
        });
    }
    site.list("");
    let choices = site.get("/api/choices?study=nightly").json();
    let cells = choices["cells"].as_array().unwrap().iter();
    let mut cells = cells.map(|choice| choice["cell"].as_str().unwrap());
    let cell = cells.find(|cell| cell.starts_with("rr-udp")).unwrap();
    let trend = site.get(&format!(
        "/api/trend?study=nightly&cell={}&quantity=median+latency",
        encoded(cell)
    ));
    let trend = trend.json();
    let series = trend["series"].as_array().unwrap().iter();
    let found = series.map(|one| {
        assert_eq!(one["changes"], serde_json::json!([]));
        let definition = one["definition"].as_str().unwrap().to_owned();
        (definition, one["points"].as_array().unwrap().len())
    });
    let expected = [("UDP, 10000 a second", 16), ("UDP, 100000 a second", 8)];
    let expected = expected.map(|(definition, runs)| (definition.to_owned(), runs));
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

#[test]
fn two_to_twenty_known_runs_can_be_compared() {
    let site = Site::start();
    site.add("a", |_, _| {});
    site.list("");
    assert_eq!(site.get("/api/compare?run=a").status, 400);
    assert_eq!(site.get("/api/compare").status, 400);
    let many = |n| format!("/api/compare?{}", vec!["run=a"; n].join("&"));
    assert_eq!(site.get(&many(21)).status, 400);
    let twenty = site.get(&many(20));
    assert_eq!(twenty.json()["runs"].as_array().unwrap().len(), 20);
    let unknown = site.get("/api/compare?run=a&run=nosuch");
    assert_eq!(unknown.status, 404);
    assert_eq!(unknown.json()["error"], "no run has the path \"nosuch\"");
}

#[test]
fn a_trend_has_its_changes_machine_by_machine() {
    let site = Site::start();
    for n in 0..24 {
        for machine in ["one", "two"] {
            site.add(&format!("{machine}-{n:02}"), |manifest, summary| {
                manifest.study = "nightly".to_owned();
                manifest.started = format!("2026-10-{:02}T10:00:00Z", n + 1);
                manifest.host.cpu = machine.to_owned();
                let wobble = 1.0 + 0.002 * f64::from(n * 7 % 5);
                slow_down(
                    summary,
                    if n >= 16 && machine == "two" {
                        1.3 * wobble
                    } else {
                        wobble
                    },
                );
            });
        }
    }
    site.list("");
    let choices = site.get("/api/choices?study=nightly").json();
    assert_eq!(choices["machines"].as_array().unwrap().len(), 2);
    let cell = choices["cells"][0]["cell"].as_str().unwrap();
    assert_eq!(choices["cells"][0]["runs"], 48);
    assert_eq!(choices["cells"][0]["quantities"][0], "median latency");

    let of = format!(
        "/api/trend?study=nightly&cell={}&quantity=median+latency",
        encoded(cell)
    );
    let trend = site.get(&of).json();
    assert_eq!(trend["unit"], "ns");
    let [one, two] = &trend["series"].as_array().unwrap()[..] else {
        panic!("{trend}");
    };
    assert_eq!(one["points"].as_array().unwrap().len(), 24);
    assert_eq!(one["points"][3]["path"], "one-03");
    assert_eq!(one["changes"], serde_json::json!([]));
    assert_eq!(two["changes"].as_array().unwrap().len(), 1);
    assert_eq!(two["changes"][0]["index"], 16);
    assert!((two["changes"][0]["ratio"].as_f64().unwrap() - 1.3).abs() < 0.02);

    let alone = site
        .get(&format!(
            "{of}&machine={}",
            encoded(two["machine"].as_str().unwrap())
        ))
        .json();
    assert_eq!(alone["series"].as_array().unwrap().len(), 1);
    let nothing = site.get("/api/trend?study=nosuch&cell=x&quantity=y").json();
    assert_eq!(nothing["series"], serde_json::json!([]));
}
