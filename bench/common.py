"""What the benchmark programs share: namespaces of their own, latlab's binaries, ratios.

A benchmark here asserts nothing. It prints what it measured, all of it in one run, with the two sides
alternating, because absolute times drift with the machine's load and only ratios of neighbours keep.
"""

import os
import random
import secrets
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INSIDE = "LATLAB_BENCH_INSIDE"


def target():
    """Where cargo puts what it builds for release."""
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"


def latlab():
    """The binary to measure."""
    path = Path(os.environ.get("LATLAB", target() / "latlab"))
    if not path.is_file():
        sys.exit(f"{path} is not there: `cargo build --release`, or name another with LATLAB=PATH")
    return str(path)


def built(directory, *programs):
    """The release directory of another commit, if one is named: all programs are there."""
    if directory is None:
        return None
    missing = [program for program in programs if not (Path(directory) / program).is_file()]
    if missing:
        sys.exit(f"{directory} has no {', '.join(missing)}: name a release directory in which cargo has built another commit")
    return Path(directory).resolve()


def enter():
    """Goes on in fresh namespaces, so that nothing made here is seen outside or outlives this.

    Control groups alone have no such walls; latlab's own undo removes those.
    """
    if os.environ.get(INSIDE):
        # The first process of its namespace is not ended by a signal that it does not ask for; and
        # terminated is as good a reason to clean up as interrupted.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        return
    if os.geteuid() != 0:
        sys.exit("needs root, to make namespaces")
    unshare = ["unshare", "--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "--kill-child"]
    unshare += ["--mount-proc", "--propagation", "private"]
    os.environ[INSIDE] = secrets.token_hex(4)
    os.execvp("unshare", unshare + [sys.executable, *sys.argv])


@contextmanager
def scratch():
    """A directory for files, with latlab's own below it; whatever is left up is destroyed at the end."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    directory = Path(tempfile.mkdtemp(prefix="latlab-bench-"))
    run = directory / "run"
    run.mkdir()
    # As on a booted system: /run is memory, the journal is on a disk and synced.
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", run], check=True)
    os.environ["LATLAB_STATE_DIR"] = str(directory / "state")
    os.environ["LATLAB_RUN_DIR"] = str(run)
    try:
        yield directory
    finally:
        try:
            # A bench that deployed no lab needs no latlab.
            if (directory / "state").exists():
                subprocess.run([latlab(), "destroy", "--all", "-y"], stdout=subprocess.DEVNULL, check=False)
        finally:
            # Also while a process that survived a failure still has a file open there.
            subprocess.run(["umount", "--lazy", run], check=False)
            shutil.rmtree(directory, ignore_errors=True)


def lab_name(what):
    """A name that no other run has: control groups carry it."""
    return f"{what}-{os.environ[INSIDE]}"


def run_latlab(*words, program=None):
    """Runs latlab, or another build of it, or says what it said."""
    done = subprocess.run([program or latlab(), *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"latlab {' '.join(map(str, words))}: {done.stderr.strip()}")
    return done.stdout


def timed(work):
    """Seconds that `work` takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def namespaces():
    """Network namespaces that the kernel holds, to within a few; None where it does not say."""
    try:
        with open("/proc/slabinfo") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("net_namespace "))
    except (OSError, StopIteration):
        return None


def settle(before, made):
    """Waits until the kernel has freed the namespaces of whoever went, in the background: else the next
    to come up would pay for it. `before` is their number before `made` of them were made."""
    # Allocators keep some freed objects per CPU, and other programs create namespaces too.
    slack = 16 * (os.cpu_count() or 1) + made // 4
    end = time.perf_counter() + (10 if before is not None else 3)
    while time.perf_counter() < end:
        if before is not None and namespaces() <= before + slack:
            return
        time.sleep(0.01)


def ratio_line(what, ours, theirs, target_ratio="", unit="ms", scale=1e3):
    """Medians of both sides, their ratio, and the range of the ratios of neighbours."""
    each = sorted(a / b for a, b in zip(ours, theirs))
    a, b = statistics.median(ours), statistics.median(theirs)
    print(
        f"{what:<44} latlab {a * scale:9.2f} {unit}  peer {b * scale:9.2f} {unit}  "
        f"ratio {a / b:6.3f} [{each[0]:.3f}..{each[-1]:.3f}]  {target_ratio}  n={len(ours)}",
        flush=True,
    )
    return a / b


def interval(values):
    """The median and a bootstrap interval of it, 95 %."""
    source = random.Random(1)
    medians = sorted(statistics.median(source.choices(values, k=len(values))) for _ in range(2000))
    return statistics.median(values), medians[49], medians[1949]


def busy_seconds():
    """Seconds that all processors together have worked."""
    with open("/proc/stat") as stat:
        user, nice, system, _idle, _wait, irq, softirq = map(int, stat.readline().split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def machine():
    """One line about where this ran; figures without it say little."""
    model = next(
        (line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")),
        "unknown processor",
    )
    load = " ".join(open("/proc/loadavg").read().split()[:3])
    print(f"# {os.cpu_count()} x {model}, Linux {os.uname().release}, load average {load}", flush=True)


# Nanoseconds for a cache line's way there and back: within a few cores that share a cache, and across.
NEAR = 150


def state(nanoseconds):
    """What a cache line's way there and back says of two processors."""
    if nanoseconds == 0:
        return "one"
    return "near" if nanoseconds < NEAR else "far"


def distance(one, other):
    """Whether two processors are near each other or far, also while both are busy: a cache line says it.

    A virtual machine's move every few seconds; figures of one state only are comparable.
    """
    program = target() / "examples" / "cache_line"
    if not program.is_file():
        sys.exit(f"{program} is not there: cargo build --release -p latlab-overlay --examples")
    words = ["chrt", "--fifo", "1", program, str(one), str(other)]
    # The program needs a few ms; the rest is waiting for CPUs that other programs use.
    return state(float(subprocess.run(words, capture_output=True, check=True, timeout=20).stdout))


def turns(ways, test, seconds, cpus, congestion, before=()):
    """Rounds of short turns: how far the processors were apart, and what each way's turn found.

    A way is the names of the client's and the server's namespace (`ip netns`), the server's address, and the longest packet.
    `before`: what runs it, as `chrt`.
    """
    program = target() / "examples" / "turns"
    if not program.is_file():
        sys.exit(f"{program} is not there: cargo build --release -p latlab-overlay --examples")
    words = [*before, "timeout", str(seconds + 30), program, test, *map(str, cpus), str(seconds), congestion]
    words += [",".join(map(str, way)) for way in ways.values()]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"turns {test}: {done.stderr.strip()}")
    for line in done.stdout.splitlines():
        before, after, *found = line.split()
        ends = [state(float(nanoseconds)) for nanoseconds in (before, after)]
        found = [tuple(map(float, one.split(","))) for one in found]
        yield ends[0] if ends[0] == ends[1] else None, dict(zip(ways, found))
