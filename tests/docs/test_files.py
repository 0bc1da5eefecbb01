"""What every file of the project is held to, whatever it is about."""

import re
import tomllib

from app.version import VERSION
from tests.docs.pages import ROOT, own_files

# The home folders of people, and places where a checkout happened to stand.
MACHINE_PATH = re.compile(r"(?<![\w.:/])/(?:root|home/\w+|Users/\w+|work|workspace|mnt|tmp/\w+)/")
TEXT = frozenset(
    {".py", ".md", ".toml", ".html", ".js", ".css", ".lock", ".sh", ".ini", ".mako", ""}
)


def test_no_file_names_a_path_of_one_machine() -> None:
    for path in own_files():
        if path.suffix not in TEXT or "vendor" in path.parts:
            continue
        text = path.read_bytes().decode("utf-8", "replace")
        found = MACHINE_PATH.search(text)
        assert found is None, f"{path.relative_to(ROOT)}: {found and found[0]}"


def test_the_changelog_has_an_unreleased_section_with_something_in_it() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    section = re.search(r"^## \[Unreleased\]\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert section is not None
    assert re.search(r"^- ", section[1], re.MULTILINE)


def test_each_decision_is_numbered_and_says_where_it_stands() -> None:
    decisions = sorted((ROOT / "docs" / "adr").glob("*.md"))
    numbers = [int(path.name[:4]) for path in decisions]
    assert numbers == list(range(1, len(numbers) + 1))
    for path in decisions:
        text = path.read_text()
        assert text.startswith(f"# {int(path.name[:4])}. ")
        assert "\nStatus: " in text


def test_every_make_word_that_a_page_names_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    words = set(re.findall(r"^([a-z]+):.*## ", makefile, re.MULTILINE))
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        named = set(re.findall(r"(?:^|`|&& )make ([a-z]+)", page.read_text(), re.MULTILINE))
        assert named <= words, f"{page.name}: {sorted(named - words)}"


def test_the_package_and_the_server_name_the_same_version() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == VERSION
