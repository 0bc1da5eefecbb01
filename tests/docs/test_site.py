"""The documentation builds as a site: every page in one of four parts, found by its words."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, pages

PARTS = ["Start", "Guides", "Reference", "Design"]
# What a browser would load by itself when it opens a page.
LOADED = re.compile(
    r"<(?:script|img|link|iframe)\b[^>]*\b(?:src|href)=\"(https?:)?//", re.IGNORECASE
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it, in a folder of the test."""
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        words, check=False, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def nav() -> dict[str, list[str]]:
    """The pages of each part, in order; mkdocs.yml holds YAML tags, so its lines are read."""
    parts: dict[str, list[str]] = {}
    for line in (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2].splitlines():
        if part := re.match(r"  - (\w+):$", line):
            parts[part[1]] = []
        elif page := re.match(r"      - .+: (\S+\.md)$", line):
            parts[list(parts)[-1]].append(page[1])
    return parts


def addresses(site: Path) -> Iterator[str]:
    """Every page, as the site names it."""
    yield from ("index.html", "changelog.html", "security.html")
    for page in pages():
        if page.is_relative_to(ROOT / "docs"):
            yield page.relative_to(ROOT / "docs").with_suffix(".html").as_posix()


def test_the_site_has_four_parts_and_each_page_stands_in_one_of_them() -> None:
    assert list(nav()) == PARTS
    named = [page for part in nav().values() for page in part]
    assert len(named) == len(set(named))
    written = {page.name for page in (ROOT / "docs").glob("*.md")}
    assert set(named) == written | {"index.md", "changelog.md", "security.md"}


def test_the_site_builds_strictly_with_every_page_and_every_decision(site: Path) -> None:
    missing = [address for address in addresses(site) if not (site / address).is_file()]
    assert not missing
    newest = max((ROOT / "docs" / "adr").glob("*.md")).stem
    assert f"adr/{newest}.html" in (site / "index.html").read_text()


def test_the_search_of_the_site_knows_every_page(site: Path) -> None:
    found = json.loads((site / "search" / "search_index.json").read_text())["docs"]
    places = {entry["location"].partition("#")[0] for entry in found}
    assert set(addresses(site)) - places == set()
    assert any("kitemq store verify" in re.sub("<[^>]+>", "", entry["text"]) for entry in found)


def test_a_page_of_the_site_loads_nothing_from_another_host(site: Path) -> None:
    for page in site.rglob("*.html"):
        for match in LOADED.finditer(page.read_text()):
            pytest.fail(f"{page.relative_to(site)}: {match[0]}")


def test_tables_and_links_to_the_root_become_what_they_are_meant_to_be(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert "<p>|" not in page.read_text(), f"{page.name}: a table was not recognised"
    assert 'href="changelog.html"' in (site / "contributing.html").read_text()
