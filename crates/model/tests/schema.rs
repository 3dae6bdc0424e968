//! Holds the published JSON Schemas against the readers: the same keys, the same words, the same
//! forms of quantities, and every example that is shipped.
//!
//! The check of a document against a schema is the hundred lines at the bottom instead of a library,
//! which would bring more code than all of latlab's documents. It refuses keywords that it does not
//! know, so a schema cannot promise what is not checked here.

mod common;

use std::collections::BTreeSet;

use latlab_model::kinds::{
    DiskAio, DiskCache, DiskDevice, DiskFormat, DpdkDriver, StorageType, Streams,
};
use latlab_model::spec::yaml::{Value as Node, Yaml};
use latlab_model::spec::{
    Acceleration, Access, Better, Cable, Carrier, Device, Devices, Engine, Lab, LinkKind,
    LostTicks, NetBackend, NodeKind, Polling, Probe, ProgramName, Protocol, Runtime, Seccomp,
    Study, ToldTopology, schema,
};
use serde_json::{Map, Value, json};

/// Both schemas, so that one can refer to the other.
struct Schemas {
    lab: Value,
    study: Value,
}

impl Schemas {
    fn load() -> Schemas {
        let parse = |text| serde_json::from_str(text).expect("a schema is JSON");
        Schemas {
            lab: parse(schema::LAB),
            study: parse(schema::STUDY),
        }
    }

    fn lab_def(&self, name: &str) -> &Value {
        &self.lab["$defs"][name]
    }

    fn study_def(&self, name: &str) -> &Value {
        &self.study["$defs"][name]
    }
}

#[test]
fn every_example_is_valid() {
    let schemas = Schemas::load();
    for (folder, root) in [("labs", &schemas.lab), ("studies", &schemas.study)] {
        for file in common::yaml_files(&common::folder(folder)) {
            let yaml = Yaml::parse(&common::read(&file)).expect("YAML");
            let wrong = validate(&schemas, root, root, &to_json(&yaml), "");
            assert!(wrong.is_empty(), "{}: {wrong:#?}", file.display());
        }
    }
}

#[test]
fn bad_files_of_shape_are_refused() {
    let schemas = Schemas::load();
    let mut refused = 0;
    for file in common::yaml_files(&common::tests("bad")) {
        let name = file
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let Ok(yaml) = Yaml::parse(&common::read(&file)) else {
            continue;
        };
        let root = if name.contains("-study-") {
            &schemas.study
        } else {
            &schemas.lab
        };
        let wrong = validate(&schemas, root, root, &to_json(&yaml), "");
        refused += usize::from(!wrong.is_empty());
        let of_shape = [
            "unknown-key",
            "unknown-kind",
            "unknown-type",
            "no-name",
            "probe-",
        ];
        if of_shape.iter().any(|s| name.contains(s)) && !name.contains("factor-of") {
            assert!(!wrong.is_empty(), "{name} is valid");
        }
    }
    assert!(refused >= 40, "only {refused} bad files are refused");
}

#[test]
fn examples_inside_the_schemas_are_valid() {
    let schemas = Schemas::load();
    let mut count = 0;
    for root in [&schemas.lab, &schemas.study] {
        each_schema(root, &mut |schema| {
            for example in schema["examples"].as_array().into_iter().flatten() {
                let wrong = validate(&schemas, root, schema, example, "");
                assert!(wrong.is_empty(), "{example} in {schema}: {wrong:?}");
                count += 1;
            }
        });
    }
    assert!(count > 25, "only {count} examples");
}

/// The keys that a reader knows, from what it says about a key that it does not.
fn known_keys(refusal: &str) -> BTreeSet<String> {
    let hint = refusal
        .lines()
        .skip_while(|l| !l.contains("unknown key `zzzzzzzzzzzzzzzz`"))
        .nth(1)
        .unwrap_or_else(|| panic!("the key was not refused:\n{refusal}"));
    let list = hint
        .strip_prefix("  hint: one of: ")
        .expect("a list of keys");
    list.split(", ").map(str::to_string).collect()
}

fn schema_keys(schema: &Value) -> BTreeSet<String> {
    let properties = schema["properties"].as_object().expect("properties");
    properties.keys().cloned().collect()
}

