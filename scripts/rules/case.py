"""A made-up repository for the tests of the rules."""

import os
import tempfile
import unittest

from .tree import Tree


class RuleCase(unittest.TestCase):
    """A test with a folder of its own, which is no checkout."""

    def tree(self, files):
        """A tree of {path: text}."""
        folder = tempfile.TemporaryDirectory(prefix="latlab-rules.")
        self.addCleanup(folder.cleanup)
        for path, text in files.items():
            whole = os.path.join(folder.name, path)
            os.makedirs(os.path.dirname(whole), exist_ok=True)
            with open(whole, "w", encoding="utf-8") as file:
                file.write(text)
        return Tree(folder.name)

    def found(self, rule, files):
        """What a rule finds in {path: text}, as (path, line, value)."""
        return [(finding.path, finding.line, finding.value) for finding in rule.find(self.tree(files))]

    def texts(self, rule, files):
        """What a rule says of {path: text}."""
        return [finding.text for finding in rule.find(self.tree(files))]
