use super::*;
use crate::units::{CpuList, Nanos};

fn parse(text: &str) -> Result<Profile, String> {
    Profile::parse(text, &|_| None).map_err(|e| e.render("p"))
}

#[track_caller]
fn refused(text: &str, place: &str, message: &str, hint: &str) {
    let answer = parse(text).expect_err(text);
    let lines: Vec<&str> = answer.lines().collect();
    assert!(lines[0].starts_with(&format!("p:{place}: ")), "{answer}");
    assert!(lines[0].contains(message), "{answer}");
    assert!(
        lines[1].starts_with("  hint: ") && lines[1].contains(hint),
        "{answer}"
    );
}

#[test]
fn every_builtin_profile_is_good_and_carries_its_own_name() {
    for name in Profile::builtin_names() {
        let text = Profile::builtin_text(name).unwrap();
        let profile = parse(text).unwrap();
        assert_eq!(profile.name, name);
        assert!(!profile.about.is_empty(), "{name}");
        // A machine of two CPUs is the smallest that can isolate one.
        profile
            .cores_of(&CpuList::parse("0-1").unwrap(), None)
            .unwrap();
    }
    assert!(Profile::builtin("default").unwrap().knobs.is_empty());
}

#[test]
fn a_child_overrides_adds_and_leaves_out() {
    let text = "name: mine\nextends: isolated\ncores: 1-3\nknobs: {thp: leave, swappiness: 60, busy-read: 50us}\n";
    let mine = parse(text).unwrap();
    let isolated = Profile::builtin("isolated").unwrap();
    assert_eq!(mine.knobs.len(), isolated.knobs.len());
    assert!(!mine.knobs.contains_key("thp"));
    assert_eq!(mine.knobs["swappiness"], Wanted::Number(60));
    assert_eq!(mine.knobs["busy-read"], Wanted::Duration(Nanos(50_000)));
    assert_eq!(
        mine.cores,
        Isolation::Listed(CpuList::parse("1-3").unwrap())
    );
    assert_eq!(mine.boot, isolated.boot);
}

#[test]
fn parents_may_be_files_and_their_mistakes_have_a_place() {
    let files = |name: &str| match name {
        "site.yaml" => Some("name: site\nknobs: {ksm: off}\n".to_string()),
        "wrong.yaml" => Some("name: wrong\nknobs:\n  ksm: maybe\n".to_string()),
        "loop.yaml" => Some("name: a\nextends: loop.yaml\n".to_string()),
        _ => None,
    };
    let read = |parent: &str| {
        let text = format!("name: a\nextends: {parent}\nknobs: {{thp: never}}\n");
        Profile::parse(&text, &files).map_err(|e| e.render("p"))
    };
    assert_eq!(read("site.yaml").unwrap().knobs.len(), 2);
    let wrong = read("wrong.yaml").unwrap_err();
    assert!(
        wrong.contains("p:2:10: ") && wrong.contains("wrong in line 3: knob `ksm`"),
        "{wrong}"
    );
    assert!(read("loop.yaml").unwrap_err().contains("extends itself"));
    let none = read("isolatd").unwrap_err();
    assert!(none.contains("did you mean `isolated`?"), "{none}");
}

