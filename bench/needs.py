"""What a benchmark needs, found out before it starts: all of it at once, with the command that installs it."""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# How the kernel shows that it has something, in a network namespace that ends at once; and the module that brings it.
KERNEL = {
    "veth": ("ip link add one type veth peer name other", "veth"),
    "bridge": ("ip link add one type bridge", "bridge"),
    "vxlan": ("ip link add one type vxlan id 1 dstport 4789", "vxlan"),
    "tap": ("ip tuntap add one mode tap", "tun"),
    "tbf": ("tc qdisc add dev lo root tbf rate 1gbit burst 1mb latency 1ms", "sch_tbf"),
    "clsact": ("tc qdisc add dev lo clsact", "sch_ingress"),
    # AF_XDP and SOCK_RAW.
    "AF_XDP": (f"{sys.executable} -c 'import socket; socket.socket(44, 3)'", "xsk_diag"),
    "BTF": ("test -r /sys/kernel/btf/vmlinux", None),
    "huge pages": ("test -w /proc/sys/vm/nr_hugepages", None),
}

# Programs that are examples of a crate; the others are binaries of the workspace.
EXAMPLES = "examples/"

# Latlab fetches these into its cache, since a bench's namespaces have no network. Kernels are named as a node's `kernel:`.
KERNELS = {
    "cloud": "kernels/linux-image-*-cloud-amd64_*/boot/vmlinuz-*",
    "standard": "kernels/linux-image-*[0-9]-amd64_*/boot/vmlinuz-*",
    "rt": "kernels/linux-image-*-rt-amd64_*/boot/vmlinuz-*",
}
KERNEL_LAB = "name: bench-kernel\ntopology: {{nodes: {{guest: {{kind: vm, kernel: {kernel}, memory: 256MiB}}}}}}\n"


def target():
    """Where cargo puts what it builds for release."""
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"


def path_of(program):
    """Where a built program is; LATLAB names another latlab."""
    if program == "latlab" and os.environ.get("LATLAB"):
        return Path(os.environ["LATLAB"])
    return target() / program


@dataclass(frozen=True)
class Needs:
    """Programs on the PATH, modules of Python, features of the kernel, programs that cargo has built, CPUs, and what
    latlab fetches: guests' kernels, and `criu`."""

    tools: tuple = ()
    python: tuple = ()
    kernel: tuple = ()
    built: tuple = ("latlab", "latlab-agent")
    fetched: tuple = ()
    cpus: int = 1

    def __or__(self, other):
        both = lambda name: tuple(dict.fromkeys([*getattr(self, name), *getattr(other, name)]))
        lists = {name: both(name) for name in ("tools", "python", "kernel", "built", "fetched")}
        return Needs(**lists, cpus=max(self.cpus, other.cpus))


VM = Needs(tools=("ip", "qemu-system-x86_64", "dpkg-deb", "xz", "modprobe"), built=("latlab", "latlab-agent", "latlab-overlay"))


@dataclass
class Missing:
    """What is missing, by the way in which it comes."""

    packages: list = field(default_factory=list)
    programs: list = field(default_factory=list)
    modules: list = field(default_factory=list)
    fetched: list = field(default_factory=list)
    # Nothing installs these: (what, hint).
    others: list = field(default_factory=list)

    def __bool__(self):
        return bool(self.packages or self.programs or self.modules or self.fetched or self.others)

    def names(self):
        names = [word.removeprefix("tool:").replace("python3:", "Python's ") for word in self.packages]
        names += [os.path.relpath(path_of(program), ROOT) for program in self.programs]
        names += [f"{feature} of the kernel" for feature in self.modules]
        names += [f"{name_of(name)} in latlab's cache" for name in self.fetched]
        return names + [what for what, _ in self.others]

    def commands(self):
        """What installs it, in order."""
        found = []
        words = [*self.packages]
        if self.programs and not (shutil.which("cargo") and shutil.which("clang")):
            words.insert(0, "build")
        if words:
            found.append(["scripts/setup", *words])
        found += build(self.programs)
        return found + [["modprobe", KERNEL[feature][1]] for feature in self.modules]

    def hints(self):
        lines = [" ".join(command) for command in self.commands()]
        lines += [f"deploy a lab with `kernel: {name}` once" for name in self.fetched if name in KERNELS]
        lines += [f"latlab doctor --fetch {name}" for name in self.fetched if name not in KERNELS]
        return lines + [f"{what}: {hint}" for what, hint in self.others]


def build(programs):
    """The command that builds programs, if there are any. It is one for all of them: crates built for a part of the
    workspace have other features, and would be built twice."""
    if not programs:
        return []
    examples = [program.removeprefix(EXAMPLES) for program in programs if program.startswith(EXAMPLES)]
    words = ["--workspace", "--bins", *(word for name in examples for word in ("--example", name))] if examples else []
    return [["cargo", "build", "--release", "--locked", *words]]


