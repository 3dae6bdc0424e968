"""The texts that people read: Markdown, comments, help and error texts, cut into paragraphs and sentences."""

import bisect
import functools
import re
from typing import NamedTuple

from .lexer import in_tests, lex
from .tree import line_of


class Paragraph(NamedTuple):
    """Some lines that belong together, without their marks; code in it is the letter X."""

    line: int
    kind: str  # "document", "doc" (comments of an item or module), "comment", "text" (help, errors), "literal" (others)
    text: str


FENCE = re.compile(r"^\s*(```|~~~)")
ITEM = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+|^\s*#+\s+|^\s*>\s?")
INLINE_CODE = re.compile(r"(`+)[^`].*?\1", re.DOTALL)
LINK = re.compile(r"!?\[((?:[^\[\]]|\[[^\[\]]*\])*)\](?:\([^()\s]*(?:\([^()]*\)[^()\s]*)*(?:\s+\"[^\"]*\")?\)|\[[^\]]*\])")
HTML = re.compile(r"<!--.*?-->|</?[a-zA-Z][^<>]*>", re.DOTALL)
SENTENCE_END = re.compile(r"(?<=[.!?])[)\"*_”]*\s+(?=[\"“(*_\[]*[A-Z0-9X])")
WORD = re.compile(r"[^\W_][\w'’.,%-]*")
ATTRIBUTE = re.compile(r"#!?\[[^\]\"]*$")
LINE_CONTINUED = re.compile(r"\\\n\s*")
LINE_COMMENT = {"python": re.compile(r"^\s*#(?!!)\s?(.*)"), "shell": re.compile(r"^\s*#(?!!)\s?(.*)")}
DOCSTRING = re.compile(r'^[ \t]*"""(.*?)"""', re.MULTILINE | re.DOTALL)
TYPESCRIPT_COMMENT = re.compile(r"^\s*(?://+|/\*+|\*(?!/))\s?(.*?)(?:\*/)?$")


@functools.lru_cache(maxsize=None)
def paragraphs(text, language):
    """A file's paragraphs."""
    if language == "markdown":
        return list(grouped(enumerate(text.split("\n"), 1), "document"))
    if language in ("rust", "c"):
        return of_code(text, language)
    found = list(grouped(marked_lines(text, language), "comment"))
    if language == "python":
        for line, docstring in docstrings(text):
            found += grouped(enumerate(literal_lines(docstring), line), "literal")
    if language == "typescript":
        for offset, literal in lex(text, language).strings:
            if " " in literal:
                found += grouped(enumerate(literal_lines(literal[1:-1]), line_of(text, offset)), "literal")
    return found


def docstrings(text):
    """(line, text) of the docstrings and other texts in three quotes, which help texts are made of."""
    for literal in DOCSTRING.finditer(text):
        yield line_of(text, literal.start(1)), literal[1]


def of_code(text, language):
    lexed = lex(text, language)
    found = []
    for kind, block in comment_blocks(text, lexed.comments):
        top_of_c = language == "c" and block[0][0] == 1
        found += grouped(block, "doc" if top_of_c else kind)
    if language == "rust":
        for offset, literal in lexed.strings:
            begin = text.rfind("\n", 0, offset) + 1
            if " " in literal and not in_tests(text, offset):
                kind = "text" if shown(text, begin, offset) else "literal"
                found += grouped(enumerate(literal_lines(literal), line_of(text, offset)), kind)
    return found


def literal_lines(literal):
    """The source lines of a literal as they are shown; indented ones are examples."""
    joined = LINE_CONTINUED.sub("\n", literal.strip('"'))
    return ["" if line.startswith("  ") else line.replace("\\n", " ").replace('\\"', '"') for line in joined.split("\n")]


def shown(text, begin, offset):
    """Whether a literal stands in an attribute: clap's help, thiserror's messages."""
    line = text[begin:offset]
    if ATTRIBUTE.search(line):
        return True
    opening = text.rfind("#[", 0, offset)
    return opening >= 0 and "]\n" not in text[opening:offset] and offset - opening < 2000 and text[opening:begin].count("{") == 0


def comment_blocks(text, comments):
    """Neighbouring comments of a kind as lists of (line, text without marks)."""
    last, block = None, []
    for offset, comment in comments:
        line = line_at(text, offset)
        if comment.startswith("/*"):
            kind = "doc" if comment.startswith(("/**", "/*!")) else "comment"
            body = comment[2:].removesuffix("*/").lstrip("*!")
            lines = [(line + at, re.sub(r"^\s*\*\s?", "", each)) for at, each in enumerate(body.split("\n"))]
        else:
            kind = "doc" if comment.startswith(("///", "//!")) and not comment.startswith("////") else "comment"
            lines = [(line, re.sub(r"^//[/!]*\s?", "", comment))]
        alone = not text[text.rfind("\n", 0, offset) + 1 : offset].strip()
        if block and alone and last == (kind, line - 1):
            block += lines
        else:
            if block:
                yield last[0], block
            block = list(lines)
        last = (kind, lines[-1][0])
    if block:
        yield last[0], block


@functools.lru_cache(maxsize=4)
def line_starts(text):
    return [at.end() for at in re.finditer(r"^|\n", text)]


def line_at(text, offset):
    return bisect.bisect_right(line_starts(text), offset)


def marked_lines(text, language):
    """(line, text) of the comments that have a line to themselves; an empty line between blocks."""
    pattern = LINE_COMMENT.get(language, TYPESCRIPT_COMMENT)
    for number, line in enumerate(text.split("\n"), 1):
        comment = pattern.match(line)
        yield number, comment[1] if comment else ""


def grouped(lines, kind):
    """Paragraphs of numbered lines: empty lines, list items, headings and table cells divide them; fences are left out."""
    begin, current, fenced = 0, [], False

    def done():
        if current:
            yield Paragraph(begin, kind, plain("\n".join(current)))
            current.clear()

    for number, line in lines:
        if FENCE.match(line):
            yield from done()
            fenced = not fenced
            continue
        if fenced:
            continue
        if not line.strip():
            yield from done()
            continue
        if line.lstrip().startswith("|"):
            yield from done()
            # Code in a cell may hold a bar.
            for cell in plain(line).strip().strip("|").split("|"):
                if cell.strip(" -:"):
                    yield Paragraph(number, kind, cell.strip())
            continue
        if ITEM.match(line):
            yield from done()
        if not current:
            begin = number
        current.append(ITEM.sub("", line))
        if line.lstrip().startswith("#") and kind in ("document", "doc"):
            yield from done()
    yield from done()


def plain(text):
    """Text without code, links' targets and HTML; line ends stay."""
    text = INLINE_CODE.sub(lambda code: "X" + "\n" * code.group().count("\n"), text)
    text = LINK.sub(lambda link: link[1], text)
    return HTML.sub(lambda tag: "\n" * tag.group().count("\n"), text)


def sentences(paragraph):
    """(line, sentence) of each sentence of a paragraph."""
    at = 0
    for end in [*(match.end() for match in SENTENCE_END.finditer(paragraph.text)), len(paragraph.text)]:
        sentence = paragraph.text[at:end]
        if sentence.strip():
            yield paragraph.line + paragraph.text.count("\n", 0, at), sentence
        at = end


def words(sentence):
    """The number of words; code and numbers are one each."""
    return len(WORD.findall(sentence))
