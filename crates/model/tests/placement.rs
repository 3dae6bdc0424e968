//! Properties of every blueprint, on random machines with random labs: no core twice, the threads of a
//! core never with two owners, cores and memory on one memory node whenever any choice allows it, the
//! host never without a core, a refusal only when there is no way, and the same answer again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use latlab_model::facts::{Facts, Machine, NumaNode, Processors};
use latlab_model::plan::{Blueprint, Share, blueprint};
use latlab_model::profile::Profile;
use latlab_model::spec::Lab;
use latlab_model::units::{Bytes, CpuList};

const ROUNDS: u64 = 4000;
const GIB: u64 = 1 << 30;

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % limit as u64) as usize
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// A machine whose cores all have the same number of threads, numbered as Linux does: the first
/// threads of all cores, then the second ones.
struct Made {
    facts: Facts,
    cores: Vec<Vec<u32>>,
    /// Memory node of each core.
    node: Vec<usize>,
    bytes: Vec<u64>,
    threads: usize,
}

fn machine(random: &mut Random) -> Made {
    let nodes = 1 + random.below(4);
    let per_node = 1 + random.below(6);
    let threads = 1 + random.below(2);
    let count = nodes * per_node;
    let cores: Vec<Vec<u32>> = (0..count)
        .map(|c| (0..threads).map(|t| (c + t * count) as u32).collect())
        .collect();
    let node: Vec<usize> = (0..count).map(|c| c / per_node).collect();
    let bytes: Vec<u64> = (0..nodes)
        .map(|_| (1 + random.below(8)) as u64 * GIB)
        .collect();
    let numa = (0..nodes).map(|n| NumaNode {
        id: n as u32,
        cpus: Some(CpuList::new(
            (0..count)
                .filter(|c| node[*c] == n)
                .flat_map(|c| cores[c].clone())
                .collect(),
        )),
        memory_bytes: bytes[n],
        distances: (0..nodes)
            .map(|m| {
                if m == n {
                    10
                } else {
                    12 + random.below(20) as u32
                }
            })
            .collect(),
    });
    let processors = Processors {
        cores: count as u32,
        siblings: match threads {
            1 => Vec::new(),
            _ => cores.iter().map(|c| CpuList::new(c.clone())).collect(),
        },
        numa: numa.collect(),
        ..Processors::default()
    };
    let mut taken = Vec::new();
    for core in cores.iter().skip(1) {
        // Another lab may hold one thread only in its list; the core is not free all the same.
        if random.chance(10) {
            taken.push(core[0]);
        }
    }
    let facts = Facts {
        cpus: CpuList::new((0..(count * threads) as u32).collect()),
        cpus_taken: taken,
        machine: Machine {
            processors,
            ..Machine::default()
        },
        ..Facts::default()
    };
    Made {
        facts,
        cores,
        node,
        bytes,
        threads,
    }
}

/// A node's wish: CPUs and memory.
struct Wish {
    name: String,
    cpus: usize,
    memory: u64,
    vm: bool,
}

struct Written {
    lab: Lab,
    wishes: Vec<Wish>,
    pooled: bool,
    text: String,
}

fn lab(random: &mut Random) -> Written {
    let mut text = "name: t\n".to_string();
    let isolates = random.chance(50);
    if isolates {
        let _ = writeln!(
            text,
            "tuning: {}",
            ["isolated", "realtime"][random.below(2)]
        );
    }
    text += "topology:\n  nodes:\n";
    let mut wishes = Vec::new();
    let mut pooled = false;
    for i in 0..1 + random.below(5) {
        let name = format!("n{i}");
        let vm = random.chance(40);
        let kind = if vm { "vm" } else { "native" };
        if random.chance(25) {
            pooled |= isolates;
            let _ = writeln!(text, "    {name}: {{kind: {kind}}}");
            continue;
        }
        let (cpus, memory) = (1 + random.below(5), 1 + random.below(4) as u64);
        let _ = writeln!(
            text,
            "    {name}: {{kind: {kind}, cpus: {cpus}, isolate: true, memory: {memory}GiB}}"
        );
        wishes.push(Wish {
            name,
            cpus,
            memory: memory * GIB,
            vm,
        });
    }
    let lab = Lab::parse(&text).unwrap_or_else(|e| panic!("{}{text}", e.render("t")));
    Written {
        lab,
        wishes,
        pooled,
        text,
    }
}

/// The cores that can be given: neither the host's first nor those of others.
fn free(machine: &Made) -> Vec<usize> {
    let taken = &machine.facts.cpus_taken;
    let open = |c: &usize| !machine.cores[*c].iter().any(|t| taken.contains(t));
    (0..machine.cores.len()).filter(open).skip(1).collect()
}

