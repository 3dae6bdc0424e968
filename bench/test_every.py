"""How the parts of `bench/all` divide the time, what becomes of one that fails, and what all programs need."""

import ast
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import common
import every
import needs
import table

BENCH = Path(__file__).resolve().parent
A, B, C = every.Part("a", "a", 1, 2), every.Part("b", "b", 2, 6), every.Part("c", "c", 1, 1)


class Time(unittest.TestCase):
    def test_parts_are_taken_in_order_while_their_first_rounds_fit(self):
        self.assertEqual(every.chosen([A, B, C], 4), ([A, B, C], []))
        self.assertEqual(every.chosen([A, B, C], 3.9), ([A, B], [C]))
        self.assertEqual(every.chosen([A, B, C], 2), ([A, C], [B]))
        self.assertEqual(every.chosen([A, B, C], 0.5), ([], [A, B, C]))

    def test_spare_time_is_divided_by_what_the_parts_would_use(self):
        # Five minutes beyond the first rounds are wanted.
        self.assertEqual(every.share([A, B, C], 9), 2)
        self.assertEqual(every.share([A, B, C], 100), 2)
        self.assertEqual(every.share([A, B, C], 6.5), 1.5)
        self.assertEqual(every.share([B, C], 5), 4)
        self.assertEqual(every.share([C], 30), 1)
        self.assertEqual(every.share([A, B, C], 1), 1)

    def test_half_an_hour_has_time_for_every_part(self):
        self.assertEqual(every.chosen(every.PARTS, 30), (every.PARTS, []))
        self.assertTrue(all(0 < part.smallest <= part.usual for part in every.PARTS))

    def test_rounds_and_stages_end_with_the_time(self):
        with mock.patch.dict(common.state_of_run, {"ends": [0.0]}):
            self.assertEqual(list(common.rounds(5)), [0])
            self.assertEqual(list(common.rounds(5, smallest=0)), [])
            self.assertEqual(list(common.rounds(5, smallest=2)), [0, 1])
            self.assertEqual(common.seconds(60), 2)
            self.assertEqual(list(common.stages("ab")), ["a", "b"])
            self.assertEqual(common.state_of_run["ends"], [0.0])
        self.assertEqual(list(common.rounds(5)), [0, 1, 2, 3, 4])
        self.assertEqual(common.seconds(60), 60)


class Parts(unittest.TestCase):
    """Programs that stand for benchmarks, run as those are."""

    def measured(self, body, grace=every.GRACE):
        with tempfile.TemporaryDirectory(prefix="latlab-bench-test.") as place, mock.patch.object(every, "BENCH", Path(place)):
            (Path(place) / "some").write_text(
                f"import sys\nsys.path.insert(0, {str(BENCH)!r})\nimport common\n"
                "arguments = common.parser('').parse_args()\n"
                "common.state_of_run['json'] = open(arguments.json, 'w')\n"
                f"def main():\n{body}\ncommon.run(main)\n"
            )
            with mock.patch("builtins.print"), mock.patch.object(every, "GRACE", grace):
                return every.measured(every.Part("some", "some", 1, 1), 0.01, Path(place))[0]

    def test_figures_come_back(self):
        result = self.measured("    common.figure('x', 1.5, 1.4, 1.6, '<= 2', 3)")
        self.assertIsNone(result["failed"])
        self.assertEqual([(one["what"], one["value"], one["n"]) for one in result["figures"]], [("x", 1.5, 3)])

    def test_a_failure_keeps_the_figures_so_far_and_its_words(self):
        result = self.measured("    common.figure('x', 1.5)\n    sys.exit('no wire')")
        self.assertEqual((result["failed"], len(result["figures"])), ("no wire", 1))

    def test_an_error_of_a_command_is_a_line_not_a_trace(self):
        result = self.measured("    import subprocess\n    subprocess.run(['false'], check=True)")
        self.assertEqual(result["failed"], "`false` ended with 1")

    def test_a_missing_program_is_named(self):
        result = self.measured("    import subprocess\n    subprocess.run(['no-such-program'])")
        self.assertTrue(result["failed"].startswith("no-such-program is not there"), result["failed"])

    def test_a_fault_of_the_program_itself_is_a_failure(self):
        self.assertEqual(self.measured("    raise ValueError('x')")["failed"], "ValueError: x")

    def test_a_program_that_tells_no_figure_has_failed(self):
        self.assertEqual(self.measured("    pass")["failed"], "it told no figure")

    def test_a_machine_that_is_too_busy_for_a_figure_is_no_failure(self):
        result = self.measured("    common.no_figure('rate', 'not to be compared')")
        self.assertEqual((result["failed"], result["without"]), (None, ["rate: not to be compared"]))

    def test_a_program_that_hangs_is_ended_and_keeps_its_figures(self):
        body = "    import time\n    common.figure('x', 1.5)\n    time.sleep(600)"
        result = self.measured(body, grace=(1, 0.15))
        self.assertIn("was ended", result["failed"])
        self.assertEqual([one["what"] for one in result["figures"]], ["x"])


