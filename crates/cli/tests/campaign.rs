//! A study measured by many machines: a real Slurm cluster, and hosts behind real ssh daemons.

mod cluster;
mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use cluster::Cluster;
use common::{Bench, Said, TIMEOUT, enter, finish, text, tool, until, world};
use serde_json::Value;

const NODES: usize = 4;

/// Each replicate deploys two labs, and makes one trial in each.
fn study(replicates: u32) -> String {
    format!(
        "name: campaign\nreplicates: {replicates}\nlab:\n  name: NAME\n  topology:\n    \
         nodes: {{a: {{kind: native}}, b: {{kind: native}}}}\n    \
         links: [{{type: veth, endpoints: [\"a:eth0\", \"b:eth0\"]}}]\nfactors:\n  \
         topology.links.0.type: [veth, bridge]\nmeasurements:\n  \
         - {{probe: rr, from: a, to: b, duration: 300ms}}\n"
    )
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// The only directory below `runs` whose name ends so.
fn only(runs: &Path, end: &str) -> PathBuf {
    let all = fs::read_dir(runs)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut found = all.filter(|path| path.to_str().unwrap().ends_with(end));
    let one = found.next().expect(end);
    assert_eq!(found.next(), None);
    one
}

/// The words that submit a study.
fn submission<'a>(file: &'a str, latlab: &'a str, runs: &'a Path) -> [&'a str; 7] {
    let runs = runs.to_str().unwrap();
    [
        "campaign", "submit", file, "--latlab", latlab, "--runs", runs,
    ]
}

/// latlab with the cluster's configuration.
fn on(cluster: &Cluster, bench: &Bench, words: &[&str]) -> Said {
    finish(
        bench
            .command(words)
            .env("SLURM_CONF", cluster.root().join("slurm.conf")),
    )
}

fn status(cluster: &Cluster, bench: &Bench, campaign: &str) -> Value {
    let said = on(
        cluster,
        bench,
        &["campaign", "status", campaign, "--format", "json"],
    );
    serde_json::from_str(&said.good().out).unwrap()
}

fn count(status: &Value, field: &str) -> usize {
    let value = &status[field];
    let numbers = value.as_object().map(serde_json::Map::len);
    numbers.or(value.as_array().map(Vec::len)).expect(field)
}

/// Number of parts: 16, or as many as `LATLAB_TEST_PARTS` says.
fn parts() -> usize {
    let number = std::env::var("LATLAB_TEST_PARTS");
    number.map_or(16, |number| number.parse().unwrap())
}

/// Waits until nothing runs or waits, as long as parts get measured meanwhile.
fn wait_for_the_queue(cluster: &Cluster, bench: &Bench, campaign: &str) {
    let mut measured = 0;
    let mut since = Instant::now();
    loop {
        // A part whose node failed would wait for two minutes before it starts again.
        cluster.start_now();
        let status = status(cluster, bench, campaign);
        if count(&status, "running") + count(&status, "waiting") == 0 {
            return;
        }
        if count(&status, "measured") > measured {
            (measured, since) = (count(&status, "measured"), Instant::now());
        }
        assert!(since.elapsed() < TIMEOUT, "nothing goes on: {status:#}");
        sleep(Duration::from_millis(300));
    }
}

/// Processes whose command line has all these words.
fn processes(words: &[&str]) -> Vec<u32> {
    let has_them = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = text(&line);
        let mut given = line.split('\0');
        words.iter().all(|word| given.any(|one| one == *word))
    };
    world::processes().into_iter().filter(has_them).collect()
}

fn is_killed(pid: u32) -> bool {
    let kill = Command::new("kill")
        .args(["-KILL", &pid.to_string()])
        .status();
    kill.unwrap().success()
}

/// Merges a campaign, and asserts that every trial of the study is in it once.
fn merged(bench: &Bench, study: &str, campaign: &str) -> Value {
    let runs = bench.root().join("merged");
    let said = bench.latlab(&["merge", campaign, "--runs", runs.to_str().unwrap()]);
    said.good();
    let run = only(&runs, "");
    let order = bench.latlab(&["run", study, "--dry-run"]).good().out;
    let trials = fs::read_dir(run.join("trials")).unwrap();
    let trials: BTreeSet<u32> = trials
        .map(|entry| read(&entry.unwrap().path().join("trial.json")))
        .map(|trial| {
            assert_eq!(trial["outcome"]["outcome"], "measured", "{trial:#}");
            trial["trial"].as_u64().unwrap() as u32
        })
        .collect();
    assert_eq!(trials, (1..=order.lines().count() as u32).collect());
    read(&run.join("manifest.json"))
}

