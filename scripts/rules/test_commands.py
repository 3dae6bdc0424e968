import os
import stat
from unittest import mock

from . import commands
from .case import RuleCase

# Two verbs, one of which has a flag and one verbs of its own; `validate` finds fault with what says so.
PROGRAM = r"""#!/bin/sh
case "$*" in
--help) printf 'Usage\n\nCommands:\n  validate  Check\n  tune      Quiet\n  host      Switch\n\nOptions:\n' ;;
"host --help") printf 'Usage: latlab host [OPTIONS] <HOST> <COMMAND>\n\nCommands:\n  power  Switch\n\nOptions:\n' ;;
"tune --help") printf 'Usage\n\nCommands:\n  export  Write\n\nOptions:\n' ;;
"tune export --help") printf 'Options:\n      --cmdline  Print\n' ;;
"validate --help") printf 'Options:\n  -h, --help\n' ;;
validate*) ! grep bad "$2" ;;
esac
"""


class Commands(RuleCase):
    def run_rule(self, readme, program=True):
        files = {"README.md": readme, "labs/pair.yaml": "good\n", "labs/worse.yaml": "bad\n", "studies/a.yaml": ""}
        if program:
            files["target/release/latlab"] = PROGRAM
        tree = self.tree(files)
        if program:
            os.chmod(os.path.join(tree.root, "target/release/latlab"), stat.S_IRWXU)
        with mock.patch.dict(os.environ):
            os.environ.pop("CARGO_TARGET_DIR", None)
            return commands.skipped(tree), [(finding.line, finding.text) for finding in commands.find(tree)]

    def test_a_name_may_stand_before_a_verb(self):
        _, found = self.run_rule("```\nlatlab host dut power\nlatlab host dut powre\n```\n")
        self.assertEqual([line for line, _ in found], [3])

    def test_verbs_and_flags_that_are_not_there_are_found(self):
        block = "```\nlatlab tnue\nlatlab tune exprt\nsudo latlab tune export --cmd \\\n  x | cat\n```\n"
        _, found = self.run_rule(block)
        self.assertEqual([line for line, _ in found], [2, 3, 5])
        self.assertIn("has no verb tnue", found[0][1])
        self.assertIn("has no --cmd", found[2][1])

    def test_a_command_that_needs_no_root_is_run_on_the_files_shown(self):
        block = "```yaml\n# mine.yaml\nbad\n```\n```\nlatlab validate mine.yaml\nlatlab validate labs/worse.yaml\n```\n"
        _, found = self.run_rule(block)
        self.assertEqual([line for line, _ in found], [6, 7])
        self.assertIn("exits with 1", found[0][1])

    def test_right_commands_pass_and_other_blocks_are_not_read(self):
        block = (
            "```\n$ latlab tune export --cmdline isolated  # why --not\nlatlab validate labs/pair.yaml\n"
            "latlab validate FILE.yaml\ncat latlab tnue\n```\n```rust\nlatlab tnue\n```\n"
        )
        self.assertEqual(self.run_rule(block), (None, []))

    def test_without_a_build_it_says_that_it_is_skipped(self):
        skipped, found = self.run_rule("```\nlatlab tnue\n```\n", program=False)
        self.assertIn("no latlab is built", skipped)
        self.assertEqual(found, [])
