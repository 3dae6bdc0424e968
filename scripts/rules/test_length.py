from . import file_length, function_length
from .case import RuleCase

LONG = "\n" * 601


class FileLength(RuleCase):
    def test_a_long_file_of_each_language_is_found(self):
        files = {f"src/long{ending}": LONG for ending in (".rs", ".ts", ".c", ".h", ".py")}
        files["tool"] = "#!/bin/sh\n" + LONG
        self.assertEqual(len(self.found(file_length, files)), len(files))

    def test_600_lines_pass_and_tests_do_not_count(self):
        tail = "#[cfg(test)]\nmod tests {\n" + LONG + "}\n"
        files = {"src/a.rs": "\n" * 600 + tail, "tests/b.rs": LONG, "src/test_c.py": LONG, "long.md": LONG}
        self.assertEqual(self.found(file_length, files), [])

    def test_a_file_that_only_tests_compile_does_not_count(self):
        files = {"src/a.rs": "#[cfg(test)]\nmod cases;\n", "src/a/cases.rs": LONG}
        self.assertEqual(self.found(file_length, files), [])


class FunctionLength(RuleCase):
    def test_long_functions_of_each_language_are_found_at_their_line(self):
        body = "\n" * 70
        files = {
            "src/a.rs": "\npub fn a<F>(f: F, x: [u8; 4]) -> F\nwhere\n    F: Fn(u8) -> u8,\n{" + body + "}\n",
            "b.c": 'SEC("tc")\nint BPF_PROG(b, struct ctx *x) {' + body + "}\n",
            "c.py": "def c():\n" + body + "    return 1\n",
        }
        self.assertEqual(self.found(function_length, files), [("b.c", 2, 71), ("c.py", 1, 72), ("src/a.rs", 2, 74)])

    def test_70_lines_pass_and_tests_do_not_count(self):
        body = "\n" * 69
        long = "fn b() {" + "\n" * 90 + "}\n"
        files = {
            "src/a.rs": "fn a() {" + body + "}\ntrait T { fn c(); }\n#[cfg(test)]\nmod tests {\n" + long + "}\n",
            "tests/b.rs": long,
            "c.c": "struct a x = {" + "\n" * 90 + "};\nint c(int a) {" + body + "}\n",
        }
        self.assertEqual(self.found(function_length, files), [])

    def test_functions_of_one_name_have_an_entry_each(self):
        long = "fn a() {" + "\n" * 80 + "}\n"
        keys = [finding.key for finding in function_length.find(self.tree({"src/a.rs": long + long}))]
        self.assertEqual(keys, ["src/a.rs: a", "src/a.rs: a (2)"])
