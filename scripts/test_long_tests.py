"""The tests that a quick run leaves out: each name is a test's."""

import glob
import importlib.machinery
import importlib.util
import os
import re
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


LOADER = importlib.machinery.SourceFileLoader("cargo_test", os.path.join(ROOT, "scripts/cargo-test"))
cargo_test = importlib.util.module_from_spec(importlib.util.spec_from_loader(LOADER.name, LOADER))
LOADER.exec_module(cargo_test)


class LongTests(unittest.TestCase):
    def test_each_name_is_a_tests(self):
        files = glob.glob(os.path.join(ROOT, "crates/*/tests/**/*.rs"), recursive=True)
        functions = set()
        for path in files:
            with open(path, encoding="utf-8") as file:
                functions.update(re.findall(r"^ *fn (\w+)\(\)", file.read(), re.MULTILINE))
        self.assertGreater(len(functions), 100)
        self.assertEqual([name for name in cargo_test.long_tests() if name not in functions], [])

    def test_no_name_is_there_twice(self):
        names = cargo_test.long_tests()
        self.assertEqual(len(set(names)), len(names))

    def test_the_runner_is_told_after_its_own_arguments(self):
        self.assertEqual(cargo_test.without(["a"], ["--test", "x"]), ["--test", "x", "--", "--skip", "a"])
        given = ["--test", "x", "--", "--test-threads=1"]
        self.assertEqual(cargo_test.without(["a", "b"], given), [*given, "--skip", "a", "--skip", "b"])


if __name__ == "__main__":
    unittest.main()
