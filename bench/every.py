"""The benchmarks that fit in half an hour, one after the other, and their table in docs/results.md.

    bench/all [--minutes N] [--only PART,...] [--check] [--install] [--table FILE] [--logs DIRECTORY]

What is missing is said before anything starts; with --install it is installed and built first, which does not
count into the minutes. --check only says what is missing, and what would run. Each part gets the time that it
usually takes, or less where all of them together would take longer, and begins no round that would end later.
Parts for which no time is left are named. If a part fails, the others go on; it is named in the table, and the
exit status is 1.

The ratios with their intervals go between two comments in docs/results.md, with the machine, its steal, the commit
and the date; --table names another file, and `-` none. What the parts printed and their figures as JSON lie in
target/bench, or where --logs says.

Needs root. Leave the machine alone meanwhile.
"""

import argparse
import importlib.machinery
import importlib.util
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import machine
import needs
import table

BENCH = Path(__file__).resolve().parent
NAME = "all"


@dataclass(frozen=True)
class Part:
    """A benchmark with its arguments; the minutes of one round with what is around it, and of all its rounds."""

    name: str
    words: str
    smallest: float
    usual: float

    @property
    def program(self):
        return shlex.split(self.words)[0]

    @property
    def arguments(self):
        return shlex.split(self.words)[1:]


# The order is that of importance: the last ones are left out first. Minutes were seen on two CPUs of a virtual
# machine without KVM.
PARTS = [
    Part("containers", "overlay-containers tcp udp rr --rounds 7", 1.0, 3.0),
    Part("native", "bring-up native --rounds 5", 0.6, 1.5),
    Part("container", "bring-up container --rounds 5", 0.6, 1.0),
    Part("vm", "bring-up vm --rounds 5", 0.7, 1.5),
    Part("agreement", "agreement trips --rounds 7", 0.6, 2.5),
    Part("ports", "overlay-vhost --rounds 3 --seconds 0.8", 3.0, 5.0),
    Part("observer", "observer --seconds 170", 1.6, 3.5),
    Part("generator", "generator --via xdp --rounds 5", 1.2, 3.0),
    Part("shaped", "overlay-containers shaped --rounds 5", 1.2, 2.5),
    Part("repeatability", "repeatability", 1.0, 1.2),
    Part("guests", "overlay-guests --rounds 3 --seconds 1 --only bridge,adaptive,vxlan,link-adaptive", 2.0, 3.5),
    Part("labs", "overlay-labs --turns --rounds 5", 0.8, 2.0),
    Part("streams", "streams --rounds 5", 1.0, 1.6),
    Part("adaptation", "adaptation route carrier", 3.5, 3.5),
    Part("moves", "moves --rounds 5", 0.8, 1.5),
    Part("container-moves", "container-moves --rounds 5", 0.4, 0.6),
    Part("hosts", "hosts --rounds 5", 0.5, 1.0),
    Part("fabric", "fabric --addresses 200 --cut 10", 0.8, 1.0),
    Part("workloads", "workloads --rounds 2 --seconds 1", 0.9, 1.8),
    Part("runtimes", "runtimes --rounds 3 --seconds 3", 2.0, 3.5),
    Part("links", "overlay-links --rounds 3 --seconds 1", 1.0, 2.0),
    Part("real-time", "guest-latency --rounds 2 --seconds 15", 1.5, 2.0),
]
# A part may exceed its minutes by one round and by what is around its rounds; one that hangs is ended.
GRACE = 2.0, 3.0


def parsed(words=None):
    parser = argparse.ArgumentParser(prog="bench/all", usage=__doc__.replace("%", "%%"))
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--only", default=",".join(part.name for part in PARTS))
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--install", action="store_true")
    parser.add_argument("--table", default=str(needs.ROOT / "docs/results.md"))
    parser.add_argument("--logs", default=str(needs.target().parent / "bench"))
    arguments = parser.parse_args(words)
    arguments.only = arguments.only.split(",")
    if unknown := set(arguments.only) - {part.name for part in PARTS}:
        known = ", ".join(part.name for part in PARTS)
        sys.exit(f"{NAME}: --only: no such part: {', '.join(sorted(unknown))}; there are {known}")
    if arguments.minutes <= 0:
        sys.exit(f"{NAME}: --minutes {arguments.minutes:g}: name a time that is longer than nothing")
    return arguments


