"""Labs of two nodes, one for each kind of link, deployed and measured by `latlab` as a user would; and ratios of their rounds.

What each round finds in a lab is a value, how far the CPUs were apart, and the work that it took.
"""

import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import common

# Where servers other than iperf3's listen.
PORT = 6000
# Programs beside a link that carry its bytes or make its connections.
DAEMONS = ("latlab-overlay", "latlab-streams")
# Programs that measurements of a lab need, whatever its link is.
TOOLS = ("ip", "ss", "ping", "crun", "taskset", "chrt", "iperf3")
# Fewer rounds are not compared.
MIN_ROUNDS = 3


def options(parser, links, what, measured):
    """The options of a benchmark of labs; `measured` of `what` is measured without one."""
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=int, default=1)
    parser.add_argument("--nodes", default="container", choices=["container", "native"])
    parser.add_argument("--only", default=",".join(links), type=names(links))
    parser.add_argument("--what", default=",".join(measured), type=names(what))
    parser.add_argument("--placement", default="apart", choices=["apart", "free", "one"])
    parser.add_argument("--congestion", default="cubic")


def names(known):
    """Reads a list of names."""

    def read(text):
        if unknown := set(text.split(",")) - set(known):
            raise argparse.ArgumentTypeError(f"there is no {', '.join(sorted(unknown))}, only {', '.join(known)}")
        return text.split(",")

    return read


def placed(placement):
    """The CPUs of client and server, if they have some; and the two that are farthest apart."""
    cpus = sorted(os.sched_getaffinity(0))
    ends = (cpus[0], cpus[-1])
    return {"apart": ends, "free": None, "one": (ends[0], ends[0])}[placement], ends


