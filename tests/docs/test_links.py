"""Links between pages lead somewhere."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, pages

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)[^)]*\)")
CODE_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)


def links(page: Path) -> list[str]:
    found = LINK.findall(CODE_BLOCK.sub("", page.read_text()))
    return [link for link in found if not re.match(r"[a-z]+:", link)]


def anchors(page: Path) -> set[str]:
    """The anchors a Markdown page has: its headings, lower-case, words joined by hyphens."""
    headings = HEADING.findall(CODE_BLOCK.sub("", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-") for text in headings}


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_relative_link_resolves(page: Path) -> None:
    for link in links(page):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{link} leads nowhere"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{link}: no such heading"


def test_the_readme_leads_to_every_page() -> None:
    readme = ROOT / "README.md"
    linked = {(readme.parent / link.partition("#")[0]).resolve() for link in links(readme)}
    top_pages = {path for path in pages() if path.parent == ROOT / "docs"}
    assert top_pages <= linked, sorted(path.name for path in top_pages - linked)
