//! Processes and cgroups of others that come, go and change at will.

use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use latlab_host::sys::sched;
use latlab_model::units::CpuList;

use super::common::namespaces;

/// Others, until they are dropped.
pub struct Movers {
    stop: Arc<AtomicBool>,
    /// Kinds of moves, each with its count.
    moves: Vec<(&'static str, Arc<AtomicU64>)>,
    threads: Vec<JoinHandle<()>>,
    children: Vec<Child>,
    groups: Vec<PathBuf>,
}

/// Children that move themselves, and end: `$1` is the file of members, the others are groups.
const FORKS: &str = "members=$1; shift
while :; do
    for group in \"$@\"; do (echo 0 > $group/$members; exec true) & done
    wait
    echo round || exit
done 2> /dev/null";

/// A pause of each loop, so that they leave the CPUs to what is tested.
///
/// Linux 6.18.44 starves tasks of other sessions when the weight of a running session changes often (mended in 6.18.45,
/// upstream commit 101f3498b4bd). Beside two busy processes, a task that sleeps for 10 ms was late by up to 15 s with pauses
/// of 0.5 ms, and by 0.4 s with these.
const PAUSE: Duration = Duration::from_millis(5);

impl Movers {
    pub fn begin(root: &Path, members: &'static str) -> Movers {
        let made = |name: &str| {
            let group = root.join(format!("movers-{name}-{}", namespaces::id()));
            fs::create_dir(&group).unwrap();
            widen(root, &group);
            group
        };
        let groups = vec![made("a"), made("b")];
        let mut movers = Movers {
            stop: Arc::default(),
            moves: Vec::new(),
            threads: Vec::new(),
            children: Vec::new(),
            groups,
        };
        let ids = movers.sleepers(4);
        movers.change_groups(&ids, root, members);
        movers.come_and_go();
        movers.fork(root, members);
        movers.make_groups(root, members);
        movers.change_policies();
        // Those that change their groups too, and others.
        let more = movers.sleepers(2);
        movers.change_affinities([ids, more].concat(), root);
        movers
    }

    fn sleepers(&mut self, count: usize) -> Vec<u32> {
        let sleep = || Command::new("sleep").arg("100000").spawn().unwrap();
        let new: Vec<Child> = (0..count).map(|_| sleep()).collect();
        let ids = new.iter().map(Child::id).collect();
        self.children.extend(new);
        ids
    }

    /// From group to group, the root among them: as one that enters a session does.
    fn change_groups(&mut self, ids: &[u32], root: &Path, members: &'static str) {
        let ids = ids.to_vec();
        let mut places = vec![root.to_path_buf()];
        places.extend(self.groups.iter().cloned());
        self.run("moves to another group", move |round| {
            for (nth, id) in ids.iter().enumerate() {
                let place = &places[(round as usize + nth) % places.len()];
                fs::write(place.join(members), id.to_string()).ok();
            }
            ids.len() as u64
        });
    }

    fn come_and_go(&mut self) {
        self.run("processes that ended", |_| {
            let child = Command::new("true").stdin(Stdio::null()).spawn();
            child.and_then(|mut child| child.wait()).ok();
            1
        });
    }

    fn fork(&mut self, root: &Path, members: &'static str) {
        let mut shell = Command::new("sh")
            .args(["-c", FORKS, "sh", members])
            .arg(root)
            .args(&self.groups)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(shell.stdout.take().unwrap()).lines();
        self.children.push(shell);
        let children = self.groups.len() as u64 + 1;
        self.run("children that moved themselves", move |_| {
            let line = lines.next().is_some_and(|line| line.is_ok());
            if line { children } else { 0 }
        });
    }