class Lab:
    """A deployed lab of two nodes with this link, as a lab file has it. Without a congestion control it has the machine's."""

    def __init__(self, name, link, nodes, directory, cpus, congestion, before=()):
        self.name, self.cpus, self.congestion, self.before = common.lab_name(name), cpus, congestion, before
        file = directory / f"{name}.yaml"
        file.write_text(
            f"name: {self.name}\ntopology:\n  nodes: {{client: {{kind: {nodes}}}, server: {{kind: {nodes}}}}}\n"
            f"  links:\n    - {{{link}, endpoints: ['client:eth0', 'server:eth0']}}\n"
        )
        common.run_latlab("deploy", file)
        rows = json.loads(common.run_latlab("inspect", self.name, "--format", "json"))[self.name]
        self.address = next(row["ipv4_address"] for row in rows if row["name"] == "server").split("/")[0]
        self.mtu = int(self.run("client", ["cat", "/sys/class/net/eth0/mtu"]))
        self.run("client", ["ping", "-c", "4", "-i", "0.1", "-W", "5", self.address])

    def words(self, node, words):
        """The command line of a program in a node, with the node's CPU."""
        if self.cpus:
            words = ["taskset", "-c", str(self.cpus[0 if node == "client" else 1]), *words]
        words = [*self.before, *words]
        return [common.latlab(), "exec", self.name, node, "--", *words]

    def run(self, node, words):
        return self.checked(self.words(node, words))

    def checked(self, words):
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
        if done.returncode != 0:
            sys.exit(f"{' '.join(words)}: {done.stdout[-600:]}{done.stderr[-600:]}")
        return done.stdout

    def way(self):
        """The lab for `common.turns`, with its namespaces where `ip netns` has them."""
        for node in ("client", "server"):
            name = Path("/run/netns") / f"{self.name}-{node}"
            name.touch()
            inside = Path(os.environ["LATLAB_RUN_DIR"]) / self.name / "netns" / node
            subprocess.run(["mount", "--bind", inside, name], check=True)
        return f"{self.name}-client", f"{self.name}-server", self.address, self.mtu

    @contextmanager
    def serving(self, words, flags, port):
        with subprocess.Popen(self.words("server", words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
            try:
                self.until_listening(flags, port)
                yield server
            finally:
                server.terminate()

    def until_listening(self, flags, port):
        for _ in range(100):
            if f":{port} " in self.run("server", ["ss", flags]):
                return
            time.sleep(0.02)
        sys.exit(f"nothing listens at port {port} in {self.name}")

    def stream(self, seconds, block="128K", recorder=()):
        """What one stream of iperf3 says of its end; the client runs under `recorder`."""
        with self.serving(["iperf3", "-s", "-1"], "-ltnH", 5201) as server:
            more = ["-t", str(seconds), "-l", block, "-J"]
            more += ["-C", self.congestion] if self.congestion else []
            words = self.words("client", ["iperf3", "-c", self.address, *more])
            said = self.checked([*map(str, recorder), *words])
            server.wait(10)
        found = json.loads(said)
        # Its exit status is 0 all the same.
        if "error" in found:
            sys.exit(f"iperf3 in {self.name}: {found['error']}")
        return found["end"]

    def bulk(self, seconds, block="128K"):
        """Bits per second that arrived, and CPU seconds per GB by part."""
        before, daemons = ticks(), daemon_seconds()
        end = self.stream(seconds, block)
        parts = {part: value - before[part] for part, value in ticks().items()}
        parts["daemons"] = daemon_seconds() - daemons
        used, took = end["cpu_utilization_percent"], end["sum_sent"]["seconds"]
        parts["iperf3"] = (used["host_total"] + used["remote_total"]) / 100 * took
        gigabytes = end["sum_received"]["bytes"] / 1e9
        return end["sum_received"]["bits_per_second"], {part: value / gigabytes for part, value in parts.items()}

    def round_trip(self, seconds, more):
        """The median round trip in µs."""
        there = ["-i", self.address, "-p", str(PORT), *more]
        with self.serving(["sockperf", "server", *there], "-tulnH", PORT):
            words = ["sockperf", "ping-pong", *there, "-m", "64", "-t", str(seconds), "--full-rtt"]
            # On a machine that others keep busy, sockperf at times finds too little to say.
            for _ in range(3):
                said = self.run("client", words)
                if median := re.search(r"percentile 50\.000\s*=\s*([0-9.]+)", said):
                    return float(median[1])
        sys.exit(f"sockperf found no median in {self.name}:\n{said}")


def ticks():
    """Seconds of all CPUs together, by what they did."""
    with open("/proc/stat") as stat:
        names = ("user", "nice", "system", "idle", "wait", "irq", "softirq", "steal")
        values = dict(zip(names, map(int, stat.readline().split()[1:9])))
    second = os.sysconf("SC_CLK_TCK")
    return {name: values[name] / second for name in ("user", "system", "softirq", "irq", "steal")}


def daemon_seconds():
    """Seconds that all daemons of latlab's links together have used."""
    total = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as stat:
                name, rest = stat.read().split(" (", 1)[1].rsplit(") ", 1)
        except (OSError, IndexError):
            continue
        if name in DAEMONS:
            total += sum(map(int, rest.split()[11:13])) / os.sysconf("SC_CLK_TCK")
    return total


def rounds_of(labs, wanted, measure, count, distance, units, smallest=1):
    """Of each lab, kind and round: the value, the CPUs' distance, and the work. `measure` tells value and work."""
    results = {name: {what: [] for what in wanted} for name in labs}
    shuffle = random.Random(20261125)
    for number in common.rounds(count, smallest):
        order = list(labs)
        shuffle.shuffle(order)
        for what in wanted:
            for name in order:
                before = distance()
                value, work = measure(labs[name], what)
                after = distance()
                results[name][what].append((value, before if before == after else None, work))
        last = " ".join(f"{name} {results[name][wanted[0]][-1][0] * units[wanted[0]][1]:.2f}" for name in labs)
        print(f"# round {number + 1}, {wanted[0]}: {last}", flush=True)
    return results


def alike(results, what, own, other):
    """Pairs of values, of rounds in which both met the same distance; none where these are too few."""
    both = list(zip(results[own][what], results[other][what]))
    like = [(a[0], b[0]) for a, b in both if a[1] == b[1] and a[1]]
    if len(like) < MIN_ROUNDS:
        common.no_figure(f"{what}, {own} beside {other}", f"of one distance in {len(like)} of {len(both)} rounds: too few")
        return []
    return like


def compare(results, wanted, units, pairs, targets, kept=lambda a, b: a / b, word="ratio"):
    """What is kept of both sides of each pair, usually their ratio, with its interval over the rounds."""
    width = max(map(len, units))
    for what in wanted:
        unit, scale = units[what]
        for own, other in pairs:
            if own not in results or other not in results:
                continue
            like = alike(results, what, own, other)
            if not like:
                continue
            found, low, high, spread = common.interval([kept(a * scale, b * scale) for a, b in like])
            medians = [statistics.median(side) * scale for side in zip(*like)]
            target = targets.get((what, own, other), "")
            print(f"{what:<{width}} {own:<15} {medians[0]:8.2f}  {other:<9} {medians[1]:8.2f} {unit:<7}"
                  f" {word} {found:5.3f} {common.shown(low, high, spread)} {target:<8} n={len(like)}", flush=True)
            common.figure(f"{what}, {own}", found, low, high, target, len(like), spread, other)


def tell_work(results, what="bulk"):
    """CPU seconds per GB, by part; medians over rounds say little of counts in hundredths, means do."""
    print("s of CPU per GB   user  system softirq     irq | all   | of which iperf3, daemons | stolen")
    for name, by in results.items():
        works = [work for _, _, work in by[what]]
        mean = {part: statistics.fmean(work[part] for work in works) for part in works[0]}
        busy = sum(mean[part] for part in ("user", "system", "softirq", "irq"))
        print(f"{name:<20} {mean['user']:7.4f} {mean['system']:7.4f} {mean['softirq']:7.4f} {mean['irq']:7.4f} | {busy:5.4f}"
              f" | {mean['iperf3']:7.4f} {mean['daemons']:7.4f} | {mean['steal']:7.4f}", flush=True)
