//! Huge pages of nodes: the machine's pools grow by what is missing, and shrink by that when the lab goes.
//!
//! Pools are the machine's: several labs and its administrator change them. So a ledger in the state directory notes how
//! many pages each lab has added, and a lab takes away only those. The size that a pool is to have is written there before
//! the pool is changed: the next latlab finishes what was cut off, and nothing is added or taken twice.
//!
//! The pages of a node are promised to a file system of its own. Pages beyond the pool's size (`nr_overcommit_hugepages`)
//! would need no undo, but the kernel frees such a page for good when a file gives it back, although it was promised:
//! DPDK's second run would find fewer.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use latlab_model::plan::{DpdkPlan, NodePlan, Plan};
use latlab_model::units::Bytes;
use serde::{Deserialize, Serialize};

use super::error::Error;
use super::memory::available_bytes;
use crate::dirs::Dirs;
use crate::sys;
use crate::sys::file::{self, Lock, write_atomically};
use crate::sys::huge_pages::{POOLS, Pool, file_system};
use crate::sys::proc;

/// The kernel may have to move much memory for a pool.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Pages that labs have added to the pools.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Ledger {
    /// Pools begin anew with each boot.
    boot_id: String,
    /// By the size of a page in bytes.
    pools: BTreeMap<u64, Added>,
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Added {
    /// Pages by the identifier of the deployment.
    labs: BTreeMap<String, u64>,
    /// The size that the pool is being given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pending: Option<u64>,
}

/// The ledger, held.
struct Held<'a> {
    dirs: &'a Dirs,
    pools: &'a Path,
    ledger: Ledger,
    _lock: Lock,
}

impl<'a> Held<'a> {
    /// Takes the ledger, and finishes what a latlab that was killed had begun.
    fn take(dirs: &'a Dirs, pools: &'a Path) -> Result<Held<'a>, Error> {
        let boot_id = proc::boot_id()?;
        let lock = Lock::take(&dirs.huge_pages_lock(), TIMEOUT)?.ok_or(Error::Busy(TIMEOUT))?;
        let path = dirs.huge_pages();
        let ledger: Option<Ledger> =
            file::read_json(&path).map_err(sys::Error::of("read", path.display()))?;
        let mut held = Held {
            dirs,
            pools,
            ledger: ledger.unwrap_or_default(),
            _lock: lock,
        };
        if held.ledger.boot_id != boot_id {
            held.ledger = Ledger {
                boot_id,
                ..Ledger::default()
            };
        }
        let sizes: Vec<u64> = held.ledger.pools.keys().copied().collect();
        for size in sizes {
            if let (Some(pool), Some(pages)) = (Pool::of(pools, size), held.added(size).pending) {
                held.settle(&pool, size, pages)?;
            }
        }
        Ok(held)
    }

    fn added(&mut self, size: u64) -> &mut Added {
        self.ledger.pools.entry(size).or_default()
    }

    /// Notes the number of pages that the pool is to have and what `note` changes for a lab, gives them to the pool, and
    /// notes that it has them; how many there are.
    fn resize(
        &mut self,
        pool: &Pool,
        size: u64,
        pages: u64,
        note: impl FnOnce(&mut BTreeMap<String, u64>),
    ) -> Result<u64, Error> {
        let added = self.added(size);
        added.pending = Some(pages);
        note(&mut added.labs);
        self.save()?;
        self.settle(pool, size, pages)
    }

    /// Grows a pool for a lab until `wanted` pages are unclaimed. Otherwise the pool is as before, and the numbers of pages
    /// that were missing and found are returned.
    fn add(&mut self, size: u64, wanted: u64, id: &str) -> Result<Option<(u64, u64)>, Error> {
        let Some(pool) = Pool::of(self.pools, size) else {
            return Ok(Some((wanted, 0)));
        };
        let missing = wanted.saturating_sub(pool.unclaimed()?);
        if missing == 0 {
            return Ok(None);
        }
        let before = pool.pages()?;
        let all = before + missing;
        let note = |labs: &mut BTreeMap<String, u64>| {
            labs.insert(id.to_owned(), missing);
        };
        let there = self.resize(&pool, size, all, note)?;
        if there >= all {
            return Ok(None);
        }
        self.remove(size, id, there - before.min(there))?;
        Ok(Some((missing, there.saturating_sub(before))))
    }

    /// Takes pages of a lab from a pool and forgets that it has added any.
    fn remove(&mut self, size: u64, id: &str, pages: u64) -> Result<(), Error> {
        let Some(pool) = Pool::of(self.pools, size) else {
            return Ok(());
        };
        let rest = pool.pages()?.saturating_sub(pages);
        let note = |labs: &mut BTreeMap<String, u64>| {
            labs.remove(id);
        };
        self.resize(&pool, size, rest, note).map(drop)
    }

    fn settle(&mut self, pool: &Pool, size: u64, pages: u64) -> Result<u64, Error> {
        let there = pool.resize(pages)?;
        self.added(size).pending = None;
        self.save()?;
        Ok(there)
    }

    fn save(&self) -> Result<(), Error> {
        let text = serde_json::to_vec(&self.ledger).expect("a ledger is plain data");
        Ok(write_atomically(&self.dirs.huge_pages(), &text, 0o600)?)
    }
}

