"""The exceptions of today, which only shrink."""

import re

SECTION = re.compile(r"\[([\w-]+)\]$")
ENTRY = re.compile(r'"([^"]+)" = (\d+)$')
HEADER = """\
# What breaks a rule of scripts/check today, with its number. Entries only shrink: `scripts/check --update` lowers and
# removes them; nothing raises one but `--update --accept`, which is for merges and wants a reason in the commit.
"""


def read(text):
    """{rule: {key: number}} of an exceptions file, a subset of TOML (Python 3.10 reads none)."""
    exceptions, section = {}, None
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if heading := SECTION.match(line):
            section = exceptions.setdefault(heading[1], {})
        elif (entry := ENTRY.match(line)) and section is not None:
            section[entry[1]] = int(entry[2])
        else:
            raise ValueError(f"line {number} is neither [RULE] nor \"KEY\" = NUMBER: {line}")
    return exceptions


def written(exceptions):
    """The text of an exceptions file."""
    parts = [HEADER]
    for rule in sorted(exceptions):
        if exceptions[rule]:
            parts.append(f"\n[{rule}]\n")
            parts += [f'"{key}" = {number}\n' for key, number in sorted(exceptions[rule].items())]
    return "".join(parts)


def values(findings):
    """The value of each key."""
    found = {}
    for finding in findings:
        found[finding.key] = found.get(finding.key, 0) + finding.value
    return found


def judge(rule, limit, findings, entries, file):
    """What to tell of a rule: lines with a path first; none when all is as the entries say."""
    lines = []
    found = values(findings)
    for key, value in sorted(found.items()):
        allowed = entries.get(key, limit)
        if value > allowed:
            own = [finding for finding in findings if finding.key == key]
            lines += [f"{finding.path}:{finding.line}: {rule}: {finding.text}" for finding in own[:10]]
            if key in entries:
                more = f" (the first 10 of {len(own)} above)" if len(own) > 10 else ""
                lines.append(f"{own[0].path}:{own[0].line}: {rule}: {key}: {value} where {file} allows {allowed}{more}")
    for key, allowed in sorted(entries.items()):
        value = found.get(key, 0)
        if value <= limit:
            lines.append(f'{file}:1: {rule}: "{key}" = {allowed} is needed no more: remove the entry (scripts/check --update)')
        elif value < allowed:
            lines.append(f'{file}:1: {rule}: "{key}" = {allowed} is too high: shrink the entry to {value} (scripts/check --update)')
    return lines


def updated(limit, findings, entries, accept):
    """The entries as they should be: lowered, and with `accept` as today's values say."""
    found = {key: value for key, value in values(findings).items() if value > limit}
    if accept:
        return found
    return {key: min(allowed, found[key]) for key, allowed in entries.items() if key in found}
