import unittest

from . import ratchet
from .finding import Finding

FILE = "exceptions.toml"


def findings(*values):
    return [Finding("a.rs", "a.rs", line, value, "too long") for line, value in enumerate(values, 1)]


class Ratchet(unittest.TestCase):
    def judged(self, found, entries, limit=0):
        return ratchet.judge("rule", limit, found, entries, FILE)

    def test_a_new_finding_is_told_with_its_place_first(self):
        self.assertEqual(self.judged(findings(1), {}), ["a.rs:1: rule: too long"])

    def test_a_value_above_its_entry_is_told_with_both_numbers(self):
        self.assertEqual(self.judged(findings(1, 1), {"a.rs": 1})[-1], "a.rs:1: rule: a.rs: 2 where exceptions.toml allows 1")

    def test_a_value_at_its_entry_passes(self):
        self.assertEqual(self.judged(findings(1, 1), {"a.rs": 2}), [])
        self.assertEqual(self.judged([], {}), [])

    def test_an_entry_that_is_too_high_wants_to_shrink(self):
        self.assertIn("shrink the entry to 2", self.judged(findings(1, 1), {"a.rs": 3})[0])

    def test_an_entry_that_is_needed_no_more_wants_to_go(self):
        self.assertIn("remove the entry", self.judged([], {"a.rs": 650}, limit=600)[0])

    def test_an_update_only_lowers(self):
        entries = {"a.rs": 3, "gone.rs": 2}
        self.assertEqual(ratchet.updated(0, findings(1, 1), entries, accept=False), {"a.rs": 2})
        self.assertEqual(ratchet.updated(0, findings(1, 1), {"a.rs": 1}, accept=False), {"a.rs": 1})
        self.assertEqual(ratchet.updated(0, findings(1, 1), {}, accept=False), {})

    def test_an_update_that_accepts_writes_todays_values(self):
        self.assertEqual(ratchet.updated(0, findings(1, 1), {"a.rs": 1}, accept=True), {"a.rs": 2})

    def test_what_is_written_is_read_back(self):
        exceptions = {"rule": {"b.rs: f (2)": 71, "a.rs": 3}, "other": {"crates/x: all paths": 2}}
        self.assertEqual(ratchet.read(ratchet.written(exceptions)), exceptions)

    def test_a_line_that_is_neither_is_refused(self):
        with self.assertRaisesRegex(ValueError, "line 2 is neither"):
            ratchet.read("[rule]\na = b\n")
