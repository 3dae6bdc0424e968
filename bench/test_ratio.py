"""Intervals and ranges of ratios, which rounds count, and which targets can be told."""

import importlib.machinery
import importlib.util
import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import common

LOADER = importlib.machinery.SourceFileLoader("overlay_vhost", str(Path(__file__).resolve().parent / "overlay-vhost"))
overlay_vhost = importlib.util.module_from_spec(importlib.util.spec_from_loader(LOADER.name, LOADER))
LOADER.exec_module(overlay_vhost)


def told(work):
    """The figures that `work` tells, and what it prints."""
    with mock.patch.object(common, "FIGURES", []) as figures, mock.patch("builtins.print") as printed:
        work()
        return figures, [" ".join(map(str, call.args)) for call in printed.call_args_list]


class RatioSpread(unittest.TestCase):
    def test_few_pairs_give_their_range(self):
        self.assertEqual(common.ratio_spread([(1, 2), (3, 2), (2, 2)]), (0.5, 1.5, "range"))

    def test_many_pairs_give_an_interval_around_the_ratio_of_medians(self):
        pairs = [(100 + n % 7, 50 + n % 5) for n in range(60)]
        low, high, spread = common.ratio_spread(pairs)
        self.assertEqual(spread, "95 %")
        self.assertTrue(1.8 < low <= 103 / 52 <= high < 2.1, (low, high))

    def test_one_pair_has_no_ends(self):
        self.assertEqual(common.ratio_spread([(1, 2)]), (None, None, "range"))
        (figure,), lines = told(lambda: common.ratio_line("x", [1], [2]))
        self.assertEqual((figure["value"], figure["low"], figure["high"], figure["n"]), (0.5, None, None, 1))
        self.assertNotIn("[", lines[0])


class Interval(unittest.TestCase):
    def test_few_values_give_their_range_and_one_has_no_ends(self):
        self.assertEqual(common.interval([3, 1, 2]), (2, 1, 3, "range"))
        self.assertEqual(common.interval([*range(9)]), (4, 0, 8, "range"))
        self.assertEqual(common.interval([3]), (3, None, None, "range"))

    def test_many_values_give_an_interval_within_their_range(self):
        middle, low, high, spread = common.interval([*range(30)])
        self.assertEqual(spread, "95 %")
        self.assertTrue(0 < low <= middle <= high < 29, (low, high))

    def test_the_ends_are_told_with_what_they_are(self):
        self.assertEqual(common.shown(0.5, 1.5, "range"), "[0.500..1.500, range]")
        self.assertEqual(common.shown(-0.5, 1.5, "95 %", "+.1f"), "[-0.5..+1.5, 95 %]")
        self.assertEqual(common.shown(None, None, "range"), "")


class Sides(unittest.TestCase):
    """Rounds of `bench/overlay-vhost`, which are no pairs: a side may be seen in a state in fewer of them."""

    def report(self, ours, theirs):
        rates = {("latlab", "rate"): ours, ("testpmd", "rate"): theirs}
        figures = {run: [{"near": rate} for rate in of] for run, of in rates.items()}
        ((figure,), _) = told(lambda: overlay_vhost.report(figures, ["rate"]))
        return [figure[key] for key in ("value", "low", "high", "spread", "n")]

    def test_few_rounds_give_the_range_of_all_pairs_and_count_once(self):
        self.assertEqual(self.report([8, 9, 10, 11], [20, 20, 20, 20]), [0.475, 0.4, 0.55, "range", 4])
        self.assertEqual(self.report([8, 9, 10], [10]), [0.9, 0.8, 1.0, "range", 1])
        self.assertEqual(self.report([8], [10]), [0.8, None, None, "range", 1])

    def test_many_rounds_of_both_give_an_interval(self):
        self.assertEqual(self.report([100 + n for n in range(12)], [*range(200, 210)])[3:], ["95 %", 10])

    def test_an_unknown_part_beside_a_known_one_is_refused(self):
        with mock.patch("sys.stderr"), self.assertRaises(SystemExit):
            overlay_vhost.parsed(["--only", "rate,prots"])
        self.assertEqual(overlay_vhost.parsed(["--only", "rate,trip"]).parts, ["rate", "trip"])


class Turns(unittest.TestCase):
    # As the example `turns`: the CPUs' distance before and after in ns, and of each way what arrived.
    LINES = "100 100 5,1 7,1\n100 100 0,1 7,1\n100 400 6,1 8,1\n"

    def test_a_round_with_an_empty_turn_does_not_count_and_is_told(self):
        with tempfile.TemporaryDirectory(prefix="latlab-bench-test.") as place:
            program = Path(place) / "release/examples/turns"
            program.parent.mkdir(parents=True)
            program.write_text(f"#!/bin/sh\nprintf '{self.LINES}'\n")
            program.chmod(0o755)
            rounds = []
            with mock.patch.dict(os.environ, {"CARGO_TARGET_DIR": place}):
                turns = common.turns({"a": "1234", "b": "1234"}, "tcp-rr", 1, (0, 1), "cubic")
                _, lines = told(lambda: rounds.extend(common.with_all_arrived("tcp", turns)))
        self.assertEqual(rounds, [("near", {"a": (5, 1), "b": (7, 1)}), (None, {"a": (6, 1), "b": (8, 1)})])
        self.assertEqual(lines, ["# tcp: 1 of 3 rounds do not count: nothing arrived in a turn of a"])

    def test_rounds_without_an_empty_turn_are_all_there(self):
        rounds = [("near", {"a": (5,)})] * 3
        self.assertEqual(told(lambda: self.assertEqual(common.with_all_arrived("tcp", rounds), rounds)), ([], []))


class Targets(unittest.TestCase):
    def test_a_target_that_could_never_be_missed_is_refused(self):
        for target in ("target 0", "0.98 to 1.02", "1 ms apart at most"):
            with self.assertRaisesRegex(ValueError, "cannot be missed"):
                common.figure("x", 1, target_text=target)
        for target in ("", "(without forwarding)", "target <= 0", "0.98..1.02"):
            self.assertEqual(told(lambda t=target: common.figure("x", 1, target_text=t))[0][0]["target"], target)


if __name__ == "__main__":
    unittest.main()
