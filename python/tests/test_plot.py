"""Plots of estimates: what is drawn, and where."""

import unittest

import latlab


class Plots(unittest.TestCase):
    def test_bars_stand_in_groups_with_their_intervals_and_leave_gaps(self):
        estimate = latlab.median([90.0, 100.0, 110.0])
        axes = latlab.plot.bars({"one": {"a": estimate, "b": 20}, "two": {"a": None, "b": 30}}, per=10)
        self.assertEqual([text.get_text() for text in axes.get_xticklabels()], ["one", "two"])
        found = {(round(bar.get_x() + bar.get_width() / 2, 3), bar.get_height()) for bar in axes.patches}
        self.assertEqual(found, {(-0.2, 10.0), (0.2, 2.0), (1.2, 3.0)})
        low, high = estimate.interval
        whisker = axes.collections[0].get_segments()[0]
        self.assertAlmostEqual(whisker[0][1], low / 10)
        self.assertAlmostEqual(whisker[1][1], high / 10)

    def test_lines_pass_over_what_is_not_known(self):
        axes = latlab.plot.lines({"a": {1: 10, 2: None, 4: 40}}, per=10)
        line = axes.get_lines()[0]
        self.assertEqual((list(line.get_xdata()), list(line.get_ydata())), ([1, 4], [1.0, 4.0]))


if __name__ == "__main__":
    unittest.main()
