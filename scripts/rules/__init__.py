"""The house rules that a machine keeps. `scripts/check` runs them; CONTRIBUTING.md says what they ask.

Every rule is a module with NAME, ABOUT, LIMIT and `find(tree)`, which returns a list of `Finding`. A key's value is the
sum of its findings; above LIMIT it needs an entry in exceptions.toml, and entries only shrink.
"""
