"""The tests that a quick run leaves out: each name is a test's."""

import glob
import os
import re
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def names():
    with open(os.path.join(ROOT, "scripts/long-tests"), encoding="utf-8") as file:
        lines = [line.strip() for line in file]
    return [line for line in lines if line and not line.startswith("#")]


class LongTests(unittest.TestCase):
    def test_each_name_is_a_tests(self):
        files = glob.glob(os.path.join(ROOT, "crates/*/tests/**/*.rs"), recursive=True)
        functions = set()
        for path in files:
            with open(path, encoding="utf-8") as file:
                functions.update(re.findall(r"^ *fn (\w+)\(\)", file.read(), re.MULTILINE))
        self.assertGreater(len(functions), 100)
        self.assertEqual([name for name in names() if name not in functions], [])

    def test_no_name_is_there_twice(self):
        self.assertEqual(len(set(names())), len(names()))


if __name__ == "__main__":
    unittest.main()
