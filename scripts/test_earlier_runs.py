"""What earlier runs left below the build directory decides nothing: a corpus of a target that is gone, an environment of Python."""

import importlib.machinery
import importlib.util
import re
import subprocess
import tempfile
import unittest
from pathlib import Path
from unittest import mock

SCRIPTS = Path(__file__).resolve().parent
LOADER = importlib.machinery.SourceFileLoader("fuzz_guided", str(SCRIPTS / "fuzz-guided"))
fuzz_guided = importlib.util.module_from_spec(importlib.util.spec_from_loader(LOADER.name, LOADER))
LOADER.exec_module(fuzz_guided)

# Stands for PyPI: an environment whose pip says what it is asked for and whose Python imports everything.
PYTHON = """#!/bin/sh
mkdir -p "$3/bin"
printf '#!/bin/sh\n' >"$3/bin/python"
printf '#!/bin/sh\necho pip "$@"\nexit ${PIP_FAILS:-0}\n' >"$3/bin/pip"
chmod +x "$3/bin/python" "$3/bin/pip"
"""


class Corpus(unittest.TestCase):
    def test_targets_are_those_with_seeds_and_what_was_found_stays(self):
        def write_seeds(directory):
            for name in ("lab", "study"):
                (Path(directory) / name).mkdir()
                (Path(directory) / name / "seed").write_text("new")

        with tempfile.TemporaryDirectory(prefix="latlab-fuzz-test.") as place:
            for name, file in (("gone", "found"), ("lab", "found"), ("lab", "seed")):
                (Path(place) / name).mkdir(exist_ok=True)
                (Path(place) / name / file).write_text("old")
            with mock.patch.object(fuzz_guided, "write_seeds", write_seeds):
                self.assertEqual(fuzz_guided.seeded(Path(place)), ["lab", "study"])
            texts = {str(file.relative_to(place)): file.read_text() for file in Path(place).glob("*/*")}
        self.assertEqual(texts, {"gone/found": "old", "lab/found": "old", "lab/seed": "new", "study/seed": "new"})


class Environment(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory(prefix="latlab-venv-test.")
        self.addCleanup(place.cleanup)
        self.place = Path(place.name)
        (self.place / "python3").write_text(PYTHON)
        (self.place / "python3").chmod(0o755)
        self.function = re.search(r"^python_has\(\) .*?^}\n", (SCRIPTS / "run-tests").read_text(), re.M | re.S)[0]

    def installs(self, requirements, **more):
        """Whether pip is asked for it."""
        (self.place / "requirements.txt").write_text(requirements)
        run = 'set -eu\nrun() { shift; status=0; "$@" || status=$?; }\n'
        line = f'{run}{self.function}target=$PWD\npython_has module requirements.txt'
        environment = {"PATH": f"{self.place}:/usr/bin:/bin", **more}
        said = subprocess.run(["sh", "-c", line], cwd=self.place, env=environment, capture_output=True, text=True, check=True)
        return "pip install" in said.stdout

    def test_a_changed_pin_is_installed_once(self):
        self.assertEqual([self.installs(pin) for pin in ("some==1", "some==1", "some==2", "some==2")], [True, False, True, False])

    def test_a_failed_installation_is_tried_again(self):
        self.assertEqual([self.installs("some==1", PIP_FAILS="1"), self.installs("some==1")], [True, True])


if __name__ == "__main__":
    unittest.main()
