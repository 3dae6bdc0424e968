"""Quantiles and intervals as latlab computes them.

Samples of a cell are pooled. The replicate is the unit of evidence: whole trials are resampled, the bootstrap supplies
the standard error, and Student's t the width (Hesterberg 2015, section 4.3). Positive values are estimated on the
logarithmic scale. The reasons are in docs/design/11-statistics.md and crates/report/src/stats of latlab.
"""

import math
from dataclasses import dataclass

import numpy

MIN_REPLICATES = 3
MIN_FOR_SPREAD = 5
MIN_SAMPLES_BEYOND = 10

# Replicates up to which every resample is enumerated, and the number that is drawn beyond that.
ENUMERATED_UP_TO = 6
DRAWS = 1000

MASK = (1 << 64) - 1


def quantile(samples, p):
    """Hyndman and Fan's type 7; NaN for none."""
    return float(numpy.quantile(samples, p)) if len(samples) else math.nan


def samples_needed(p):
    """Samples that a percentile needs: ten beyond it."""
    return math.ceil(MIN_SAMPLES_BEYOND / (1.0 - p) * (1.0 - 1e-9))


def tidy(value):
    """Nine significant digits, as in summary.json."""
    return float(f"{value:.8e}") if math.isfinite(value) else value


class Rng:
    """SplitMix64, begun from a seed and a cell's name."""

    def __init__(self, seed, name):
        state = 0xCBF29CE484222325
        for byte in name.encode():
            state = ((state ^ byte) * 0x100000001B3) & MASK
        self.state = seed ^ state

    def below(self, bound):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return ((z ^ (z >> 31)) * bound) >> 64


class Resamples:
    """How often each trial counts, and with which weight."""

    def __init__(self, replicates, rng):
        self.replicates = replicates
        if replicates <= ENUMERATED_UP_TO:
            self.times = list(enumerated(replicates))
        else:
            self.times = [(drawn(replicates, rng), 1.0 / DRAWS) for _ in range(DRAWS)]

    def standard_error(self, statistic):
        values = [(statistic(times), weight) for times, weight in self.times]
        mean = sum(value * weight for value, weight in values)
        variance = sum((value - mean) ** 2 * weight for value, weight in values)
        return math.sqrt(variance * self.replicates / (self.replicates - 1.0))


def drawn(replicates, rng):
    times = [0] * replicates
    for _ in range(replicates):
        times[rng.below(replicates)] += 1
    return times


def enumerated(n):
    """Every way to count `n` draws from `n` trials, with its multinomial probability."""
    total = math.factorial(n) / float(n) ** n

    def ways(places, left):
        if places == 1:
            yield [left]
            return
        for count in range(left + 1):
            for rest in ways(places - 1, left - count):
                yield [count, *rest]

    for times in ways(n, n) if n else ():
        yield times, total / math.prod(math.factorial(count) for count in times)


@dataclass(frozen=True)
class Estimate:
    """A value with its 95 % interval over replicates."""

    value: float
    replicates: int
    logarithmic: bool
    never_negative: bool
    error: float
    sampling: tuple

    @property
    def interval(self):
        half = student_quantile(0.05, self.replicates - 1) * self.error
        down, up = max(half, self.sampling[0]), max(half, self.sampling[1])
        if self.logarithmic:
            return tidy(self.value * math.exp(-down)), tidy(self.value * math.exp(up))
        low = self.value - down
        return tidy(max(low, 0.0) if self.never_negative else low), tidy(self.value + up)

    def on_ruler(self, spread):
        """With an error of at least the machine's own repeatability, which the floors of the trials tell."""
        if not self.logarithmic:
            return self
        least = spread / math.sqrt(self.replicates)
        error = max(self.error, least)
        return Estimate(self.value, self.replicates, True, self.never_negative, error, self.sampling)

    def __repr__(self):
        low, high = self.interval
        return f"Estimate({self.value:.6g} [{low:.6g}, {high:.6g}], n={self.replicates})"


@dataclass(frozen=True)
class Ratio:
    """A ratio with its 95 % interval."""

    value: float
    interval: tuple

    def __repr__(self):
        return f"Ratio({self.value:.4g} [{self.interval[0]:.4g}, {self.interval[1]:.4g}])"


def estimate(value, replicates, least, sampled, resamples, statistic):
    logarithmic = least > 0
    scale = math.log if logarithmic else float
    error = resamples.standard_error(lambda times: scale(statistic(times)))
    sampling = (scale(value) - scale(sampled[0]), scale(sampled[1]) - scale(value))
    return Estimate(value, replicates, logarithmic, least >= 0, error, sampling)


def estimate_of_quantile(parts, p, resamples):
    """A quantile of pooled samples; `parts` has one sorted array for each trial. `None` with fewer than three."""
    if len(parts) < MIN_REPLICATES:
        return None
    pooled = numpy.sort(numpy.concatenate(parts))
    # Order statistics between which the quantile lies if all samples are independent.
    count = len(pooled)
    half = 1.96 * math.sqrt(count * p * (1.0 - p))
    low = int(max(math.floor(count * p - half), 0))
    high = min(int(math.ceil(count * p + half)), count - 1)
    sampled = (float(pooled[low]), float(pooled[high]))
    value = quantile(pooled, p)
    return estimate(value, len(parts), float(pooled[0]), sampled, resamples, resampled_quantile(parts, p))


