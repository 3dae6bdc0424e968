"""Links of the documents lead somewhere: to a file that is tracked, and to a heading in it."""

import os
import re

from .finding import Finding
from .prose import FENCE, INLINE_CODE
from .tree import line_of

NAME = "links"
ABOUT = "every relative link of a document leads to a tracked file, and its anchor to a heading"
LIMIT = 0

LINK = re.compile(
    r"\]\(\s*<?([^()\s<>]+(?:\([^()]*\)[^()\s]*)?)>?(?:\s+[\"'(][^)]*)?\)"
    r"|^ *\[[^\]]+\]:\s*<?([^\s<>]+)"
    r"|<(?:a|img|source)\b[^>]*?\b(?:href|src|srcset)=[\"']([^\"']+)",
    re.MULTILINE,
)
OUTSIDE = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*\s*$")
ANCHOR = re.compile(r"<a\b[^>]*?\b(?:id|name)=[\"']([^\"']+)")


def find(tree):
    findings = []
    folders = {os.path.dirname(path) for path in tree.known}
    folders |= {"/".join(folder.split("/")[:depth]) for folder in folders for depth in range(folder.count("/") + 1)}
    for path in tree.in_language("markdown"):
        text = without_code(tree.text(path))
        for link in LINK.finditer(text):
            target = next(group for group in link.groups() if group)
            problem = broken(tree, folders, path, target)
            if problem:
                findings.append(Finding(path, path, line_of(text, link.start()), 1, f"link to {target}: {problem}"))
    return findings


def broken(tree, folders, path, target):
    """What is wrong with a link; none if nothing is."""
    if OUTSIDE.match(target):
        return None
    file, _, anchor = target.partition("#")
    if file.startswith("/"):
        return "make it relative"
    to = os.path.normpath(os.path.join(os.path.dirname(path), file)) if file else path
    if to not in tree.known:
        return None if to in folders or to == "." else "there is no such file: correct the path, or track the file"
    if anchor and tree.language[to] == "markdown" and anchor not in anchors(tree.text(to)):
        return f"{to} has no heading #{anchor}: correct the anchor"
    return None


def anchors(text):
    """The anchors that GitHub gives a document's headings."""
    found = set(ANCHOR.findall(text))
    times = {}
    for line in without_code(text, inline=False).split("\n"):
        heading = HEADING.match(line)
        if not heading:
            continue
        title = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).lower()
        slug = re.sub(r"[^\w\- ]", "", title).replace(" ", "-")
        count = times.get(slug, 0)
        times[slug] = count + 1
        found.add(f"{slug}-{count}" if count else slug)
    return found


def without_code(text, inline=True):
    """A document with fenced blocks (and inline code) emptied; lines stay."""
    lines, fenced = [], False
    for line in text.split("\n"):
        fence = FENCE.match(line)
        lines.append("" if fence or fenced else line)
        fenced ^= bool(fence)
    text = "\n".join(lines)
    return INLINE_CODE.sub(lambda code: re.sub(r"[^\n]", " ", code.group()), text) if inline else text
