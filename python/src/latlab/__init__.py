"""Run directories of latlab as tables: raw samples, percentiles and their intervals."""

from latlab import plot
from latlab.run import Cell, NotARun, Run, Trial
from latlab.stats import Estimate, Ratio, quantile

__all__ = ["Cell", "Estimate", "NotARun", "Ratio", "Run", "Trial", "open", "plot", "quantile"]


def open(path):
    """Reads a run directory that `latlab run` made. Raises `NotARun` for another one."""
    return Run(path)