/// The huge pages of the plan's nodes, by the size of a page: bytes, and the first node that has such.
fn wanted(plan: &Plan) -> BTreeMap<u64, (u64, &NodePlan)> {
    let mut wanted = BTreeMap::new();
    for (node, dpdk) in users(plan) {
        let entry = wanted.entry(dpdk.page.0).or_insert((0, node));
        entry.0 = u64::saturating_add(entry.0, dpdk.huge_pages.0);
    }
    wanted
}

fn users(plan: &Plan) -> impl Iterator<Item = (&NodePlan, &DpdkPlan)> {
    plan.nodes
        .iter()
        .filter_map(|node| Some((node, node.dpdk_of_host()?)))
}

pub(super) fn has_some(plan: &Plan) -> bool {
    users(plan).next().is_some()
}

/// Looks whether the machine can have the pages of the plan, before anything is changed.
pub(super) fn check(plan: &Plan) -> Result<(), Error> {
    if !has_some(plan) {
        return Ok(());
    }
    if !has_file_system() {
        let (node, _) = users(plan).next().expect("there is one");
        let reason = "it wants huge pages, and the host's kernel has no hugetlbfs".to_owned();
        let hint = "use a kernel with CONFIG_HUGETLBFS, as those of distributions are";
        return Err(Error::storage(node, reason, hint));
    }
    let mut available = available_bytes().unwrap_or(u64::MAX);
    for (size, (bytes, node)) in wanted(plan) {
        let Some(pool) = Pool::of(Path::new(POOLS), size) else {
            let reason = format!("the host's kernel has no huge pages of {}", Bytes(size));
            let hint = "name another `page`: /sys/kernel/mm/hugepages lists the sizes";
            return Err(Error::storage(node, reason, hint));
        };
        let missing = (bytes / size).saturating_sub(pool.unclaimed()?) * size;
        if missing > available {
            let reason = format!(
                "{} of huge pages are missing, and {} of memory are available",
                Bytes(missing),
                Bytes(available)
            );
            return Err(Error::storage(
                node,
                reason,
                "lower `hugepages`, or make room",
            ));
        }
        available -= missing;
    }
    Ok(())
}

fn has_file_system() -> bool {
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    known.lines().any(|line| line.ends_with("\thugetlbfs"))
}

/// Makes the file systems of the plan's nodes, by node, and grows the pools for them by what is missing. What is no use
/// after a failure stays in the ledger, for [`give_back`].
pub(super) fn take(dirs: &Dirs, plan: &Plan, id: &str) -> Result<Vec<Option<Arc<OwnedFd>>>, Error> {
    if !has_some(plan) {
        return Ok(plan.nodes.iter().map(|_| None).collect());
    }
    let mut held = Held::take(dirs, Path::new(POOLS))?;
    for (size, (bytes, node)) in wanted(plan) {
        if let Some((missing, found)) = held.add(size, bytes / size, id)? {
            let reason = format!(
                "{missing} huge pages of {} are missing, and the kernel found {found}: memory is too fragmented",
                Bytes(size)
            );
            let hint = "echo 1 > /proc/sys/vm/compact_memory, or reserve them at boot: hugepagesz=SIZE hugepages=NUMBER";
            return Err(Error::storage(node, reason, hint));
        }
    }
    let file_systems = plan.nodes.iter().map(|node| {
        let Some(dpdk) = node.dpdk_of_host() else {
            return Ok(None);
        };
        let made = file_system(dpdk.page.0, dpdk.huge_pages.0);
        made.map(|made| Some(Arc::new(made)))
            .map_err(|error| match error.source.kind() {
                io::ErrorKind::OutOfMemory => {
                    let reason = "other programs took huge pages meanwhile".to_owned();
                    Error::storage(node, reason, "deploy it again")
                }
                _ => error.into(),
            })
    });
    file_systems.collect()
}

/// Takes from the pools what a lab has added to them. Finds nothing to do the second time.
pub(super) fn give_back(dirs: &Dirs, id: &str) -> Result<(), Error> {
    give_back_to(dirs, Path::new(POOLS), id)
}

