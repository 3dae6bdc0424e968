"""What happened to nodes: their start, and the actions on them within the measured windows. Times in ns."""

from dataclasses import dataclass, field

import numpy

# Packets that waited for a node arrive within it, after the node goes on.
AFTERMATH_NS = 1_000_000_000


@dataclass
class Starts:
    """The start of the nodes of one kind, in all deployments of one lab."""

    levels: dict
    kind: str
    each_ns: list = field(default_factory=list)
    """Of each node, from its own begin until it was ready for commands, its network included."""
    all_ns: list = field(default_factory=list)
    """Of each deployment, from the begin of the first node to the end of the last."""


@dataclass
class Actions:
    """All actions of one kind on one node in a cell, one value for each where it is known."""

    cell: str
    node: str
    act: str
    gap_ns: list = field(default_factory=list)
    """The longest time without an arrival, from the order until a second after it was done."""
    stood_ns: list = field(default_factory=list)
    """How long the node stood still."""
    claimed_ns: list = field(default_factory=list)
    """The same by QEMU's own account."""
    took_ns: list = field(default_factory=list)
    """From the order until all was done."""
    copied_bytes: list = field(default_factory=list)


def starts(run):
    found = {}
    for trial in run.trials:
        levels = run.levels_of(trial)
        kinds = {}
        for start in trial.record.get("starts", []):
            kinds.setdefault(start["kind"], []).append(start)
        for kind, nodes in kinds.items():
            entry = found.setdefault((*sorted(levels.items()), kind), Starts(levels, kind))
            entry.each_ns += [node["ready_ns"] - node["began_ns"] for node in nodes]
            entry.all_ns.append(max(node["ready_ns"] for node in nodes) - min(node["began_ns"] for node in nodes))
    return [found[key] for key in sorted(found)]


def actions(run):
    found = {}
    for cell in run.cells:
        for trial in cell.trials:
            records = trial.record.get("actions", [])
            arrivals = trial.arrivals if records else None
            for record in records:
                key = (cell.id, record["node"], record["act"])
                add(found.setdefault(key, Actions(*key)), record, arrivals)
    return list(found.values())


def add(entry, record, arrivals):
    asked, done = record["asked_ns"], record["done_ns"]
    entry.took_ns.append(done - asked)
    meets = (arrivals[:-1] <= done + AFTERMATH_NS) & (arrivals[1:] >= asked)
    if meets.any():
        entry.gap_ns.append(int(numpy.diff(arrivals)[meets].max()))
    until = record.get("resumed_ns") or record.get("running_ns")
    if until is not None and record.get("stopped_ns") is not None:
        entry.stood_ns.append(abs(until - record["stopped_ns"]))
    if record.get("claimed_ns") is not None:
        entry.claimed_ns.append(record["claimed_ns"])
    if record.get("copied"):
        entry.copied_bytes.append(record["copied"]["bytes"])