#[test]
fn slurm_measures_every_part_once_though_a_node_and_latlab_die() {
    enter(
        "slurm_measures_every_part_once_though_a_node_and_latlab_die",
        |bench| {
            let mut cluster = Cluster::new(bench, NODES);
            cluster.start_slurm(bench, NODES);
            let parts = parts();
            let file = bench.file("campaign", &study(parts as u32 / 2));
            let runs = bench.root().join("runs");
            let latlab = cluster.latlab();
            let submit = submission(&file, &latlab, &runs);
            on(&cluster, bench, &[&submit[..], &["--nodes", "4"]].concat()).good();
            let campaign = only(&runs, "-campaign").display().to_string();

            // A node dies in its second part, and comes back; latlab is killed on another one.
            // After it is back no part may be left to measure on it.
            let mut parts_of_second = BTreeSet::new();
            until("the second node runs a second part", || {
                let status = status(&cluster, bench, &campaign);
                let running = status["running"].as_object().unwrap().iter();
                let here = running.filter(|(_, node)| *node == "n2");
                parts_of_second.extend(here.map(|(part, _)| part.clone()));
                parts_of_second.len() > 1
            });
            cluster.cut(2);
            // One that has just begun may be at its end when it is killed.
            let mut known = processes(&["campaign", "part"]);
            let mut kills = 0;
            while count(&status(&cluster, bench, &campaign), "left") == 0 {
                until("another part begins", || {
                    let all = processes(&["campaign", "part"]);
                    let new = all.iter().find(|pid| !known.contains(pid));
                    new.is_some_and(|pid| is_killed(*pid))
                });
                known = processes(&["campaign", "part"]);
                kills += 1;
            }
            cluster.boot_slurmd(bench, 2);
            wait_for_the_queue(&cluster, bench, &campaign);

            let left = status(&cluster, bench, &campaign);
            assert!(
                (1..=kills + 1).contains(&count(&left, "left")),
                "those that were killed: {left:#}"
            );
            let table = on(&cluster, bench, &["campaign", "status", &campaign])
                .good()
                .out;
            assert!(table.contains("campaign resume"), "{table}");
            bench
                .latlab(&["merge", &campaign])
                .ended_badly(1, " is ", "campaign resume");
            on(&cluster, bench, &["campaign", "resume", &campaign]).good();
            until("all is measured", || {
                count(&status(&cluster, bench, &campaign), "measured") == parts
            });
            let said = on(&cluster, bench, &["campaign", "resume", &campaign]).good();
            assert!(said.out.contains("all parts are measured"), "{said:#?}");

            let manifest = merged(bench, &file, &campaign);
            assert_eq!(manifest["state"]["state"], "complete");
            let factors = manifest["factors"].as_array().unwrap();
            let machines = factors
                .iter()
                .find(|factor| factor["name"] == "machine")
                .unwrap();
            assert_eq!(machines["levels"].as_array().unwrap().len(), NODES);
        },
    );
}