#[test]
fn the_keys_are_those_of_the_readers() {
    let schemas = Schemas::load();
    let unknown = "zzzzzzzzzzzzzzzz: 1";
    let lab = |text: String| Lab::parse(&text).expect_err("an unknown key").render("f");
    let study = |text: String| Study::parse(&text).expect_err("an unknown key").render("f");
    let topology = &schemas.lab["properties"]["topology"];
    let links = "[{endpoints: ['a:e', 'b:e'], ZZ}]";
    let nodes = "{a: {kind: native}, b: {kind: native}}";
    let cases = [
        ("lab", &schemas.lab, lab(unknown.into())),
        (
            "topology",
            topology,
            lab(format!("topology: {{{unknown}}}")),
        ),
        (
            "host",
            schemas.lab_def("host"),
            lab(format!("hosts: {{a: {{{unknown}}}}}")),
        ),
        (
            "node",
            schemas.lab_def("fields"),
            lab(format!("topology: {{nodes: {{a: {{{unknown}}}}}}}")),
        ),
        (
            "defaults",
            schemas.lab_def("fields"),
            lab(format!("topology: {{defaults: {{{unknown}}}}}")),
        ),
        (
            "security",
            schemas.lab_def("security"),
            lab(format!(
                "topology: {{nodes: {{a: {{security: {{{unknown}}}}}}}}}"
            )),
        ),
        (
            "image",
            schemas.lab_def("image"),
            lab(format!(
                "topology: {{nodes: {{a: {{image: {{debian: x, {unknown}}}}}}}}}"
            )),
        ),
        (
            "storage",
            schemas.lab_def("storage"),
            lab(format!(
                "topology: {{nodes: {{a: {{storage: {{at: /mnt, {unknown}}}}}}}}}"
            )),
        ),
        (
            "dpdk",
            schemas.lab_def("dpdk"),
            lab(format!(
                "topology: {{nodes: {{a: {{dpdk: {{{unknown}}}}}}}}}"
            )),
        ),
        (
            "link",
            schemas.lab_def("link"),
            lab(format!(
                "topology: {{nodes: {nodes}, links: {}}}",
                links.replace("ZZ", unknown)
            )),
        ),
        (
            "end",
            schemas.lab_def("end"),
            lab(format!(
                "topology: {{links: [{{endpoints: [{{{unknown}}}]}}]}}"
            )),
        ),
        ("study", &schemas.study, study(unknown.into())),
        (
            "factor",
            schemas.study_def("factor"),
            study(format!("factors: {{f: {{{unknown}}}}}")),
        ),
        (
            "measurement",
            schemas.study_def("measurement"),
            study(format!("measurements: [{{{unknown}}}]")),
        ),
    ];
    for (what, schema, refusal) in cases {
        assert_eq!(
            schema_keys(schema),
            known_keys(&refusal),
            "keys of a {what}"
        );
        assert_eq!(
            schema["additionalProperties"], false,
            "a {what} takes no other key"
        );
    }
    let kinds = schema_keys(&topology["properties"]["kinds"]);
    assert_eq!(
        kinds,
        NodeKind::WORDS.iter().map(ToString::to_string).collect()
    );
}

