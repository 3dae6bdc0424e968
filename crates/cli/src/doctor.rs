//! `latlab doctor`: what this machine offers, and for each thing it lacks what that costs and the
//! command that supplies it.
//!
//! Exit code 0 says that native, container and VM nodes can all run (a VM in software emulation if
//! need be), 1 that one of them cannot. What is missing beyond that is told, not counted: only a lab
//! can say whether it needs it, and `validate` does.

use std::collections::BTreeSet;

use clap::{Args, ValueEnum};
use latlab_host::borrowed::{self, Tool};
use latlab_host::dirs::Dirs;
use latlab_host::facts::catalogue::{ENTRIES, Entry, Group};
use latlab_host::facts::tools::TOOLS;
use latlab_host::facts::{self, ReadOptions};
use latlab_host::lab;
use latlab_model::facts::{Cache, Capability, Facts, Machine, Nic, Readiness, Storage, WiredPort};
use latlab_model::units::Bytes;

use crate::failure::{Failure, Outcome, measured};
use crate::format::counted;

const WIDTH: usize = 100;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  latlab doctor
  latlab doctor --format json > machine.json    (then: latlab validate --facts machine.json LAB)

Exit code: 0 if native, container and vm nodes can all run here, 1 if not.")]
pub struct DoctorArgs {
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Repeat the cached checks: KVM, which takes seconds, and tools' versions.
    #[arg(long)]
    refresh: bool,
    /// First fetch this program into the cache, if none here is new enough: criu, qemu (repeatable).
    #[arg(long, value_name = "PROGRAM", value_parser = ["criu", "qemu"])]
    fetch: Vec<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    #[default]
    Human,
    /// For programs, and for planning on another machine.
    Json,
}

pub fn run(args: &DoctorArgs) -> Outcome {
    let mut options = ReadOptions::everything(lab::cpus_in_use(&Dirs::from_env()));
    options.refresh = args.refresh;
    for tool in args.fetch.iter().filter_map(|name| Tool::named(name)) {
        let cache = options.dirs.cache();
        let found = borrowed::get(tool, cache, &mut crate::downloads::told());
        let found = found.map_err(|error| {
            let hint = error.hint();
            Failure::new(error.to_string(), hint)
        })?;
        eprintln!("{} is here: {}", tool.name(), found.origin);
    }
    if facts::fetches_kernel(&options) {
        eprintln!("fetching a guest kernel to prove KVM with (about 70 MB, once)");
    }
    let mut facts = facts::read(&options);
    crate::machine_file::add_to(&mut facts)?;
    let text = match args.format {
        Format::Human => render(&facts, crate::print::look().colour),
        Format::Json => serde_json::to_string_pretty(&facts)? + "\n",
    };
    crate::print::out_if_read(&text)?;
    let is_ready = facts.readiness().iter().all(Readiness::is_ready);
    Ok(measured(is_ready))
}

fn render(facts: &Facts, colours: bool) -> String {
    let mut page = Page {
        text: String::new(),
        colours,
    };
    page.machine(facts);
    let vital = vital(facts);
    for group in Group::ALL {
        page.heading(group.title());
        for entry in ENTRIES.iter().filter(|entry| entry.group == group) {
            page.capability(facts, entry, vital.contains(entry.name));
        }
    }
    page.tools(facts);
    page.verdict(&facts.readiness());
    page.text
}

/// Names of the capabilities without which a kind of node cannot run.
fn vital(facts: &Facts) -> BTreeSet<String> {
    let reasons = facts.readiness().into_iter().flat_map(|kind| kind.missing);
    let names = reasons.filter_map(|reason| Some(reason.split_once(": ")?.0.to_owned()));
    names.collect()
}

#[derive(Debug, Clone, Copy)]
enum Colour {
    Bold = 1,
    Dim = 2,
    Red = 31,
    Green = 32,
    Yellow = 33,
}

struct Page {
    text: String,
    colours: bool,
}

impl Page {
    fn painted(&self, text: &str, colour: Colour) -> String {
        if self.colours {
            format!("\x1b[{}m{text}\x1b[0m", colour as u8)
        } else {
            text.to_owned()
        }
    }

    fn heading(&mut self, title: &str) {
        let title = self.painted(title, Colour::Bold);
        let gap = if self.text.is_empty() { "" } else { "\n" };
        line!(self.text, "{gap}{title}");
    }