#[test]
fn a_cancelled_campaign_keeps_what_was_measured() {
    enter("a_cancelled_campaign_keeps_what_was_measured", |bench| {
        let mut cluster = Cluster::new(bench, 1);
        cluster.start_slurm(bench, 1);
        let file = bench.file("campaign", &study(4));
        let runs = bench.root().join("runs");
        let latlab = cluster.latlab();
        let submit = submission(&file, &latlab, &runs);

        // A submission that sbatch refuses leaves nothing.
        let said = on(
            &cluster,
            bench,
            &[&submit[..], &["--", "--partition=none"]].concat(),
        );
        said.ended_badly(
            2,
            "Invalid partition name specified",
            "`sinfo` shows partitions",
        );
        assert_eq!(fs::read_dir(&runs).unwrap().count(), 0);
        let said = on(
            &cluster,
            bench,
            &[&submit[..], &["--dry-run", "--nodes", "2", "--parts", "4"]].concat(),
        );
        assert!(said.good().out.contains("--array=1-4%2"));

        on(&cluster, bench, &submit).good();
        let campaign = only(&runs, "-campaign").display().to_string();
        until("a part is measured", || {
            count(&status(&cluster, bench, &campaign), "measured") > 0
        });
        on(&cluster, bench, &["campaign", "cancel", &campaign]).good();
        wait_for_the_queue(&cluster, bench, &campaign);
        // The part that was measured when it was cancelled ended in order, and removed its lab.
        let now = status(&cluster, bench, &campaign);
        assert!(
            count(&now, "measured") > 0 && count(&now, "left") > 0,
            "{now:#}"
        );
        for (part, reason) in now["stopped"].as_object().unwrap() {
            assert_ne!(reason, "killed", "part {part}");
        }
        drop(cluster);

        // The controller is gone, with its configuration's socket.
        let gone = bench.root().join("gone.conf");
        fs::write(
            &gone,
            "ClusterName=gone\nSlurmctldHost=localhost(127.0.0.1)\nMessageTimeout=2\n",
        )
        .unwrap();
        let said = finish(bench.command(&submit).env("SLURM_CONF", &gone));
        assert_eq!(said.code, 2, "{said:#?}");
        assert_eq!(
            fs::read_dir(&runs).unwrap().count(),
            1,
            "nothing was left by it"
        );
        let said = finish(bench.command(&submit).env("PATH", "/nowhere"));
        said.ended_badly(2, "Slurm's `sbatch` is not on this machine", "--ssh");
    });
}

#[test]
fn hosts_over_ssh_measure_the_parts() {
    enter("hosts_over_ssh_measure_the_parts", |bench| {
        let mut cluster = Cluster::new(bench, 2);
        cluster.start_ssh(bench);
        let lab = "name: NAME\ntopology:\n  nodes: {a: {kind: native}, b: {kind: native}}\n  \
                   links: [{type: veth, endpoints: [\"a:eth0\", \"b:eth0\"]}]\n";
        bench.file("lab", lab);
        let text = study(3);
        let (before, rest) = text.split_once("lab:\n").unwrap();
        let (_, after) = rest.split_once("factors:").unwrap();
        // The hosts do not have the lab's file.
        let file = bench.file(
            "campaign",
            &format!("{before}lab: lab.yaml\nfactors:{after}"),
        );
        let runs = bench.root().join("runs");
        let latlab = cluster.latlab();
        let submit = submission(&file, &latlab, &runs);

        let said = bench.latlab(&[&submit[..], &["--ssh", "a/b"]].concat());
        said.refused(2, "is no host", "name hosts as ssh does");
        // One host is not there: the others measure its parts.
        let hosts = ["--ssh", "n1,n2,n9"];
        let said = bench.latlab(&[&submit[..], &hosts].concat()).good();
        assert!(
            said.err.contains("n9: part") && said.err.contains("no connection"),
            "{said:#?}"
        );
        let campaign = only(&runs, "-campaign");
        let name = campaign.to_str().unwrap();
        let said = bench
            .latlab(&["campaign", "status", name, "--format", "json"])
            .good();
        let status: Value = serde_json::from_str(&said.out).unwrap();
        assert_eq!(count(&status, "measured"), 6);
        let machines: BTreeSet<&str> = status["measured"]
            .as_object()
            .unwrap()
            .values()
            .map(|v| v.as_str().unwrap())
            .collect();
        assert_eq!(machines, BTreeSet::from(["n1", "n2"]));
        merged(bench, &file, name);

        // The end of the connection ends the part, with its lab; another part goes on from there.
        fs::remove_dir_all(&runs).unwrap();
        let hosts = ["--ssh", "n1"];
        let mut command = bench.command(&[&submit[..], &hosts].concat());
        let mut child = command.spawn().unwrap();
        until("a part runs", || {
            !processes(&["campaign", "part"]).is_empty()
        });
        let pid = child.id().to_string();
        let other = only(&runs, "-campaign").display().to_string();
        bench.latlab(&["campaign", "resume", &other]).refused(
            2,
            "another `latlab campaign` works on",
            "campaign status",
        );
        tool(&["kill", "-KILL", &pid]);
        child.wait().unwrap();
        for ssh in processes(&["ssh", "n1"]) {
            Command::new("kill").arg(ssh.to_string()).status().unwrap();
        }
        until("the part ends", || {
            processes(&["campaign", "part"]).is_empty()
        });
        bench.latlab(&["campaign", "resume", &other]).good();
    });
}

