"""Nothing tells where a developer works: paths of one machine mean nothing on another."""

import re
import subprocess

from .finding import Finding
from .tree import line_of

NAME = "machine-paths"
ABOUT = "no tracked text and no commit message names a path below /work, /root or /home"
LIMIT = 0

PATH = re.compile(r"(?<![\w.}~*-])/(?:work|root|home)/[\w.{<-]+")


def find(tree):
    findings = []
    for path in tree.paths:
        if tree.is_test(path) or path.startswith("scripts/rules/"):
            continue
        text = tree.text(path)
        for match in PATH.finditer(text):
            findings.append(Finding(path, path, line_of(text, match.start()), 1, f"“{match.group()}”: name it by a variable or a relative path"))
    return findings + list(in_commits(tree))


def in_commits(tree):
    """Messages of the history that is here; none where this is no checkout."""
    command = ["git", "-C", tree.root, "log", "--format=%h%x00%B%x01"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    for commit in done.stdout.split("\1"):
        name, _, message = commit.strip().partition("\0")
        for match in PATH.finditer(message):
            yield Finding(f"commit {name}", f"commit {name}", line_of(message, match.start()), 1, f"“{match.group()}”: reword the message")
