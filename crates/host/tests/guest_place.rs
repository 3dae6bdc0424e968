//! A guest's share of the host, seen from both sides: the topology of its CPUs, its memory,
//! and the idle spinning. Only with `LATLAB_TEST_GUEST=1`.

mod guests;

use std::collections::BTreeMap;
use std::fs;

use guests::{Guest, asked_for, text};
use latlab_model::boot;
use latlab_model::plan::{GuestMemory, GuestTopology};
use latlab_model::profile::Profile;

#[test]
fn a_guest_sees_which_of_its_cpus_share_a_core_and_a_cache() {
    if !asked_for() {
        return;
    }
    let guest = Guest::boot("standard", |config| {
        config.vcpus = 4;
        config.topology = Some(GuestTopology {
            sockets: 2,
            dies: 1,
            cores: 1,
            threads: 2,
        });
    });
    let channel = guest.channel();
    let of = |file: &str| {
        let all = format!("cd /sys/devices/system/cpu; cat cpu[0-3]/{file}");
        let told = text(&channel, &all);
        told.lines().map(str::to_string).collect::<Vec<_>>()
    };
    let pairs = ["0-1", "0-1", "2-3", "2-3"];
    assert_eq!(of("topology/thread_siblings_list"), pairs);
    assert_eq!(of("topology/physical_package_id"), ["0", "0", "1", "1"]);
    // The last level is the third.
    assert_eq!(of("cache/index3/shared_cpu_list"), pairs);
}

/// Huge pages set aside for a test, on top of those that are there, and given back after it.
struct HugePages(u64);

const POOL: &str = "/proc/sys/vm/nr_hugepages";

impl HugePages {
    fn more(pages: u64) -> HugePages {
        let before = number(&fs::read_to_string(POOL).unwrap());
        let wanted = before + pages;
        fs::write(POOL, wanted.to_string()).unwrap();
        let guard = HugePages(before);
        let there = number(&fs::read_to_string(POOL).unwrap());
        assert_eq!(there, wanted, "the memory is in too small pieces");
        guard
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        fs::write(POOL, self.0.to_string()).unwrap();
    }
}

fn number(text: &str) -> u64 {
    let digits = text.split_whitespace().next().unwrap();
    digits.parse().unwrap()
}

/// `Name:   123 kB` of a file, summed over all lines of a name.
fn kib(path: &str) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for line in fs::read_to_string(path).unwrap().lines() {
        if let Some((name, rest)) = line.split_once(':') {
            if let Some(value) = rest.trim().strip_suffix(" kB") {
                *all.entry(name.to_string()).or_default() += value.trim().parse::<u64>().unwrap();
            }
        }
    }
    all
}

#[test]
fn a_guests_memory_is_there_from_the_start_locked_and_in_huge_pages() {
    if !asked_for() {
        return;
    }
    const MIB: u64 = 256;
    let page_kib = kib("/proc/meminfo")["Hugepagesize"];
    let pages = MIB * 1024 / page_kib;
    let _pool = HugePages::more(pages);
    let free = || -> u64 {
        let text = fs::read_to_string("/proc/meminfo").unwrap();
        let line = text.lines().find_map(|l| l.strip_prefix("HugePages_Free:"));
        number(line.unwrap())
    };
    let before = free();
    let guest = Guest::boot("standard", |config| {
        config.memory_bytes = MIB << 20;
        config.memory = GuestMemory {
            preallocated: true,
            locked: true,
            huge: true,
        };
    });
    // From the outside, before the guest has touched most of it.
    let process = guest.vm().id().pid;
    let channel = guest.channel();
    let maps = || kib(&format!("/proc/{process}/smaps"));
    let huge = |maps: &BTreeMap<String, u64>| maps["Private_Hugetlb"] + maps["Shared_Hugetlb"];
    let at_first = huge(&maps());
    assert_eq!(at_first, MIB * 1024);
    assert_eq!(free(), before - pages);
    let locked = kib(&format!("/proc/{process}/status"))["VmLck"];
    assert!(locked >= MIB * 1024, "{locked} KiB are locked");
    // From the inside it is ordinary memory, all of it; using it takes nothing more from the host.
    let total = text(&channel, "awk '/MemTotal/ {print $2}' /proc/meminfo");
    assert!(number(&total) > (MIB - 64) * 1024, "{total}");
    text(
        &channel,
        "dd if=/dev/zero of=/dev/shm/x bs=1M count=64 2>/dev/null; rm /dev/shm/x",
    );
    assert_eq!(huge(&maps()), at_first);
    drop(guest);
    assert_eq!(free(), before);
}

/// The kernel has the governor only where it finds KVM underneath; what it was asked for is on its line.
#[test]
fn a_guest_spins_itself_where_its_profile_says_so_and_kvm_offers_it() {
    if !asked_for() {
        return;
    }
    let profile = "name: p\nabout: x\nboot:\n  cpuidle.governor: haltpoll\n";
    let profile = Profile::parse(profile, &|_| None).expect("a profile");
    let guest = Guest::boot("standard", |config| {
        config.boot_parameters = boot::of_guest(&profile, 1);
    });
    let channel = guest.channel();
    let line = text(&channel, "cat /proc/cmdline");
    assert!(line.contains(" cpuidle.governor=haltpoll"), "{line}");
    const AT: &str = "/sys/devices/system/cpu/cpuidle";
    let known = text(&channel, &format!("cat {AT}/available_governors"));
    let now = text(&channel, &format!("cat {AT}/current_governor"));
    assert_eq!(
        now == "haltpoll\n",
        known.contains("haltpoll"),
        "{known}{now}"
    );
}