def needs_of(part):
    """What a part's program says that it needs with these arguments."""
    loader = importlib.machinery.SourceFileLoader(part.program.replace("-", "_"), str(BENCH / part.program))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module.needs(module.parsed(part.arguments))


def chosen(parts, minutes):
    """The parts for whose first rounds there is time, in their order, and the others."""
    taken, rest = [], []
    for part in parts:
        fits = sum(one.smallest for one in taken) + part.smallest <= minutes
        (taken if fits else rest).append(part)
    return taken, rest


def share(parts, minutes):
    """How long the first of the parts may take, so that there is time for the first rounds of the others."""
    first = parts[0]
    spare = minutes - sum(part.smallest for part in parts)
    wanted = sum(part.usual - part.smallest for part in parts)
    if spare <= 0 or wanted <= 0:
        return first.smallest
    return first.smallest + (first.usual - first.smallest) * min(1, spare / wanted)


def main():
    arguments = parsed()
    parts, rest = chosen([part for part in PARTS if part.name in arguments.only], arguments.minutes)
    if not parts:
        sys.exit(f"{NAME}: no part fits into {arguments.minutes:g} minutes: the shortest takes {min(p.smallest for p in rest):g}")
    left_out = [(part.name, "no time") for part in rest]
    wanted = {part.name: needs_of(part) for part in parts}
    everything = needs.Needs(built=())
    for one in wanted.values():
        everything |= one
    settle(everything, parts, left_out, arguments)
    document = writable(arguments.table)
    logs = Path(arguments.logs)
    logs.mkdir(parents=True, exist_ok=True)
    lacking = {name: needs.missing(one) for name, one in wanted.items()}
    left_out += [(name, "missing: " + ", ".join(found.names())) for name, found in lacking.items() if found]
    parts = [part for part in parts if not lacking[part.name]]
    run = {
        "command": shlex.join(["bench/all", *sys.argv[1:]]),
        "date": time.strftime("%Y-%m-%d"),
        "commit": commit(),
        "machine": f"{machine.line(machine.facts())}; load average {machine.load()} at the start",
        "parts": [],
        "left_out": left_out,
    }
    print(f"# {run['machine']}, commit {run['commit']}; logs in {logs}", flush=True)
    before = machine.cpu_times()
    interrupted = measure(run, parts, arguments.minutes, logs)
    run["steal"] = machine.steal(before, machine.cpu_times())
    conclude(run, arguments.table, document, interrupted)


def settle(everything, parts, left_out, arguments):
    """Ends here where something is missing that can be installed, unless it was to be installed."""
    if arguments.install:
        # Also where nothing is missing: what was built once may be of an older commit.
        build(everything)
        lacking = needs.install(everything)
    else:
        lacking = needs.missing(everything)
    if arguments.check:
        print(f"in {arguments.minutes:g} minutes: {', '.join(part.name for part in parts)}")
        for name, why in left_out:
            print(f"left out: {name} ({why})")
    if lacking and not (arguments.install and only_others(lacking)):
        lines = "".join(f"\n    {line}" for line in lacking.hints())
        offer = "" if arguments.install else "\n  or, all of it: bench/all --install"
        sys.exit(f"{NAME}: missing: {', '.join(lacking.names())}\n  this brings it:{lines}{offer}")
    if arguments.check:
        print("nothing is missing")
        sys.exit(0)


def only_others(lacking):
    """Whether nothing is missing but what no command brings; the parts that need it are left out."""
    if any(what == "root" for what, _ in lacking.others):
        return False
    return not (lacking.packages or lacking.programs or lacking.modules or lacking.fetched)


def build(everything):
    if os.geteuid() != 0:
        sys.exit(f"{NAME}: needs root, to install and to measure: start it with sudo")
    commands = [["scripts/setup", "build", "run", *(f"tool:{tool}" for tool in everything.tools if tool != "ip")]]
    commands[0] += [f"tool:python3:{module}" for module in everything.python]
    commands += needs.build(everything.built)
    for command in commands:
        print(f"# {shlex.join(command)}", file=sys.stderr, flush=True)
        if subprocess.run(command, cwd=needs.ROOT, check=False).returncode != 0:
            sys.exit(f"{NAME}: `{shlex.join(command)}` failed: its own words are above")


def commit():
    """The checkout's, and whether something was changed since then; the table of the last run is not of it."""
    git = lambda *words: subprocess.run(
        ["git", "-C", str(needs.ROOT), *words], capture_output=True, text=True, check=False
    ).stdout.strip()
    name = git("rev-parse", "--short", "HEAD") or "unknown"
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs/results.md")
    return f"{name} with changes" if changed else name


