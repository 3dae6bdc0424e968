"""Quantities with one value a trial, from the trials' records: of bulk transfers, of workloads, and losses.

The figures are those of crates/report/src/summarise of latlab.
"""

import math
from dataclasses import dataclass

import numpy

from latlab import stats


@dataclass(frozen=True)
class Metric:
    """A quantity of a cell, with its values, one for each trial."""

    name: str
    title: str
    unit: str
    higher_is_better: bool
    values: list
    estimate: stats.Estimate | None
    """The median with its interval; `None` with too few replicates."""

    @property
    def median(self):
        return stats.quantile(self.values, 0.5)

    def ratio_to(self, other):
        """The ratio of the medians to another cell's of this run, with its interval; `None` where it is not known."""
        return stats.ratio(self.estimate, other.estimate)


def of_trials(records, rng):
    """The metrics of a cell by name, in the summary's order, in which random numbers are drawn too."""
    series = {}
    for record in records:
        for name, title, unit, higher_is_better, value in quantities(record):
            series.setdefault(name, (title, unit, higher_is_better, []))[3].append(value)
    metrics = {}
    for name, (title, unit, higher_is_better, values) in series.items():
        if all(math.isfinite(value) for value in values):
            estimate = stats.estimate_of_values(values, stats.Resamples(len(values), rng))
            metrics[name] = Metric(name, title, unit, higher_is_better, values, estimate)
    return metrics


def quantities(record):
    """Name, title, unit, whether higher is better, and value of each quantity of a trial."""
    if record.get("stream"):
        return list(of_stream(record["stream"]))
    if record.get("workload"):
        known = [*said(record["workload"]), *cost(record["workload"])]
        return [quantity for quantity in known if quantity[4] is not None]
    counters = record["counters"]
    return [("loss", "Loss", "1", False, counters["lost"] / counters["sent"])] if counters["sent"] else []


def of_stream(stream):
    yield "throughput", "Throughput", "bit/s", True, stream["bits_per_second"]
    for end, spent in sorted(stream["cpu_ns_per_byte"].items()):
        yield f"cpu-per-byte-{end}", f"CPU per byte, {end}", "ns/byte", False, spent
    if stream.get("retransmits") is not None:
        yield "retransmits", "Retransmits", "count", False, float(stream["retransmits"])
    if stream.get("lost_fraction") is not None:
        yield "loss", "Loss", "1", False, stream["lost_fraction"]


def said(workload):
    """The figures of the programs, over the nodes; the first is the metric of the measurement."""
    for index, figure in enumerate(workload["figures"]):
        values = [node["values"][index] for node in workload["nodes"] if len(node["values"]) > index]
        kind = (figure["unit"], figure["higher_is_better"])
        if index:
            yield figure["name"], figure["title"], *kind, median(values)
            continue
        yield "per-node", f"{figure['title']}, per node", *kind, median(values)
        if len(values) > 1:
            # Rates add up; times do not.
            total = sum(values) if figure["higher_is_better"] else None
            yield "all-nodes", f"{figure['title']}, all nodes", *kind, total
            yield "min-max", "Smallest node / largest", "1", True, share(min(values), max(values))
            squares = len(values) * sum(value * value for value in values)
            yield "jain", "Jain's index", "1", True, share(sum(values) ** 2, squares)


def cost(workload):
    """The cost of the nodes, and how far apart they began."""
    nodes = workload["nodes"]
    lost = workload.get("available_lost_bytes")
    # Only the first node of a job has values.
    count = workload.get("job_nodes") or max(len(nodes), 1)
    times = [
        ("begin-spread", "Spread of begins", workload["begin_spread_ns"] if len(nodes) > 1 else None),
        ("cpu-per-node", "CPU time, per node", median([node.get("cpu_ns") for node in nodes])),
        ("cpu-client", "CPU time, client's node", median([(node.get("client") or {}).get("cpu_ns") for node in nodes])),
        ("cpu-machine", "CPU time, machine", workload.get("machine_cpu_ns")),
    ]
    memory = [
        ("memory-host", "Memory per node, host's loss", None if lost is None else lost / count),
        ("memory-pss", "Memory per node, PSS", median([node["memory"].get("pss_bytes") for node in nodes])),
        ("memory-cgroup", "Memory per node, cgroup", median([node["memory"].get("cgroup_bytes") for node in nodes])),
    ]
    for unit, figures in (("ns", times), ("B", memory)):
        for name, title, value in figures:
            yield name, title, unit, False, None if value is None else float(value)


def median(values):
    """`None` for none, and where one is not known."""
    return float(numpy.median(values)) if values and None not in values else None


def share(part, whole):
    return stats.tidy(part / whole) if whole > 0 else None
