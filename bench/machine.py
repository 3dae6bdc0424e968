"""Where a benchmark ran: figures without it say little."""

import os
import platform
import subprocess
from pathlib import Path


def facts():
    """The machine in a few words of each."""
    return {
        "cpu": model(),
        "cpus": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "distribution": distribution(),
        "virtual": virtualisation(),
    }


def model():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        lines = (line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
        return next(lines, "unknown CPU")


def distribution():
    for path in ("/etc/os-release", "/usr/lib/os-release"):
        if os.path.exists(path):
            lines = Path(path).read_text(encoding="utf-8").splitlines()
            return next((line.split("=", 1)[1].strip('"') for line in lines if line.startswith("PRETTY_NAME=")), "Linux")
    return "Linux"


def virtualisation():
    """The hypervisor under which this runs, `none` without one; lscpu is part of every installation."""
    said = subprocess.run(["lscpu"], capture_output=True, text=True, check=False, env=dict(os.environ, LC_ALL="C"))
    return vendor(said.stdout)


def vendor(said):
    """The hypervisor that lscpu names."""
    lines = (line.partition(":") for line in said.splitlines())
    return next((value.strip() for name, _, value in lines if name == "Hypervisor vendor"), "none")


def cpu_times():
    """All CPU time so far and what of it the hypervisor took (steal), in ticks."""
    with open("/proc/stat", encoding="utf-8") as stat:
        fields = [int(word) for word in stat.readline().split()[1:9]]
    return sum(fields), fields[7]


def steal(before, after):
    """Part of the CPU time between two readings that was stolen."""
    return (after[1] - before[1]) / max(1, after[0] - before[0])


def load():
    """Load averages of one, five and fifteen minutes."""
    return " ".join(Path("/proc/loadavg").read_text(encoding="utf-8").split()[:3])


def line(known):
    virtual = "not virtual" if known["virtual"] == "none" else f"virtual ({known['virtual']})"
    return f"{known['cpus']} x {known['cpu']}, Linux {known['kernel']}, {known['distribution']}, {virtual}"