#[test]
fn every_blueprint_keeps_the_rules() {
    let (mut placed, mut refused, mut spread, mut guests) = (0, 0, 0, 0);
    for seed in 0..ROUNDS {
        let mut random = Random(seed);
        let machine = machine(&mut random);
        let written = lab(&mut random);
        let again = || blueprint(&written.lab, &machine.facts, &Profile::builtin);
        let context = format!("seed {seed}\n{}{:?}", written.text, machine.facts);
        match again() {
            Ok(blueprint) => {
                owners(&machine, &blueprint, &context);
                host(&machine, &blueprint, &context);
                wishes(&machine, &written, &blueprint, &context);
                spread += usize::from(!locality(&machine, &written, &blueprint, &context));
                guests += written.wishes.iter().filter(|w| w.vm).count();
                assert_eq!(again().expect("as before"), blueprint, "{context}");
                placed += 1;
            }
            Err(errors) => {
                assert!(!fits(&machine, &written), "{}{context}", errors.render("t"));
                assert_eq!(
                    again().expect_err("as before").render("t"),
                    errors.render("t")
                );
                refused += 1;
            }
        }
    }
    // Each of the cases was met often.
    for count in [placed, refused, spread, guests] {
        assert!(
            count > 100,
            "{placed} placed, {refused} refused, {spread} spread, {guests} guests"
        );
    }
}

/// Every CPU has one owner, and so has every core.
fn owners(machine: &Made, blueprint: &Blueprint, context: &str) {
    let mut owner: BTreeMap<u32, String> = BTreeMap::new();
    let mut give = |cpus: &CpuList, name: &str| {
        for cpu in cpus.iter() {
            if let Some(other) = owner.insert(cpu, name.to_string()) {
                panic!("CPU {cpu} belongs to {other} and {name}: {context}");
            }
        }
    };
    give(&blueprint.housekeeping.cpus, "the host");
    blueprint
        .pool
        .iter()
        .for_each(|g| give(&g.cpus, "the pool"));
    for node in blueprint.nodes.iter().filter(|n| n.share == Share::Own) {
        give(&node.cores.cpus, &node.name);
        let apart = node.emulator.iter().filter(|e| {
            !e.cpus
                .iter()
                .any(|c| blueprint.housekeeping.cpus.contains(c))
        });
        apart.for_each(|e| give(&e.cpus, &format!("the emulator of {}", node.name)));
    }
    for core in &machine.cores {
        let mut owners: BTreeSet<&String> = core.iter().filter_map(|c| owner.get(c)).collect();
        assert!(
            owners.len() <= 1,
            "core {core:?} is split between {owners:?}: {context}"
        );
        let idle = |c: &&u32| {
            blueprint
                .idle
                .as_ref()
                .is_some_and(|g| g.cpus.contains(**c))
        };
        for cpu in core.iter().filter(idle) {
            assert!(
                !owner.contains_key(cpu),
                "CPU {cpu} is idle and given: {context}"
            );
            assert!(
                owners.pop_first().is_some_and(|o| o.starts_with('n')),
                "{cpu}: {context}"
            );
        }
    }
    let given = blueprint.given();
    for cpu in &machine.facts.cpus_taken {
        assert!(
            !owner.contains_key(cpu) && !given.contains(*cpu),
            "{cpu}: {context}"
        );
    }
    assert!(
        given
            .iter()
            .all(|c| !blueprint.housekeeping.cpus.contains(c)),
        "{context}"
    );
}

fn host(machine: &Made, blueprint: &Blueprint, context: &str) {
    let first = &machine.cores[0];
    let kept = &blueprint.housekeeping.cpus;
    assert!(first.iter().all(|c| kept.contains(*c)), "{context}");
    assert_eq!(&blueprint.interrupts.cpus, kept, "{context}");
    assert_eq!(&blueprint.kernel_threads.cpus, kept, "{context}");
}

fn wishes(machine: &Made, written: &Written, blueprint: &Blueprint, context: &str) {
    assert_eq!(blueprint.pool.is_some(), written.pooled, "{context}");
    for wish in &written.wishes {
        let place = blueprint.node(&wish.name).expect("a place");
        assert_eq!(
            (place.share, place.cores.cpus.len()),
            (Share::Own, wish.cpus),
            "{context}"
        );
        assert!(!place.cores.why.is_empty());
        if wish.vm {
            let vcpus: BTreeSet<u32> = place.vcpus.iter().copied().collect();
            assert_eq!(vcpus, place.cores.cpus.iter().collect(), "{context}");
            assert_eq!(place.vcpus.len(), wish.cpus, "{context}");
            let emulator = place.emulator.as_ref().expect("a place for the emulator");
            assert!(
                !emulator.cpus.is_empty() && emulator.cpus.iter().all(|c| !vcpus.contains(&c)),
                "{context}"
            );
        }
        assert_eq!(place.memory.is_some(), machine.bytes.len() > 1, "{context}");
    }
}

