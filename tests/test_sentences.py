"""README, the guide and the results can be read without stopping: no sentence is longer than thirty words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
# Proofs, and what is looked up and not read: these may be dense.
NOT_GUIDE = {"api.md", "architecture.md", "benchmarks.md", "papers.md", "reliability.md"}
GUIDE = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")),
    *(page for page in sorted(DOCS.glob("*.md")) if page.name not in NOT_GUIDE),
    *sorted((DOCS / "results").glob("*.md")),
]


def _sentences(text: str) -> list[str]:
    """Return the sentences of a Markdown page, without code, tables, pictures and citations."""
    text = re.sub(r"^```.*?^```$", "\n", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^(\||#| {4}|</?\w).*$", "\n", text, flags=re.MULTILINE)  # rows, headings, HTML
    text = re.sub(r"!\[[^]]*\]\([^)]*\)", "", text)
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"(?<!\S)([A-Z](?=\. [A-Z])|et al|e\.g|i\.e)\.", r"\1", text)
    parts = re.split(r"\n\s*\n|^ *(?:[-*]|\d+\.) ", text, flags=re.MULTILINE)
    return [
        " ".join(sentence.split())
        for part in parts
        for sentence in re.split(r"(?<=[.!?])[*)\"`]*\s+(?=[*`(\"]*[A-Z0-9`])", part)
    ]


@pytest.mark.parametrize("page", GUIDE, ids=lambda page: page.stem)
def test_no_sentence_is_longer_than_thirty_words(page: Path) -> None:
    """One idea per sentence; a list of many things is a list."""
    sentences = _sentences(page.read_text(encoding="utf-8"))
    assert len(sentences) > 5
    assert [s for s in sentences if len(s.split()) > 30] == []


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.stem)
def test_each_page_says_where_to_go_next(page: Path) -> None:
    """Its last line is one with links; the index has nothing but links."""
    if page.stem != "index":
        last = page.read_text(encoding="utf-8").rstrip().rpartition("\n\n")[2]
        assert last.startswith("**Next:** [")


def test_sentences_are_found() -> None:
    """What is left out and where one ends."""
    text = "# Title\n\nOne two. Three\nfour: `five`.\n\n| a |\n\n- X. Y et al. Six\n- [seven](x)\n"
    assert _sentences(text)[1:] == ["One two.", "Three four: `five`.", "", "X Y et al Six", "seven"]