    /// Groups come and go with a process in them, and ask for all CPUs.
    fn make_groups(&mut self, root: &Path, members: &'static str) {
        let passing = root.join(format!("movers-c-{}", namespaces::id()));
        self.groups.push(passing.clone());
        let above = root.to_path_buf();
        self.run("groups that were made and removed", move |_| {
            fs::create_dir(&passing).ok();
            widen(&above, &passing);
            let file = passing.join(members);
            let script = "echo 0 > \"$0\"; exec true";
            let child = Command::new("sh")
                .args(["-c", script])
                .arg(file)
                .stderr(Stdio::null())
                .spawn();
            child.and_then(|mut child| child.wait()).ok();
            let removed = fs::remove_dir(&passing);
            u64::from(removed.is_ok())
        });
    }

    fn change_policies(&mut self) {
        // SCHED_BATCH is policy 3. SCHED_IDLE is left out: its weight of 3 has the effect that is told of at `PAUSE`.
        const POLICIES: [&str; 5] = ["fifo:1", "rr:2", "policy-3:5", "other:-5", "other:0"];
        let ids = self.sleepers(2);
        self.run("changes of policies", move |round| {
            let set = |(nth, id): (usize, &u32)| {
                let policy = POLICIES[(round as usize + nth) % POLICIES.len()];
                u64::from(sched::set_policy(*id, policy).is_ok())
            };
            ids.iter().enumerate().map(set).sum()
        });
    }

    fn change_affinities(&mut self, ids: Vec<u32>, root: &Path) {
        let online = fs::read_to_string(root.join("cpuset.cpus")).unwrap_or_default();
        let all = CpuList::parse(online.trim()).unwrap_or_default();
        let mut lists: Vec<CpuList> = all.iter().map(|cpu| CpuList::new(vec![cpu])).collect();
        lists.push(all);
        self.run("changes of affinities", move |round| {
            let set = |(nth, id): (usize, &u32)| {
                let list = &lists[(round as usize + nth) % lists.len()];
                u64::from(sched::set_affinity(*id, list).is_ok())
            };
            ids.iter().enumerate().map(set).sum()
        });
    }

    fn run(&mut self, what: &'static str, mut once: impl FnMut(u64) -> u64 + Send + 'static) {
        let (stop, moves) = (Arc::clone(&self.stop), Arc::<AtomicU64>::default());
        self.moves.push((what, Arc::clone(&moves)));
        self.threads.push(std::thread::spawn(move || {
            let mut round = 0;
            while !stop.load(Ordering::Relaxed) {
                moves.fetch_add(once(round), Ordering::Relaxed);
                round += 1;
                std::thread::sleep(PAUSE);
            }
        }));
    }

    /// Each did its work in every round.
    pub fn assert_busy(&self, rounds: u64) {
        for (what, moves) in &self.moves {
            let moves = moves.load(Ordering::Relaxed);
            assert!(moves >= rounds, "{what}: {moves} in {rounds} rounds");
        }
    }
}

impl fmt::Display for Movers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, (what, moves)) in self.moves.iter().enumerate() {
            let comma = if nth == 0 { "" } else { ", " };
            write!(f, "{comma}{} {what}", moves.load(Ordering::Relaxed))?;
        }
        Ok(())
    }
}

impl Drop for Movers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // One of the threads reads what a child writes.
        for child in &mut self.children {
            child.kill().ok();
            child.wait().ok();
        }
        for thread in self.threads.drain(..) {
            thread.join().ok();
        }
        for group in &self.groups {
            let gone = || !group.exists() || fs::remove_dir(group).is_ok();
            (0..500).any(|_| {
                let gone = gone();
                if !gone {
                    std::thread::sleep(Duration::from_millis(10));
                }
                gone
            });
        }
    }
}

/// All CPUs of the root cgroup, where the kernel grants them.
fn widen(root: &Path, group: &Path) {
    for file in ["cpuset.mems", "cpuset.cpus"] {
        if let Ok(all) = fs::read_to_string(root.join(file)) {
            fs::write(group.join(file), all.trim()).ok();
        }
    }
}