#[test]
fn the_words_are_those_of_the_readers() {
    let schemas = Schemas::load();
    let fields = &schemas.lab_def("fields")["properties"];
    let link = &schemas.lab_def("link")["properties"];
    let security = &schemas.lab_def("security")["properties"];
    let storage = &schemas.lab_def("storage")["properties"];
    let measurement = &schemas.study_def("measurement")["properties"];
    let program = &schemas.study_def("program")["properties"];
    let metric = &measurement["metric"]["properties"];
    for (schema, words) in [
        (schemas.lab_def("kind"), NodeKind::WORDS),
        (&fields["runtime"], Runtime::WORDS),
        (&security["seccomp"], Seccomp::WORDS),
        (&security["devices"], Devices::WORDS),
        (&fields["acceleration"], Acceleration::WORDS),
        (
            &schemas.lab_def("net")["properties"]["backend"],
            NetBackend::WORDS,
        ),
        (
            &schemas.lab_def("hardware")["properties"]["pit"],
            LostTicks::WORDS,
        ),
        (
            &schemas.lab_def("hardware")["properties"]["topology"],
            ToldTopology::WORDS,
        ),
        (&storage["type"], StorageType::WORDS),
        (&storage["device"], DiskDevice::WORDS),
        (&storage["cache"], DiskCache::WORDS),
        (&storage["aio"], DiskAio::WORDS),
        (&storage["format"], DiskFormat::WORDS),
        (
            &schemas.lab_def("dpdk")["properties"]["driver"],
            DpdkDriver::WORDS,
        ),
        (&link["type"], LinkKind::WORDS),
        (&link["carrier"], Carrier::WORDS),
        (&link["cable"], Cable::WORDS),
        (&measurement["probe"], Probe::WORDS),
        (&measurement["protocol"], Protocol::WORDS),
        (&measurement["device"], Device::WORDS),
        (&measurement["poll"], Polling::WORDS),
        (&program["name"], ProgramName::WORDS),
        (&program["rw"], Access::WORDS),
        (&program["engine"], Engine::WORDS),
        (&metric["better"], Better::WORDS),
    ] {
        assert_eq!(schema["enum"], json!(words));
    }
    // Two of these words are YAML's own.
    let streams = link["streams"]["enum"].as_array().unwrap().iter();
    let streams: Vec<String> = streams
        .map(|word| word.to_string().replace('"', ""))
        .collect();
    assert_eq!(streams, Streams::WORDS);
}

#[test]
fn quantities_have_the_forms_that_the_readers_take() {
    let schemas = Schemas::load();
    let samples = [
        "10ms",
        "0.5 us",
        "3µs",
        "2s",
        "1m",
        "1min",
        "5",
        "10 parsecs",
        "-1ms",
        "ms",
        "1e3ms",
        "1_000ns",
        "256MiB",
        "1GB",
        "4kB",
        "4KB",
        "7B",
        "3GiB",
        "2TB",
        "2TiB",
        "1K",
        "1M",
        "1G",
        "256 megs",
        "1Gbit",
        "100Mbit/s",
        "10Mbps",
        "5kbit",
        "5Kbit",
        "1Tbit",
        "9bit",
        "1Gb",
        "1bps",
        "0.1%",
        "0.5",
        "1",
        "100 %",
        "101 apples",
        "-0.1",
        "10.1.0.1/24",
        "fd00::1/64",
        "10.1.0.1",
        "fd00::1",
        "02:00:00:00:00:01",
        "AE:00:00:00:00:fF",
        "01:00:00:00:00:00",
        "02:00:00:00:00",
        "2:0:0:0:0:1",
        "0-3,8",
        "3",
        "1, 2",
        "a",
        "1-",
        "0-3-5",
    ];
    let node = "name: l\ntopology:\n  nodes:\n    a:\n      kind: native\n      KEY\n    b:\n      kind: native\n";
    let link =
        node.replace("      KEY\n", "") + "  links:\n  - endpoints: ['a:e', 'b:e']\n    KEY\n";
    let end = link.replace("    KEY\n", "").replace(
        "['a:e', 'b:e']",
        "\n    - 'a:e'\n    - node: b\n      interface: e\n      KEY",
    );
    let quantities = [
        ("duration", link.as_str(), "delay"),
        ("size", node, "memory"),
        ("rate", &link, "rate"),
        ("share", &link, "loss"),
        ("address", &end, "addresses"),
        ("mac", &end, "mac"),
        ("cpus", node, "cpuset"),
    ];
    for (name, lab, key) in quantities {
        let mut taken = 0;
        for sample in samples {
            let value = to_json(&Yaml::parse(&format!("v: {sample}")).expect("YAML"))["v"].clone();
            let valid =
                validate(&schemas, &schemas.lab, schemas.lab_def(name), &value, "").is_empty();
            let refusal = Lab::parse(&lab.replace("KEY", &format!("{key}: {sample}")));
            let refusal = refusal.err().map(|e| e.render("f")).unwrap_or_default();
            assert!(
                !refusal.contains("unknown key") && !refusal.contains("not valid"),
                "{refusal}"
            );
            // A value of the right form may still be out of bounds, which is said otherwise.
            let reads = !refusal.contains("must be");
            assert_eq!(valid, reads, "{name} `{sample}`: {refusal}");
            taken += usize::from(reads);
        }
        assert!(taken > 0, "no sample is a {name}");
    }
}

