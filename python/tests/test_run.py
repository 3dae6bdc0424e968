"""The package against a run directory that latlab wrote, named by LATLAB_TEST_RUNS (separated by colons).

Each number of summary.json that the package can compute is computed from the raw samples and compared.
"""

import math
import os
import tempfile
import unittest
from pathlib import Path

import latlab
from latlab import stats

RUNS = [latlab.open(run) for run in os.environ["LATLAB_TEST_RUNS"].split(":")]


class Figures(unittest.TestCase):
    def assert_same(self, found, expected, what):
        if expected is None:
            return
        self.assertLessEqual(abs(found - expected), 1e-8 * max(abs(expected), abs(found)), what)

    def assert_same_interval(self, estimate, expected, what):
        self.assertEqual(estimate is None, expected is None, what)
        for found, end in zip(estimate.interval if estimate else (), expected or ()):
            self.assert_same(found, end, what)

    def test_latencies_are_those_of_the_summary(self):
        compared = 0
        for run in RUNS:
            for cell in run.cells:
                told = next(one for one in run.summary["cells"] if one["id"] == cell.id)
                self.assertEqual(len(cell.trials), told["replicates"], cell.id)
                if not told.get("latency"):
                    continue
                latency = told["latency"]
                self.assertEqual(len(cell.latencies), latency["samples"])
                self.assert_same(float(cell.latencies.std(ddof=1)), latency["sd_ns"], cell.id)
                for quantile in latency["quantiles"]:
                    what = f"{cell.id} p{100 * quantile['p']:.6g}"
                    enough = len(cell.latencies) >= quantile["needed"]
                    self.assertEqual(stats.samples_needed(quantile["p"]), quantile["needed"])
                    if enough:
                        self.assert_same(cell.quantile(quantile["p"]), quantile["value_ns"], what)
                    self.assert_same_interval(cell.estimate(quantile["p"]), quantile.get("ci95_ns"), what)
                    compared += enough
        self.assertGreater(compared, 10)

    def assert_same_ratio(self, ratio, told, what):
        self.assert_same_interval(ratio, told.get("ratio_ci95"), what)
        if ratio is not None:
            self.assert_same(ratio.value, told["ratio"], what)
        return ratio is not None

    def test_ratios_are_those_of_the_summary(self):
        compared = 0
        for run in RUNS:
            for told in run.summary["cells"]:
                comparison = told.get("comparison")
                if not comparison:
                    continue
                cell, base = run.cell(told["id"]), run.cell(comparison["baseline"])
                if comparison["quantity"] == "median latency":
                    ratio = cell.ratio_to(base)
                else:
                    first = next(iter(cell.metrics))
                    ratio = cell.metric(first).ratio_to(base.metric(first))
                compared += self.assert_same_ratio(ratio, comparison, told["id"])
                for tail in comparison.get("tails", []):
                    if tail["of"] == "sd":
                        ratio = latlab.ratio(cell.deviation(), base.deviation())
                    else:
                        ratio = cell.ratio_to(base, float(tail["of"][1:]) / 100)
                    compared += self.assert_same_ratio(ratio, tail, f"{told['id']} {tail['of']}")
        self.assertGreater(compared, 3)

    def test_slowdowns_are_those_of_the_summary(self):
        for run in RUNS:
            for told in run.summary["cells"]:
                slowdown = (told.get("scaling") or {}).get("slowdown")
                if not slowdown:
                    continue
                one, alone = (run.cell(name).metric("per-node") for name in (told["id"], slowdown["alone"]))
                ratio = alone.ratio_to(one) if one.higher_is_better else one.ratio_to(alone)
                self.assert_same_ratio(ratio, slowdown, told["id"])

    def test_metrics_are_those_of_the_summary(self):
        compared = 0
        for run in RUNS:
            for cell in run.cells:
                told = next(one for one in run.summary["cells"] if one["id"] == cell.id)
                self.assertEqual(list(cell.metrics), [metric["name"] for metric in told["metrics"]], cell.id)
                for metric in told["metrics"]:
                    what, found = f"{cell.id} {metric['name']}", cell.metric(metric["name"])
                    for key in ("title", "unit", "higher_is_better"):
                        self.assertEqual(getattr(found, key), metric[key], what)
                    self.assertEqual(len(found.values), len(metric["values"]), what)
                    for value, expected in zip(found.values, metric["values"]):
                        self.assert_same(value, expected, what)
                    self.assert_same(found.median, metric["spread"]["median"], what)
                    self.assert_same_interval(found.estimate, metric.get("ci95"), what)
                    compared += 1
        self.assertGreater(compared, 3)

    def test_trials_are_those_of_the_summary(self):
        compared = 0
        for run in RUNS:
            records = {trial.record["trial"]: trial for trial in run.trials}
            for told in run.summary["trials"]:
                trial = records[told["trial"]]
                self.assertEqual(trial.is_measured, told.get("failed") is None)
                if not trial.is_measured or not told.get("spread_ns"):
                    continue
                what = f"trial {told['trial']} of {told['cell']}"
                spread, tail = told["spread_ns"], told["tail_ns"]
                known = {0.05: spread["p5"], 0.5: spread["median"], 0.95: spread["p95"]}
                known |= {0.99: tail.get("p99"), 0.999: tail.get("p999")}
                for p, expected in known.items():
                    self.assert_same(latlab.quantile(trial.latencies, p), expected, what)
                self.assert_same(float(trial.latencies.std(ddof=1)), tail["sd"], what)
                compared += 1
        self.assertGreater(compared, 3)

    def assert_same_range(self, values, told, what):
        self.assertEqual(bool(values), told is not None, what)
        if told:
            self.assertEqual((min(values), max(values)), (told["smallest"], told["largest"]), what)
            self.assert_same(latlab.quantile(values, 0.5), told["median"], what)

    def test_starts_and_actions_are_those_of_the_summary(self):
        for run in RUNS:
            told = run.summary.get("starts", [])
            self.assertEqual(len(run.starts), len(told))
            for found, entry in zip(run.starts, told):
                what = f"{run.manifest['id']}: {entry['kind']} {entry['levels']}"
                self.assertEqual((found.levels, found.kind), (entry["levels"], entry["kind"]))
                self.assert_same_range(found.each_ns, entry["each"], what)
                self.assertEqual(found.all_ns, entry.get("all_ns", []), what)
            told = run.summary.get("actions", [])
            entries = {(entry["cell"], entry["node"], entry["act"]): entry for entry in told}
            self.assertEqual({(one.cell, one.node, one.act) for one in run.actions}, set(entries))
            for found in run.actions:
                entry = entries[found.cell, found.node, found.act]
                for name in ("gap_ns", "stood_ns", "claimed_ns", "took_ns", "copied_bytes"):
                    told = entry.get(name.rpartition("_")[0])
                    self.assert_same_range(getattr(found, name), told, f"{found.cell} {found.act} {name}")

    def test_tables_have_a_row_for_each_cell(self):
        for run in RUNS:
            table = run.to_table()
            self.assertEqual(table.num_rows, len(run.cells))
            frame = run.to_pandas()
            self.assertEqual(list(frame["cell"]), [cell.id for cell in run.cells])
            self.assertEqual(run.to_polars().height, len(run.cells))
            for timed in [cell for cell in run.cells if cell.parts][:1]:
                samples = timed.samples()
                numbers = {trial.record["trial"] for trial in timed.trials}
                self.assertEqual(set(samples["trial"].unique().to_pylist()), numbers)

    def test_published_figures_are_those_of_the_summary(self):
        for run in RUNS:
            paper = run.summary.get("paper")
            if paper is None:
                with self.assertRaisesRegex(ValueError, f"study `{run.manifest['study']}`, which is of no paper"):
                    latlab.published(run)
                continue
            told = [value for table in paper["tables"] for row in table["rows"] for value in row["values"]]
            found = latlab.published(run).to_pylist()
            self.assertEqual([row["measured"] for row in found], [value.get("measured") for value in told])
            self.assertEqual([row["ratio"] for row in found], [value.get("ratio") for value in told])

    def test_plots_draw_every_cell_with_samples(self):
        run = RUNS[0]
        timed = [cell for cell in run.cells if cell.parts]
        for draw in (latlab.plot.percentiles, latlab.plot.cdf):
            axes = draw(run.cells)
            self.assertEqual(len(axes.get_lines()), len(timed))
        with tempfile.TemporaryDirectory() as directory:
            latlab.plot.intervals(timed).figure.savefig(Path(directory) / "intervals.png")

    def test_errors_say_what_to_do(self):
        with tempfile.TemporaryDirectory() as directory:
            with self.assertRaisesRegex(latlab.NotARun, "name a directory that `latlab run` made"):
                latlab.open(directory)
            (Path(directory) / "manifest.json").write_text('{"format": "other/1"}', encoding="utf-8")
            with self.assertRaisesRegex(latlab.NotARun, "the format is 'other/1'"):
                latlab.open(directory)
        run = RUNS[0]
        with self.assertRaisesRegex(KeyError, run.cells[0].id):
            run.cell("none")
        with self.assertRaisesRegex(KeyError, "has no metric 'speed'"):
            run.cells[0].metric("speed")

    def test_without_enough_replicates_there_is_no_interval(self):
        rng = stats.Rng(1, "a")
        self.assertIsNone(stats.estimate_of_values([1.0, 2.0], stats.Resamples(2, rng)))
        self.assertTrue(math.isnan(latlab.quantile([], 0.5)))


if __name__ == "__main__":
    unittest.main()
