"""A sentence ends before its beginning is forgotten."""

from .finding import Finding
from .prose import paragraphs, sentences, words

NAME = "sentences"
ABOUT = "no sentence of documents, doc comments, help and error texts has more than 40 words"
LIMIT = 0
MAX_WORDS = 40


def find(tree):
    findings = []
    for path in tree.in_language("markdown", "rust", "c"):
        if tree.language[path] != "markdown" and tree.is_test(path):
            continue
        for paragraph in paragraphs(tree.text(path), tree.language[path]):
            if paragraph.kind in ("comment", "literal"):
                continue
            for line, sentence in sentences(paragraph):
                count = words(sentence)
                if count > MAX_WORDS:
                    opening = " ".join(sentence.split()[:6])
                    findings.append(Finding(path, path, line, 1, f"a sentence of {count} words: divide “{opening} …”"))
    return findings
