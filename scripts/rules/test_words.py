from . import dialect, sentences
from .case import RuleCase

LONG = "A " + "word " * 40 + "ends."


class Sentences(RuleCase):
    def test_a_long_sentence_is_found_where_it_begins(self):
        halves = "A " + "word " * 20 + "\n{}" + "word " * 20 + "ends.\n"
        files = {
            "a.md": "# Title\n\nShort one.\n" + halves.format(""),
            "src/b.rs": "/// " + halves.format("/// ") + "fn b() {}\n",
            "src/c.rs": f'#[error("{LONG}")]\nstruct C;\n',
            "d.c": "/* " + halves.format(" * ") + " */\n",
        }
        expected = [("a.md", 4, 1), ("d.c", 1, 1), ("src/b.rs", 1, 1), ("src/c.rs", 1, 1)]
        self.assertEqual(self.found(sentences, files), expected)

    def test_40_words_pass_and_code_links_cells_and_items_are_not_sentences(self):
        files = {
            "a.md": f"A {'word ' * 38}ends.\n\n```\n{LONG}\n```\n\n- {'word ' * 30}\n- {'word ' * 30}\n\n"
            f"| {'word ' * 30} | {'word ' * 30} |\n\n`{LONG}` [a]({'b/' * 50})\n",
            "src/b.rs": f"// {LONG}\nfn b() {{ let x = \"{LONG}\"; }}\n",
            "src/d.rs": f'#[command(after_help = "\\\nExamples:\n  {LONG}\n\nIt {"word " * 20}\\\n  {"word " * 10}ends.")]\n',
            "src/e.rs": f"//! # Heading\n//! A {'word ' * 38}ends.\n",
            "tests/c.rs": f"/// {LONG}\nfn c() {{}}\n",
        }
        self.assertEqual(self.found(sentences, files), [])


class Dialect(RuleCase):
    def test_words_of_the_list_are_found_with_what_to_say_instead(self):
        files = {"src/a.rs": "/// Asks whoever\n/// has so many soft\n/// interrupts.\nfn a() {}\n"}
        self.assertEqual(
            self.texts(dialect, files),
            [
                "“whoever”: name the process, peer or user",
                "“so many”: the number's name",
                "“soft interrupts”: softirq",
            ],
        )

    def test_documents_comments_help_and_errors_are_read(self):
        files = {
            "a.md": "Two processors.\n",
            "b.py": "# Two processors.\n",
            "c.ts": "// Two processors.\n",
            "d.c": "/* Two processors. */\n",
            "e.rs": '#[error("two processors")]\nstruct E;\n',
            "f": "#!/bin/sh\n# Two processors.\n",
            "g": '#!/usr/bin/python3\n"""Usage of g.\n\nTwo\nprocessors.\n"""\n',
            "h.py": 'def h():\n    """Two processors."""\n',
        }
        self.assertEqual(len(self.found(dialect, files)), len(files))

    def test_literals_of_rust_and_typescript_are_read(self):
        files = {
            "a.rs": 'fn a() {\n    call("name two processors");\n    call(r#"say "so many" of them"#);\n}\n',
            "b.ts": "const b = 'two processors';\nconst c = `${n} soft interrupts`; // \"it's\" no literal\nconst d = \"end point d\";\n",
        }
        expected = [("a.rs", 2, 1), ("a.rs", 3, 1), ("b.ts", 1, 1), ("b.ts", 2, 1), ("b.ts", 3, 1)]
        self.assertEqual(self.found(dialect, files), expected)

    def test_literals_of_keys_tests_and_fuzz_seeds_pass(self):
        literal = 'fn a() { call("two processors"); }\n'
        files = {
            "a.rs": f'fn a() {{ call("processors"); call("`processor` 1"); }}\n\n#[cfg(test)]\nmod tests {{\n    {literal}}}\n',
            "tests/b.rs": literal,
            "fuzz/src/c.rs": literal,
            "d.ts": "const key = 'processors';\n",
        }
        self.assertEqual(self.found(dialect, files), [])

    def test_a_comment_that_opens_with_a_pronoun_is_found(self):
        files = {"a.rs": "/// What was read.\nstruct A;\n\n/// Of the file.\nstruct B;\n"}
        self.assertEqual(self.found(dialect, files), [("a.rs", 1, 1), ("a.rs", 4, 1)])

    def test_names_that_say_patience_or_most_are_found(self):
        files = {"a.rs": "const MOST_BYTES: u8 = ANSWER_PATIENCE;\n"}
        self.assertEqual(self.texts(dialect, files), ["`MOST_BYTES`: MAX_", "`ANSWER_PATIENCE`: TIMEOUT"])

    def test_plain_words_pass_and_code_is_not_read(self):
        text = "The CPU's softirq ends at the endpoint; `processor` in /proc/cpuinfo, so much that it ends.\n"
        files = {"a.rs": f"/// {text}fn a() {{ AT_MOSTLY; }}\n", "b.md": text + "\nWhat is it?\n"}
        self.assertEqual(self.found(dialect, files), [])
