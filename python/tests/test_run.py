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

RUNS = [Path(run) for run in os.environ["LATLAB_TEST_RUNS"].split(":")]


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
        for run in map(latlab.open, RUNS):
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

    def test_ratios_are_those_of_the_summary(self):
        compared = 0
        for run in map(latlab.open, RUNS):
            for told in run.summary["cells"]:
                comparison = told.get("comparison")
                if not comparison or comparison["quantity"] != "median latency":
                    continue
                ratio = run.cell(told["id"]).ratio_to(run.cell(comparison["baseline"]))
                if comparison.get("ratio_ci95"):
                    self.assert_same(ratio.value, comparison["ratio"], told["id"])
                    self.assert_same_interval(ratio, comparison["ratio_ci95"], told["id"])
                    compared += 1
        self.assertGreater(compared, 3)

    def test_metrics_are_those_of_the_summary(self):
        compared = 0
        for run in map(latlab.open, RUNS):
            for cell in run.cells:
                told = next(one for one in run.summary["cells"] if one["id"] == cell.id)
                for metric in told["metrics"]:
                    estimate = cell.metric_estimate(metric["name"])
                    self.assert_same_interval(estimate, metric.get("ci95"), f"{cell.id} {metric['name']}")
                    compared += 1
        self.assertGreater(compared, 3)

    def test_tables_have_a_row_for_each_cell(self):
        for run in map(latlab.open, RUNS):
            table = run.to_table()
            self.assertEqual(table.num_rows, len(run.cells))
            frame = run.to_pandas()
            self.assertEqual(list(frame["cell"]), [cell.id for cell in run.cells])
            self.assertEqual(run.to_polars().height, len(run.cells))
            timed = [cell for cell in run.cells if cell.parts]
            samples = timed[0].samples()
            self.assertEqual(set(samples["trial"].unique().to_pylist()), {one.record["trial"] for one in timed[0].trials})

    def test_plots_draw_every_cell_with_samples(self):
        run = latlab.open(RUNS[0])
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
        run = latlab.open(RUNS[0])
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
