"""Files stay short enough to be read at one sitting. Tests do not count."""

from .finding import Finding
from .lexer import test_blocks

NAME = "file-length"
ABOUT = "a file has at most 600 lines without its tests"
LIMIT = 600


def find(tree):
    findings = []
    for path in tree.in_language("rust", "typescript", "c", "python", "shell"):
        if tree.is_test(path):
            continue
        lines = length(tree.text(path), tree.language[path])
        if lines > LIMIT:
            findings.append(Finding(path, path, 1, lines, f"{lines} lines without tests: split it by what changes together"))
    return findings


def length(text, language):
    """Lines of a file that are not tests."""
    lines = text.count("\n")
    if language == "rust" and "#[cfg(test)]" in text:
        lines -= sum(text.count("\n", begin, end) + 1 for begin, end in test_blocks(text))
    return lines
