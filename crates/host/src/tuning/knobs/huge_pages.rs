//! `huge-pages`: memory set aside in huge pages of the default size, for programs that ask for them
//! (QEMU, DPDK). The pool is filled early: later, memory may be fragmented.

use super::prelude::*;

const POOL: &str = "/proc/sys/vm/nr_hugepages";
const WITHOUT: &str = "this kernel is built without huge pages";

pub const KNOB: Knob = Knob {
    name: "huge-pages",
    about: "Memory set aside in huge pages",
    evidence: "Documentation/admin-guide/mm/hugetlbpage.rst; Welch 2015, 3.1.3.2 and Table 3.2 (hugepages=4096)",
    risk: "nothing else can use that memory; filling the pool moves other pages for a while",
    items: Items::File(POOL, Form::Count, WITHOUT),
    mapping: Mapping::Same(pages),
};

/// A line of /proc/meminfo, in bytes.
fn meminfo(machine: &Machine<'_>, name: &str) -> Option<u64> {
    let text = machine.root.read("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix(name))?;
    let mut words = line.trim_start_matches(':').split_whitespace();
    let kib: u64 = words.next()?.parse().ok()?;
    Some(kib << 10)
}

fn pages(machine: &Machine<'_>, wanted: &Wanted) -> Result<String, KnobError> {
    let bytes: u64 = bytes(machine, wanted)?.parse().unwrap_or(0);
    let page = meminfo(machine, "Hugepagesize").filter(|page| *page > 0);
    let page =
        page.ok_or_else(|| KnobError::Absent(format!("unknown huge page size: {WITHOUT}")))?;
    let impossible = |message: String, hint: &str| KnobError::Impossible(message, hint.to_string());
    if bytes % page != 0 {
        let message = format!(
            "{wanted} is no multiple of the huge page size, {} KiB",
            page >> 10
        );
        return Err(impossible(message, "want a multiple"));
    }
    // The pool must leave the machine its memory.
    let total = meminfo(machine, "MemTotal").unwrap_or(0);
    if bytes > total / 10 * 9 {
        let message = format!(
            "{wanted} in huge pages leave nothing of {} MiB",
            total >> 20
        );
        return Err(impossible(
            message,
            "want at most nine tenths of the memory",
        ));
    }
    Ok((bytes / page).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tuning::knobs::testing::Tree;

    #[test]
    fn memory_is_converted_to_huge_pages() {
        let meminfo = "MemTotal:       1048576 kB\nHugepagesize:       2048 kB\n";
        let tree = Tree::new(&[(POOL, "0\n"), ("/proc/meminfo", meminfo)]);
        tree.turns("huge-pages", "64MiB", POOL, "0", "32");
        Tree::lacks("huge-pages", "64MiB", "without huge pages");
        let root = tree.root();
        let cores =
            latlab_model::profile::Cores::shared(&latlab_model::units::CpuList::new(vec![0]));
        let machine = Machine {
            root: &root,
            cores: &cores,
        };
        for (size, reason) in [(3 << 20, "no multiple"), (1 << 40, "leave nothing")] {
            let wanted = Wanted::Size(latlab_model::units::Bytes(size));
            let Err(KnobError::Impossible(message, _)) = pages(&machine, &wanted) else {
                panic!("{size}")
            };
            assert!(message.contains(reason), "{message}");
        }
        // Fewer than wanted are undone too: the kernel provides what it can.
        let item = Item::file(POOL, Form::Count);
        let is_ours = |now: &str| item.is_ours(&"0".into(), &"32".into(), &now.into());
        assert!(is_ours("20") && !is_ours("33"));
    }
}
