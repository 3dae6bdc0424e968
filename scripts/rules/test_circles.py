from . import circles
from .case import RuleCase


class Circles(RuleCase):
    def keys(self, files):
        found = {}
        for finding in circles.find(self.tree(files)):
            found.setdefault(finding.key, []).append(finding.path.partition("/src/")[2])
        return found

    def test_files_that_use_each_other_are_a_circle(self):
        files = {
            "crates/x/src/lib.rs": "mod a;\nmod b;\nmod c;\n",
            "crates/x/src/a.rs": "use std::{fmt, io::{self, Read}};\nuse crate::{b::{B, C as D}, c};\n",
            "crates/x/src/b.rs": "use super::a::A;\n",
            "crates/x/src/c.rs": "",
        }
        both = ["a.rs", "b.rs"]
        self.assertEqual(self.keys(files), {"crates/x: use": both, "crates/x: all paths": both})

    def test_a_module_that_re_exports_what_uses_it_is_a_circle(self):
        files = {
            "crates/x/src/lib.rs": "mod a;\n",
            "crates/x/src/a/mod.rs": "mod b;\npub use b::B;\npub struct Error;\n",
            "crates/x/src/a/b.rs": "use super::Error;\n",
        }
        self.assertEqual(self.keys(files)["crates/x: use"], ["a/b.rs", "a/mod.rs"])

    def test_a_path_in_an_expression_counts_by_itself(self):
        files = {
            "crates/x/src/lib.rs": "mod a;\nmod b;\n",
            "crates/x/src/a.rs": "use crate::b::B;\n",
            "crates/x/src/b.rs": "fn f() { super::a::g() }\n",
        }
        self.assertEqual(self.keys(files), {"crates/x: all paths": ["a.rs", "b.rs"]})

    def test_one_way_passes_and_tests_and_comments_do_not_count(self):
        files = {
            "crates/x/src/lib.rs": "mod a;\nmod b;\npub use a::A;\n",
            "crates/x/src/a.rs": "use crate::b::B;\nuse other::a;\n",
            "crates/x/src/b.rs": "// use crate::a;\npub(in crate::a) fn f() {}\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n",
        }
        self.assertEqual(self.keys(files), {})

    def test_a_use_tree_is_spread_into_its_paths(self):
        tokens = circles.SEGMENT.findall("crate::{a::{B, c::D}, e, f::*}")
        paths = [("crate", "a", "B"), ("crate", "a", "c", "D"), ("crate", "e"), ("crate", "f", "*")]
        self.assertEqual(list(circles.spread(tokens)), paths)
