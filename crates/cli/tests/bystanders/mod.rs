//! Containers of the machine's users, one of each runtime, started by the bare commands.
//!
//! The commands keep their default places in `/run` and `/dev/shm`, where a lab's could meet them. Those places are the test's
//! own, as is all else that the commands would make on the machine.

pub mod places;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use latlab_model::kinds::Runtime;

use crate::common::{Bench, namespaces, tool, until, world};

/// A user's container as lines of shell. They run in a directory with a `rootfs`; the container's command is
/// `sleep $TIME`.
struct Recipe {
    runtime: Runtime,
    start: &'static str,
    /// Prints `$NAME` while it runs.
    list: &'static str,
    end: &'static str,
}

const RECIPES: [Recipe; 6] = [
    Recipe {
        runtime: Runtime::Crun,
        // The program refuses more than one tree of cgroups, so it is shown one.
        start: r#"runc spec
            sed -i "$EDIT" config.json
            exec unshare --mount sh -ec '
                [ ! -d /sys/fs/cgroup/unified ] || mount --bind /sys/fs/cgroup/unified /sys/fs/cgroup
                exec crun --cgroup-manager=disabled run --detach --bundle . $NAME'"#,
        list: "crun list",
        end: "crun --cgroup-manager=disabled delete --force $NAME",
    },
    Recipe {
        runtime: Runtime::Runc,
        start: r#"runc spec
            sed -i "$EDIT" config.json
            exec runc run --detach --bundle . $NAME"#,
        list: "runc list",
        end: "runc delete --force $NAME",
    },
    Recipe {
        runtime: Runtime::Podman,
        start: "exec podman $PODMAN run --detach --cgroup-parent=/$NAME --network=none --log-driver=none \
                --name $NAME --rootfs $PWD/rootfs sleep $TIME",
        list: "podman $PODMAN ps --format '{{.Names}}'",
        end: "podman $PODMAN rm --force --time 0 $NAME",
    },
    Recipe {
        runtime: Runtime::Docker,
        start: "dockerd --data-root $PWD/data --storage-driver vfs --iptables=false --bridge=none \
                --ip-forward=false --cgroup-parent /$NAME --exec-opt native.cgroupdriver=cgroupfs &
            until docker version; do kill -0 $!; sleep 0.1; done
            tar -C rootfs -c . | docker import - user
            exec docker run --detach --network none --name $NAME user sleep $TIME",
        list: "docker ps --format '{{.Names}}'",
        end: "docker rm --force $NAME
            kill $(cat /run/docker.pid)
            while [ -e /run/docker.pid ]; do sleep 0.1; done",
    },
    Recipe {
        runtime: Runtime::Nspawn,
        // The group that it is in gets divided.
        start: "for tree in /sys/fs/cgroup /sys/fs/cgroup/unified /sys/fs/cgroup/systemd; do
                [ -e $tree/cgroup.procs ] || continue
                mkdir $tree/$NAME
                echo $$ > $tree/$NAME/cgroup.procs
            done
            systemd-nspawn --quiet --register=no --keep-unit --settings=no --console=pipe --private-network \
                -D rootfs --machine $NAME sleep $TIME &
            echo $! > pid",
        // Without a service of systemd's only its process tells.
        list: "ps -o args= $(cat pid)",
        end: "kill $(cat pid)",
    },
    Recipe {
        runtime: Runtime::Lxc,
        start: r#"mkdir $NAME
            mv rootfs $NAME
            cat > $NAME/config <<END
lxc.rootfs.path = dir:$PWD/$NAME/rootfs
lxc.net.0.type = empty
lxc.apparmor.profile = unconfined
lxc.init.cmd = /bin/sleep $TIME
lxc.cgroup.dir.monitor = $NAME/monitor
lxc.cgroup.dir.monitor.pivot = $NAME/pivot
lxc.cgroup.dir.container = $NAME/container
END
            exec lxc-start -P $PWD -n $NAME"#,
        list: "lxc-ls -P $PWD --running",
        end: "lxc-stop -P $PWD --kill -n $NAME",
    },
];

