from . import module_files
from .case import RuleCase


class ModuleFiles(RuleCase):
    def test_every_sort_of_item_is_found_at_the_first_ones_line(self):
        items = [
            "fn f() {}", "pub(crate) const fn f() {}", "pub struct S;", "enum E {}", "impl S {}", "pub trait T {}", "const A: u8 = 1;",
            "static A: u8 = 1;", "pub type T = u8;", "macro_rules! m {}", "mod inner {\n    fn f() {}\n}", 'extern "C" fn f() {}',
        ]  # fmt: skip
        files = {f"src/a{at}/mod.rs": f"//! Prose.\nmod a;\n{item}\n" for at, item in enumerate(items)}
        found = self.found(module_files, files)
        self.assertEqual(found, sorted((path, 3, 1) for path in files))

    def test_prose_modules_and_re_exports_pass(self):
        text = "//! Prose of fn.\n\n/// Doc.\n#[cfg(test)]\nmod tests;\npub mod a;\npub(crate) use a::{\n    B, C,\n};\n"
        self.assertEqual(self.found(module_files, {"src/a/mod.rs": text, "src/b.rs": "fn f() {}\n", "tests/c/mod.rs": "fn f() {}\n"}), [])
