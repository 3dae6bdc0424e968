"""What the benchmark programs share: namespaces of their own, latlab's binaries, ratios.

A benchmark here asserts nothing. It prints what it measured, all of it in one run, with the two sides
alternating, because absolute times drift with the machine's load and only ratios of neighbours keep.

A program parses its arguments with `parser`, calls `begin`, measures in rounds that `rounds` gives it, and tells its
ratios to `figure` beside printing them. `run` surrounds all of it: an error there is a line with the program's name.
"""

import argparse
import ctypes
import json
import os
import random
import re
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

import machine
import needs
import table
from needs import ROOT, VM, Needs, target  # noqa: F401, what programs take from here

INSIDE = "LATLAB_BENCH_INSIDE"
# The option of prctl(2) for a signal at the parent's end.
PR_SET_PDEATHSIG = 1
NAME = Path(sys.argv[0]).name


class Parser(argparse.ArgumentParser):
    """A mistake is one line, not the whole description."""

    def error(self, message):
        self.exit(2, f"{NAME}: {message}; bench/{NAME} --help shows what there is\n")


def parser(description, minutes=None):
    """What every benchmark understands."""
    made = Parser(usage=description.replace("%", "%%"))
    made.add_argument("--minutes", type=float, default=minutes, help="begin no round that would end later")
    made.add_argument("--json", metavar="FILE", help="write the figures there too")
    made.add_argument("--check", action="store_true", help="only say what is missing")
    made.add_argument("--install", action="store_true", help="install what is missing first")
    return made


# --- a run ----------------------------------------------------------------------------------------

FIGURES = []
# Rounds from which an interval of 95 % can be resampled.
MIN_ROUNDS_TO_RESAMPLE = 10
# The file of --json, since when there are figures, until when each nested stage may take, and what was not comparable.
state_of_run = {"json": None, "began": None, "ends": [], "without": []}


def run(main):
    """The program: what ends it is told in a line of its own, and figures that there are get written."""
    failed = UNFINISHED
    try:
        main()
        failed = None
    except SystemExit as end:
        if not isinstance(end.code, str):
            raise
        failed = end.code
    except KeyboardInterrupt:
        failed = "interrupted"
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace") if isinstance(error.stderr, bytes) else error.stderr
        failed = f"`{' '.join(map(str, words_of(error)))}` ended with {error.returncode}"
        failed += f": {said.strip()[-500:]}" if said and said.strip() else ""
    except subprocess.TimeoutExpired as error:
        failed = f"`{' '.join(map(str, words_of(error)))}` was not done after {error.timeout:g} s: is the machine busy?"
    except FileNotFoundError as error:
        failed = f"{error.filename} is not there: bench/{NAME} --check says what else is missing"
    except Exception as error:
        # A fault of the benchmark itself: its trace helps to find it.
        failed = f"{type(error).__name__}: {error}"
        raise
    finally:
        write_figures(failed)
        if state_of_run["json"]:
            state_of_run["json"].close()
    if failed:
        sys.exit(f"{NAME}: {failed}")


def words_of(error):
    return [error.cmd] if isinstance(error.cmd, (str, Path)) else error.cmd


def begin(arguments, wanted):
    """Checks what is needed and goes on in namespaces; says where this runs."""
    if not os.environ.get(INSIDE):
        needs.settle(wanted, arguments, f"bench/{NAME}")
    enter()
    if arguments.json:
        # A path that cannot be written ends this before anything is measured.
        try:
            state_of_run["json"] = open(arguments.json, "w", encoding="utf-8")
        except OSError as error:
            sys.exit(f"--json {arguments.json}: {error.strerror}: name a file that can be written")
    state_of_run["began"] = (time.time(), machine.cpu_times())
    if arguments.minutes is not None:
        state_of_run["ends"].append(time.monotonic() + 60 * arguments.minutes)
    print(f"# {machine.line(machine.facts())}, load average {machine.load()}", flush=True)


UNFINISHED = "it did not come to its end"


def write_figures(failed=UNFINISHED):
    """What there is so far: a program that is killed leaves that."""
    if not state_of_run["json"]:
        return
    began, times = state_of_run["began"] or (time.time(), machine.cpu_times())
    document = {
        "program": NAME,
        "arguments": sys.argv[1:],
        "began": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began)),
        "seconds": round(time.time() - began, 1),
        "machine": machine.facts(),
        "steal": round(machine.steal(times, machine.cpu_times()), 4),
        "figures": FIGURES,
        "without": state_of_run["without"],
        "failed": failed,
    }
    file = state_of_run["json"]
    file.seek(0)
    file.truncate()
    json.dump(document, file, indent=1)
    file.write("\n")
    file.flush()