    /// `label`, padded, then `words` broken into lines that begin at the same column.
    fn line(&mut self, label: &str, painted: &str, words: &str) {
        let indent = label.chars().count();
        for (number, line) in wrapped(words, WIDTH.saturating_sub(indent))
            .iter()
            .enumerate()
        {
            match number {
                0 => line!(self.text, "{painted}{line}"),
                _ => line!(self.text, "{:indent$}{line}", ""),
            }
        }
    }

    fn fact(&mut self, name: &str, words: &str) {
        if !words.is_empty() {
            let label = format!("  {name:<16}");
            self.line(&label, &label, words);
        }
    }

    fn machine(&mut self, facts: &Facts) {
        let (brief, machine) = (&facts.brief, &facts.machine);
        self.heading("Machine");
        self.fact("CPUs", &cpus(facts));
        self.fact("caches", &caches(&machine.processors.caches));
        self.fact("memory nodes", &numa(machine));
        self.fact("memory", &memory(machine, brief.memory_bytes));
        self.fact(
            "kernel",
            &format!("{} ({})", brief.kernel, brief.distribution),
        );
        self.fact("hypervisor", &hypervisor(facts));
        let others = machine.clock.available.iter();
        let others: Vec<&str> = others
            .map(String::as_str)
            .filter(|c| *c != brief.clocksource)
            .collect();
        let others = if others.is_empty() {
            String::new()
        } else {
            format!(" (also available: {})", others.join(", "))
        };
        self.fact("clock", &format!("{}{others}", brief.clocksource));
        self.fact("cgroups", &brief.cgroup);
        self.fact("interrupts", &interrupts(machine));
        self.fact("power saving", &power(machine));
        self.fact("kernel's work", &quiet(machine));
        for nic in &machine.nics {
            self.fact("network card", &network_card(nic, facts));
        }
        for port in facts.wiring.iter().flat_map(|wiring| &wiring.ports) {
            self.fact("port", &port_words(port));
        }
        for cable in facts.wiring.iter().flat_map(|wiring| &wiring.cables) {
            self.fact("cable", &cable.join(" – "));
        }
        for (paths, free, total) in by_file_system(&machine.storage) {
            self.fact("free space", &format!("{free} of {total} for {paths}"));
        }
        for kernel in &machine.guest_kernels {
            let flavour = kernel.flavour.as_deref().unwrap_or("other");
            self.fact("guest kernel", &format!("{} ({flavour})", kernel.release));
        }
    }

    fn capability(&mut self, facts: &Facts, entry: &Entry, vital: bool) {
        let name = entry.name;
        let (mark, colour, reason) = match (facts.capabilities.get(name), facts.unproven.get(name))
        {
            (Some(found), _) if found.works => ("✓", Colour::Green, &found.reason),
            (Some(found), _) if vital => ("✗", Colour::Red, &found.reason),
            (Some(found), _) => ("✗", Colour::Yellow, &found.reason),
            (None, Some(why)) => ("?", Colour::Yellow, why),
            (None, None) => return,
        };
        let label = format!("  {mark} {name:<20}");
        let painted = format!("  {} {name:<20}", self.painted(mark, colour));
        self.line(&label, &painted, reason);
        if let Some(lack) = facts.lacks(name) {
            self.lack(lack);
        }
    }

    fn lack(&mut self, lack: &Capability) {
        self.detail("costs", &lack.costs);
        if let Some(remedy) = &lack.remedy {
            self.detail("get it", remedy);
        }
    }

    fn detail(&mut self, name: &str, words: &str) {
        let label = format!("{:24}{name:<8}", "");
        let painted = format!(
            "{:24}{}",
            "",
            self.painted(&format!("{name:<8}"), Colour::Dim)
        );
        self.line(&label, &painted, words);
    }

    fn tools(&mut self, facts: &Facts) {
        self.heading("Tools");
        for tool in TOOLS {
            let (mark, colour) = match (facts.tools.contains_key(tool.name), tool.optional) {
                (true, _) => ("✓", Colour::Green),
                (false, true) => ("✗", Colour::Yellow),
                (false, false) => ("✗", Colour::Red),
            };
            let version = facts
                .tools
                .get(tool.name)
                .map_or("not installed", String::as_str);
            let label = format!("  {mark} {:<20}", tool.name);
            let painted = format!("  {} {:<20}", self.painted(mark, colour), tool.name);
            self.line(&label, &painted, version);
            if facts.lacks_tool(tool.name) {
                self.detail("costs", tool.costs);
                self.detail("get it", &format!("apt-get install {}", tool.package));
            }
        }
    }

