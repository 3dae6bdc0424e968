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


def bars(groups, axes=None, per=1.0):
    """Bars with their 95 % intervals, in groups: `{"Linpack": {"native": …, "VM": …}, …}`.

    Values are estimates, ratios or numbers, divided by `per`; `None` leaves a gap.
    """
    axes = axes or _axes()
    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    width = 0.8 / max(len(names), 1)
    for index, name in enumerate(names):
        shift = (index - (len(names) - 1) / 2) * width
        places = [place for place, group in enumerate(groups.values()) if group.get(name) is not None]
        values = [group[name] for group in groups.values() if group.get(name) is not None]
        heights, ends = _heights(values, per)
        axes.bar([place + shift for place in places], heights, width, yerr=ends, capsize=2, label=name)
    axes.set_xticks(range(len(groups)), list(groups))
    _legend_above(axes)
    return axes


def lines(curves, axes=None, per=1.0):
    """Lines with 95 % intervals over a number: `{"container": {1: …, 2: …}, …}`, with values as of `bars`."""
    axes = axes or _axes()
    for name, curve in curves.items():
        known = sorted(x for x, value in curve.items() if value is not None)
        heights, ends = _heights([curve[x] for x in known], per)
        axes.errorbar(known, heights, ends, marker="o", capsize=2, label=name)
    _legend_above(axes)
    return axes


def worst(cells, count=5000, axes=None):
    """The slowest packets of each cell over the time in their trial."""
    axes = axes or _axes()
    for cell in cells:
        samples = cell.samples()
        if samples is None:
            continue
        latencies = samples["latency_ns"].fill_null(0).to_numpy()
        slowest = numpy.argsort(latencies)[-count:]
        times = samples["intended_ns"].to_numpy()[slowest]
        axes.plot(times / 1e9, latencies[slowest] / 1000.0, ".", markersize=2, alpha=0.6, label=cell.id)
    axes.set(yscale="log", xlabel="time in the trial, s", ylabel="latency, µs")
    _legend_above(axes, markerscale=5)
    return axes


def _legend_above(axes, **further):
    """Outside of the axes, where it covers nothing."""
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False, **further)


def _heights(values, per):
    """Heights of values, and how far their intervals reach below and above; 0 of a number."""
    heights, below, above = [], [], []
    for value in values:
        height = getattr(value, "value", value)
        low, high = getattr(value, "interval", (height, height))
        heights.append(height / per)
        below.append(max(height - low, 0.0) / per)
        above.append(max(high - height, 0.0) / per)
    return heights, (below, above)


def _axes():
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'latlab[plot]'") from error
    return pyplot.subplots()[1]