def figure(what, value, low=None, high=None, target_text="", rounds_measured=0, spread="95 %", peer=""):
    """Keeps a ratio for --json: its interval, of 95 % or the range of neighbours, and its target in words."""
    if re.search(r"\d", target_text) and not table.target_of(target_text):
        raise ValueError(f"{what}: the target `{target_text}` cannot be missed: write it as `<= 1.3` or `0.9..1.1`")
    FIGURES.append({
        "what": what, "peer": peer, "value": value, "low": low, "high": high, "spread": spread,
        "target": target_text.strip(), "n": rounds_measured,
    })  # fmt: skip
    write_figures()


def no_figure(what, reason):
    """Keeps for --json that something could not be compared, and says so."""
    state_of_run["without"].append(f"{what}: {reason}")
    write_figures()
    print(f"{what:<44} {reason}", flush=True)


def left():
    """Seconds until the present stage has to end; none without an end."""
    return state_of_run["ends"][-1] - time.monotonic() if state_of_run["ends"] else None


def stages(items):
    """Items one by one, each with an equal part of the time that is left then."""
    items = list(items)
    for number, item in enumerate(items):
        remaining = left()
        if remaining is not None:
            state_of_run["ends"].append(time.monotonic() + max(0, remaining) / (len(items) - number))
        try:
            yield item
        finally:
            if remaining is not None:
                state_of_run["ends"].pop()


def rounds(wanted, smallest=1):
    """Numbers of rounds; none begins, beyond the smallest number, that would end too late: the longest so far says."""
    longest = 0
    for number in range(wanted):
        begun, remaining = time.monotonic(), left()
        if remaining is not None and number >= smallest and longest > remaining:
            print(f"# the time is over after {number} of {wanted} rounds", flush=True)
            return
        yield number
        longest = max(longest, time.monotonic() - begun)


def seconds(wanted, smallest=2):
    """The seconds that are wanted, or what is left of the time."""
    remaining = left()
    return wanted if remaining is None else max(smallest, min(wanted, int(remaining)))


# --- surroundings ---------------------------------------------------------------------------------


def latlab():
    """The binary to measure."""
    return str(needs.path_of("latlab"))


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

    Only cgroups have no such walls; latlab's own undo removes those.
    """
    if not os.environ.get(INSIDE):
        # Its own `--fork` would wait with SIGTERM blocked: a benchmark could be terminated only as a whole session.
        unshare = ["unshare", "--mount", "--pid", "--net", "--ipc", "--uts", "--propagation", "private"]
        os.environ[INSIDE] = secrets.token_hex(4)
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        os.execvp("unshare", unshare + [sys.executable, *sys.argv])
    go_on_in_a_child()
    # All of the namespace ends with the process that the caller knows, also if that one is killed.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    subprocess.run(["mount", "-t", "proc", "proc", "/proc"], check=True)
    # The first process of a namespace inherits every process whose parent ends, and only collects them: otherwise the
    # daemons of each lab would stay as zombies, and the next labs would read past all of them in /proc.
    go_on_in_a_child()
    signal.signal(signal.SIGTERM, terminated)


def go_on_in_a_child():
    """The parent stays: it collects what ends, passes on what terminates it, and ends as the child did."""
    child = os.fork()
    if child == 0:
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
    while True:
        ended, status = os.wait()
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)


def terminated(*_):
    """Terminated is as good a reason to clean up as interrupted."""
    # A signal to the whole session comes again from each parent, and would cut that off. No SIG_IGN: programs inherit it.
    signal.signal(signal.SIGTERM, lambda *_: None)
    sys.exit(143)


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
    """A name that no other run has: cgroups carry it."""
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
    """Waits until the kernel has freed the namespaces of labs that went, in the background: else the next
    to come up would pay for it. `before` is their number before `made` of them were made."""
    # Allocators keep some freed objects per CPU, and other programs create namespaces too.
    slack = 16 * (os.cpu_count() or 1) + made // 4
    end = time.perf_counter() + (10 if before is not None else 3)
    while time.perf_counter() < end:
        if before is not None and namespaces() <= before + slack:
            return
        time.sleep(0.01)


def ratio_line(what, ours, theirs, target_ratio="", unit="ms", scale=1e3, peer=""):
    """Medians of both sides, and their ratio: its 95 % interval, or of few rounds the range of the neighbours' ratios."""
    tell_ratio(what, ours, theirs, ratio_spread(list(zip(ours, theirs))), target_ratio, unit, scale, peer)
    return statistics.median(ours) / statistics.median(theirs)


