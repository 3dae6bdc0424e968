"""The repository's tracked text files, and their roles."""

import functools
import os
import re
import subprocess

SKIPPED_FOLDERS = {".git", "target", "node_modules", "runs", "__pycache__"}
LANGUAGES = {".rs": "rust", ".c": "c", ".h": "c", ".ts": "typescript", ".py": "python", ".sh": "shell", ".md": "markdown"}
TEST_MODULE = re.compile(r"#\[cfg\(test\)\]\s*(?:#\[path = \"(?P<path>[^\"]+)\"\]\s*)?mod (?P<name>\w+);")


class Tree:
    """Files of one repository, by their path below its root."""

    def __init__(self, root):
        self.root = root
        self.paths = sorted(tracked(root))
        self.known = set(self.paths)
        self.language = {path: language_of(root, path) for path in self.paths}

    @functools.lru_cache(maxsize=None)
    def text(self, path):
        """A file's text; empty when it is not text."""
        with open(os.path.join(self.root, path), "rb") as file:
            content = file.read()
        return "" if b"\0" in content[:4096] else content.decode("utf-8", "replace")

    def in_language(self, *languages):
        return [path for path in self.paths if self.language[path] in languages]

    @functools.lru_cache(maxsize=None)
    def test_modules(self):
        """Rust files that only tests compile, as `#[cfg(test)] mod NAME;` says."""
        files = set()
        for path in self.in_language("rust"):
            folder, name = os.path.split(path)
            if name not in ("mod.rs", "lib.rs", "main.rs"):
                folder = path[: -len(".rs")]
            for module in TEST_MODULE.finditer(self.text(path)):
                if module["path"]:
                    files.add(os.path.normpath(os.path.join(os.path.dirname(path), module["path"])))
                    continue
                for file in (f"{folder}/{module['name']}.rs", f"{folder}/{module['name']}/mod.rs"):
                    files.add(file)
        return frozenset(files)

    def is_test(self, path):
        """A file that only tests use: it may be as long as its table of cases."""
        name = os.path.basename(path)
        folders = path.split("/")[:-1]
        return (
            bool({"tests", "fixtures"} & set(folders))
            or name == "tests.rs"
            or name.startswith("test_")
            or path in self.test_modules()
        )


def tracked(root):
    """What git tracks; every file where this is no checkout."""
    command = ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, check=True, capture_output=True).stdout.decode().split("\0")
    except (OSError, subprocess.CalledProcessError):
        listed = walked(root)
    return {path for path in listed if path and os.path.isfile(os.path.join(root, path))}


def walked(root):
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS]
        for name in files:
            yield os.path.relpath(os.path.join(folder, name), root)


def language_of(root, path):
    """A file's language by its ending, or by the interpreter that its first line names."""
    ending = os.path.splitext(path)[1]
    if ending or path.startswith("."):
        return LANGUAGES.get(ending)
    with open(os.path.join(root, path), "rb") as file:
        first = file.readline(100)
    if not first.startswith(b"#!"):
        return None
    return "python" if b"python" in first else "shell" if b"sh" in first else None


def line_of(text, offset):
    """The line, from 1, of an offset in a text."""
    return text.count("\n", 0, offset) + 1