/// An ssh that has no connection to n9, and tells so when another host has measured a part.
const LATE: &str = r#"#!/bin/sh
case " $* " in
*" n9 "*)
    until ls RUNS/*-campaign/parts | grep -q part; do sleep 0.1; done
    sleep 1
    exit 255
    ;;
esac
exec SSH "$@"
"#;

#[test]
fn a_host_waits_for_parts_that_others_may_give_back() {
    enter(
        "a_host_waits_for_parts_that_others_may_give_back",
        |bench| {
            let mut cluster = Cluster::new(bench, 1);
            cluster.start_ssh(bench);
            let file = bench.file("campaign", &study(1));
            let runs = bench.root().join("runs");
            let latlab = cluster.latlab();
            let programs = bench.root().join("programs");
            fs::create_dir(&programs).unwrap();
            let ssh = tool(&["sh", "-c", "command -v ssh"]);
            let late = LATE.replace("RUNS", runs.to_str().unwrap());
            fs::write(programs.join("ssh"), late.replace("SSH", ssh.trim())).unwrap();
            tool(&["chmod", "755", programs.join("ssh").to_str().unwrap()]);
            let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
            let submit = submission(&file, &latlab, &runs);
            let mut command = bench.command(&[&submit[..], &["--ssh", "n1,n9"]].concat());
            let said = finish(command.env("PATH", path)).good();
            assert!(said.err.contains("n9: part"), "{said:#?}");
            assert!(said.out.contains("2 of 2 parts are measured"), "{said:#?}");
        },
    );
}

#[test]
fn a_part_removes_only_labs_of_a_part_that_was_killed() {
    enter(
        "a_part_removes_only_labs_of_a_part_that_was_killed",
        |bench| {
            let mut cluster = Cluster::new(bench, 1);
            cluster.start_ssh(bench);
            // A campaign whose host is away is one without parts.
            let file = bench.file("campaign", &study(1).replace("300ms", "20s"));
            let runs = bench.root().join("runs");
            let submit = submission(&file, env!("CARGO_BIN_EXE_latlab"), &runs);
            let said = bench.latlab(&[&submit[..], &["--ssh", "n9"]].concat());
            assert_eq!(said.code, 1, "{said:#?}");
            let campaign = only(&runs, "-campaign");
            let part = ["campaign", "part", campaign.to_str().unwrap(), "1"];
            let begun = bench.root().join("state/campaign-part.json");
            let is_deployed = || fs::read_dir(bench.labs()).is_ok_and(|labs| labs.count() > 0);
            let log = bench.root().join("part.log");
            let killed_after = |told: &str| {
                let mut command = bench.command(&part);
                let command = command.stderr(fs::File::create(&log).unwrap());
                let mut child = command.spawn().unwrap();
                until("the part measures", || {
                    let said = fs::read_to_string(&log).unwrap();
                    said.contains(told) && begun.exists() && is_deployed()
                });
                child.kill().unwrap();
                child.wait().unwrap();
            };
            killed_after("");
            // Its lab is the next part's to remove.
            killed_after("of a part that was killed here");
            // The user removes it himself, and deploys his own of that name.
            let name = bench.name("campaign");
            bench.latlab(&["destroy", &name]).good();
            let own = bench.file(
                "own",
                "name: NAME\ntopology: {nodes: {x: {kind: native}}}\n",
            );
            let text = fs::read_to_string(&own).unwrap();
            fs::write(&own, text.replace(&bench.name("own"), &name)).unwrap();
            bench.latlab(&["deploy", &own]).good();
            bench
                .latlab(&part)
                .ended_badly(2, "is already deployed", "latlab destroy");
            bench.exec(&name, "x", &["true"]).good();
        },
    );
}