def tell_ratio(what, ours, theirs, ends, target_ratio="", unit="ms", scale=1e3, peer=""):
    """As `ratio_line`, with the ends that were found, as `ratio_spread` tells them."""
    a, b = statistics.median(ours), statistics.median(theirs)
    low, high, spread = ends
    count = min(len(ours), len(theirs))
    print(
        f"{what:<44} latlab {a * scale:9.2f} {unit}  peer {b * scale:9.2f} {unit}  "
        f"ratio {a / b:6.3f} {shown(*ends)}  {target_ratio}  n={count}",
        flush=True,
    )
    figure(what, a / b, low, high, target_ratio, count, spread, peer)


def shown(low, high, spread, form=".3f"):
    """The ends of an interval or of a range, where there are some."""
    return "" if low is None else f"[{low:{form}}..{high:{form}}, {spread}]"


def range_of(values, figure=None):
    """The ends of few values, and of a figure of them all, which may lie beyond; one value has none."""
    if len(values) < 2:
        return None, None, "range"
    ends = values if figure is None else [*values, figure]
    return min(ends), max(ends), "range"


def resampled(again):
    """The ends of an interval, from what `again` finds in other choices of the rounds."""
    found = sorted(again() for _ in range(2000))
    return found[49], found[1949], "95 %"


def ratio_spread(pairs):
    """The interval of the ratio of medians, by resampling the pairs from a fixed seed; of few pairs their range."""
    if len(pairs) < MIN_ROUNDS_TO_RESAMPLE:
        return range_of([a / b for a, b in pairs])
    chance = random.Random(1)

    def again():
        ours, theirs = zip(*chance.choices(pairs, k=len(pairs)))
        return statistics.median(ours) / statistics.median(theirs)

    return resampled(again)


def interval(values):
    """The median with the ends of its 95 % interval, by resampling from a fixed seed; of few values with their range."""
    middle = statistics.median(values)
    if len(values) < MIN_ROUNDS_TO_RESAMPLE:
        return middle, *range_of(values)
    chance = random.Random(1)
    return middle, *resampled(lambda: statistics.median(chance.choices(values, k=len(values))))


def busy_seconds():
    """Seconds that all CPUs together have worked."""
    with open("/proc/stat") as stat:
        user, nice, system, _idle, _wait, irq, softirq = map(int, stat.readline().split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


# Nanoseconds for a cache line's way there and back: within a few cores that share a cache, and across.
NEAR = 150


def state(nanoseconds):
    """What a cache line's way there and back says of two CPUs."""
    if nanoseconds == 0:
        return "one CPU"
    return "near" if nanoseconds < NEAR else "far"


def distance(one, other):
    """Whether two CPUs are near each other or far, also while both are busy: a cache line says it.

    A virtual machine's move every few seconds; figures of one state only are comparable.
    """
    program = target() / "examples" / "cache_line"
    words = ["chrt", "--fifo", "1", program, str(one), str(other)]
    # The program needs a few ms; the rest is waiting for CPUs that other programs use.
    return state(float(subprocess.run(words, capture_output=True, check=True, timeout=20).stdout))


def turns(ways, test, seconds, cpus, congestion, before=()):
    """Rounds of short turns: how far the CPUs were apart, and what each way's turn found.

    A way is the names of the client's and the server's namespace (`ip netns`), the server's address, and the longest packet.
    `before`: what runs it, as `chrt`.
    """
    words = [*before, "timeout", str(seconds + 60), target() / "examples" / "turns", test]
    words += [*map(str, cpus), str(seconds), congestion]
    words += [",".join(map(str, way)) for way in ways.values()]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"turns {test}: {done.stderr.strip()}")
    for line in done.stdout.splitlines():
        before, after, *found = line.split()
        ends = [state(float(nanoseconds)) for nanoseconds in (before, after)]
        found = [tuple(map(float, one.split(","))) for one in found]
        yield ends[0] if ends[0] == ends[1] else None, dict(zip(ways, found))


def with_all_arrived(what, rounds):
    """Those rounds of `turns` in which every way carried something; says how many others there were.

    A turn on a CPU that others had for all of it says nothing of the path.
    """
    rounds = list(rounds)
    empty = [[way for way, values in found.items() if not values[0] > 0] for _, found in rounds]
    if any(empty):
        ways = ", ".join(dict.fromkeys(way for one in empty for way in one))
        count = sum(map(bool, empty))
        print(f"# {what}: {count} of {len(rounds)} rounds do not count: nothing arrived in a turn of {ways}", flush=True)
    return [one for one, without in zip(rounds, empty) if not without]
