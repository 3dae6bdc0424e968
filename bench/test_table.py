"""What the table of a whole run says of figures, failures and parts left out, and where in a document it goes."""

import unittest

import machine
import table


def figure(**changes):
    whole = {"what": "round trip", "peer": "sockperf", "value": 1.02, "low": 0.98, "high": 1.05, "spread": "95 %"}
    return {**whole, "target": "", "n": 7, **changes}


def run(*parts, left_out=()):
    return {
        "command": "bench/all --minutes 5", "date": "2026-11-25", "commit": "abc1234", "machine": "2 x Some CPU",
        "steal": 0.031, "parts": list(parts), "left_out": list(left_out),
    }  # fmt: skip


def part(*figures, failed=None, steal=0.02, without=()):
    return {"name": "agreement", "figures": list(figures), "without": list(without), "failed": failed, "steal": steal}


class Missed(unittest.TestCase):
    def test_every_form_of_a_target_that_benchmarks_print(self):
        for target, good, bad in [
            ("target <= 1.3", 1.3, 1.301), ("<= 1.10", 1.1, 1.11), (">= 0.90", 0.9, 0.899), ("want >= 1.0", 1.0, 0.99),
            ("< 1.00", 0.999, 1.0), ("target 0.9..1.1", 1.1, 1.101), ("target 0.9..1.1", 0.9, 0.899),
            ("target <= 0", 0, 1), ("target 0.98..1.02", 1.02, 0.97),
        ]:  # fmt: skip
            self.assertFalse(table.missed(good, target), target)
            self.assertTrue(table.missed(bad, target), target)

    def test_without_a_target_nothing_is_missed(self):
        for target in ("", "(without forwarding)"):
            self.assertFalse(table.missed(100, target))
            self.assertEqual(table.target_of(target), "")


class Cells(unittest.TestCase):
    def test_an_interval_and_a_range_differ_in_their_brackets(self):
        self.assertEqual(table.ratio(figure()), "1.020 [0.980, 1.050]")
        self.assertEqual(table.ratio(figure(spread="range")), "1.020 (0.980 to 1.050)")
        self.assertEqual(table.ratio(figure(low=None, high=None)), "1.020")

    def test_a_missed_target_is_bold(self):
        self.assertEqual(table.ratio(figure(target="<= 1.0")), "**1.020** [0.980, 1.050]")

    def test_ratios_far_from_one_keep_three_digits(self):
        self.assertEqual([table.number(value) for value in (0.0712345, 0.1, 9.9994, 313.4)], ["0.0712", "0.100", "9.999", "313"])


class Render(unittest.TestCase):
    def lines(self, *arguments, **more):
        return table.render(run(*arguments, **more)).split("\n")

    def test_the_head_names_command_date_commit_machine_and_steal(self):
        head = self.lines(part(figure()))[0]
        self.assertEqual(head, "`bench/all --minutes 5`, 2026-11-25, commit abc1234. 2 x Some CPU; steal 3.1 % in all.")

    def test_only_figures_with_a_target_stand_there(self):
        lines = self.lines(part(figure(target="<= 1.1"), figure(what="other")))
        self.assertEqual(lines[-1], "| `agreement` | round trip | sockperf | 1.020 [0.980, 1.050] | <= 1.1 | 7 | 2.0 % |")
        self.assertNotIn("other", "\n".join(lines))

    def test_all_figures_of_a_part_without_targets_stand_there(self):
        lines = self.lines(part(figure(), figure(what="other", peer="")))
        self.assertEqual(lines[-1], "| `agreement` | other | – | 1.020 [0.980, 1.050] | – | 7 | 2.0 % |")
        self.assertEqual(len([line for line in lines if line.startswith("| `")]), 2)

    def test_a_failed_part_keeps_its_figures_and_says_why(self):
        lines = self.lines(part(figure(), failed="agreement: \x1b[2;35ma | b\x1b[0m\nfailed"))
        self.assertEqual(lines[-1], "| `agreement` | failed: agreement: a / b failed |  |  |  |  | 2.0 % |")
        self.assertTrue(lines[-2].startswith("| `agreement` | round trip"))

    def test_a_part_that_failed_at_once_has_no_steal(self):
        self.assertEqual(self.lines(part(failed="no", steal=None))[-1], "| `agreement` | failed: no |  |  |  |  |  |")

    def test_a_part_without_a_figure_says_what_was_not_comparable(self):
        lines = self.lines(part(without=["rate, near: not to be compared", "trip: too few"]))
        self.assertEqual(lines[-1], "| `agreement` | no figure: rate, near: not to be compared |  |  |  |  | 2.0 % |")
        lines = self.lines(part(figure(), without=["rate, near: not to be compared"]))
        self.assertNotIn("no figure", "\n".join(lines))

    def test_parts_left_out_are_named_with_the_reason(self):
        self.assertEqual(self.lines(part(figure()), left_out=[("links", "no time")])[-1], "Left out: `links` (no time).")

    def test_every_row_has_as_many_cells_as_the_head(self):
        rows = [line for line in self.lines(part(figure(what="a | b"), failed="x")) if line.startswith("|")]
        self.assertEqual({row.count("|") for row in rows}, {8})


class Machine(unittest.TestCase):
    def test_the_hypervisor_is_what_lscpu_names(self):
        self.assertEqual(machine.vendor("CPU(s):   2\nHypervisor vendor:   KVM\nVirtualization type: full\n"), "KVM")
        self.assertEqual(machine.vendor("CPU(s):   2\n"), "none")

    def test_steal_is_a_part_of_the_time_between_two_readings(self):
        self.assertEqual(machine.steal((1000, 10), (2000, 60)), 0.05)
        self.assertEqual(machine.steal((1000, 10), (1000, 10)), 0)

    def test_a_line_names_all_that_is_known(self):
        known = {"cpus": 2, "cpu": "Some CPU", "kernel": "6.1", "distribution": "Debian 12", "virtual": "none"}
        self.assertEqual(machine.line(known), "2 x Some CPU, Linux 6.1, Debian 12, not virtual")
        self.assertEqual(machine.line({**known, "virtual": "KVM"}), "2 x Some CPU, Linux 6.1, Debian 12, virtual (KVM)")


class Replaced(unittest.TestCase):
    DOCUMENT = f"before\n\n{table.BEGIN}\nold\n{table.END}\n\nafter\n"

    def test_only_what_is_between_the_markers_changes(self):
        once = table.replaced(self.DOCUMENT, "new")
        self.assertEqual(once, self.DOCUMENT.replace("old", "new"))
        self.assertEqual(table.replaced(once, "old"), self.DOCUMENT)

    def test_a_document_without_both_markers_once_in_order_is_refused(self):
        for document in ("", table.BEGIN, f"{table.END}\n{table.BEGIN}", self.DOCUMENT * 2):
            with self.assertRaisesRegex(ValueError, "bench/all: begin"):
                table.replaced(document, "new")


if __name__ == "__main__":
    unittest.main()