#[test]
fn defaults_are_those_of_the_readers() {
    let schemas = Schemas::load();
    let head = "name: s\nlab: l.yaml\n";
    let read = |text: String| Study::parse(&text).unwrap_or_else(|e| panic!("{}", e.render(&text)));
    for (probe, keys) in [
        (
            "rr",
            &[
                "duration", "warmup", "request", "response", "ip", "pin", "noise",
            ][..],
        ),
        (
            "packets",
            &["duration", "warmup", "rate", "ip", "pin", "noise"],
        ),
        ("stream", &["duration", "warmup", "ip"]),
        (
            "forward",
            &[
                "duration", "warmup", "rate", "ip", "pin", "noise", "device", "record",
            ],
        ),
    ] {
        let minimal = format!("{head}measurements:\n- {{probe: {probe}, from: a, to: b");
        let mut full = minimal.clone();
        for key in keys {
            let default = &schemas.study_def("measurement")["properties"][key]["default"];
            assert!(!default.is_null(), "`{key}` has a default");
            full += &format!(", {key}: {}", default.to_string().trim_matches('"'));
        }
        assert_eq!(
            read(minimal + "}\n").measurements,
            read(full + "}\n").measurements
        );
    }
    let minimal = read(format!(
        "{head}measurements: [{{probe: rr, from: a, to: b}}]\n"
    ));
    let default = |key: &str| schemas.study["properties"][key]["default"].clone();
    assert_eq!(json!(minimal.replicates), default("replicates"));
    assert_eq!(json!(minimal.seed), default("seed"));
}

/// A tree as an editor types it: YAML 1.2's core schema.
fn to_json(yaml: &Yaml) -> Value {
    match &yaml.value {
        Node::Seq(items) => Value::Array(items.iter().map(to_json).collect()),
        Node::Map(entries) => {
            let entry = |(k, v): &(Yaml, Yaml)| (k.scalar().unwrap_or("?").to_string(), to_json(v));
            Value::Object(entries.iter().map(entry).collect())
        }
        Node::Scalar { text, quoted: true } => json!(text),
        Node::Scalar { .. } if yaml.is_null() => Value::Null,
        Node::Scalar { text, .. } => match text.as_str() {
            "true" | "True" | "TRUE" => json!(true),
            "false" | "False" | "FALSE" => json!(false),
            text => {
                let integer = text.parse::<i64>().ok().map(|n| json!(n));
                let numeric =
                    text.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '.');
                let float = text
                    .parse::<f64>()
                    .ok()
                    .filter(|_| numeric)
                    .map(|n| json!(n));
                integer.or(float).unwrap_or_else(|| json!(text))
            }
        },
    }
}

/// Calls `visit` with every schema inside `schema`.
fn each_schema(schema: &Value, visit: &mut impl FnMut(&Value)) {
    let Value::Object(keywords) = schema else {
        return;
    };
    visit(schema);
    for (keyword, value) in keywords {
        match keyword.as_str() {
            "properties" | "$defs" => {
                let all = value.as_object().expect("schemas by name");
                all.values().for_each(|s| each_schema(s, visit));
            }
            "anyOf" | "allOf" => {
                let all = value.as_array().expect("a list of schemas");
                all.iter().for_each(|s| each_schema(s, visit));
            }
            "items" | "additionalProperties" | "propertyNames" => each_schema(value, visit),
            _ => {}
        }
    }
}

