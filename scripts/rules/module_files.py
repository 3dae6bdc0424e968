"""A folder's `mod.rs` says what is in the folder, and what others may use of it."""

import os
import re

from .finding import Finding

NAME = "module-files"
ABOUT = "a `mod.rs` has prose, modules and re-exports only"
LIMIT = 0
# At the margin, because what is inside of an item has that item's line.
ITEM = re.compile(
    r"^(?:pub(?:\([^)]*\))? )?(?:(?:unsafe|async|extern \"C\") )*"
    r"(?:(?:const |)fn|struct|enum|union|trait|impl|const|static|type|macro_rules!|mod \w+ \{|thread_local!)",
    re.MULTILINE,
)


def find(tree):
    findings = []
    for path in tree.in_language("rust"):
        if os.path.basename(path) != "mod.rs" or tree.is_test(path):
            continue
        text = tree.text(path)
        items = [text.count("\n", 0, item.start()) + 1 for item in ITEM.finditer(text)]
        if items:
            what = f"{len(items)} items: move them into files with the names of their subjects"
            findings.append(Finding(path, path, items[0], len(items), what))
    return findings
