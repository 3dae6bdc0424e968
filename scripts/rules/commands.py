"""Commands that README and the guides show are there, and those that need no root work.

A line of a fenced block (not of a language other than shell) that begins with `latlab` or `latlab-overlay` is read word by
word against `--help` of the built binary: its verbs and its flags. Then the lines of UNPRIVILEGED are run in a folder with
the block's YAML examples (`# NAME.yaml` in their first line), labs/ and studies/, when the files they name are there.
"""

import os
import re
import shlex
import subprocess
import tempfile

from .finding import Finding
from .prose import FENCE

NAME = "commands"
ABOUT = "every latlab command that README and docs/guide show in a fenced block exists"
LIMIT = 0

PROGRAMS = ("latlab", "latlab-overlay")
SHELL_FENCES = {"", "sh", "bash", "shell", "console", "text"}
UNPRIVILEGED = {("validate",), ("graph",), ("place",), ("studies",), ("schema",), ("tune", "export")}
FILE = re.compile(r"[\w./-]+\.(?:ya?ml|json)$")
HELP_COMMAND = re.compile(r"^  (\S+)(?:  |$)", re.MULTILINE)
HELP_FLAG = re.compile(r"(?<![\w-])(--?[a-zA-Z][\w-]*)")
SECONDS = 60


def find(tree):
    binaries = built(tree.root)
    if not binaries:
        return []
    helper = Help(binaries)
    findings = []
    for path in documents(tree):
        commands, files = read(tree.text(path))
        for line, words in commands:
            problem = helper.problem(words) or failed(tree.root, binaries, words, files)
            if problem:
                findings.append(Finding(path, path, line, 1, f"`{shlex.join(words)[:60]}`: {problem}"))
    return findings


def skipped(tree):
    """Why the rule says nothing; none if it does."""
    return None if built(tree.root) else "no latlab is built (CARGO_TARGET_DIR, target/release/latlab)"


def documents(tree):
    return [path for path in tree.in_language("markdown") if path == "README.md" or path.startswith("docs/guide/")]


def built(root):
    """The newest build of each program."""
    target = os.path.join(os.path.abspath(root), os.environ.get("CARGO_TARGET_DIR", "target"))
    found = {}
    for program in PROGRAMS:
        builds = [os.path.join(target, profile, program) for profile in ("release", "debug")]
        builds = [build for build in builds if os.access(build, os.X_OK)]
        if builds:
            found[program] = max(builds, key=os.path.getmtime)
    return found


def read(text):
    """A document's commands as (line, words), and its YAML examples by name."""
    commands, files = [], {}
    for begin, language, lines in blocks(text):
        if language == "yaml":
            name = re.match(r"#\s*(?:labs/|studies/)?([\w-]+\.ya?ml)\s*$", lines[0]) if lines else None
            if name:
                files[name[1]] = "\n".join(lines) + "\n"
        elif language in SHELL_FENCES:
            commands += commands_of(begin, lines)
    return commands, files


def blocks(text):
    """Fenced blocks as (first line's number, language, lines)."""
    language, begin, lines = None, 0, []
    for number, line in enumerate(text.split("\n"), 1):
        if FENCE.match(line):
            if language is None:
                language, begin, lines = line.strip(" `~").split(" ")[0], number + 1, []
            else:
                yield begin, language, lines
                language = None
        elif language is not None:
            lines.append(line)


def commands_of(begin, lines):
    """The program's commands in a block's lines; a backslash at the end joins lines."""
    joined = ""
    for number, line in enumerate(lines, begin):
        joined += line
        if joined.endswith("\\"):
            joined = joined[:-1] + " "
            continue
        for words in simple_commands(joined):
            yield number, words
        joined = ""


def simple_commands(line):
    """The commands of a line that call the program, without prompt, comment, redirection and `sudo`."""
    lexer = shlex.shlex(line.strip().removeprefix("$ ").removeprefix("# "), posix=True, punctuation_chars="|&;<>()")
    lexer.commenters = "#"
    lexer.whitespace_split = True
    try:
        tokens = list(lexer)
    except ValueError:
        return
    words = []
    for token in [*tokens, ";"]:
        if token[0] in "|&;<>()":
            while words and (words[0] == "sudo" or re.match(r"[A-Z_]+=", words[0])):
                words.pop(0)
            if words and os.path.basename(words[0]) in PROGRAMS:
                yield [os.path.basename(words[0]), *words[1:]]
            # What is redirected to is no command.
            words = ["to"] if token[0] in "<>" else []
        else:
            words.append(token)


class Help:
    """What `--help` says of each verb, asked once."""

    def __init__(self, binaries):
        self.binaries = binaries
        self.texts = {}

    def text(self, verbs):
        if verbs not in self.texts:
            command = [self.binaries[verbs[0]], *verbs[1:], "--help"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
            self.texts[verbs] = done.stdout if done.returncode == 0 else ""
        return self.texts[verbs]

    def verbs_below(self, verbs):
        listed = self.text(verbs).partition("\nCommands:\n")[2].partition("\n\n")[0]
        return set(HELP_COMMAND.findall(listed))

    def objects_before(self, verbs):
        """How many words stand before the next verb, as the name in `latlab host NAME power`."""
        usage = re.search(r"^Usage: (.*) <COMMAND>$", self.text(verbs), re.MULTILINE)
        return len(re.findall(r"<[A-Z]+>", usage[1])) if usage else 0

    def problem(self, words):
        """What is wrong with a command's verbs and flags; none if nothing is."""
        if words[0] not in self.binaries:
            return None
        verbs = (words[0],)
        objects = self.objects_before(verbs)
        for word in words[1:]:
            below = self.verbs_below(verbs)
            if word == "--":
                break
            if word.startswith("-") and len(word) > 1:
                flag = word.partition("=")[0]
                known = HELP_FLAG.findall(self.text(verbs))
                if flag not in known and not re.fullmatch(r"-\d.*", flag):
                    return f"`{' '.join(verbs)} --help` has no {flag}: correct the flag"
            elif objects > 0:
                objects -= 1
            elif below:
                if word not in below and re.fullmatch(r"[a-z-]+", word):
                    return f"`{' '.join(verbs)}` has no verb {word}: correct the verb"
                if word in below:
                    verbs = (*verbs, word)
                    objects = self.objects_before(verbs)
        return None


def failed(root, binaries, words, files):
    """Runs a command that needs no root; what went wrong, if anything."""
    harmless = words[0] in binaries and (
        any(tuple(words[1 : 1 + len(verbs)]) == verbs for verbs in UNPRIVILEGED) or words[-1] == "--help"
    )
    named = [word for word in words[1:] if FILE.fullmatch(word)]
    if not harmless or any("…" in word or re.fullmatch(r"[A-Z]+", word) for word in words):
        return None
    if not all(name in files or os.path.exists(os.path.join(root, name)) for name in named):
        return None
    # A lab by its name is one that is up.
    if words[1] in ("validate", "graph", "place") and not named:
        return None
    with tempfile.TemporaryDirectory(prefix="latlab-check.") as folder:
        for name in ("labs", "studies"):
            os.symlink(os.path.join(root, name), os.path.join(folder, name))
        for name, text in files.items():
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        command = [binaries[words[0]], *words[1:]]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode == 0:
        return None
    said = (done.stderr or done.stdout).strip().split("\n")[0]
    return f"exits with {done.returncode} ({said}): correct the command or its file"