/// The mistakes of `value`, as `PLACE: reason`.
fn validate(
    all: &Schemas,
    root: &Value,
    schema: &Value,
    value: &Value,
    place: &str,
) -> Vec<String> {
    let keywords = match schema {
        Value::Bool(true) => return Vec::new(),
        Value::Object(keywords) => keywords,
        _ => return vec![format!("{place}: nothing may stand here")],
    };
    let mut wrong = Vec::new();
    for (keyword, rule) in keywords {
        match keyword.as_str() {
            "$schema" | "title" | "description" | "examples" | "default" | "$defs" => {}
            "$ref" => {
                let (root, target) = resolve(all, root, rule.as_str().expect("a reference"));
                wrong.extend(validate(all, root, target, value, place));
            }
            "allOf" => {
                for part in rule.as_array().expect("a list") {
                    wrong.extend(validate(all, root, part, value, place));
                }
            }
            "anyOf" => {
                let parts = rule.as_array().expect("a list").iter();
                let each: Vec<_> = parts
                    .map(|s| validate(all, root, s, value, place))
                    .collect();
                if each.iter().all(|w| !w.is_empty()) {
                    wrong.push(format!("{place}: none of {each:?}"));
                }
            }
            "properties"
            | "additionalProperties"
            | "propertyNames"
            | "required"
            | "minProperties" => {
                if let Value::Object(entries) = value {
                    wrong.extend(validate_entries(
                        all, root, keywords, keyword, entries, place,
                    ));
                }
            }
            "items" => {
                for (i, item) in value.as_array().into_iter().flatten().enumerate() {
                    wrong.extend(validate(all, root, rule, item, &format!("{place}/{i}")));
                }
            }
            _ if holds(keyword, rule, value) => {}
            _ => wrong.push(format!("{place}: {value} is not {keyword} {rule}")),
        }
    }
    wrong
}

fn validate_entries(
    all: &Schemas,
    root: &Value,
    keywords: &Map<String, Value>,
    keyword: &str,
    entries: &Map<String, Value>,
    place: &str,
) -> Vec<String> {
    let rule = &keywords[keyword];
    let at = |key: &str| format!("{place}/{key}");
    let declared = |key: &String| {
        keywords
            .get("properties")
            .is_some_and(|p| p.get(key).is_some())
    };
    let mut wrong = Vec::new();
    for (key, value) in entries {
        wrong.extend(match keyword {
            "properties" if declared(key) => validate(all, root, &rule[key], value, &at(key)),
            "additionalProperties" if !declared(key) => validate(all, root, rule, value, &at(key)),
            "propertyNames" => validate(all, root, rule, &json!(key), &at(key)),
            _ => Vec::new(),
        });
    }
    if keyword == "required" {
        let names = rule
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(Value::as_str);
        wrong.extend(
            names
                .filter(|n| !entries.contains_key(*n))
                .map(|n| format!("{place}: no {n}")),
        );
    }
    if keyword == "minProperties" && json!(entries.len()).as_u64() < rule.as_u64() {
        wrong.push(format!("{place}: too few entries"));
    }
    wrong
}

/// Whether a keyword that needs no other schema holds. A keyword says nothing about values of types
/// that are not its own.
fn holds(keyword: &str, rule: &Value, value: &Value) -> bool {
    let is = |name: &str| match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "integer" => value.is_i64(),
        "number" => value.is_number(),
        other => panic!("type {other}"),
    };
    match keyword {
        "type" => match rule {
            Value::String(name) => is(name),
            names => names
                .as_array()
                .expect("types")
                .iter()
                .filter_map(Value::as_str)
                .any(is),
        },
        "enum" => rule.as_array().expect("a list").contains(value),
        "pattern" => value.as_str().is_none_or(|text| {
            let pattern = rule.as_str().expect("a pattern");
            regex_lite::Regex::new(pattern)
                .expect("a pattern")
                .is_match(text)
        }),
        "minimum" => value.as_f64().is_none_or(|n| Some(n) >= rule.as_f64()),
        "maximum" => value.as_f64().is_none_or(|n| Some(n) <= rule.as_f64()),
        "minItems" => value
            .as_array()
            .is_none_or(|a| Some(a.len() as u64) >= rule.as_u64()),
        "maxItems" => value
            .as_array()
            .is_none_or(|a| Some(a.len() as u64) <= rule.as_u64()),
        other => panic!("the schemas use `{other}`, which this test does not know"),
    }
}

fn resolve<'a>(all: &'a Schemas, root: &'a Value, reference: &str) -> (&'a Value, &'a Value) {
    let (file, place) = reference.split_once('#').unwrap_or((reference, ""));
    let root = match file {
        "" => root,
        "lab.schema.json" => &all.lab,
        other => panic!("a reference to {other}"),
    };
    let found = root.pointer(place);
    (
        root,
        found.unwrap_or_else(|| panic!("{reference} leads nowhere")),
    )
}
