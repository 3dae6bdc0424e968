"""A run directory: its documents, its cells, its trials."""

import json
import math
import os
from functools import cached_property
from pathlib import Path

import numpy
import pyarrow
import pyarrow.parquet

from latlab import metrics, nodes, stats

MANIFEST = "latlab.manifest/"
PERCENTILES = [0.5, 0.9, 0.99, 0.999, 0.9999]


class NoRun(Exception):
    """There is no run of the study."""


class NotARun(Exception):
    """The directory is no run directory, or of a format that this version does not read."""


def newest(study, runs=None):
    """The newest whole run of a study in a directory of runs: `runs`, else the variable LATLAB_RUNS, else `runs` here.

    Raises `NoRun` without one, which says how to make it.
    """
    runs = Path(runs or os.environ.get("LATLAB_RUNS") or "runs")
    found = []
    for manifest in runs.glob("*/manifest.json"):
        try:
            run = Run(manifest.parent)
        except NotARun:
            continue
        is_whole = run.manifest["state"]["state"] == "complete" and not run.manifest.get("part")
        if run.manifest["study"] == study and is_whole:
            found.append(run)
    if not found:
        hint = f"`sudo latlab run {study} --runs {runs}` makes one, LATLAB_RUNS names another directory"
        raise NoRun(f"no whole run of study `{study}` in {runs.resolve()}: {hint}")
    return max(found, key=lambda run: run.manifest["started"])


class Run:
    """A run of a study."""

    def __init__(self, path):
        self.path = Path(path)
        self.manifest = self._document("manifest.json", "name a directory that `latlab run` made")
        if not self.manifest.get("format", "").startswith(MANIFEST):
            raise NotARun(f"{self.path}: the format is {self.manifest.get('format')!r}, not {MANIFEST}N")

    def __repr__(self):
        return f"<Run {self.manifest['id']}: {len(self.cells)} cells, {len(self.trials)} trials>"

    def _document(self, name, hint):
        try:
            return json.loads((self.path / name).read_text(encoding="utf-8"))
        except OSError as error:
            raise NotARun(f"{self.path / name} cannot be read ({error.strerror}): {hint}") from error
        except ValueError as error:
            raise NotARun(f"{self.path / name} is no JSON: {error}") from error

    @cached_property
    def summary(self):
        """summary.json: all that the report shows."""
        return self._document("summary.json", f"`latlab report {self.path}` writes it")

    @cached_property
    def trials(self):
        """The trials that left a record, in their order."""
        trials = []
        for planned in self.manifest["order"]:
            record = self.path / f"trials/{planned['trial']:04}/trial.json"
            if record.exists():
                trials.append(Trial(self, json.loads(record.read_text(encoding="utf-8"))))
        return trials

    @cached_property
    def starts(self):
        """The start of containers and VMs, by lab and kind."""
        return nodes.starts(self)

    @cached_property
    def actions(self):
        """Actions on nodes within the windows, by cell, node and act."""
        return nodes.actions(self)

    @cached_property
    def cells(self):
        """Each combination of factor levels and measurement."""
        return [Cell(self, planned) for planned in self.manifest["cells"]]

    def cell(self, name):
        """The cell of this name; raises `KeyError` with the names that there are."""
        found = [cell for cell in self.cells if cell.id == name]
        if not found:
            raise KeyError(f"no cell {name!r}; there are {', '.join(cell.id for cell in self.cells)}")
        return found[0]

    def find(self, measurement, **levels):
        """The cell of a measurement with these levels; raises `KeyError` unless there is one."""
        fits = lambda cell: cell.measurement == measurement and levels.items() <= cell.levels.items()
        found = [cell for cell in self.cells if fits(cell)]
        if len(found) != 1:
            given = ", ".join([measurement, *(f"{factor} {level}" for factor, level in levels.items())])
            raise KeyError(f"{len(found)} cells of {given}; there are {', '.join(cell.id for cell in self.cells)}")
        return found[0]

    def levels_of(self, trial):
        """The levels of the factors in a trial's lab."""
        return next((cell.levels for cell in self.cells if cell.id == trial.record["cell"]), {})

    def to_table(self):
        """A row for each cell: its levels, and its percentiles or its metric with intervals, as a pyarrow table."""
        rows = [cell.row() for cell in self.cells]
        names = list(dict.fromkeys(name for row in rows for name in row))
        return pyarrow.table({name: [row.get(name) for row in rows] for name in names})

    def to_pandas(self):
        return self.to_table().to_pandas()

    def to_polars(self):
        import polars

        return polars.from_arrow(self.to_table())


