"""The table of a whole run of the benchmarks, in Markdown, and its place in a document."""

import re

BEGIN, END = "<!-- bench/all: begin -->", "<!-- bench/all: end -->"
BOUND = re.compile(r"(<=|>=|<|>) *([0-9.]*[0-9])")
BETWEEN = re.compile(r"([0-9.]*[0-9])\.\.([0-9.]*[0-9])")
LEGEND = (
    "Square brackets hold 95 % intervals, round ones the range over the rounds. A value in **bold** misses its target. "
    "Steal is the part of the CPU time that the hypervisor took meanwhile."
)


def missed(value, target):
    """Whether a value misses a target in words, as `target <= 1.3` or `0.9..1.1`; without one none does."""
    between = BETWEEN.search(target)
    if between:
        return not float(between[1]) <= value <= float(between[2])
    bound = BOUND.search(target)
    if not bound:
        return False
    limit = float(bound[2])
    return not {"<=": value <= limit, ">=": value >= limit, "<": value < limit, ">": value > limit}[bound[1]]


def target_of(target):
    """Only the bound of a target in words."""
    found = BETWEEN.search(target)
    if found:
        return f"{found[1]} to {found[2]}"
    found = BOUND.search(target)
    return f"{found[1]} {found[2]}" if found else ""


def number(value):
    """Three decimals say enough of a ratio near one, three digits of any other."""
    return f"{value:.3f}" if 0.1 <= value < 10 else f"{value:.3g}"


def ratio(figure):
    value = number(figure["value"])
    if missed(figure["value"], figure["target"]):
        value = f"**{value}**"
    if figure["low"] is None:
        return value
    low, high = number(figure["low"]), number(figure["high"])
    return f"{value} [{low}, {high}]" if figure["spread"] == "95 %" else f"{value} ({low} to {high})"


def shown(figures):
    """The figures that have a target, or all where none has one."""
    return [figure for figure in figures if target_of(figure["target"])] or figures


def cell(text):
    """A text as one line, without colours of a terminal."""
    return " ".join(re.sub(r"\x1b\[[0-9;]*m", "", str(text)).replace("|", "/").split())


def rows(part):
    """The lines of one part: its figures, and why it failed if it did."""
    steal = "" if part.get("steal") is None else f"{100 * part['steal']:.1f} %"
    for figure in shown(part["figures"]):
        peer = figure["peer"] or "–"
        count = figure["n"] or ""
        yield [f"`{part['name']}`", figure["what"], peer, ratio(figure), target_of(figure["target"]) or "–", count, steal]
    if not part["figures"] and part["without"]:
        yield [f"`{part['name']}`", "no figure: " + part["without"][0], "", "", "", "", steal]
    if part["failed"]:
        text = cell(part["failed"])
        yield [f"`{part['name']}`", "failed: " + (text if len(text) <= 160 else text[:157] + "..."), "", "", "", "", steal]


def render(run):
    """The text between the markers. `run` has command, date, commit, machine (a line), steal, parts, left_out."""
    lines = [
        f"`{run['command']}`, {run['date']}, commit {run['commit']}. {run['machine']}; steal {100 * run['steal']:.1f} % in all.",
        LEGEND,
        "",
        "| part | figure | beside | ratio | target | n | steal |",
        "|---|---|---|---|---|---|---|",
    ]
    for part in run["parts"]:
        lines += ["| " + " | ".join(map(cell, row)) + " |" for row in rows(part)]
    if run["left_out"]:
        lines += ["", "Left out: " + "; ".join(f"`{name}` ({why})" for name, why in run["left_out"]) + "."]
    return "\n".join(lines)


def replaced(document, text):
    """A document with the text between its markers."""
    begin, end = document.find(BEGIN), document.find(END)
    if begin < 0 or end < begin or document.count(BEGIN) != 1 or document.count(END) != 1:
        raise ValueError(f"the lines `{BEGIN}` and `{END}` are not there, once each and in this order")
    return f"{document[: begin + len(BEGIN)]}\n{text}\n{document[end:]}"