#[test]
fn bad_profiles_are_answered_with_place_and_hint() {
    refused("about: x\n", "1:1", "the profile has no `name`", "name");
    refused("name: Mine\n", "1:7", "profile name `Mine`", "`mine`");
    refused(
        "name: a\nknob: {}\n",
        "2:1",
        "unknown key `knob`",
        "`knobs`",
    );
    refused(
        "name: a\nknobs:\n  swapiness: 1\n",
        "3:3",
        "unknown knob `swapiness`",
        "did you mean `swappiness`?",
    );
    refused(
        "name: a\nknobs: {swappiness: 201}\n",
        "2:21",
        "a whole number from 0 to 200",
        "",
    );
    refused(
        "name: a\nknobs: {swappiness: 1, swappiness: 2}\n",
        "2:24",
        "twice",
        "remove one",
    );
    refused(
        "name: a\nknobs: {vm-stat-interval: 120}\n",
        "2:27",
        "a duration with its unit",
        "1s",
    );
    refused(
        "name: a\nknobs: {dirty-writeback: 15MiB}\n",
        "2:26",
        "duration",
        "10ms",
    );
    refused(
        "name: a\nknobs: {socket-buffers: 10s}\n",
        "2:25",
        "a size with its unit",
        "MiB",
    );
    refused(
        "name: a\nknobs: {thp:}\n",
        "2:12",
        "not nothing",
        "after the colon",
    );
    refused(
        "name: a\nknobs: {irq-affinity: 0-9999}\n",
        "2:23",
        "list of CPUs",
        "",
    );
    refused("name: a\ncores: 3-1\n", "2:8", "`cores` of the profile", "");
    refused(
        "name: a\ncores: isolate\n",
        "2:8",
        "`cores`",
        "did you mean `isolated`?",
    );
    refused(
        "name: a\nknobs: {threads: {\"*\": fifo:5}}\n",
        "2:19",
        "names no thread",
        "15",
    );
    refused(
        "name: a\nknobs: {threads: {x: fifo:99}}\n",
        "2:22",
        "policy of `x`",
        "99 belongs",
    );
    refused(
        "name: a\nboot: {isolcpu: 1}\n",
        "2:8",
        "unknown boot parameter `isolcpu`",
        "`isolcpus`",
    );
    refused(
        "name: a\nboot: {idle: spin}\n",
        "2:14",
        "boot parameter `idle`",
        "poll",
    );
}

#[test]
fn contradictory_values_are_refused_where_they_stand() {
    refused(
        "name: a\nknobs: {cpuset: isolated}\n",
        "2:17",
        "`cores` is `shared`",
        "cores: isolated",
    );
    refused(
        "name: a\nextends: isolated\ncores: shared\n",
        "3:8",
        "`cores` is `shared`",
        "",
    );
    refused(
        "name: a\ncores: 2-3\nknobs: {irq-affinity: 1-2}\n",
        "3:23",
        "brings noise",
        "housekeeping",
    );
    refused(
        "name: a\ncores: isolated\nknobs: {workqueues: isolated}\n",
        "3:21",
        "brings noise",
        "",
    );
    refused(
        "name: a\nknobs: {irq-affinity: none}\n",
        "2:23",
        "leaves it no CPU",
        "all",
    );
    refused(
        "name: a\nknobs: {thp: always}\nboot: {transparent_hugepage: never}\n",
        "2:14",
        "contradicts boot",
        "drop one",
    );
    refused(
        "name: a\nknobs: {nmi-watchdog: on}\nboot: {nmi_watchdog: off}\n",
        "2:23",
        "contradicts boot",
        "",
    );
    refused(
        "name: a\nknobs: {nmi-watchdog: off, soft-watchdog: off, watchdog-cpus: all}\n",
        "2:63",
        "both off",
        "",
    );
    refused(
        "name: a\nknobs: {threads: {\"k*\": fifo:5, \"ksoftirqd/*\": fifo:6}}\n",
        "2:18",
        "after `k*`",
        "first",
    );
    refused(
        "name: a\ncores: isolated\nknobs: {cpuset: root, threads: {x: \"deadline:1ms/2ms/2ms\"}}\n",
        "3:32",
        "deadline",
        "fifo",
    );
    refused(
        "name: a\nknobs: {governor: powersave, cpu-dma-latency: 0us}\n",
        "2:19",
        "contradicts",
        "",
    );
}

#[test]
fn cpus_are_divided_and_impossible_ones_refused() {
    let list = |text: &str| CpuList::parse(text).unwrap();
    let profile = Profile::builtin("isolated").unwrap();
    let cores = profile.cores_of(&list("0-7"), None).unwrap();
    assert_eq!(
        (cores.housekeeping, cores.isolated),
        (list("0-1"), list("2-7"))
    );
    let all = profile
        .cores_of(&list("0-1"), Some(&list("0-1")))
        .unwrap_err();
    assert!(all.0.contains("leaves no CPU"), "{all:?}");
    let far = profile
        .cores_of(&list("0-1"), Some(&list("1-2")))
        .unwrap_err();
    assert!(far.0.contains("CPU 2 cannot be isolated"), "{far:?}");
    let one = profile.cores_of(&list("0"), None).unwrap_err();
    assert!(one.0.contains("no CPU can be isolated"), "{one:?}");
    let shared = Profile::builtin("throughput").unwrap();
    assert!(shared.cores_of(&list("0-1"), Some(&list("1"))).is_err());
    let far = parse("name: a\nknobs: {irq-affinity: 5}\n").unwrap();
    assert!(
        far.cores_of(&list("0-1"), None)
            .unwrap_err()
            .0
            .contains("no CPU 5")
    );
}

