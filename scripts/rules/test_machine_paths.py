import os
import subprocess

from . import machine_paths
from .case import RuleCase


class MachinePaths(RuleCase):
    def test_a_path_below_a_home_is_found(self):
        files = {"a.md": "see\n/home/me/notes\n", "b.rs": 'open("/work/x");\n', "c": "cd /root/it\n"}
        self.assertEqual(self.found(machine_paths, files), [("a.md", 2, 1), ("b.rs", 1, 1), ("c", 1, 1)])

    def test_other_paths_tests_and_binaries_pass(self):
        files = {"a.md": "/tmp/work/x, $HOME/x, ./work/x, a/home/b, /usr\n", "tests/b.rs": "/home/me/x\n", "c": "\0/work/x\n"}
        self.assertEqual(self.found(machine_paths, files), [])

    def test_a_commit_message_is_read(self):
        tree = self.tree({"a": ""})
        identity = {f"GIT_{role}_{what}": "a@b.c" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        for command in (["init", "--quiet"], ["commit", "--quiet", "--allow-empty", "--message", "a: b\n\nsee /work/notes/x"]):
            subprocess.run(["git", "-C", tree.root, *command], check=True, env={**os.environ, **identity})
        self.assertEqual([finding.line for finding in machine_paths.find(tree)], [3])