def writable(path):
    """The document for the table, read before anything is measured, so that a wrong one fails at once."""
    if path == "-":
        return None
    try:
        text = Path(path).read_text(encoding="utf-8")
        table.replaced(text, "")
        with open(path, "a", encoding="utf-8"):
            return text
    except OSError as error:
        sys.exit(f"{NAME}: --table {path}: {error.strerror}: name a document that can be written, or `-`")
    except ValueError as error:
        sys.exit(f"{NAME}: --table {path}: {error}")


def measure(run, parts, minutes, logs):
    """Runs the parts; whether a signal interrupted it."""
    end = time.monotonic() + 60 * minutes
    for number, part in enumerate(parts):
        remaining = (end - time.monotonic()) / 60
        if remaining < part.smallest / 2:
            run["left_out"].append((part.name, "no time"))
            print(f"[{number + 1}/{len(parts)}] {part.name}: left out, {max(0, remaining):.1f} minutes are left", flush=True)
            continue
        own = min(share(parts[number:], remaining), remaining)
        print(f"[{number + 1}/{len(parts)}] {part.name}: bench/{part.words}: about {own:.1f} minutes of {remaining:.1f}", flush=True)
        began = time.monotonic()
        result, interrupted = measured(part, own, logs)
        run["parts"].append(result)
        took = (time.monotonic() - began) / 60
        told = f"failed: {result['failed']}" if result["failed"] else f"{len(result['figures'])} figures"
        print(f"[{number + 1}/{len(parts)}] {part.name}: {told}, in {took:.1f} minutes", flush=True)
        if interrupted:
            return True
    return False


def measured(part, minutes, logs):
    """One part's figures, and whether a signal interrupted it."""
    figures, log = logs / f"{part.name}.json", logs / f"{part.name}.log"
    figures.unlink(missing_ok=True)
    command = [sys.executable, "-B", str(BENCH / part.program), *part.arguments]
    command += ["--minutes", f"{minutes:.3f}", "--json", str(figures)]
    # A session of its own gets a signal as a whole.
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", start_new_session=True, env=dict(os.environ, PYTHONUNBUFFERED="1"),
    )  # fmt: skip
    limit = 60 * (minutes * GRACE[0] + GRACE[1])
    late = threading.Event()
    watch = threading.Timer(limit, lambda: (late.set(), end(process)))
    watch.start()
    interrupted, last = False, ""
    try:
        with open(log, "w", encoding="utf-8") as into:
            for line in process.stdout:
                into.write(line)
                print(f"    {line}", end="", flush=True)
                last = line.strip() or last
        process.wait()
    except KeyboardInterrupt:
        interrupted = True
        end(process)
    finally:
        watch.cancel()
        process.stdout.close()
    try:
        result = json.loads(figures.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        result = {"figures": [], "without": [], "steal": None, "failed": None}
    if late.is_set():
        result["failed"] = f"it was not done after {limit / 60:.0f} minutes and was ended"
    elif interrupted:
        result["failed"] = "interrupted"
    elif process.returncode != 0:
        result["failed"] = result["failed"] or last or f"it ended with {process.returncode}"
    elif not result["figures"] and not result["without"]:
        result["failed"] = "it told no figure"
    return {**result, "name": part.name}, interrupted


def end(process):
    """Lets a part clean up, and ends what does not."""
    for number, seconds in ((signal.SIGTERM, 30), (signal.SIGKILL, 10)):
        try:
            os.killpg(process.pid, number)
            process.wait(seconds)
            return
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def conclude(run, path, document, interrupted):
    """Prints the table and writes it; the exit status says whether all parts succeeded."""
    text = table.render(run)
    print(f"\n{text}\n")
    failed = [part["name"] for part in run["parts"] if part["failed"]]
    if document is not None and not interrupted and any(part["figures"] for part in run["parts"]):
        # The document is read again: an editor may have written it meanwhile.
        Path(path).write_text(table.replaced(Path(path).read_text(encoding="utf-8"), text), encoding="utf-8")
        print(f"{NAME}: the table is in {os.path.relpath(path)}")
    if interrupted:
        sys.exit(130)
    if failed or not run["parts"]:
        sys.exit(f"{NAME}: failed: {', '.join(failed) or 'no part could run'}")
    print(f"{NAME}: {len(run['parts'])} parts ran to their ends")


if __name__ == "__main__":
    main()