/// Whether all nodes are local; if not, no choice whatever would have made them so.
fn locality(machine: &Made, written: &Written, blueprint: &Blueprint, context: &str) -> bool {
    let home = |cpu: u32| {
        machine.node[machine
            .cores
            .iter()
            .position(|c| c.contains(&cpu))
            .expect("a core")]
    };
    let is_local = |wish: &Wish| {
        let place = blueprint.node(&wish.name).expect("a place");
        let homes: BTreeSet<usize> = place.cores.cpus.iter().map(home).collect();
        let memory = place.memory.as_ref().map_or_else(
            || homes.clone(),
            |m| m.nodes.iter().map(|n| n as usize).collect(),
        );
        let bytes: u64 = homes.iter().map(|n| machine.bytes[*n]).sum();
        homes.len() == 1 && memory == homes && (machine.bytes.len() == 1 || wish.memory <= bytes)
    };
    if written.wishes.iter().all(is_local) {
        return true;
    }
    if machine.bytes.len() == 1 {
        // One node: only its memory can be too small, which is refused elsewhere.
        return true;
    }
    // The cores that were not kept for the host, and what a wish needs of them in the way chosen.
    let whole = written.wishes.iter().any(|w| {
        let cpus = &blueprint.node(&w.name).expect("a place").cores.cpus;
        let cores: BTreeSet<usize> = cpus
            .iter()
            .filter_map(|c| machine.cores.iter().position(|t| t.contains(&c)))
            .collect();
        cores.len() < w.cpus
    });
    let kept = |c: &usize| {
        blueprint.pool.is_some() && blueprint.housekeeping.cpus.contains(machine.cores[*c][0])
    };
    let mut cores = vec![0usize; machine.bytes.len()];
    free(machine)
        .iter()
        .filter(|c| !kept(c))
        .for_each(|c| cores[machine.node[*c]] += 1);
    let needs: Vec<(usize, u64)> = written
        .wishes
        .iter()
        .map(|w| {
            (
                if whole {
                    w.cpus.div_ceil(machine.threads)
                } else {
                    w.cpus
                },
                w.memory,
            )
        })
        .collect();
    assert!(
        !all_local(&needs, &mut cores, &mut machine.bytes.clone()),
        "all could be local: {blueprint:#?}{context}"
    );
    false
}

fn all_local(needs: &[(usize, u64)], cores: &mut [usize], bytes: &mut [u64]) -> bool {
    let Some(((count, memory), rest)) = needs.split_first() else {
        return true;
    };
    (0..cores.len()).any(|n| {
        if cores[n] < *count || bytes[n] < *memory {
            return false;
        }
        cores[n] -= count;
        bytes[n] -= memory;
        let found = all_local(rest, cores, bytes);
        cores[n] += count;
        bytes[n] += memory;
        found
    })
}

/// Whether there are cores enough at all, with all threads working.
fn fits(machine: &Made, written: &Written) -> bool {
    let needed: usize = written
        .wishes
        .iter()
        .map(|w| w.cpus.div_ceil(machine.threads))
        .sum();
    needed + usize::from(written.pooled) <= free(machine).len()
}

/// The largest lab within the rules: as many nodes as there are cores, on the largest machine.
#[test]
fn a_large_lab_on_a_large_machine_is_placed() {
    let cpus = CpuList::new((0..1024).collect());
    let numa = (0..8u32).map(|id| NumaNode {
        id,
        cpus: Some(CpuList::new((id * 128..(id + 1) * 128).collect())),
        memory_bytes: Bytes(64 * GIB).0,
        distances: Vec::new(),
    });
    let mut facts = Facts {
        cpus,
        ..Facts::default()
    };
    facts.machine.processors.numa = numa.collect();
    let nodes: String = (0..1023)
        .map(|i| format!("    n{i}: {{kind: native, isolate: true}}\n"))
        .collect();
    let lab =
        |nodes: &str| Lab::parse(&format!("name: t\ntopology:\n  nodes:\n{nodes}")).expect("a lab");
    let placed = blueprint(&lab(&nodes), &facts, &Profile::builtin).expect("room for all");
    assert_eq!(placed.given().len(), 1023);
    assert_eq!(placed.housekeeping.cpus.to_string(), "0");
    let more = nodes + "    last: {kind: native, isolate: true}\n";
    let errors = blueprint(&lab(&more), &facts, &Profile::builtin).expect_err("one too many");
    assert!(
        errors
            .render("t")
            .contains("node `last` wants 1 exclusive CPU(s); 0 of"),
        "{}",
        errors.render("t")
    );
}
