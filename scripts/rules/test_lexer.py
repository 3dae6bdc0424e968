import unittest

from .lexer import lex, test_blocks


class Lexer(unittest.TestCase):
    def test_braces_in_literals_and_comments_are_not_code(self):
        text = "fn a() { '{'; b'}'; \"{\\\"\"; r#\"}\"{\"#; /* { /* } */ { */ let x: &'a str; } // {\n"
        code = lex(text, "rust").code
        self.assertEqual((code.count("{"), code.count("}")), (1, 1))
        self.assertEqual(len(code), len(text))
        self.assertIn("&'a str", code)

    def test_block_comments_of_c_do_not_nest(self):
        self.assertIn("int b;", lex("/* a /* b */ int b;", "c").code)

    def test_lines_stay_where_they_were(self):
        text = '"a\nb" /* c\nd */\nx'
        self.assertEqual(lex(text, "rust").code.count("\n"), text.count("\n"))

    def test_a_tail_of_tests_is_found_with_its_attributes(self):
        text = "fn a() {}\n#[cfg(test)]\n#[allow(x)]\nmod tests {\n fn b() {}\n}\n"
        self.assertEqual([text[begin:end] for begin, end in test_blocks(text)], [text[10:-1]])
