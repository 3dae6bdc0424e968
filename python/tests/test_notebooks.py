"""The notebooks, each run from the first cell to the last on the runs below LATLAB_RUNS."""

import json
import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "python/notebooks").glob("*.ipynb"))


def executed(path, runs):
    notebook = nbformat.read(path, as_version=4)
    # The kernel inherits the environment, and draws into the notebook unless that says otherwise.
    environment = mock.patch.dict(os.environ, LATLAB_RUNS=runs)
    with tempfile.TemporaryDirectory() as directory, environment:
        os.environ.pop("MPLBACKEND", None)
        NotebookClient(notebook, timeout=120, resources={"metadata": {"path": directory}}).execute()
    return notebook


def outputs(cell):
    return [kind for output in cell.get("outputs", []) for kind in output.get("data", {"text": None})]


class Notebooks(unittest.TestCase):
    def test_every_paper_has_one(self):
        papers = sorted(path.stem for path in (ROOT / "papers").glob("*.yaml"))
        self.assertEqual([path.stem for path in NOTEBOOKS], papers)

    def test_they_are_committed_formatted_and_without_outputs(self):
        for path in NOTEBOOKS:
            with self.subTest(path.stem):
                text = path.read_text(encoding="utf-8")
                notebook = json.loads(text)
                self.assertEqual(text, json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
                nbformat.validate(nbformat.from_dict(notebook))
                self.assertEqual(notebook["metadata"]["kernelspec"]["name"], "python3")
                for cell in notebook["cells"]:
                    self.assertEqual((cell.get("outputs", []), cell.get("execution_count")), ([], None))

    def test_they_run_and_show_a_table_and_plots(self):
        for path in NOTEBOOKS:
            with self.subTest(path.stem):
                notebook = executed(path, os.environ["LATLAB_RUNS"])
                shown = {cell["id"]: outputs(cell) for cell in notebook.cells}
                self.assertIn("text/html", shown["published-table"])
                plots = [id for id in shown if id.endswith("-plot")]
                self.assertGreaterEqual(len(plots), 2)
                for id in plots:
                    self.assertIn("image/png", shown[id], id)

    def test_without_a_run_they_say_how_to_make_one(self):
        with tempfile.TemporaryDirectory() as empty:
            for path in NOTEBOOKS:
                with self.subTest(path.stem):
                    with self.assertRaisesRegex(CellExecutionError, "no whole run of study .*sudo latlab run"):
                        executed(path, empty)


if __name__ == "__main__":
    unittest.main()
