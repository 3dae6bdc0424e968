from . import links
from .case import RuleCase


class Links(RuleCase):
    def test_a_link_to_nothing_is_found(self):
        files = {
            "README.md": "# Title\n\n[a](b.md) [c](docs/d.md#no)\n\n![e](f.png)\n\n[g]: h.md\n\n[i](#none)\n",
            "docs/d.md": "# D\n[up](../README.md#titel)\n",
        }
        found = [(path, line) for path, line, _ in self.found(links, files)]
        self.assertEqual(found, [("README.md", line) for line in (3, 3, 5, 7, 9)] + [("docs/d.md", 2)])

    def test_files_folders_anchors_and_other_sites_pass(self):
        files = {
            "README.md": "# A `code`, title\n# A code, title\n[a](docs/d.md#d-e) [b](docs) [c](https://x.example/y.md)\n"
            "[d](#a-code-title) [e](#a-code-title-1)\n\n`[f](g.md)`\n\n```\n[h](i.md)\n```\n",
            "docs/d.md": "## D [e](../README.md)\n",
        }
        self.assertEqual(self.texts(links, files), [])