class Trial:
    """One trial: its record (trial.json) and its raw samples."""

    def __init__(self, run, record):
        self.run = run
        self.record = record

    def __repr__(self):
        return f"<Trial {self.record['trial']} of {self.record['cell']}>"

    @property
    def is_measured(self):
        return self.record["outcome"]["outcome"] == "measured"

    def samples(self):
        """One row for each transaction or packet, all times in ns; `None` where the trial has no samples."""
        name = self.record.get("samples")
        if name is None:
            return None
        path = (self.run.path / name).resolve()
        if not path.is_relative_to(self.run.path.resolve()):
            raise NotARun(f"trial {self.record['trial']} names {name!r}, which is not inside the run directory")
        return pyarrow.parquet.read_table(path)

    @cached_property
    def latencies(self):
        """Latencies of what came back, in ns."""
        table = self.samples() if self.is_measured else None
        if table is None:
            return numpy.array([], dtype=numpy.int64)
        return table["latency_ns"].drop_null().to_numpy()


    @property
    def arrivals(self):
        """Times of arrival of what came back, in ns from the begin of the window, in order.

        Where nothing came any more, the last one is that of the last packet's sending: the silence lasted until then."""
        table = self.samples()
        if table is None:
            return numpy.array([], dtype=numpy.int64)
        times = numpy.sort(table["received_ns"].drop_null().to_numpy())
        last_sent = table["sent_ns"].to_numpy().max(initial=numpy.iinfo(numpy.int64).min)
        return numpy.append(times, last_sent) if len(times) and times[-1] < last_sent else times


class Cell:
    """One combination of factor levels and measurement."""

    def __init__(self, run, planned):
        self.run = run
        self.id = planned["id"]
        self.measurement = planned["measurement"]
        self.levels = planned["levels"]

    def __repr__(self):
        return f"<Cell {self.id}>"

    @cached_property
    def trials(self):
        return [trial for trial in self.run.trials if trial.record["cell"] == self.id and trial.is_measured]

    @cached_property
    def parts(self):
        """Latencies of each trial that has some, in ns, sorted."""
        return [numpy.sort(trial.latencies) for trial in self.trials if len(trial.latencies)]

    @cached_property
    def latencies(self):
        """Latencies of all trials, in ns."""
        return numpy.concatenate(self.parts) if self.parts else numpy.array([], dtype=numpy.int64)

    def samples(self):
        """The raw samples of all trials, with the trial's number in a column."""
        tables = []
        for trial in self.trials:
            table = trial.samples()
            if table is not None:
                number = pyarrow.array([trial.record["trial"]] * len(table), pyarrow.int64())
                tables.append(table.append_column("trial", number))
        return pyarrow.concat_tables(tables) if tables else None

    def quantile(self, p):
        """A latency in ns that a share `p` of all samples does not exceed; NaN without samples."""
        return stats.quantile(self.latencies, p)

    def estimate(self, p=0.5):
        """The quantile with its interval; `None` with too few replicates or samples."""
        estimate = self._within_run(p)
        return estimate and estimate.on_ruler(self._ruler_spread)

    def ratio_to(self, other, p=0.5):
        """The ratio of a quantile to another cell's of this run, with its interval; `None` where it is not known."""
        return stats.ratio(self._within_run(p), other._within_run(p))

    def deviation(self):
        """The standard deviation of all samples, with its interval; `None` with too few replicates."""
        return stats.estimate_of_deviation(self.parts, self._resamples)

    @cached_property
    def metrics(self):
        """Quantities with one value a trial, such as `throughput`, by name."""
        # Random numbers are drawn in the summary's order: for latencies first, then for each metric.
        rng = stats.Rng(self.run.manifest["seed"], self.id)
        if self.parts:
            stats.Resamples(len(self.parts), rng)
        return metrics.of_trials([trial.record for trial in self.trials], rng)

    def metric(self, name):
        """The metric of this name; raises `KeyError` with the names that there are."""
        if name not in self.metrics:
            raise KeyError(f"{self.id} has no metric {name!r}; there are: {', '.join(self.metrics) or 'none'}")
        return self.metrics[name]

    def row(self):
        """The cell as a row of a table."""
        row = {"cell": self.id, "measurement": self.measurement, **self.levels, "replicates": len(self.trials)}
        if self.parts:
            row["samples"] = len(self.latencies)
            for p in PERCENTILES:
                enough = len(self.latencies) >= stats.samples_needed(p)
                name = f"p{100 * p:.10g}_ns"
                row[name] = self.quantile(p) if enough else None
                estimate = self.estimate(p) if enough else None
                low, high = estimate.interval if estimate else (None, None)
                row[f"{name}_low"], row[f"{name}_high"] = low, high
        for metric in self.metrics.values():
            row[metric.name] = metric.median
        return row

    @cached_property
    def _resamples(self):
        return stats.Resamples(len(self.parts), stats.Rng(self.run.manifest["seed"], self.id))

    def _within_run(self, p):
        if len(self.latencies) < stats.samples_needed(p):
            return None
        return stats.estimate_of_quantile(self.parts, p, self._resamples)

    @cached_property
    def _ruler_spread(self):
        """Spread of the floors beside the trials of this measurement, between replicates of the same cell."""
        squares, degrees = 0.0, 0
        for cell in self.run.cells:
            if cell.measurement != self.measurement:
                continue
            records = [trial.record for trial in self.run.trials if trial.record["cell"] == cell.id]
            floors = [record["floor"]["median_ns"] for record in records if record.get("floor")]
            logs = [math.log(floor) for floor in floors if math.isfinite(floor) and floor > 0]
            if logs:
                mean = sum(logs) / len(logs)
                squares += sum((x - mean) ** 2 for x in logs)
                degrees += len(logs) - 1
        return math.sqrt(squares / degrees) if degrees else 0.0
