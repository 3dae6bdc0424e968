"""How `demo` and `test` go on as root and give back what they made: a checkout of their scripts, with stubs of what they call."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# As sudo: another home, only the variables that are named, and no program of the working directory.
SUDO = """#!/usr/bin/python3
import os, sys
kept = sys.argv[1].removeprefix("--preserve-env=").split(",")
environment = {name: os.environ[name] for name in kept if name in os.environ}
os.execvpe(sys.argv[2], sys.argv[2:], {**environment, "HOME": "/root", "PRETENDED": "0"})
"""
# As the one of rustup, which finds its toolchain there.
RUST = '#!/bin/sh\n[ -d "${RUSTUP_HOME:-$HOME/.rustup}/toolchains" ] || { echo "no default is configured" >&2; exit 1; }\necho "rust 1.90.0"\n'
CARGO = '#!/bin/sh\nmkdir -p target/release\nprintf \'#!/bin/sh\\necho latlab "$@"\\n\' >target/release/latlab\nchmod +x target/release/latlab\n'
STUBS = {
    "bin/sudo": SUDO,
    "bin/id": '#!/bin/sh\necho "${PRETENDED:-1000}"\n',
    "bin/cargo": CARGO,
    "bin/rustc": RUST,
    "checkout/scripts/setup": '#!/bin/sh\necho "setup $*"\nrustc --version\necho "PATH $PATH"\n',
    "checkout/scripts/run-tests": '#!/bin/sh\necho "run-tests $*"\n',
}


class Checkout(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory(prefix="latlab-root-test.")
        self.addCleanup(place.cleanup)
        self.place = Path(place.name)
        (self.place / "home/.rustup/toolchains").mkdir(parents=True)
        for name, text in STUBS.items():
            file = self.place / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            file.chmod(0o755)
        for name in ("demo", "test", "scripts/root"):
            shutil.copy(ROOT / name, self.place / "checkout" / name)

    def run_at(self, words, at=".", **more):
        environment = {"PATH": f"{self.place}/bin:/usr/bin:/bin", "HOME": f"{self.place}/home", **more}
        return subprocess.run(
            words, cwd=self.place / at, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )

    def test_root_finds_the_users_rust_and_the_systems_programs(self):
        ran = self.run_at(["checkout/demo"])
        self.assertEqual(ran.returncode, 0, ran.stdout)
        self.assertIn("\nrust 1.90.0\n", ran.stdout)
        self.assertIn(":/usr/sbin:/sbin", ran.stdout)

    def test_both_start_from_every_directory(self):
        for words, at in ((["checkout/test", "lint"], "."), (["sh", "test", "lint"], "checkout"), (["sh", "../checkout/test", "lint"], "home")):
            ran = self.run_at(words, at)
            self.assertIn("\nrun-tests lint\n", ran.stdout, words)
            self.assertEqual(ran.returncode, 0, words)

    def test_a_study_is_a_file_of_the_callers_directory_or_a_name(self):
        (self.place / "home/my.yaml").touch()
        for study, found in (("my.yaml", f"{self.place}/home/my.yaml"), ("quick", "quick")):
            self.assertIn(f"\nlatlab run {found}\n", self.run_at(["../checkout/demo", study], "home").stdout)
        self.assertIn("\nlatlab run first-light\n", self.run_at(["../checkout/demo"], "home").stdout)

    @unittest.skipUnless(os.geteuid() == 0, "only root gives files away")
    def test_the_user_gets_back_what_root_made_and_nothing_else(self):
        checkout, user = self.place / "checkout", 1234
        for file in ("web/node_modules/made", "runs/secret", "../outside/file", "../roots-own/file"):
            (checkout / file).parent.mkdir(parents=True)
            (checkout / file).touch()
        os.symlink(self.place / "outside", checkout / "web/link")
        for path in (checkout, self.place / "home/.rustup"):
            os.chown(path, user, user)
        self.run_at(["./demo"], "checkout", PRETENDED="0", SUDO_UID=f"{user}", SUDO_GID=f"{user}",
                    RUSTUP_HOME=f"{self.place}/home/.rustup", CARGO_HOME=f"{self.place}/roots-own")  # fmt: skip
        owner = lambda name: (self.place / name).lstat().st_uid
        given = ("checkout/target/release/latlab", "checkout/web/node_modules/made", "checkout/web/link", "home/.rustup/toolchains")
        self.assertEqual([owner(name) for name in given], [user] * 4)
        kept = ("checkout/runs/secret", "outside", "outside/file", "roots-own/file")
        self.assertEqual([owner(name) for name in kept], [0] * 4)


class Setup(unittest.TestCase):
    def test_a_rust_that_does_not_run_is_told_before_anything_is_installed(self):
        with tempfile.TemporaryDirectory(prefix="latlab-root-test.") as place:
            for name, text in (("rustc", RUST), ("cargo", RUST), ("apt-get", "#!/bin/sh\nexit 1\n")):
                (Path(place) / name).write_text(text)
                (Path(place) / name).chmod(0o755)
            environment = {"PATH": f"{place}:/usr/bin:/bin", "HOME": place}
            said = subprocess.run([ROOT / "scripts/setup", "build"], env=environment, capture_output=True, text=True, check=False)
        self.assertEqual(said.returncode, 2)
        self.assertIn(f"setup: {place}/cargo does not run: no default is configured\n", said.stderr)


class Usage(unittest.TestCase):
    def test_scripts_say_how_they_are_called_from_every_directory(self):
        for name, word, status in (("package", "-h", 2), ("report-image", "-h", 0), ("run-tests", "-h", 2)):
            above = f"{ROOT.name}/scripts/{name}"
            for path, at in ((f"scripts/{name}", ROOT), (above, ROOT.parent)):
                said = subprocess.run(["sh", path, word], cwd=at, capture_output=True, text=True, check=False)
                self.assertEqual(said.returncode, status, path)
                self.assertIn(f"scripts/{name} ", said.stdout + said.stderr, path)
                self.assertNotIn("sed: ", said.stderr, path)


if __name__ == "__main__":
    unittest.main()
