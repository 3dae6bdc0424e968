"""Run directories of latlab as tables: raw samples, percentiles and their intervals."""

from latlab import plot
from latlab.metrics import Metric
from latlab.papers import published
from latlab.run import Cell, NoRun, NotARun, Run, Trial, newest
from latlab.stats import Estimate, Ratio, median, quantile, ratio

__all__ = [
    "Cell",
    "Estimate",
    "Metric",
    "NoRun",
    "NotARun",
    "Ratio",
    "Run",
    "Trial",
    "median",
    "newest",
    "open",
    "plot",
    "published",
    "quantile",
    "ratio",
]


def open(path):
    """Reads a run directory that `latlab run` made. Raises `NotARun` for another one."""
    return Run(path)
