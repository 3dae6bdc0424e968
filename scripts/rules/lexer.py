"""Comments and literals of Rust, C and TypeScript, so that the rest of a file can be read by its braces."""

import functools
import re
from typing import NamedTuple

TOKENS = {
    "rust": re.compile(
        r"//[^\n]*"
        r"|/\*"
        r'|(?<!\w)[bc]?r(#*)"'
        r'|"(?:[^"\\]|\\.)*"'
        r"|'(?:[^'\\\n]|\\(?:x[0-9a-fA-F]{2}|u\{[^}]*\}|.))'",
        re.DOTALL,
    ),
    "typescript": re.compile(r"//[^\n]*|/\*()|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`", re.DOTALL),
    "c": re.compile(r"//[^\n]*|/\*()|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)+'", re.DOTALL),
}
NESTED = re.compile(r"/\*|\*/")
NOT_NEWLINE = re.compile(r"[^\n]")
BRACES = re.compile(r"[{}]")
TEST_BLOCK = re.compile(r"#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*(?:pub\s*(?:\([^)]*\)\s*)?)?mod \w+ \{")


class Lexed(NamedTuple):
    """A file without what is not code; offsets and lines stay what they were."""

    code: str  # comments and literals are spaces
    comments: list  # (offset, text)
    strings: list  # (offset, text with quotes)


@functools.lru_cache(maxsize=None)
def lex(text, language):
    """Splits a file into code, comments and string literals."""
    pattern = TOKENS[language]
    code, comments, strings = [], [], []
    at = 0
    while True:
        token = pattern.search(text, at)
        if not token:
            break
        begin, end, found = token.start(), token.end(), token.group()
        if found == "/*":
            end = end_of_block(text, begin, language)
        elif language == "rust" and token.group(1) is not None:
            closing = text.find('"' + token.group(1), end)
            end = len(text) if closing < 0 else closing + 1 + len(token.group(1))
        whole = text[begin:end]
        if whole.startswith("/"):
            comments.append((begin, whole))
        elif language == "typescript" or not whole.startswith("'"):
            strings.append((begin, whole))
        code.append(text[at:begin])
        code.append(NOT_NEWLINE.sub(" ", whole))
        at = end
    code.append(text[at:])
    return Lexed("".join(code), comments, strings)


def end_of_block(text, begin, language):
    """The end of a block comment; those of Rust nest."""
    if language != "rust":
        end = text.find("*/", begin + 2)
        return len(text) if end < 0 else end + 2
    depth = 0
    for mark in NESTED.finditer(text, begin):
        depth += 1 if mark.group() == "/*" else -1
        if depth == 0:
            return mark.end()
    return len(text)


def closing_brace(code, opening):
    """The offset of the brace that closes the one at `opening`; the end of the code if none does."""
    depth = 0
    for brace in BRACES.finditer(code, opening):
        depth += 1 if brace.group() == "{" else -1
        if depth == 0:
            return brace.start()
    return len(code)


@functools.lru_cache(maxsize=None)
def test_blocks(text):
    """The offsets, from and to, of a Rust file's `#[cfg(test)] mod NAME { … }`."""
    code = lex(text, "rust").code
    return [(block.start(), closing_brace(code, block.end() - 1) + 1) for block in TEST_BLOCK.finditer(code)]


def in_tests(text, offset):
    return any(begin <= offset < end for begin, end in test_blocks(text))