    /// The missing capabilities of each kind, then a one-line summary.
    fn verdict(&mut self, readiness: &[Readiness]) {
        self.text.push('\n');
        let is_known = |reason: &&String| !reason.ends_with(facts::NEEDS_ROOT);
        for kind in readiness {
            let lacks: Vec<&str> = kind.missing.iter().filter(is_known).map(|r| &**r).collect();
            if !lacks.is_empty() {
                let label = format!("not ready for {}: ", kind.kind);
                let painted = self.painted(&label, Colour::Red);
                self.line(&label, &painted, &lacks.join("; "));
            }
        }
        let ready: Vec<String> = readiness
            .iter()
            .filter(|kind| kind.is_ready())
            .map(|kind| match &kind.note {
                Some(note) => format!("{} ({note})", kind.kind),
                None => kind.kind.to_string(),
            })
            .collect();
        let needs_root = readiness
            .iter()
            .flat_map(|kind| &kind.missing)
            .any(|r| !is_known(&r));
        let (line, colour) = match ready.is_empty() {
            _ if needs_root => (
                "most needs root to prove: run `sudo latlab doctor`".into(),
                Colour::Yellow,
            ),
            true => ("ready for nothing".into(), Colour::Red),
            false => (format!("ready for {}", ready.join(", ")), Colour::Green),
        };
        let line = self.painted(&line, colour);
        line!(self.text, "{line}");
    }
}

fn cpus(facts: &Facts) -> String {
    let processors = &facts.machine.processors;
    let mut words = format!(
        "{}: {}, {}, {}",
        facts.brief.cpu,
        counted(processors.sockets as usize, "socket"),
        counted(processors.cores as usize, "core"),
        counted(facts.brief.cores as usize, "logical CPU"),
    );
    if facts.cpus.len() as u32 != facts.brief.cores {
        words += &format!("; usable here: {}", facts.cpus);
    }
    for class in &processors.classes {
        words += &format!("; {} {}", class.name, class.cpus);
    }
    words
}