/// Makes of what `runc spec` writes a container of the same kind as the others.
const EDIT: &str = r#"s/"terminal": true/"terminal": false/
    s/"sh"$/"sleep", "TIME"/
    s/"readonly": true/"readonly": false/
    s/"linux": {/"linux": {"cgroupsPath": "\/NAME",/"#;

const PODMAN: &str = "--root DIR/root --storage-driver=vfs --cgroup-manager=cgroupfs \
    --events-backend=none --runtime=runc";

/// Containers that run.
pub struct Bystanders<'a> {
    bench: &'a Bench,
    started: Vec<(&'static Recipe, u32)>,
}

impl<'a> Bystanders<'a> {
    pub fn start(bench: &'a Bench) -> Self {
        places::make_own();
        let root = bench.small_root();
        for directory in ["dev", "proc", "run", "sys", "tmp", "usr"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        let mut bystanders = Self {
            bench,
            started: Vec::new(),
        };
        for recipe in &RECIPES {
            let directory = recipe.directory(bench);
            fs::create_dir_all(&directory).unwrap();
            tool(&[
                "cp",
                "-a",
                root.to_str().unwrap(),
                directory.to_str().unwrap(),
            ]);
            recipe.shell(bench, recipe.start).unwrap();
            until("a user's container runs", || recipe.pid().is_some());
            bystanders.started.push((recipe, recipe.pid().unwrap()));
        }
        bystanders.look();
        bystanders
    }

    /// Each is the same process as at its start, and its own command knows it.
    #[track_caller]
    pub fn look(&self) {
        for (recipe, pid) in &self.started {
            let runtime = recipe.runtime;
            assert_eq!(recipe.pid(), Some(*pid), "{runtime}");
            let list = recipe.shell(self.bench, recipe.list).unwrap();
            assert!(list.contains(&recipe.name()), "{runtime}: {list}");
        }
    }
}

impl Drop for Bystanders<'_> {
    fn drop(&mut self) {
        let mut failed = Vec::new();
        for (recipe, _) in self.started.drain(..) {
            failed.extend(recipe.shell(self.bench, recipe.end).err());
            // A killed container's groups are busy until the kernel is done with it.
            let remove = "for _ in $(seq 100); do
                    find /sys/fs/cgroup -depth -type d -path \"*/$NAME*\" -exec rmdir {} + && exit || sleep 0.1
                done; exit 1";
            failed.extend(recipe.shell(self.bench, remove).err());
        }
        assert!(failed.is_empty() || std::thread::panicking(), "{failed:#?}");
    }
}

impl Recipe {
    /// The name of its container, which no other test has.
    fn name(&self) -> String {
        format!("user-{}-{}", self.runtime, namespaces::id())
    }

    /// Seconds by which its process is told from others.
    fn time(&self) -> String {
        let number = RECIPES
            .iter()
            .position(|other| other.runtime == self.runtime);
        (100_000 + number.unwrap_or_default()).to_string()
    }

    fn directory(&self, bench: &Bench) -> PathBuf {
        bench.root().join("users").join(self.runtime.word())
    }

    /// The output of a line that succeeds, the errors of one that does not.
    fn shell(&self, bench: &Bench, line: &str) -> Result<String, String> {
        let directory = self.directory(bench);
        let (name, time) = (self.name(), self.time());
        let edit = EDIT.replace("TIME", &time).replace("NAME", &name);
        let podman = PODMAN.replace("DIR", directory.to_str().unwrap());
        // A daemon may keep the streams, so they are files.
        let files = ["out", "err"].map(|name| directory.join(name));
        let [out, err] = files.each_ref().map(|file| fs::File::create(file).unwrap());
        let status = Command::new("sh")
            .args(["-ec", line])
            .current_dir(&directory)
            .envs([("NAME", &name), ("TIME", &time)])
            .envs([("EDIT", &edit), ("PODMAN", &podman)])
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .status()
            .unwrap();
        let [out, err] = files.map(|file| fs::read_to_string(file).unwrap());
        match status.success() {
            true => Ok(out),
            false => Err(format!("{}: {line}: {status}: {out}{err}", self.runtime)),
        }
    }

    /// The container's process.
    fn pid(&self) -> Option<u32> {
        let ending = format!("sleep\0{}\0", self.time());
        world::processes().into_iter().find(|pid| {
            let words = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            matches!(words.strip_suffix(&ending), Some("" | "/bin/"))
        })
    }
}
