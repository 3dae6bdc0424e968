"""Containers started by the bare commands of their runtimes, in places that only the bench sees.

`make_places` covers the directories in which the commands keep what they know of the machine's containers. Each peer
prepares what a user has prepared as well, a root file system and a configuration, before anything is timed. A container
counts as up once its first process has written into a pipe and the command that started it in the background is done.
"""

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
# Where a container finds its pipe.
PIPE = "/mnt/up"
FIRST = ["sh", "-c", f"echo > {PIPE}; exec sleep 100000"]
SECONDS = 120


def make_places():
    """Gives this mount namespace places of its own where the commands would keep and change things."""
    for place in ("/run", "/dev/shm"):
        subprocess.run(["mount", "-t", "tmpfs", "places", place], check=True)
    for place in ("etc", "opt", "var/lib", "var/log"):
        upper, work = (Path("/run/layers") / place / part for part in ("upper", "work"))
        for made in (upper, work):
            made.mkdir(parents=True)
        options = f"lowerdir=/{place},upperdir={upper},workdir={work}"
        subprocess.run(["mount", "-t", "overlay", "-o", options, "places", f"/{place}"], check=True)
    # No profile of Docker's for the whole machine.
    modules = "/sys/kernel/security"
    if os.path.isdir(modules):
        subprocess.run(["mount", "-t", "tmpfs", "places", modules], check=True)
    Path("/run/netns").mkdir()


