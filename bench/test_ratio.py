"""Intervals of ratios."""

import unittest

import common


class RatioSpread(unittest.TestCase):
    def test_few_pairs_give_their_range(self):
        self.assertEqual(common.ratio_spread([(1, 2), (3, 2), (2, 2)]), (0.5, 1.5, "range"))

    def test_many_pairs_give_an_interval_around_the_ratio_of_medians(self):
        pairs = [(100 + n % 7, 50 + n % 5) for n in range(60)]
        low, high, spread = common.ratio_spread(pairs)
        self.assertEqual(spread, "95 %")
        self.assertTrue(1.8 < low <= 103 / 52 <= high < 2.1, (low, high))


if __name__ == "__main__":
    unittest.main()
