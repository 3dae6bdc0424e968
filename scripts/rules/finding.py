"""What a rule returns."""

from typing import NamedTuple


class Finding(NamedTuple):
    """One place that breaks a rule, above the rule's limit."""

    key: str  # the object that exceptions.toml names: a file, a function, a crate
    path: str
    line: int
    value: int  # added to the key's value
    text: str  # the object, its number, what to do