def missing(needs):
    """Of all that is needed, what is not there."""
    found = Missing()
    found.packages += [f"tool:{tool}" for tool in needs.tools if not shutil.which(tool)]
    found.packages += [f"tool:python3:{module}" for module in needs.python if not has_module(module)]
    for program in needs.built:
        if not path_of(program).is_file():
            if program == "latlab" and os.environ.get("LATLAB"):
                found.others.append((str(path_of(program)), "build it, or name another with LATLAB=PATH"))
            else:
                found.programs.append(program)
    if len(os.sched_getaffinity(0)) < needs.cpus:
        found.others.append((f"{needs.cpus} CPUs", "take a machine or a CPU set that has them"))
    if os.geteuid() != 0:
        found.others.append(("root", "it makes namespaces: start it with sudo"))
    elif shutil.which("ip"):
        for feature in needs.kernel:
            if not kernel_has(feature):
                if KERNEL[feature][1]:
                    found.modules.append(feature)
                else:
                    found.others.append((f"{feature} of the kernel", "boot a kernel that has it"))
    found.fetched += [name for name in needs.fetched if not is_fetched(name)]
    return found


def name_of(fetched):
    return f"the {fetched} kernel" if fetched in KERNELS else fetched


def cache():
    return Path(os.environ.get("LATLAB_CACHE_DIR", "/var/cache/latlab"))


def is_fetched(name):
    if name in KERNELS:
        return any(cache().glob(KERNELS[name]))
    # Written when all of it is there.
    return (cache() / "borrowed" / name / "chosen.json").exists()


def has_module(name):
    importlib.invalidate_caches()
    return importlib.util.find_spec(name) is not None


def kernel_has(feature):
    words = ["unshare", "--net", "sh", "-c", KERNEL[feature][0]]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def cloud_kernel():
    """An image of latlab's cache with its modules."""
    for image in sorted(cache().glob(KERNELS["cloud"])):
        modules = next(image.parent.parent.glob("lib/modules/*"), None)
        if modules:
            return {"image": str(image), "modules": modules}
    return None


def install(needs):
    """Installs and builds what is missing; what is missing still, where nothing brings it."""
    lacking = missing(needs)
    for command in lacking.commands():
        print(f"# {' '.join(command)}", file=sys.stderr, flush=True)
        # A module that is built into the kernel, or that there is none of, is asked for by what it does.
        if subprocess.run(command, cwd=ROOT, check=False).returncode != 0 and command[0] != "modprobe":
            sys.exit(f"`{' '.join(command)}` failed: its own words are above")
    lacking = missing(needs)
    # Without `ip` the kernel could not be asked before.
    if lacking.modules:
        for feature in lacking.modules:
            subprocess.run(["modprobe", "-q", KERNEL[feature][1]], check=False)
        lacking = missing(needs)
    if lacking.fetched and not lacking.programs:
        failed = [(name_of(name), why) for name in lacking.fetched if (why := fetch(name))]
        lacking = missing(needs)
        if failed:
            for what, why in failed:
                print(f"# {what} cannot be fetched: {why}", file=sys.stderr, flush=True)
            # A failure counts like a missing feature of the kernel: the parts that need it are left out.
            lacking.fetched = []
            lacking.others += failed
    for feature in lacking.modules:
        lacking.others.append((f"{feature} of the kernel", f"boot a kernel with the module {KERNEL[feature][1]}"))
    lacking.modules = []
    return lacking


def fetch(name):
    """Has latlab fetch it: a kernel for a lab in a state of its own. The reason why it cannot."""
    print(f"# latlab fetches {name_of(name)}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="latlab-bench-") as place:
        lab = Path(place) / "lab.yaml"
        lab.write_text(KERNEL_LAB.format(kernel=name))
        home = dict(os.environ, LATLAB_STATE_DIR=f"{place}/state", LATLAB_RUN_DIR=f"{place}/run")
        latlab = str(path_of("latlab"))
        words = ["deploy", lab] if name in KERNELS else ["doctor", "--fetch", name]
        done = subprocess.run([latlab, *words], env=home, capture_output=True, text=True, check=False)
        subprocess.run([latlab, "destroy", "--all", "-y"], env=home, capture_output=True, check=False)
        # Its last line is a hint.
        said = done.stderr.strip().splitlines() or ["it failed without a reason"]
        return None if done.returncode == 0 else " ".join(line.strip() for line in said[-2:])


def settle(needs, arguments, program):
    """Ends here with all that is missing, unless nothing is; installs it first if asked to."""
    lacking = install(needs) if arguments.install else missing(needs)
    if lacking:
        lines = "".join(f"\n    {line}" for line in lacking.hints())
        offer = "" if arguments.install else f"\n  or, all of it: {program} --install"
        sys.exit(f"missing: {', '.join(lacking.names())}\n  this brings it:{lines}{offer}")
    if arguments.check:
        print("nothing is missing")
        sys.exit(0)