class Terminated(unittest.TestCase):
    """Programs that clean up for longer than their parents take to pass a signal on."""

    def is_clean_after(self, enter, end):
        with tempfile.TemporaryDirectory(prefix="latlab-bench-test.") as place:
            program, cleaned = Path(place) / "some", Path(place) / "cleaned"
            program.write_text(
                f"import subprocess, sys, time\nsys.path.insert(0, {str(BENCH)!r})\nimport common\n{enter}\n"
                "try:\n    print('ready', flush=True)\n    time.sleep(20)\n"
                f"finally:\n    subprocess.run(['sh', '-c', 'sleep 0.3; touch {cleaned}'])\n"
            )
            with subprocess.Popen([sys.executable, "-B", program], stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
                self.assertEqual(process.stdout.readline(), "ready\n")
                end(process)
                process.stdout.read()
            return process.returncode, cleaned.exists()

    def test_a_session_that_is_ended_cleans_up(self):
        enter = "import signal\ncommon.go_on_in_a_child()\nsignal.signal(signal.SIGTERM, common.terminated)"
        self.assertEqual(self.is_clean_after(enter, every.end), (143, True))

    @unittest.skipUnless(os.geteuid() == 0, "namespaces need root")
    def test_a_benchmark_that_is_ended_alone_or_as_a_session_cleans_up(self):
        for end in (subprocess.Popen.terminate, every.end):
            self.assertEqual(self.is_clean_after("common.enter()", end), (143, True), end)


class Left(unittest.TestCase):
    @unittest.skipUnless(os.geteuid() == 0, "namespaces need root")
    def test_hosts_that_cannot_all_be_made_leave_no_namespace(self):
        with tempfile.TemporaryDirectory(prefix="latlab-bench-test.") as place:
            program = Path(place) / "some"
            # A name with a slash is none of a namespace.
            program.write_text(
                f"import runpy, sys\nsys.path.insert(0, {str(BENCH)!r})\nimport common\ncommon.enter()\n"
                f"hosts = runpy.run_path({str(BENCH / 'adaptation')!r})['hosts']\n"
                "print(common.lab_name('one'), flush=True)\n"
                "with hosts(['one', 'no/name']):\n    print('made')\n"
            )
            said = subprocess.run([sys.executable, "-B", program], capture_output=True, text=True, check=False)
        self.assertIn("no/name", said.stderr)
        self.assertRegex(said.stdout, r"^one-[0-9a-f]+\n$")
        self.assertFalse((Path("/run/netns") / said.stdout.strip()).exists())


class Programs(unittest.TestCase):
    def programs(self):
        return sorted(path.name for path in BENCH.iterdir() if path.is_file() and path.stat().st_mode & 0o100 and path.name != "all")

    def test_every_program_says_what_it_needs_and_setup_knows_the_packages(self):
        words, built = set(), set()
        for name in self.programs():
            needed = every.needs_of(every.Part(name, name, 1, 1))
            words |= {f"tool:{tool}" for tool in needed.tools} | {f"tool:python3:{module}" for module in needed.python}
            self.assertLessEqual(set(needed.kernel), set(needs.KERNEL), name)
            built |= set(needed.built)
        self.assertGreater(len(words), 20)
        said = subprocess.run(
            [BENCH.parent / "scripts/setup", "--packages", *sorted(words)], capture_output=True, text=True, check=False
        )
        self.assertEqual((said.returncode, said.stderr), (0, ""))
        crates = BENCH.parent / "crates"
        examples = {f"examples/{path.stem}" for path in crates.glob("*/examples/*")}
        self.assertEqual(built - examples, {"latlab", "latlab-agent", "latlab-overlay", "latlab-streams"})

    def test_needs_are_those_of_the_parts(self):
        of = lambda words: every.needs_of(every.Part("", words, 1, 1))
        self.assertEqual([of(f"agreement {part}").fetched for part in ("trips", "gaps")], [(), ("criu",)])
        phases, carrier, route = (of(f"adaptation {part}") for part in ("phases", "carrier", "route"))
        self.assertLessEqual({"crun", "python3"}, set(phases.tools))
        self.assertLessEqual({"latlab-agent", "latlab-streams"}, set(phases.built))
        self.assertFalse({"latlab-agent", "latlab-streams"} & set(route.built))
        self.assertEqual([(one.kernel, "iperf3" in one.tools) for one in (phases, carrier, route)], [
            (("veth", "clsact"), False), (("veth", "clsact"), True), (("veth", "clsact", "tbf"), True),
        ])  # fmt: skip
        self.assertEqual(of("adaptation"), route | phases)

    def test_every_target_can_be_read(self):
        begins, found = re.compile(r"(target|want)\b.*\d|[<>]=? *\d|[0-9.]+\.\.\d"), []
        for path in (path for path in BENCH.iterdir() if path.name in self.programs() or path.name == "lab.py"):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            parts = {part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
            for node in ast.walk(tree):
                values = node.values if isinstance(node, ast.JoinedStr) else [node]
                if node in parts or not all(isinstance(value, (ast.Constant, ast.FormattedValue)) for value in values):
                    continue
                # A number stands for what is put into a text.
                text = "".join(str(value.value) if isinstance(value, ast.Constant) else "1" for value in values)
                if isinstance(values[0], ast.Constant) and begins.match(text):
                    found.append(text)
                    self.assertTrue(table.target_of(text), f"{path.name}: {text}")
        self.assertGreater(len(found), 40)

    def test_one_command_builds_all_programs(self):
        plain = ["cargo", "build", "--release", "--locked"]
        self.assertEqual(needs.build([]), [])
        self.assertEqual(needs.build(["latlab", "latlab-agent"]), [plain])
        both = needs.build(["examples/observe", "latlab", "examples/turns"])
        self.assertEqual(both, [[*plain, "--workspace", "--bins", "--example", "observe", "--example", "turns"]])

    def test_every_program_is_part_of_the_whole_run(self):
        self.assertEqual(sorted({part.program for part in every.PARTS}), self.programs())

    def test_a_missing_tool_is_named_with_what_brings_it(self):
        lacking = needs.missing(needs.Needs(tools=("no-such-tool", "sh"), python=("no_such_module",), built=()))
        self.assertEqual(lacking.packages, ["tool:no-such-tool", "tool:python3:no_such_module"])
        self.assertEqual(lacking.commands()[0], ["scripts/setup", "tool:no-such-tool", "tool:python3:no_such_module"])
        self.assertEqual(lacking.names()[:2], ["no-such-tool", "Python's no_such_module"])

    def test_setup_refuses_a_tool_without_a_package_before_it_installs(self):
        setup = BENCH.parent / "scripts/setup"
        said = subprocess.run([setup, "tool:no-such-tool"], capture_output=True, text=True, check=False)
        self.assertEqual(said.returncode, 2)
        self.assertIn("no package is known for no-such-tool", said.stderr)

    def test_a_wrong_flag_is_one_line_with_the_programs_name(self):
        for name in self.programs():
            said = subprocess.run([sys.executable, "-B", BENCH / name, "--wrong"], capture_output=True, text=True, check=False)
            self.assertEqual((said.returncode, said.stderr.count("\n"), said.stderr.split(":")[0]), (2, 1, name))

    def test_a_document_without_a_place_for_the_table_is_refused_at_once(self):
        with tempfile.NamedTemporaryFile("w", suffix=".md") as file, self.assertRaises(SystemExit) as end:
            every.writable(file.name)
        self.assertIn("bench/all: begin", end.exception.code)
        with self.assertRaises(SystemExit) as end:
            every.writable("/nowhere/results.md")
        self.assertIn("No such file or directory", end.exception.code)

    def test_the_results_have_a_place_for_the_table(self):
        text = (BENCH.parent / "docs/results.md").read_text(encoding="utf-8")
        self.assertIn("| part |", table.replaced(text, "| part |"))


if __name__ == "__main__":
    unittest.main()
