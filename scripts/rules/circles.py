"""Files of a crate import each other one way.

An edge goes from a file to the file that a path in it names: `crate::…`, `super::…`, `self::…`, and `child::…` of a
module declared there. A path leads to the file of its longest prefix that is a module, so a name that `mod.rs`
re-exports leads to `mod.rs`. Tests are left out. Files in circles are counted twice: over the paths of `use`
declarations (with their braces, and `pub use`), and over those in expressions and types too, so that a circle is not
hidden by writing its path out.
"""

import os
import re

from .finding import Finding
from .lexer import lex, test_blocks

NAME = "circles"
ABOUT = "no import circles between files of a crate"
LIMIT = 0

USE = re.compile(r"\buse\s+([^;]+);")
# A path in `pub(in …)` limits who may name an item; nothing is imported by it.
PATH = re.compile(r"(?<![\w:])(?<!\(in )((?:\w+::)+)(?:\w+|\{|\*)")
RENAMED = re.compile(r"\bas\s+\w+")
SEGMENT = re.compile(r"\w+|[{},*]")


def find(tree):
    findings = []
    for crate, files in sorted(crates(tree).items()):
        for kind, paths in (("use", paths_of_use), ("all paths", paths_in)):
            for number, circle in enumerate(circles_of(edges(tree, files, paths)), 1):
                findings += [finding(crate, kind, number, circle, path) for path in circle]
    return findings


def finding(crate, kind, number, circle, path):
    others = ", ".join(os.path.relpath(other, f"{crate}/src") for other in circle if other != path)
    text = f"circle {number} of {crate} by {kind} has {len(circle)} files; move what is shared into a file below {others}"
    return Finding(f"{crate}: {kind}", path, 1, 1, text)


def crates(tree):
    """The source files of each crate by module path: {"crates/x": {("a", "b"): path}}."""
    found = {}
    for path in tree.in_language("rust"):
        crate, source, inside = path.partition("/src/")
        if not source or tree.is_test(path) or inside.startswith("bin/"):
            continue
        segments = inside[: -len(".rs")].split("/")
        if segments[-1] == "mod":
            segments.pop()
        if segments == ["main"] and f"{crate}/src/lib.rs" in tree.known:
            continue
        found.setdefault(crate, {})[() if segments in (["lib"], ["main"]) else tuple(segments)] = path
    return found


def edges(tree, files, paths):
    """For each file those that it names."""
    graph = {}
    for module, path in files.items():
        text = tree.text(path)
        code = lex(text, "rust").code
        for begin, end in reversed(test_blocks(text)):
            code = code[:begin] + code[end:]
        named = {resolve(files, module, segments) for segments in paths(code)}
        graph[path] = sorted(other for other in named if other and other != path)
    return graph


def paths_of_use(code):
    """The paths of `use` declarations, as tuples of segments."""
    for statement in USE.finditer(code):
        yield from spread(SEGMENT.findall(RENAMED.sub("", statement[1])))


def paths_in(code):
    """Every path of a file, as tuples of segments."""
    yield from paths_of_use(code)
    for path in PATH.finditer(USE.sub("", code)):
        yield tuple(SEGMENT.findall(path.group()))


def spread(tokens):
    """The paths of a `use` tree: `a::{b, c::{d}}` has (a, b) and (a, c, d)."""
    prefix, outer = [], []
    for before, token in zip(["", *tokens], [*tokens, ","]):
        if token == "{":
            outer.append(list(prefix))
        elif token in ",}":
            # A comma behind a brace, or before one, ends no path.
            if before not in ("", ",", "{", "}"):
                yield tuple(prefix)
            if token == "}" and outer:
                outer.pop()
            prefix = list(outer[-1]) if outer else []
        else:
            prefix.append(token)


def resolve(files, module, segments):
    """The file that a path in a module leads to; None when that is another crate's."""
    base = list(module)
    first = segments[0]
    if first == "crate":
        base, segments = [], segments[1:]
    elif first in ("self", "super"):
        while segments and segments[0] in ("self", "super"):
            if segments[0] == "super":
                if not base:
                    return None
                base.pop()
            segments = segments[1:]
    elif (*module, first) not in files:
        return None
    for segment in segments:
        if (*base, segment) not in files:
            break
        base.append(segment)
    return files.get(tuple(base))


def circles_of(graph):
    """The strongly connected components of more than one file (Tarjan 1972), largest first."""
    order, low, stack, on_stack, found = {}, {}, [], set(), []

    def enter(node):
        order[node] = low[node] = len(order)
        stack.append(node)
        on_stack.add(node)

    for start in sorted(graph):
        if start in order:
            continue
        enter(start)
        work = [(start, iter(graph[start]))]
        while work:
            node, following = work[-1]
            for other in following:
                if other not in order:
                    enter(other)
                    work.append((other, iter(graph[other])))
                    break
                if other in on_stack:
                    low[node] = min(low[node], order[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == order[node]:
                    at = stack.index(node)
                    component = sorted(stack[at:])
                    del stack[at:]
                    on_stack.difference_update(component)
                    if len(component) > 1:
                        found.append(component)
    return sorted(found, key=lambda component: (-len(component), component))
