"""What `scripts/cargo-test` makes of tests that fail once, twice, or in great number: a crate of its own, real runs."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

PROGRAM = Path(__file__).resolve().parent / "cargo-test"

MANIFEST = """[package]
name = "some"
version = "0.0.0"
edition = "2021"
[workspace]
"""

# A test that fails until the file is there, which its first run makes.
ONCE = """#[test]
fn NAME() {
    let file = concat!(env!("CARGO_TARGET_TMPDIR"), "/NAME");
    let ran = std::fs::metadata(file).is_ok();
    std::fs::write(file, "").unwrap();
    assert!(ran, "the first run");
}
"""
ALWAYS = "#[test]\nfn NAME() {\n    panic!();\n}\n"
NEVER = "#[test]\nfn NAME() {}\n"


class CargoTest(unittest.TestCase):
    def run_tests(self, files: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
        with tempfile.TemporaryDirectory(prefix="latlab-cargo-test.") as directory:
            crate = Path(directory)
            (crate / "Cargo.toml").write_text(MANIFEST)
            (crate / "src").mkdir()
            (crate / "src/lib.rs").write_text("")
            (crate / "tests").mkdir()
            for name, text in files.items():
                (crate / "tests" / f"{name}.rs").write_text(text)
            environment = {**os.environ, "CARGO_TARGET_DIR": str(crate / "target")}
            return subprocess.run(
                [PROGRAM, *arguments, "--quiet", "--no-fail-fast", "--test", "*"],
                cwd=crate,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )

    def test_what_fails_once_is_flaky_and_no_failure(self):
        files = {
            "first": NEVER.replace("NAME", "good") + ONCE.replace("NAME", "shaky"),
            "second": ONCE.replace("NAME", "other"),
        }
        ran = self.run_tests(files)
        self.assertEqual(ran.returncode, 0, ran.stdout)
        self.assertIn("\nflaky: other\nflaky: shaky\n", ran.stdout)
        self.assertIn("test result: flaky. 1 passed; 1 flaky;", ran.stdout)
        self.assertNotIn(" 1 failed", ran.stdout)

    def test_what_fails_twice_fails(self):
        files = {"first": ONCE.replace("NAME", "shaky") + ALWAYS.replace("NAME", "bad")}
        ran = self.run_tests(files)
        self.assertNotEqual(ran.returncode, 0, ran.stdout)
        self.assertIn("flaky: shaky\n", ran.stdout)
        self.assertNotIn("flaky: bad", ran.stdout)
        self.assertIn("2 failed;", ran.stdout)

    def test_a_killed_runner_fails_beside_a_flaky_test(self):
        killed = "#[test]\nfn killed() {\n    std::process::abort();\n}\n"
        ran = self.run_tests({"first": ONCE.replace("NAME", "shaky"), "second": killed})
        self.assertNotEqual(ran.returncode, 0, ran.stdout)
        self.assertNotIn("flaky: killed", ran.stdout)

    def test_many_failures_are_not_run_again(self):
        files = {"first": "".join(ONCE.replace("NAME", f"shaky_{number}") for number in range(4))}
        ran = self.run_tests(files)
        self.assertNotEqual(ran.returncode, 0, ran.stdout)
        self.assertNotIn("again: ", ran.stdout)

    def test_a_test_that_does_not_compile_fails(self):
        ran = self.run_tests({"first": "fn"})
        self.assertNotEqual(ran.returncode, 0, ran.stdout)

    def test_variables_reach_the_tests(self):
        text = '#[test]\nfn set() {\n    assert_eq!(std::env::var("SOME_VALUE").unwrap(), "a b");\n}\n'
        ran = self.run_tests({"first": text}, "SOME_VALUE=a b")
        self.assertEqual(ran.returncode, 0, ran.stdout)

    def test_long_tests_are_left_out_of_a_quick_run(self):
        name = "many_nodes_on_bridges"
        files = {"first": NEVER.replace("NAME", "good") + ALWAYS.replace("NAME", name)}
        quick = self.run_tests(files, "LATLAB_TEST_WHOLE=no")
        self.assertEqual(quick.returncode, 0, quick.stdout)
        self.assertIn("1 passed; 0 failed; 0 ignored; 0 measured; 1 filtered out", quick.stdout)
        whole = self.run_tests(files, "LATLAB_TEST_WHOLE=yes")
        self.assertNotEqual(whole.returncode, 0, whole.stdout)


if __name__ == "__main__":
    unittest.main()