def resampled_quantile(parts, p):
    """A function of how often each trial counts.

    The quantile of a mixture lies between the smallest and the largest of its parts' own, so only samples in this
    window are looked at.
    """
    ends = [(part[math.floor((len(part) - 1) * p)], part[math.ceil((len(part) - 1) * p)]) for part in parts]
    low, high = min(end[0] for end in ends), max(end[1] for end in ends)
    lengths = numpy.array([len(part) for part in parts])
    below = numpy.array([numpy.searchsorted(part, low, side="left") for part in parts])
    inside = [part[first : numpy.searchsorted(part, high, side="right")] for part, first in zip(parts, below)]
    trial = numpy.repeat(numpy.arange(len(parts)), [len(part) for part in inside])
    window = numpy.concatenate(inside)
    order = numpy.argsort(window, kind="stable")
    window, trial = window[order], trial[order]

    def of_resample(times):
        times = numpy.asarray(times)
        upto = int(times @ below) + numpy.cumsum(times[trial])
        at = lambda rank: float(window[min(numpy.searchsorted(upto, rank, side="right"), len(window) - 1)])
        h = (int(times @ lengths) - 1) * p
        rank = math.floor(h)
        x = at(rank)
        return x if h == rank else x + (h - rank) * (at(rank + 1) - x)

    return of_resample


def estimate_of_values(values, resamples):
    """The median of one value for each trial; `None` with fewer than three."""
    if len(values) < MIN_REPLICATES:
        return None
    value = quantile(values, 0.5)
    of_resample = lambda times: quantile(numpy.repeat(values, times), 0.5)
    return estimate(value, len(values), min(values), (value, value), resamples, of_resample)


def median(values, seed=1):
    """The median of values, one for each trial or deployment, with its interval; `None` with fewer than three."""
    return estimate_of_values(values, Resamples(len(values), Rng(seed, "paper")))


def estimate_of_deviation(parts, resamples):
    """The standard deviation of pooled samples; `None` with fewer than three trials."""
    if len(parts) < MIN_REPLICATES:
        return None
    counts, means = numpy.array([len(part) for part in parts]), numpy.array([part.mean() for part in parts])
    squares = numpy.array([((part - mean) ** 2).sum() for part, mean in zip(parts, means)])

    def of_resample(times):
        weights = times * counts
        mean = (weights * means).sum() / weights.sum()
        # Steiner: the variance of each trial, and the distance of its mean.
        about = (times * (squares + counts * (means - mean) ** 2)).sum()
        return math.sqrt(about / max(weights.sum() - 1.0, 1.0))

    value = of_resample(numpy.ones(len(parts)))
    return estimate(value, len(parts), value, (value, value), resamples, lambda times: of_resample(numpy.array(times)))


def estimate_of_spread(values):
    """The standard deviation of one value for each trial, with the jackknife's error on its logarithm (Miller 1968);
    `None` with fewer than five, or without variation."""
    if len(values) < MIN_FOR_SPREAD:
        return None
    n, deviation = len(values), lambda values: float(numpy.std(values, ddof=1))
    others = [deviation([*values[:place], *values[place + 1 :]]) for place in range(n)]
    value = deviation(values)
    if min(value, *others) <= 0.0:
        return None
    pseudo = [2 * n * math.log(value) - 2 * (n - 1) * math.log(other) for other in others]
    return Estimate(value, n, True, True, deviation(pseudo) / math.sqrt(n) / 2, (0.0, 0.0))


def ratio(one, other):
    """One estimate over another, by Welch's interval on the logarithms; `None` where it has no meaning."""
    if one is None or other is None or one.value <= 0 or other.value <= 0:
        return None
    variances = [log_variance(one), log_variance(other)]
    degrees = [one.replicates - 1, other.replicates - 1]
    variance = sum(variances)
    freedom = float(sum(degrees))
    if variance > 0:
        freedom = variance**2 / sum(own**2 / df for own, df in zip(variances, degrees))
    log = math.log(one.value) - math.log(other.value)
    half = student_quantile(0.05, freedom) * math.sqrt(variance)
    return Ratio(tidy(math.exp(log)), (tidy(math.exp(log - half)), tidy(math.exp(log + half))))


def log_variance(one):
    between = one.error if one.logarithmic else one.error / one.value
    within = sum(one.sampling) / 2 / 1.96 if one.logarithmic else 0.0
    return max(between, within) ** 2


def student_two_sided(t, df):
    """Probability that |T| exceeds |t|."""
    return incomplete_beta(df / (df + t * t), df / 2.0, 0.5)


def student_quantile(alpha, df):
    low, high = 0.0, 1.0
    while student_two_sided(high, df) > alpha and high < 1e15:
        high *= 2.0
    while True:
        middle = (low + high) / 2.0
        if not low < middle < high:
            return middle
        if student_two_sided(middle, df) > alpha:
            low = middle
        else:
            high = middle


def incomplete_beta(x, a, b):
    """The regularised incomplete beta function, by its continued fraction (DLMF 8.17.22)."""
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - incomplete_beta(1.0 - x, b, a)
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(1.0 - x)
    return math.exp(scale) * beta_fraction(x, a, b) / a


def beta_fraction(x, a, b):
    nudge = lambda v: v if abs(v) >= 1e-300 else 1e-300
    d = 1.0 / nudge(1.0 - (a + b) * x / (a + 1.0))
    c, value = 1.0, d
    for m in range(1, 500):
        even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
        step = 1.0
        for term in (even, odd):
            d = 1.0 / nudge(1.0 + term * d)
            c = nudge(1.0 + term / c)
            step = c * d
            value *= step
        if abs(step - 1.0) < 1e-15:
            break
    return value
