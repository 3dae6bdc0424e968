"""The newest run of a study among directories of runs."""

import json
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import latlab


class Newest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.runs = Path(directory.name)

    def add(self, name, study="boot", started="2026-11-28T10:00:00Z", state="complete", **further):
        manifest = {"format": "latlab.manifest/1", "id": name, "study": study, "started": started, "cells": [], "order": []}
        (self.runs / name).mkdir()
        manifest |= {"state": {"state": state}, **further}
        (self.runs / name / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")

    def test_the_newest_whole_run_of_the_study_is_found(self):
        self.add("z-old")
        self.add("a-new", started="2026-11-28T12:00:00Z")
        self.add("other", study="density", started="2026-11-29T10:00:00Z")
        self.add("running", started="2026-11-29T10:00:00Z", state="running")
        self.add("part", started="2026-11-29T10:00:00Z", part={"number": 1, "of": 2})
        (self.runs / "no-run").mkdir()
        (self.runs / "no-run/manifest.json").write_text("{}", encoding="utf-8")
        self.assertEqual(latlab.newest("boot", self.runs).manifest["id"], "a-new")
        with mock.patch.dict("os.environ", LATLAB_RUNS=str(self.runs)):
            self.assertEqual(latlab.newest("boot").manifest["id"], "a-new")

    def test_without_one_the_error_says_how_to_make_it(self):
        with self.assertRaisesRegex(latlab.NoRun, f"study `boot` in {self.runs}.*`sudo latlab run boot --runs"):
            latlab.newest("boot", self.runs)


if __name__ == "__main__":
    unittest.main()