fn caches(caches: &[Cache]) -> String {
    let one = |cache: &Cache| {
        let letter = match cache.kind.as_str() {
            "data" => "d",
            "instruction" => "i",
            _ => "",
        };
        let shared = match cache.shared_by {
            1 => String::new(),
            many => format!(" shared by {many}"),
        };
        format!(
            "L{}{letter} {}{shared}",
            cache.level,
            Bytes(cache.size_bytes)
        )
    };
    caches.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The interrupts, and whether irqbalance moves them.
fn interrupts(machine: &Machine) -> String {
    let all = &machine.interrupts;
    if all.is_empty() {
        return String::new();
    }
    let mut words = format!("{}", all.len());
    if let Some(cpus) = &machine.quiet.default_interrupts {
        words += &format!(", new ones on CPU {cpus}");
    }
    match machine.quiet.irqbalance {
        Some(true) => words += ", moved by irqbalance",
        Some(false) => words += ", irqbalance is not running",
        None => {}
    }
    words
}

fn power(machine: &Machine) -> String {
    let power = &machine.power;
    let governors = power
        .governors
        .iter()
        .map(|(name, cpus)| format!("{name} on CPU {cpus}"));
    let mut words: Vec<String> = governors.collect();
    let allowed = power.idle_states.iter().filter(|state| !state.disabled);
    if let Some(deepest) = allowed.max_by_key(|state| state.exit_latency_us) {
        words.push(format!(
            "sleeps down to {} ({} µs to wake up)",
            deepest.name, deepest.exit_latency_us
        ));
    }
    words.join(", ")
}

/// Sources of noise.
fn quiet(machine: &Machine) -> String {
    let quiet = &machine.quiet;
    let mut words = Vec::new();
    if let (Some(runtime), Some(period)) = (quiet.rt_runtime_us, quiet.rt_period_us) {
        words.push(match runtime {
            ..0 => "real-time tasks without limit".to_string(),
            _ => format!("real-time tasks limited to {runtime} of {period} µs"),
        });
    }
    let watchdogs = [
        ("NMI watchdog", quiet.nmi_watchdog),
        ("soft watchdog", quiet.soft_watchdog),
    ];
    for (name, on) in watchdogs {
        words.extend(on.map(|on| format!("{name} {}", if on { "on" } else { "off" })));
    }
    words.extend(
        quiet
            .workqueues
            .as_ref()
            .map(|cpus| format!("workqueues on CPU {cpus}")),
    );
    words.extend(
        quiet
            .rcu_nocbs
            .as_ref()
            .map(|cpus| format!("RCU callbacks off CPU {cpus}")),
    );
    words.join(", ")
}

fn numa(machine: &Machine) -> String {
    let nodes = &machine.processors.numa;
    let one = |node: &latlab_model::facts::NumaNode| {
        let cpus = node
            .cpus
            .as_ref()
            .map_or("none".to_owned(), ToString::to_string);
        format!("{}: CPUs {cpus}, {}", node.id, Bytes(node.memory_bytes))
    };
    match nodes.len() {
        0 | 1 => String::new(),
        _ => nodes.iter().map(one).collect::<Vec<_>>().join("; "),
    }
}

fn network_card(nic: &Nic, facts: &Facts) -> String {
    let mut words = vec![nic.name.clone()];
    words.extend(nic.driver.clone());
    words.extend(nic.speed_mbit.map(|speed| format!("{speed} Mbit/s")));
    words.extend((!nic.carrier).then(|| "no carrier".into()));
    words.extend(nic.pci.clone());
    words.extend(nic.numa_node.map(|node| format!("memory node {node}")));
    words.extend(nic.iommu_group.map(|group| format!("IOMMU group {group}")));
    words.extend(
        nic.reset_methods
            .as_ref()
            .map(|methods| match methods.as_slice() {
                [] => "cannot be reset".to_owned(),
                methods => format!("reset by {}", methods.join(" or ")),
            }),
    );
    words.extend((nic.sriov_vfs > 0).then(|| format!("{} virtual functions", nic.sriov_vfs)));
    words.extend(
        nic.emulated_by
            .as_ref()
            .map(|by| format!("emulated by {by}")),
    );
    let whose = match facts.interfaces_in_use.get(&nic.name) {
        Some(why) => format!("the host uses it: {why}"),
        None => "free for a link of type phys".into(),
    };
    format!("{}; {whose}", words.join(", "))
}

/// A port of the machine's file: its interface, or what is wrong with it and what to do.
fn port_words(port: &WiredPort) -> String {
    let name = &port.name;
    match (&port.fault, &port.interface) {
        (Some(fault), _) => format!("{name}: {}; {}", fault.message, fault.hint),
        (None, Some(interface)) => format!("{name} is {interface}"),
        (None, None) => name.clone(),
    }
}

/// Groups paths by file system, recognised by its total size.
fn by_file_system(storage: &[Storage]) -> Vec<(String, Bytes, Bytes)> {
    let mut all: Vec<(String, Bytes, Bytes)> = Vec::new();
    for one in storage {
        let (free, total) = (Bytes(one.free_bytes), Bytes(one.total_bytes));
        // The free space may change between two paths.
        match all.iter_mut().find(|(_, _, known)| *known == total) {
            Some((paths, _, _)) if paths.split(", ").any(|path| path == one.path) => {}
            Some((paths, _, _)) => *paths += &format!(", {}", one.path),
            None => all.push((one.path.clone(), free, total)),
        }
    }
    all
}

fn memory(machine: &Machine, total_bytes: u64) -> String {
    let memory = &machine.memory;
    let transparent = match memory.transparent_huge_pages.as_str() {
        "" => "not available",
        chosen => chosen,
    };
    format!(
        "{}, {} available; transparent huge pages: {transparent}",
        Bytes(total_bytes),
        Bytes(memory.available_bytes)
    )
}

fn hypervisor(facts: &Facts) -> String {
    let Some(name) = &facts.brief.hypervisor else {
        return "none".into();
    };
    match facts.machine.processors.steal_since_boot {
        Some(share) => {
            let percent = share * 100.0;
            format!("{name}; it took {percent:.2} % of CPU time since boot")
        }
        None => name.clone(),
    }
}

/// Breaks at spaces into lines of at most `width` columns; a longer word gets its own line.
fn wrapped(words: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in words.split_whitespace() {
        let line = lines.last_mut().filter(|line| {
            let used = line.chars().count();
            used == 0 || used + 1 + word.chars().count() <= width
        });
        match line {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) => {
                line.push(' ');
                line.push_str(word);
            }
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use latlab_model::facts::{Fault, Wiring};

    use super::*;

    fn machine() -> Facts {
        let mut facts = Facts::default();
        facts.brief.cpu = "Some CPU".into();
        facts.brief.cores = 2;
        facts.cpus = latlab_model::units::CpuList::new(vec![1]);
        for name in [Facts::NAMESPACES, Facts::VETH] {
            let works = Capability {
                works: true,
                reason: "made".into(),
                costs: String::new(),
                remedy: None,
            };
            facts.capabilities.insert(name.into(), works);
        }
        let lacks = Capability {
            works: false,
            reason: "no such file".into(),
            costs: "`delay` is refused".into(),
            remedy: Some("modprobe sch_netem".into()),
        };
        facts.capabilities.insert(Facts::NETEM.into(), lacks);
        facts
            .unproven
            .insert(Facts::TAP.into(), "no answer in time".into());
        facts.tools.insert("crun".into(), "1.8.1".into());
        facts
    }

    #[test]
    fn a_missing_capability_shows_its_cost_and_its_command() {
        let text = render(&machine(), false);
        let at = text.find("✗ netem").expect("a line for netem");
        let lines: Vec<&str> = text[at..].lines().take(3).collect();
        assert!(lines[0].ends_with("no such file"), "{lines:?}");
        assert!(
            lines[1].trim_start().starts_with("costs   `delay`"),
            "{lines:?}"
        );
        assert!(
            lines[2].trim_start().starts_with("get it  modprobe"),
            "{lines:?}"
        );
        assert!(
            text.contains("? tap                 no answer in time"),
            "{text}"
        );
        assert!(text.contains("; usable here: 1"), "{text}");
    }

    #[test]
    fn the_last_line_is_the_summary() {
        let text = render(&machine(), false);
        assert_eq!(text.lines().last(), Some("ready for native"));
        assert!(text.contains("not ready for container: overlayfs: not tried"));
        let nothing = render(&Facts::default(), false);
        assert_eq!(nothing.lines().last(), Some("ready for nothing"));
        let mut ordinary = machine();
        ordinary.capabilities.remove(Facts::VETH);
        let why = facts::NEEDS_ROOT.to_owned();
        ordinary.unproven.insert(Facts::VETH.into(), why);
        let text = render(&ordinary, false);
        assert!(
            text.trim_end().ends_with("run `sudo latlab doctor`"),
            "{text}"
        );
        assert!(!text.contains("veth: needs root"), "{text}");
    }

    #[test]
    fn cards_ports_and_cables_are_shown() {
        let mut facts = machine();
        facts.machine.nics = vec![Nic {
            name: "eth0".into(),
            driver: Some("igb".into()),
            carrier: true,
            pci: Some("0000:01:00.0".into()),
            iommu_group: Some(12),
            reset_methods: Some(vec!["flr".into(), "bus".into()]),
            numa_node: Some(1),
            sriov_vfs: 7,
            emulated_by: Some("QEMU".into()),
            ..Nic::default()
        }];
        let port = |name: &str, fault: Option<&str>| WiredPort {
            name: name.into(),
            interface: fault.is_none().then(|| "eth0".into()),
            pci: None,
            fault: fault.map(|message| Fault {
                message: message.into(),
                hint: "look".into(),
            }),
        };
        facts.wiring = Some(Wiring {
            file: "machine.yaml".into(),
            ports: vec![port("left", None), port("right", Some("it is not there"))],
            cables: vec![["left".into(), "right".into()]],
        });
        let text = render(&facts, false);
        for line in [
            "  network card    eth0, igb, 0000:01:00.0, memory node 1, IOMMU group 12, reset by flr or bus, 7",
            "virtual functions, emulated by QEMU; free for a link of type phys",
            "  port            left is eth0",
            "  port            right: it is not there; look",
            "  cable           left – right",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }

    #[test]
    fn colours_change_no_text() {
        let (plain, painted) = (render(&machine(), false), render(&machine(), true));
        assert!(!plain.contains('\x1b'));
        let mut stripped = String::new();
        for (number, piece) in painted.split("\x1b[").enumerate() {
            let text = piece.split_once('m').map_or(piece, |(_, text)| text);
            stripped += if number == 0 { piece } else { text };
        }
        assert_eq!(stripped, plain);
    }

    #[test]
    fn no_line_is_wider_than_a_terminal() {
        let mut facts = machine();
        let netem = facts.capabilities.get_mut(Facts::NETEM).unwrap();
        netem.reason = "word ".repeat(60);
        let widest = render(&facts, false)
            .lines()
            .map(|l| l.chars().count())
            .max();
        assert!(widest.unwrap() <= WIDTH);
        assert_eq!(wrapped("", 10), [""]);
        assert_eq!(
            wrapped("a bb a-word-too-long c", 5),
            ["a bb", "a-word-too-long", "c"]
        );
    }
}