fn give_back_to(dirs: &Dirs, pools: &Path, id: &str) -> Result<(), Error> {
    if !dirs.huge_pages().exists() {
        return Ok(());
    }
    let mut held = Held::take(dirs, pools)?;
    let sizes: Vec<u64> = held.ledger.pools.keys().copied().collect();
    for size in sizes {
        let Some(&pages) = held.added(size).labs.get(id) else {
            continue;
        };
        held.remove(size, id, pages)?;
    }
    held.ledger
        .pools
        .retain(|_, added| !added.labs.is_empty() || added.pending.is_some());
    if !held.ledger.pools.is_empty() {
        return held.save();
    }
    let path = dirs.huge_pages();
    Ok(file::remove(&path).map_err(sys::Error::of("remove", path.display()))?)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    const SIZE: u64 = 2 << 20;

    /// Directories of latlab, and a pool that is as the kernel's, but takes every size.
    fn machine(name: &str, pages: u64, free: u64) -> (Dirs, PathBuf, Pool) {
        let root = std::env::temp_dir().join(format!("latlab-pages-{name}-{}", std::process::id()));
        let (dirs, pools) = (Dirs::below(&root), root.join("pools"));
        let pool = pools.join("hugepages-2048kB");
        fs::create_dir_all(&pool).unwrap();
        fs::create_dir_all(dirs.huge_pages().parent().unwrap()).unwrap();
        let files = [
            ("nr_hugepages", pages),
            ("free_hugepages", free),
            ("resv_hugepages", 0),
        ];
        for (file, number) in files {
            fs::write(pool.join(file), number.to_string()).unwrap();
        }
        let pool = Pool::of(&pools, SIZE).unwrap();
        (dirs, pools, pool)
    }

    #[test]
    fn each_lab_takes_away_what_it_has_added() {
        let (dirs, pools, pool) = machine("each", 10, 4);
        let add = |id: &str, pages: u64| {
            let mut held = Held::take(&dirs, &pools).unwrap();
            assert_eq!(held.add(SIZE, pages, id).unwrap(), None);
        };
        add("none", 4);
        assert_eq!(pool.pages().unwrap(), 10);
        add("a", 12);
        add("b", 6);
        assert_eq!(pool.pages().unwrap(), 10 + 8 + 2);
        // The administrator's change stays.
        pool.resize(25).unwrap();
        for (id, pages) in [("a", 17), ("a", 17), ("none", 17), ("b", 15)] {
            give_back_to(&dirs, &pools, id).unwrap();
            assert_eq!(pool.pages().unwrap(), pages);
        }
        assert!(!dirs.huge_pages().exists());
        fs::remove_dir_all(pools.parent().unwrap()).unwrap();
    }

    #[test]
    fn what_was_cut_off_is_finished_once() {
        let (dirs, pools, pool) = machine("cut", 10, 0);
        let cut_off = |labs: &[(&str, u64)], pending| {
            let added = Added {
                labs: labs.iter().map(|(id, n)| (id.to_string(), *n)).collect(),
                pending,
            };
            let ledger = Ledger {
                boot_id: proc::boot_id().unwrap(),
                pools: [(SIZE, added)].into(),
            };
            fs::write(dirs.huge_pages(), serde_json::to_vec(&ledger).unwrap()).unwrap();
        };
        // Killed before the pool grew, or after.
        for pages in [10, 15] {
            pool.resize(pages).unwrap();
            cut_off(&[("a", 5)], Some(15));
            give_back_to(&dirs, &pools, "a").unwrap();
            assert_eq!(pool.pages().unwrap(), 10);
        }
        // Killed before the pool shrank, or after.
        for pages in [15, 10] {
            pool.resize(pages).unwrap();
            cut_off(&[], Some(10));
            give_back_to(&dirs, &pools, "a").unwrap();
            assert_eq!(pool.pages().unwrap(), 10);
        }
        assert!(!dirs.huge_pages().exists());
        fs::remove_dir_all(pools.parent().unwrap()).unwrap();
    }

    #[test]
    fn pools_of_another_boot_are_forgotten() {
        let (dirs, pools, pool) = machine("boot", 10, 0);
        let text =
            format!("{{\"boot_id\":\"other\",\"pools\":{{\"{SIZE}\":{{\"labs\":{{\"a\":5}}}}}}}}");
        fs::write(dirs.huge_pages(), text).unwrap();
        give_back_to(&dirs, &pools, "a").unwrap();
        assert_eq!(pool.pages().unwrap(), 10);
        assert!(!dirs.huge_pages().exists());
        fs::remove_dir_all(pools.parent().unwrap()).unwrap();
    }
}
