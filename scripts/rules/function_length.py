"""Functions fit a screen. Tests do not count, nor do attributes and the comment above."""

import ast
import re

from .finding import Finding
from .lexer import closing_brace, in_tests, lex
from .tree import line_of

NAME = "function-length"
ABOUT = "a function has at most 70 lines"
LIMIT = 70

RUST_FUNCTION = re.compile(r"\bfn\s+(\w+)")
RUST_SIGNATURE = re.compile(r"[(){};\[\]]")
C_NAME = re.compile(r"(\w+)\s*$")
C_ARGUMENT = re.compile(r"\(\s*(\w+)")


def find(tree):
    findings = []
    for path in tree.in_language("rust", "c", "python"):
        if tree.is_test(path):
            continue
        seen = {}
        for name, line, lines in functions(tree.text(path), tree.language[path]):
            if lines <= LIMIT:
                continue
            seen[name] = seen.get(name, 0) + 1
            key = f"{path}: {name}" + (f" ({seen[name]})" if seen[name] > 1 else "")
            findings.append(Finding(key, path, line, lines, f"`{name}` has {lines} lines: give its steps names"))
    return findings


def functions(text, language):
    """Name, first line and number of lines of each function that is not a test."""
    return {"rust": rust_functions, "c": c_functions, "python": python_functions}[language](text)


def rust_functions(text):
    code = lex(text, "rust").code
    for function in RUST_FUNCTION.finditer(code):
        opening = rust_body(code, function.end())
        if opening is not None and not in_tests(text, function.start()):
            yield measured(code, function[1], function.start(), opening)


def rust_body(code, at):
    """Where a function's body opens; None when a trait only declares it."""
    depth = 0
    for mark in RUST_SIGNATURE.finditer(code, at):
        sign = mark.group()
        if sign in "([":
            depth += 1
        elif sign in ")]":
            depth -= 1
        elif depth == 0:
            return mark.start() if sign == "{" else None
    return None


def c_functions(text):
    code = lex(text, "c").code
    at = code.find("{")
    while at >= 0:
        head = code[:at].rstrip()
        if head.endswith(")"):
            parameters = opening_of_last(head)
            function = C_NAME.search(head, 0, parameters)
            # A macro such as BPF_PROG takes the name as its first argument.
            if function and function[1].isupper():
                function = C_ARGUMENT.match(head, parameters)
            if function:
                yield measured(code, function[1], function.start(1), at)
        at = code.find("{", closing_brace(code, at))


def opening_of_last(head):
    """The offset of the parenthesis that the last one of a text closes."""
    depth = 0
    for at in range(len(head) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(head[at], 0)
        if depth == 0:
            return at
    return 0


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno, node.end_lineno - node.lineno + 1


def measured(code, name, begin, opening):
    first, last = line_of(code, begin), line_of(code, closing_brace(code, opening))
    return name, first, last - first + 1
