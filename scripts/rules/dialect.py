"""The field's words, and a noun as the subject of a comment.

WORDS and NAMES are the list: a pattern, and what to write instead. Code in backquotes is not read, so that the `processor`
line of /proc/cpuinfo may be named.
"""

import re

from .finding import Finding
from .lexer import lex
from .prose import paragraphs
from .tree import line_of

NAME = "dialect"
ABOUT = "documents, comments, help and other texts use the field's words; names say TIMEOUT, MAX_ and MIN_"
LIMIT = 0

WORDS = [
    (r"who(?:m|so)?ever", "name the process, peer or user"),
    (r"(?:some|any|every|no)body(?:'s)?", "name the process, peer or user"),
    (r"so (?:many|much|few|little)\b(?! (?:as|that))", "the number's name"),
    (r"as far as", "if, or up to"),
    (r"(?:is|be|are|was|were|has been|have been) had", "is possible, or available"),
    (r"at (?:its|their|his|one's) heels", "follows at once"),
    (r"soft interrupts?", "softirq"),
    (r"hard interrupts?", "hardirq"),
    (r"end(?: |-)points?", "endpoint"),
    (r"processors?(?:'s?)?", "CPU"),
    (r"control groups?", "cgroup"),
    (r"run(?: |-)queues?", "runqueue"),
    (r"time stamps?", "timestamp"),
    (r"(?:a|each|every|one|the next|the last) looks?", "poll, or check"),
    (r"ow(?:es|ed|ing)", "pending"),
    (r"askew", "misaligned"),
    (r"of (?:one's|his) own", "dedicated, or private"),
    (r"keeps? house", "housekeeping"),
    (r"patience", "timeout"),
    (r"but for one", "except one"),
]
OPENING = re.compile(r"(?:What|Who(?:m|se)?|Whoever|Whatever)\b(?![^.!?]*\?)|Of\b|(?:It|They|He|She)\b")
NAMES = [
    (r"\w*PATIENCE\w*", "TIMEOUT"),
    (r"MOST(?:_\w+)?|\w+_MOST", "MAX_"),
    (r"(?:LEAST|FEWEST|ENOUGH)(?:_\w+)?|\w+_(?:LEAST|FEWEST|ENOUGH)", "MIN_"),
]


def alternatives(rules):
    """One pattern of all, whose group number says which rule matched; a line may end between words."""
    return "|".join(f"({pattern})" for pattern, _ in rules).replace(" ", r"\s+")


WORD = re.compile(rf"(?<![\w/-])(?:{alternatives(WORDS)})(?![\w-])", re.IGNORECASE)
NAME_IN_CODE = re.compile(rf"\b(?:{alternatives(NAMES)})\b")


def find(tree):
    findings = []
    for path in tree.in_language("markdown", "rust", "c", "python", "shell", "typescript"):
        language = tree.language[path]
        if path.startswith("scripts/rules/"):
            continue  # the list itself
        text = tree.text(path)
        for paragraph in paragraphs(text, language):
            # Literals of tests and fuzz seeds hold other programs' words: a machine's files, a peer's messages.
            if paragraph.kind != "literal" or not (tree.is_test(path) or path.startswith("fuzz/")):
                findings += in_paragraph(path, paragraph)
        if language in ("rust", "c", "python", "typescript"):
            findings += in_code(path, text, language)
    return findings


def in_paragraph(path, paragraph):
    opening = OPENING.match(paragraph.text) if paragraph.kind in ("doc", "comment") else None
    if opening:
        yield found(path, paragraph.line, f"comment opens with “{opening.group()}”", "begin with its noun")
    for word in WORD.finditer(paragraph.text):
        line = paragraph.line + paragraph.text.count("\n", 0, word.start())
        yield found(path, line, f"“{' '.join(word.group().split())}”", WORDS[word.lastindex - 1][1])


def in_code(path, text, language):
    code = lex(text, language).code if language in ("rust", "c") else text
    for name in NAME_IN_CODE.finditer(code):
        yield found(path, line_of(text, name.start()), f"`{name.group()}`", f"{NAMES[name.lastindex - 1][1]}")


def found(path, line, what, instead):
    return Finding(path, path, line, 1, f"{what}: {instead}")