@contextmanager
def one_tree():
    """Shows the unified tree of cgroups alone: crun refuses more than one."""
    unified = CGROUPS / "unified"
    if not unified.is_dir():
        yield
        return
    subprocess.run(["mount", "--bind", unified, CGROUPS], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", CGROUPS], check=True)


def remove_groups(name):
    """Ends what is left in the cgroups with this name, and removes them."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        groups = [Path(path) for path, _, _ in os.walk(CGROUPS, topdown=False) if f"/{name}" in path]
        if not groups:
            return
        for group in groups:
            try:
                for pid in map(int, (group / "cgroup.procs").read_text().split()):
                    # Processes outside of this namespace have no number here.
                    if pid > 1:
                        os.kill(pid, signal.SIGKILL)
                group.rmdir()
            except OSError:
                continue
        time.sleep(0.05)
    print(f"# cgroups are left: {', '.join(map(str, groups))}", file=sys.stderr, flush=True)


def small_root(at):
    """A root file system of a shell, `sleep` and their libraries, for an image."""
    for directory in ("bin", "dev", "etc", "mnt", "proc", "run", "sys", "tmp", "usr"):
        (at / directory).mkdir(parents=True)
    for program in ("sh", "sleep"):
        found = os.path.realpath(shutil.which(program))
        shutil.copyfile(found, at / "bin" / program)
        (at / "bin" / program).chmod(0o755)
        for library in libraries(subprocess.run(["ldd", found], capture_output=True, text=True, check=False).stdout):
            target = at / library.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(library, target)
            target.chmod(0o755)


def libraries(said):
    """The paths that `ldd` names; none for a program that has them all within itself."""
    words = [word for line in said.splitlines() for word in line.split()]
    return sorted({word for word in words if word.startswith("/")})


class Peer:
    """Containers of one runtime by its bare command; a subclass knows the command."""

    # The runtime as latlab names it, and the peer's own name.
    runtime = ""
    name = ""
    # Whether its command ends while the container runs.
    detaches = True
    needs_one_tree = False

    def __init__(self, place, group, netns=None):
        self.place, self.group, self.netns = place, group, netns
        self.started = []
        self.pipes = []
        self.log = place / "log"

    def prepare(self, count):
        """What is there before a user starts a container: `count` roots and configurations."""
        for slot in range(count):
            (self.place / "answers" / str(slot)).mkdir(parents=True)
            os.mkfifo(self.pipe(slot))
            # Open for writing as well, so that no end is seen between two containers.
            self.pipes.append(os.open(self.pipe(slot), os.O_RDWR | os.O_NONBLOCK))
            self.prepare_slot(slot)

    def pipe(self, slot):
        return self.place / "answers" / str(slot) / "up"

    def bind(self, slot):
        """The directory with the pipe, which the container sees at /mnt."""
        return f"{self.place}/answers/{slot}"

    def prepare_slot(self, slot):
        self.root(slot).mkdir(parents=True)
        layer = self.place / "layers" / str(slot)
        upper, work = layer / "upper", layer / "work"
        for made in (upper, work):
            made.mkdir(parents=True)
        options = f"lowerdir=/,upperdir={upper},workdir={work}"
        subprocess.run(["mount", "-t", "overlay", "-o", options, "root", self.root(slot)], check=True)

    def root(self, slot):
        """The host's files below a writable layer, as latlab's `image: host` has them."""
        return self.place / str(slot) / "rootfs"

    def id(self, slot):
        return f"{self.group}-{slot}"

    def command(self, slot):
        """Starts a container in the background."""
        raise NotImplementedError

    def end(self, slot):
        """Ends it, and leaves nothing of it in the runtime's own accounts."""
        raise NotImplementedError

    def words(self, words):
        enter = ["nsenter", f"--net=/run/netns/{self.netns}"] if self.netns else []
        return [*enter, *map(str, words)]

    def start(self, slot):
        with open(self.log, "ab") as log:
            return subprocess.Popen(
                self.words(self.command(slot)), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.place,
                start_new_session=True,
            )  # fmt: skip

    def up(self, count):
        """Seconds until this number of containers is up, all started at once."""
        with one_tree() if self.needs_one_tree else nothing():
            begin = time.perf_counter()
            self.started = [self.start(slot) for slot in range(count)]
            self.await_answers(count)
            if self.detaches:
                for process in self.started:
                    if process.wait(SECONDS) != 0:
                        self.fail()
            return time.perf_counter() - begin

    def await_answers(self, count):
        waiting, end = select.poll(), time.monotonic() + SECONDS
        for pipe in self.pipes[:count]:
            waiting.register(pipe, select.POLLIN)
        missing = set(self.pipes[:count])
        while missing:
            for pipe, _ in waiting.poll(200):
                os.read(pipe, 4096)
                waiting.unregister(pipe)
                missing.discard(pipe)
            if any(process.poll() for process in self.started) or time.monotonic() > end:
                self.fail()

    def fail(self):
        said = self.log.read_text(errors="replace").strip() if self.log.exists() else ""
        sys.exit(f"{self.name}: no container came up: {said[-600:]}")

    def down(self, count):
        with one_tree() if self.needs_one_tree else nothing():
            for slot in range(count):
                self.end(slot)
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait()
        self.started = []

    def run(self, words, check=True):
        """The output of a command of the runtime's."""
        done = subprocess.run(self.words(words), capture_output=True, text=True, check=False, timeout=SECONDS)
        if check and done.returncode != 0:
            sys.exit(f"{self.name}: {' '.join(map(str, words))}: {done.stderr.strip()[-600:]}")
        return done.stdout.strip()

    def close(self):
        """Also after an error, so nothing here may fail."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait()
        remove_groups(self.group)
        for slot, pipe in enumerate(self.pipes):
            os.close(pipe)
            subprocess.run(["umount", "--lazy", self.root(slot)], stderr=subprocess.DEVNULL, check=False)


@contextmanager
def nothing():
    yield


@contextmanager
def of(kind, directory, group, netns=None):
    """A peer in a directory of its own; what it made is gone afterwards."""
    # The same kind may have another place after this one.
    place = Path(tempfile.mkdtemp(prefix=f"bare-{kind.runtime}-", dir=directory))
    place.chmod(0o755)
    peer = kind(place, group, netns)
    try:
        yield peer
    finally:
        peer.close()


class Oci(Peer):
    """A configuration as `runc spec` writes it."""

    def prepare_slot(self, slot):
        super().prepare_slot(slot)
        bundle = self.place / str(slot)
        subprocess.run([self.runtime, "spec"], cwd=bundle, check=True)
        file = bundle / "config.json"
        config = json.loads(file.read_text())
        config["process"] |= {"terminal": False, "args": FIRST}
        config["root"] = {"path": "rootfs", "readonly": False}
        config["mounts"].append({"destination": "/mnt", "type": "bind", "source": self.bind(slot), "options": ["bind"]})
        config["linux"]["cgroupsPath"] = f"/{self.group}/{slot}"
        file.write_text(json.dumps(config))

    def options(self):
        return []

    def command(self, slot):
        return [self.runtime, *self.options(), "run", "--detach", "--bundle", self.place / str(slot), self.id(slot)]

    def end(self, slot):
        self.run([self.runtime, *self.options(), "delete", "--force", self.id(slot)])


class Crun(Oci):
    runtime, name = "crun", "crun run"
    needs_one_tree = True

    def options(self):
        # A tree without controllers, as beside those of version 1, has nothing for it.
        return ["--cgroup-manager=disabled"]


class Runc(Oci):
    runtime, name = "runc", "runc run"


class Podman(Peer):
    runtime, name = "podman", "podman run"
    needs_one_tree = True

    def options(self):
        place = ["--root", self.place / "store", "--runroot", f"/run/{self.group}/c", "--tmpdir", f"/run/{self.group}/t"]
        place += ["--network-config-dir", self.place / "networks"]
        # Options of the machine's own storage are for another driver.
        return ["podman", *place, "--storage-driver=vfs", "--cgroup-manager=cgroupfs", "--events-backend=none", "--runtime=crun"]

    def network(self, _slot):
        return ["--network=none"]

    def command(self, slot):
        words = ["run", "--detach", "--cgroups=disabled", "--log-driver=none", *self.network(slot)]
        words += ["--volume", f"{self.bind(slot)}:/mnt", "--name", self.id(slot), "--rootfs", self.root(slot), *FIRST]
        return [*self.options(), *words]

    def end(self, slot):
        self.run([*self.options(), "rm", "--force", "--time", "0", self.id(slot)])


class Docker(Peer):
    """Docker with a daemon that runs already."""

    runtime, name = "docker", "docker run"
    # The daemon would raise limits of the whole machine's keys; the network's settings are its namespace's.
    NARROW = (
        "mount --bind /proc/sys /proc/sys; mount --bind /proc/sys/net /proc/sys/net; mount -o remount,bind,ro /proc/sys; "
        "mount -o remount,bind,rw /proc/sys/net; exec \"$@\""
    )
    IMAGE = "bench"

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.daemons = {}

    def prepare(self, count):
        small_root(self.place / "image")
        self.start_daemon(0)
        self.import_image(0)
        super().prepare(count)

    def prepare_slot(self, slot):
        """Its image is the root."""

    def daemon_of(self, _slot):
        """The number of the daemon that a container has."""
        return 0

    def network_of_daemon(self):
        return ["--bridge=none", "--iptables=false", "--ip-forward=false"]

    def network(self, _slot):
        return ["--network=none"]

    def home(self, number):
        return self.place / f"daemon{number}"

    def socket(self, number):
        return self.home(number) / "socket"

    def client(self, number):
        return ["docker", "--host", f"unix://{self.socket(number)}"]

    def start_daemon(self, number):
        home = self.home(number)
        home.mkdir(exist_ok=True)
        words = ["dockerd", "--data-root", home / "data", "--exec-root", home / "exec", "--pidfile", home / "pid"]
        words += ["--host", f"unix://{self.socket(number)}", "--cgroup-parent", f"/{self.group}", "--log-level", "error"]
        words += ["--exec-opt", "native.cgroupdriver=cgroupfs", *self.network_of_daemon()]
        with open(self.log, "ab") as log:
            self.daemons[number] = subprocess.Popen(
                self.words(["unshare", "--mount", "sh", "-ec", self.NARROW, "sh", *words]),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        end = time.monotonic() + SECONDS
        while not self.answers(number):
            if self.daemons[number].poll() is not None or time.monotonic() > end:
                self.fail()
            time.sleep(0.002)

    def answers(self, number):
        """Whether the daemon takes orders."""
        try:
            with socket.socket(socket.AF_UNIX) as to:
                to.connect(str(self.socket(number)))
                to.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
                return b" 200 " in to.recv(64)
        except OSError:
            return False

    def stop_daemon(self, number):
        daemon = self.daemons.pop(number)
        daemon.terminate()
        try:
            daemon.wait(30)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()

    def import_image(self, number):
        with subprocess.Popen(["tar", "-C", self.place / "image", "-c", "."], stdout=subprocess.PIPE) as tar:
            words = [*self.client(number), "import", "-", self.IMAGE]
            subprocess.run(words, stdin=tar.stdout, stdout=subprocess.DEVNULL, check=True)

    def command(self, slot):
        words = ["run", "--detach", *self.network(slot), "--volume", f"{self.bind(slot)}:/mnt", "--name", self.id(slot)]
        return [*self.client(self.daemon_of(slot)), *words, self.IMAGE, *FIRST]

    def end(self, slot):
        self.run([*self.client(self.daemon_of(slot)), "rm", "--force", self.id(slot)])

    def close(self):
        for number in list(self.daemons):
            self.stop_daemon(number)
        super().close()


class DockerWithDaemon(Docker):
    """Docker with a daemon of each container's own, whose start is in the time."""

    name = "dockerd and docker run"

    def prepare(self, count):
        Peer.prepare(self, count)
        small_root(self.place / "image")
        for slot in range(count):
            self.start_daemon(slot)
            self.import_image(slot)
            self.stop_daemon(slot)

    def daemon_of(self, slot):
        return slot

    def up(self, count):
        begin = time.perf_counter()
        failed = []

        def one(slot):
            try:
                self.start_daemon(slot)
                if self.start(slot).wait(SECONDS) != 0:
                    self.fail()
            except SystemExit as end:
                failed.append(end.code)

        threads = [threading.Thread(target=one, args=[slot]) for slot in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failed:
            sys.exit(failed[0])
        self.await_answers(count)
        return time.perf_counter() - begin

    def down(self, count):
        super().down(count)
        for slot in range(count):
            self.stop_daemon(slot)


class Nspawn(Peer):
    """systemd-nspawn without systemd; it stays in the foreground."""

    runtime, name = "nspawn", "systemd-nspawn"
    detaches = False
    # The group that it is in gets divided.
    LINE = (
        "for tree in /sys/fs/cgroup /sys/fs/cgroup/unified /sys/fs/cgroup/systemd; do "
        "[ ! -e $tree/cgroup.procs ] || { mkdir -p $tree/$0; echo $$ > $tree/$0/cgroup.procs; }; done; exec \"$@\""
    )

    def command(self, slot):
        words = ["--quiet", "--register=no", "--keep-unit", "--settings=no", "--console=pipe", "--private-network"]
        words += [f"--bind={self.bind(slot)}:/mnt", "--directory", self.root(slot), "--machine", f"c{slot}", *FIRST]
        return ["sh", "-ec", self.LINE, f"{self.group}/{slot}", "systemd-nspawn", *words]

    def end(self, slot):
        self.started[slot].kill()
        remove_groups(f"{self.group}/{slot}")


class Lxc(Peer):
    """A configuration as `lxc-create` writes it, which begins with what LXC has for all of its containers."""

    runtime, name = "lxc", "lxc-start"
    COMMON = "/usr/share/lxc/config/common.conf"

    def network(self, _slot):
        return ["lxc.net.0.type = empty"]

    def prepare_slot(self, slot):
        super().prepare_slot(slot)
        group = f"{self.group}/{slot}"
        lines = [f"lxc.include = {self.COMMON}"] if Path(self.COMMON).exists() else []
        lines += [f"lxc.rootfs.path = dir:{self.root(slot)}", *self.network(slot)]
        lines += ["lxc.mount.auto = proc:rw sys:ro", f"lxc.mount.entry = {self.bind(slot)} mnt none bind 0 0"]
        # Its words cannot be quoted.
        (Path(self.bind(slot)) / "first").write_text(FIRST[-1])
        lines += ["lxc.init.cmd = sh /mnt/first", "lxc.apparmor.profile = unconfined"]
        lines += [f"lxc.cgroup.dir.monitor = {group}/monitor"]
        lines += [f"lxc.cgroup.dir.monitor.pivot = {group}/pivot", f"lxc.cgroup.dir.container = {group}/container"]
        (self.place / str(slot) / "config").write_text("\n".join(lines) + "\n")

    def command(self, slot):
        return ["lxc-start", "-P", self.place, "-n", str(slot), "-f", self.place / str(slot) / "config"]

    def end(self, slot):
        self.run(["lxc-stop", "-P", self.place, "--kill", "-n", str(slot)])


KINDS = [Crun, Runc, Podman, Docker, DockerWithDaemon, Nspawn, Lxc]
# Programs of each runtime, as latlab names it.
TOOLS = {
    "crun": ("crun",),
    "runc": ("runc",),
    "podman": ("podman", "crun"),
    "docker": ("dockerd", "docker", "runc"),
    "nspawn": ("systemd-nspawn",),
    "lxc": ("lxc-start",),
}
