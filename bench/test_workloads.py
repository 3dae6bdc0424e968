"""What `bench/workloads` makes in a node by hand."""

import importlib.machinery
import importlib.util
import subprocess
import unittest
from pathlib import Path
from unittest import mock

LOADER = importlib.machinery.SourceFileLoader("workloads", str(Path(__file__).resolve().parent / "workloads"))
workloads = importlib.util.module_from_spec(importlib.util.spec_from_loader(LOADER.name, LOADER))
LOADER.exec_module(workloads)


class Host:
    """The host as a native node: its shell, without a network namespace or a cgroup."""

    enter = ()

    def __init__(self):
        self.lines = []

    def sh(self, line):
        self.lines.append(line)
        return subprocess.run(["sh", "-ec", line], check=True, capture_output=True, text=True).stdout


class MadeDirectory(unittest.TestCase):
    def test_its_name_is_new_and_it_is_roots_alone_until_it_goes(self):
        with workloads.made_directory(Host()) as one, workloads.made_directory(Host()) as other:
            self.assertNotEqual(one, other)
            self.assertEqual(Path(one).stat().st_mode & 0o777, 0o700)
        self.assertEqual((Path(one).exists(), Path(other).exists()), (False, False))

    def test_it_goes_when_xz_fails(self):
        host = Host()
        with mock.patch.object(workloads.common.needs, "path_of", return_value="/bin/echo"):
            self.assertRaises(subprocess.CalledProcessError, workloads.xz_by_hand, host, "no number")
        made = host.lines[-1].split()[-1]
        self.assertTrue(made.startswith("/dev/shm/latlab."), made)
        self.assertFalse(Path(made).exists())


if __name__ == "__main__":
    unittest.main()
