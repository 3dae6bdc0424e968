//! The machine's parts, read from `/proc` and `/sys`. Reading never fails: missing parts
//! are absent from the result, because every file here is missing on some kernel.
//!
//! All paths are below a root directory, so that tests can lay out machines that we do not own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use latlab_model::facts::{
    Cache, Clock, CoreClass, GuestKernel, Kernel, Memory, NumaNode, Processors, Storage,
};
use latlab_model::units::CpuList;

use super::texts::{self, Evidence};
use crate::dirs::Dirs;
use crate::sys::inside;

/// Longest file that is read; `/proc/cpuinfo` of a machine with 8192 CPUs is 16 MiB.
const MAX_BYTES: u64 = 16 << 20;

#[derive(Debug, Clone)]
pub(super) struct Source {
    root: PathBuf,
}

impl Source {
    pub fn here() -> Source {
        Source::below("/")
    }

    pub fn below(root: impl Into<PathBuf>) -> Source {
        Source { root: root.into() }
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// The text of a file; empty if it cannot be read.
    pub fn text(&self, path: &str) -> String {
        let mut bytes = Vec::new();
        if let Ok(file) = File::open(self.path(path)) {
            // The part before an error counts.
            let _ = file.take(MAX_BYTES).read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// One line, without white space around it; `None` if there is nothing in it.
    pub fn line(&self, path: &str) -> Option<String> {
        let text = self.text(path);
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    pub fn number(&self, path: &str) -> Option<u64> {
        self.line(path)?.parse().ok()
    }

    /// The names in a directory, sorted.
    pub fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(path)).into_iter().flatten();
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    /// Entries of a directory that are `prefix` and a number, by the number.
    pub fn numbered(&self, path: &str, prefix: &str) -> BTreeMap<u32, String> {
        let names = self.names(path).into_iter();
        let numbered = names.filter_map(|name| {
            let number = name.strip_prefix(prefix)?.parse().ok()?;
            Some((number, format!("{path}/{name}")))
        });
        numbered.collect()
    }
}

/// The CPUs this process may run on: its affinity, which its cgroups' cpusets have already cut down.
pub(super) fn allowed(source: &Source) -> CpuList {
    let online = online(source);
    let status = source.text("proc/thread-self/status");
    match texts::status_cpu_list(&status, "Cpus_allowed_list") {
        // The kernel leaves CPUs in that are offline or could only be plugged in later.
        Some(allowed) => CpuList::new(allowed.iter().filter(|c| online.contains(*c)).collect()),
        None => online,
    }
}

pub(super) fn online(source: &Source) -> CpuList {
    let list = source.line("sys/devices/system/cpu/online");
    let count = || {
        let processors = texts::cpuinfo(&source.text("proc/cpuinfo")).processors;
        CpuList::new((0..processors.max(1)).collect())
    };
    list.and_then(|l| texts::cpu_list(&l)).unwrap_or_else(count)
}

/// The model's name, and whether the CPU says that it is virtual (x86 only).
pub(super) fn model(source: &Source) -> (String, u32, Option<bool>) {
    let text = source.text("proc/cpuinfo");
    let info = texts::cpuinfo(&text);
    let board = || {
        let model = source.text("proc/device-tree/model");
        let model = model.trim_end_matches('\0').trim();
        (!model.is_empty()).then(|| model.to_owned())
    };
    let model = info.model.or_else(board);
    let says = text.contains("\nflags").then_some(info.virtual_machine);
    let online = online(source).len() as u32;
    (model.unwrap_or_else(|| "unknown".into()), online, says)
}

pub(super) fn processors(source: &Source) -> Processors {
    const CPU: &str = "sys/devices/system/cpu";
    let list = |path: &str| texts::cpu_list(&source.text(path));
    let (mut packages, mut cores) = (BTreeSet::new(), BTreeMap::new());
    let (mut caches, mut capacities) = (Caches::new(), BTreeMap::<u64, Vec<u32>>::new());
    for cpu in online(source).iter() {
        let at = format!("{CPU}/cpu{cpu}");
        packages.extend(source.line(&format!("{at}/topology/physical_package_id")));
        let siblings = list(&format!("{at}/topology/thread_siblings_list"));
        let siblings = siblings.unwrap_or_else(|| CpuList::new(vec![cpu]));
        let first = siblings.iter().next().unwrap_or(cpu);
        let first_of_core = cores.insert(first, siblings).is_none();
        if let Some(capacity) = source.number(&format!("{at}/cpu_capacity")) {
            capacities.entry(capacity).or_default().push(cpu);
        }
        // Siblings share their caches.
        if first_of_core {
            let threads = cores.get(&first).map_or(1, CpuList::len);
            note_caches(source, &at, threads, &mut caches);
        }
    }
    let siblings = cores.values().filter(|s| s.len() > 1).cloned().collect();
    Processors {
        architecture: rustix::system::uname().machine().to_string_lossy().into(),
        sockets: packages.len().max(1) as u32,
        cores: cores.len() as u32,
        online: Some(online(source)),
        siblings,
        classes: classes(source, capacities),
        numa: numa(source),
        caches: caches
            .into_iter()
            .map(|(key, groups)| cache(key, &groups))
            .collect(),
        isolated: list(&format!("{CPU}/isolated")),
        nohz_full: list(&format!("{CPU}/nohz_full")),
        steal_since_boot: texts::steal_since_boot(&source.text("proc/stat")),
    }
}

/// Level, kind, bytes and number of sharers of caches, with those who share each one.
type Caches = BTreeMap<(u32, String, u64, u32), BTreeSet<String>>;

/// Notes the caches of one core, which has that many threads.
fn note_caches(source: &Source, cpu: &str, threads: usize, caches: &mut Caches) {
    let read = |at: &String| {
        let shared = texts::cpu_list(&source.text(&format!("{at}/shared_cpu_list")));
        let key = (
            source.number(&format!("{at}/level"))?.try_into().ok()?,
            source.line(&format!("{at}/type"))?.to_lowercase(),
            texts::cache_size(&source.text(&format!("{at}/size")))?,
            shared.as_ref().map_or(1, |list| list.len() as u32),
        );
        let beyond_core = shared.filter(|list| list.len() > threads);
        Some((key, beyond_core.map(|list| list.to_string())))
    };
    let indices = source.numbered(&format!("{cpu}/cache"), "index");
    for (key, group) in indices.values().filter_map(read) {
        caches.entry(key).or_default().extend(group);
    }
}

fn cache(
    (level, kind, size_bytes, shared_by): (u32, String, u64, u32),
    groups: &BTreeSet<String>,
) -> Cache {
    let mut groups: Vec<CpuList> = groups.iter().filter_map(|g| CpuList::parse(g)).collect();
    groups.sort_by_key(|group| group.iter().next());
    Cache {
        level,
        kind,
        size_bytes,
        shared_by,
        groups,
    }
}

/// Kinds of cores: Intel's hybrids list theirs by name, ARM's tell a capacity each.
fn classes(source: &Source, capacities: BTreeMap<u64, Vec<u32>>) -> Vec<CoreClass> {
    let intel = ["core", "atom", "lowpower"].into_iter().filter_map(|name| {
        let cpus = source.line(&format!("sys/devices/cpu_{name}/cpus"))?;
        Some(CoreClass {
            name: name.into(),
            cpus: texts::cpu_list(&cpus)?,
        })
    });
    let intel: Vec<CoreClass> = intel.collect();
    if intel.len() > 1 {
        return intel;
    }
    if capacities.len() < 2 {
        return Vec::new();
    }
    let class = |(capacity, cpus)| CoreClass {
        name: format!("capacity {capacity}"),
        cpus: CpuList::new(cpus),
    };
    capacities.into_iter().rev().map(class).collect()
}

fn numa(source: &Source) -> Vec<NumaNode> {
    let nodes = source.numbered("sys/devices/system/node", "node");
    let read = |(id, at): (&u32, &String)| {
        let meminfo = source.text(&format!("{at}/meminfo"));
        NumaNode {
            id: *id,
            cpus: texts::cpu_list(&source.text(&format!("{at}/cpulist"))),
            memory_bytes: bytes(&texts::meminfo(&meminfo), "MemTotal"),
            distances: source
                .text(&format!("{at}/distance"))
                .split_whitespace()
                .map_while(|word| word.parse().ok())
                .collect(),
        }
    };
    nodes.iter().map(read).collect()
}

fn bytes(meminfo: &BTreeMap<&str, u64>, name: &str) -> u64 {
    meminfo.get(name).copied().unwrap_or_default()
}

pub(super) fn memory(source: &Source) -> Memory {
    let text = source.text("proc/meminfo");
    let meminfo = texts::meminfo(&text);
    let transparent = source.text("sys/kernel/mm/transparent_hugepage/enabled");
    Memory {
        total_bytes: bytes(&meminfo, "MemTotal"),
        available_bytes: bytes(&meminfo, "MemAvailable"),
        swap_bytes: bytes(&meminfo, "SwapTotal"),
        huge_page_bytes: bytes(&meminfo, "Hugepagesize"),
        huge_pages: bytes(&meminfo, "HugePages_Total"),
        huge_pages_free: bytes(&meminfo, "HugePages_Free"),
        transparent_huge_pages: texts::chosen(&transparent).unwrap_or_default().into(),
    }
}

pub(super) fn kernel(source: &Source) -> Kernel {
    let version = source.line("proc/sys/kernel/version").unwrap_or_default();
    let realtime = source.number("sys/kernel/realtime") == Some(1)
        || version
            .split_whitespace()
            .any(|w| w == "PREEMPT_RT" || w == "RT");
    Kernel {
        release: source.line("proc/sys/kernel/osrelease").unwrap_or_default(),
        version,
        command_line: source.line("proc/cmdline").unwrap_or_default(),
        realtime,
        modules: source.path("proc/modules").exists(),
        configuration: BTreeMap::new(),
    }
}

pub(super) fn clock(source: &Source) -> Clock {
    const AT: &str = "sys/devices/system/clocksource/clocksource0";
    let available = source.text(&format!("{AT}/available_clocksource"));
    Clock {
        source: source
            .line(&format!("{AT}/current_clocksource"))
            .unwrap_or_default(),
        available: available.split_whitespace().map(Into::into).collect(),
    }
}

/// The distribution's name for people, and its `ID` with those it is `ID_LIKE`.
pub(super) fn distribution(source: &Source) -> (String, String) {
    let mut text = source.text("etc/os-release");
    if text.is_empty() {
        text = source.text("usr/lib/os-release");
    }
    let get = |key| texts::os_release(&text, key).unwrap_or_default();
    let name = ["PRETTY_NAME", "NAME", "ID"].map(get).into_iter();
    let name = name.clone().find(|name| !name.is_empty());
    let family = format!("{} {}", get("ID"), get("ID_LIKE"));
    (name.unwrap_or_else(|| "unknown".into()), family)
}

/// The hypervisor underneath; `says` is what the CPU's flags say.
pub(super) fn hypervisor(source: &Source, says: Option<bool>) -> Option<String> {
    let dmi = ["sys_vendor", "product_name", "board_vendor", "bios_vendor"];
    let dmi = dmi.map(|name| source.line(&format!("sys/class/dmi/id/{name}")));
    let signature = crate::sys::feature::hypervisor_signature();
    let signature = signature.unwrap_or_default();
    // The header of an ACPI table holds the maker's name at its tenth byte.
    let dsdt = source.text("sys/firmware/acpi/tables/DSDT");
    texts::hypervisor(&Evidence {
        processor: says,
        signature: String::from_utf8_lossy(&signature).into_owned(),
        sys_hypervisor: source.text("sys/hypervisor/type"),
        dmi: dmi.into_iter().flatten().collect(),
        acpi_oem: dsdt.get(10..16).unwrap_or_default().into(),
        device_tree: source.text("proc/device-tree/hypervisor/compatible"),
    })
}

/// `v1`, `v2`, `hybrid` or `none`.
pub(super) fn cgroup_layout(source: &Source) -> &'static str {
    texts::cgroup_layout(&source.text("proc/self/mountinfo"))
}

pub(super) fn guest_kernel_cache(dirs: &Dirs) -> PathBuf {
    dirs.cache().join("kernels")
}

pub(super) fn guest_kernels(dirs: &Dirs) -> Vec<GuestKernel> {
    let cache = Source::below(guest_kernel_cache(dirs));
    let mut found = Vec::new();
    for package in cache.names("") {
        let boot = format!("{package}/boot");
        for image in cache.names(&boot) {
            if let Some(release) = image.strip_prefix("vmlinuz-") {
                found.push(GuestKernel {
                    flavour: Some(texts::kernel_flavour(release).into()),
                    release: release.into(),
                    path: cache.path(&boot).join(&image).display().to_string(),
                });
            }
        }
    }
    found
}

/// Space where latlab writes. A directory that is yet to be made counts as its nearest parent.
/// The first has the labs.
pub(super) fn storage(directories: &[&Path]) -> Vec<Storage> {
    let read = |(index, directory): (usize, &&Path)| {
        let there = directory.ancestors().find(|path| path.exists())?;
        let stat = rustix::fs::statvfs(there).ok()?;
        Some(Storage {
            path: directory.display().to_string(),
            free_bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
            total_bytes: stat.f_blocks.saturating_mul(stat.f_frsize),
            of_labs: index == 0,
            in_memory: inside::is_in_memory(there).unwrap_or(false),
        })
    };
    directories.iter().enumerate().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine laid out in a directory that goes with the value.
    struct Laid(Source);

    impl Laid {
        fn out(name: &str, files: &[(String, String)]) -> Laid {
            let root = std::env::temp_dir();
            let root = root.join(format!("latlab-machine-{name}-{}", std::process::id()));
            for (path, text) in files {
                let path = root.join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            Laid(Source::below(root))
        }
    }

    impl Drop for Laid {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0.root);
        }
    }

    /// The files of one logical CPU: its package, the siblings on its core, and its caches as
    /// level, type, size, sharing.
    fn cpu(
        number: u32,
        package: u32,
        siblings: &str,
        caches: &[(u32, &str, &str, &str)],
    ) -> Vec<(String, String)> {
        let at = format!("sys/devices/system/cpu/cpu{number}");
        let mut files = vec![
            (
                format!("{at}/topology/physical_package_id"),
                format!("{package}\n"),
            ),
            (
                format!("{at}/topology/thread_siblings_list"),
                format!("{siblings}\n"),
            ),
        ];
        for (index, (level, kind, size, shared)) in caches.iter().enumerate() {
            let at = format!("{at}/cache/index{index}");
            files.push((format!("{at}/level"), format!("{level}\n")));
            files.push((format!("{at}/type"), format!("{kind}\n")));
            files.push((format!("{at}/size"), format!("{size}\n")));
            files.push((format!("{at}/shared_cpu_list"), format!("{shared}\n")));
        }
        files
    }

    fn file(path: &str, text: &str) -> (String, String) {
        (path.into(), text.into())
    }

    fn shown(caches: &[Cache]) -> Vec<String> {
        let one = |c: &Cache| format!("L{} {} {} {}", c.level, c.kind, c.size_bytes, c.shared_by);
        caches.iter().map(one).collect()
    }

    /// Two sockets of 32 cores with SMT, numbered as Xeons are: the second threads come last.
    #[test]
    fn a_two_socket_xeon_has_128_cpus_on_64_cores_and_two_memory_nodes() {
        let mut files = vec![
            file("sys/devices/system/cpu/online", "0-127\n"),
            file("sys/devices/system/cpu/isolated", "\n"),
            file("sys/devices/system/cpu/nohz_full", "(null)\n"),
            file("sys/devices/system/node/node0/cpulist", "0-31,64-95\n"),
            file(
                "sys/devices/system/node/node0/meminfo",
                "Node 0 MemTotal: 1048576 kB\n",
            ),
            file("sys/devices/system/node/node1/cpulist", "32-63,96-127\n"),
            file(
                "sys/devices/system/node/node1/meminfo",
                "Node 1 MemTotal: 1048576 kB\n",
            ),
            file("proc/thread-self/status", "Cpus_allowed_list:\t0-255\n"),
        ];
        for number in 0..128 {
            let core = number % 64;
            let siblings = format!("{core},{}", core + 64);
            let l3 = if core < 32 {
                "0-31,64-95"
            } else {
                "32-63,96-127"
            };
            files.extend(cpu(
                number,
                core / 32,
                &siblings,
                &[(1, "Data", "48K", &siblings), (3, "Unified", "49152K", l3)],
            ));
        }
        let laid = Laid::out("xeon", &files);
        let found = processors(&laid.0);
        assert_eq!((found.sockets, found.cores), (2, 64));
        assert_eq!(found.siblings.len(), 64);
        assert_eq!(found.siblings[0].to_string(), "0,64");
        assert_eq!(found.numa.len(), 2);
        assert_eq!(found.numa[1].memory_bytes, 1 << 30);
        assert_eq!(
            shown(&found.caches),
            ["L1 data 49152 2", "L3 unified 50331648 64"]
        );
        assert_eq!((found.isolated, found.nohz_full), (None, None));
        assert!(found.classes.is_empty());
        // CPUs that could be plugged in later are allowed but not there.
        assert_eq!(allowed(&laid.0).to_string(), "0-127");
    }

    /// An EPYC without SMT: the third level is shared by eight cores, not by the socket.
    #[test]
    fn an_epyc_shares_its_last_cache_by_eight() {
        let mut files = vec![
            file("sys/devices/system/cpu/online", "0-15\n"),
            file("sys/devices/system/cpu/isolated", "8-15\n"),
            file("sys/devices/system/cpu/nohz_full", "8-15\n"),
            file("proc/thread-self/status", "Cpus_allowed_list:\t0-7\n"),
        ];
        for number in 0..16 {
            let shared = if number < 8 { "0-7" } else { "8-15" };
            let own = number.to_string();
            files.extend(cpu(number, 0, &own, &[(3, "Unified", "32768K", shared)]));
        }
        let laid = Laid::out("epyc", &files);
        let found = processors(&laid.0);
        assert_eq!(
            (found.sockets, found.cores, found.siblings.len()),
            (1, 16, 0)
        );
        assert_eq!(shown(&found.caches), ["L3 unified 33554432 8"]);
        assert_eq!(found.isolated.unwrap().to_string(), "8-15");
        assert_eq!(allowed(&laid.0).to_string(), "0-7");
    }

    /// A hybrid client: two large cores with SMT, four small ones.
    #[test]
    fn a_hybrid_client_has_two_classes_of_cores() {
        let mut files = vec![
            file("sys/devices/system/cpu/online", "0-7\n"),
            file("sys/devices/cpu_core/cpus", "0-3\n"),
            file("sys/devices/cpu_atom/cpus", "4-7\n"),
        ];
        for (number, siblings) in ["0-1", "0-1", "2-3", "2-3", "4", "5", "6", "7"]
            .iter()
            .enumerate()
        {
            files.extend(cpu(number as u32, 0, siblings, &[]));
        }
        let laid = Laid::out("hybrid", &files);
        let found = processors(&laid.0);
        assert_eq!((found.cores, found.siblings.len()), (6, 2));
        let classes = found.classes.iter();
        let classes: Vec<_> = classes.map(|c| format!("{} {}", c.name, c.cpus)).collect();
        assert_eq!(classes, ["core 0-3", "atom 4-7"]);
    }

    /// ARM tells classes by capacity, has a device tree, and no package ids on some boards.
    #[test]
    fn an_arm_board_is_read_without_package_ids() {
        let at = "sys/devices/system/cpu";
        let laid = Laid::out(
            "arm",
            &[
                file("sys/devices/system/cpu/online", "0-2\n"),
                file(&format!("{at}/cpu0/cpu_capacity"), "446\n"),
                file(&format!("{at}/cpu1/cpu_capacity"), "446\n"),
                file(&format!("{at}/cpu2/cpu_capacity"), "1024\n"),
                file("proc/device-tree/model", "Some Board\0"),
                file("proc/cpuinfo", "processor\t: 0\nBogoMIPS\t: 48.00\n"),
            ],
        );
        let found = processors(&laid.0);
        assert_eq!((found.sockets, found.cores), (1, 3));
        let classes = found.classes.iter();
        let classes: Vec<_> = classes.map(|c| format!("{}: {}", c.name, c.cpus)).collect();
        assert_eq!(classes, ["capacity 1024: 2", "capacity 446: 0-1"]);
        assert_eq!(model(&laid.0), ("Some Board".into(), 3, None));
    }

    #[test]
    fn an_empty_machine_is_read_without_complaint() {
        let laid = Laid::out("empty", &[]);
        assert_eq!(processors(&laid.0).cores, 1);
        assert_eq!(memory(&laid.0), Memory::default());
        assert_eq!(clock(&laid.0), Clock::default());
        assert_eq!(model(&laid.0).0, "unknown");
        assert_eq!(distribution(&laid.0).0, "unknown");
        assert_eq!(cgroup_layout(&laid.0), "none");
        assert!(!kernel(&laid.0).modules);
        assert_eq!(allowed(&laid.0).to_string(), "0");
    }

    #[test]
    fn a_real_time_kernel_says_so_in_either_place() {
        let version = "#1 SMP PREEMPT_RT Debian 6.1.140-1 (2025-05-22)\n";
        let laid = Laid::out("rt", &[file("proc/sys/kernel/version", version)]);
        assert!(kernel(&laid.0).realtime);
        let laid = Laid::out("rt-sys", &[file("sys/kernel/realtime", "1\n")]);
        assert!(kernel(&laid.0).realtime);
        let plain = "#1 SMP PREEMPT_DYNAMIC @0\n";
        let laid = Laid::out("no-rt", &[file("proc/sys/kernel/version", plain)]);
        assert!(!kernel(&laid.0).realtime);
    }

    #[test]
    fn kernels_for_guests_are_found_in_the_cache() {
        let dirs_root = std::env::temp_dir().join(format!("latlab-gk-{}", std::process::id()));
        let dirs = Dirs::below(&dirs_root);
        let boot = guest_kernel_cache(&dirs).join("linux-image-6.1.0-37-rt-amd64_6.1/boot");
        fs::create_dir_all(&boot).unwrap();
        fs::write(boot.join("vmlinuz-6.1.0-37-rt-amd64"), "").unwrap();
        fs::write(boot.join("config-6.1.0-37-rt-amd64"), "").unwrap();
        let found = guest_kernels(&dirs);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].flavour.as_deref(), Some("rt"));
        assert_eq!(found[0].release, "6.1.0-37-rt-amd64");
        fs::remove_dir_all(dirs_root).unwrap();
    }

    #[test]
    fn space_is_that_of_the_nearest_directory_that_is_there() {
        let found = storage(&[Path::new("/nonexistent/below/here")]);
        assert_eq!(found[0].path, "/nonexistent/below/here");
        assert!(found[0].total_bytes > 0);
    }
}