#[test]
fn single_knobs_are_wanted_kept_and_left_out() {
    let mut profile = Profile::builtin("isolated").unwrap();
    profile.without("thp").unwrap();
    assert!(!profile.knobs.contains_key("thp"));
    assert!(
        profile
            .without("thp")
            .unwrap_err()
            .0
            .contains("wants nothing of knob `thp`")
    );
    profile.only(&["swappiness", "ksm"]).unwrap();
    assert_eq!(profile.knobs.len(), 2);
    profile.want("thp", "always").unwrap();
    profile.want("threads", "{ksoftirqd/*: fifo:2}").unwrap();
    assert_eq!(profile.knobs.len(), 4);
    assert!(
        profile
            .want("thp", "sometimes")
            .unwrap_err()
            .0
            .contains("knob `thp`")
    );
    let (message, hint) = profile.want("swapines", "1").unwrap_err();
    assert_eq!(
        (message.as_str(), hint.as_str()),
        ("unknown knob `swapines`", "did you mean `swappiness`?")
    );
}

#[test]
fn a_profile_is_read_back_from_its_document() {
    for name in Profile::builtin_names() {
        let profile = Profile::builtin(name).unwrap();
        let text = profile.document();
        let read =
            Profile::parse(&text, &|_| None).unwrap_or_else(|e| panic!("{}", e.render(&text)));
        assert_eq!(read, profile, "{text}");
    }
    let text = "name: t\ncores: 2-3\nknobs:\n  threads: {\"ksoft*\": \"fifo:2\"}\n  irqbalance: housekeeping\n";
    let profile = Profile::parse(text, &|_| None).unwrap();
    let document = profile.document();
    let read = Profile::parse(&document, &|_| None);
    assert_eq!(
        read.unwrap_or_else(|e| panic!("{}", e.render(&document))),
        profile
    );
}

#[test]
fn a_lab_may_name_some_of_a_profiles_knobs() {
    let named = |text: &str| Profile::named(text, &Profile::builtin);
    let all = named("isolated").unwrap();
    let without = named("isolated without thp ksm").unwrap();
    assert_eq!(without.knobs.len() + 2, all.knobs.len());
    assert_eq!(without.name, "isolated without thp ksm");
    let placed = named("isolated only placement").unwrap();
    assert!(placed.knobs.is_empty() && placed.boot.is_empty());
    assert_eq!(placed.cores, all.cores);
    let only = named("isolated only cpuset").unwrap();
    assert_eq!(only.knobs.keys().collect::<Vec<_>>(), [&"cpuset"]);
    assert_eq!(only.cores, all.cores);
    for bad in ["", "nothing", "isolated without qdisc", "isolated only xyz"] {
        assert_eq!(named(bad), None, "{bad}");
    }
}

#[test]
fn a_guest_is_tuned_by_its_own_cpus() {
    let isolated = Profile::builtin("isolated").unwrap();
    let one = isolated.in_guest(1);
    assert_eq!(one.cores, Isolation::Shared);
    for knob in ["cpuset", "irq-affinity", "kernel-threads"] {
        assert!(!one.knobs.contains_key(knob), "{knob}");
    }
    assert!(one.knobs.contains_key("swappiness") && one.knobs.contains_key("thp"));
    let two = isolated.in_guest(2);
    assert_eq!(two.cores, Isolation::Listed(CpuList::new(vec![1])));
    assert_eq!(two.knobs["cpuset"], Wanted::Word("isolated"));
    assert_eq!(isolated.in_guest(4).knobs["cpuset"], Wanted::Word("root"));
    for profile in [one, two] {
        assert!(profile.boot.is_empty());
        profile.check().unwrap();
        let again = Profile::parse(&profile.document(), &|_| None).unwrap();
        assert_eq!(again.knobs, profile.knobs);
    }
    let realtime = Profile::builtin("realtime").unwrap().in_guest(2);
    assert!(!realtime.knobs.contains_key("huge-pages"));
    realtime.check().unwrap();
}
