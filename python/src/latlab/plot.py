"""Plots as the report's page draws them. Needs matplotlib: `pip install 'latlab[plot]'`."""

import numpy

from latlab import stats


def percentiles(cells, axes=None):
    """Latency over the percentile, on an axis of 1 / (1 - p): each further nine has the same width."""
    axes = axes or _axes()
    for cell in cells:
        samples = numpy.sort(cell.latencies)
        if not len(samples):
            continue
        # Beyond this point fewer than ten samples remain.
        last = max(len(samples) / stats.MIN_SAMPLES_BEYOND, 2.0)
        beyond = numpy.geomspace(1.0, last, 400)
        axes.plot(beyond, numpy.quantile(samples, 1.0 - 1.0 / beyond) / 1000.0, label=cell.id)
    axes.set(xscale="log", yscale="log", xlabel="percentile", ylabel="latency, µs")
    nines = [share for share in (2, 10, 100, 1000, 10_000, 100_000) if share <= axes.get_xlim()[1]]
    axes.set_xticks(nines, [f"{100 - 100 / share:.6g} %" for share in nines])
    axes.legend()
    return axes


def cdf(cells, axes=None):
    """The share of samples up to each latency."""
    axes = axes or _axes()
    for cell in cells:
        samples = numpy.sort(cell.latencies)
        if len(samples):
            axes.step(samples / 1000.0, numpy.arange(1, len(samples) + 1) / len(samples), where="post", label=cell.id)
    axes.set(xscale="log", xlabel="latency, µs", ylabel="share of samples", ylim=(0, 1))
    axes.legend()
    return axes


def intervals(cells, p=0.5, axes=None):
    """A quantile of each cell with its 95 % interval over replicates."""
    axes = axes or _axes()
    for place, cell in enumerate(cells):
        value, estimate = cell.quantile(p), cell.estimate(p)
        axes.plot(value / 1000.0, place, "o", color=f"C{place % 10}")
        if estimate is not None:
            low, high = estimate.interval
            axes.hlines(place, low / 1000.0, high / 1000.0, color=f"C{place % 10}")
    axes.set_yticks(range(len(cells)), [cell.id for cell in cells])
    axes.set(xlabel=f"p{100 * p:.10g}, µs")
    axes.invert_yaxis()
    return axes


def _axes():
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'latlab[plot]'") from error
    return pyplot.subplots()[1]
