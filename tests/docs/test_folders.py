"""The folders of the application say what they hold, and their files are found by one name."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from app.ui.framework import assets, templating
from tests.docs.pages import ROOT

WALK = re.compile(r"^\| (.+) \| `([a-z_/]+/)` \|$", re.MULTILINE)
PACKAGES = sorted((ROOT / "app").rglob("__init__.py"))


@pytest.mark.parametrize(
    "path", PACKAGES, ids=lambda path: path.parent.relative_to(ROOT).as_posix()
)
def test_a_folder_says_in_two_lines_what_lives_there_and_what_does_not(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert len(tree.body) == 1
    lines = (ast.get_docstring(tree) or "").splitlines()
    assert len(lines) == 2
    assert lines[1].startswith("No ") or "belong" in lines[1]


def test_every_folder_with_modules_is_a_package() -> None:
    folders = {path.parent for path in (ROOT / "app").rglob("*.py")}
    assert folders == {path.parent for path in PACKAGES}


@pytest.mark.parametrize("roots", [templating.ROOTS, assets.ROOTS], ids=["templates", "static"])
def test_no_two_folders_hold_a_file_of_the_same_name(roots: list[Path]) -> None:
    """Templates and static files are found by name alone: a second one would hide the first."""
    names = Counter(
        path.relative_to(root).as_posix()
        for root in roots
        for path in root.rglob("*")
        if path.is_file()
    )
    assert len(names) > 10
    assert [name for name, count in names.items() if count > 1] == []


def test_the_walk_names_twenty_folders_that_exist() -> None:
    page = (ROOT / "docs" / "contributing.md").read_text()
    walk = WALK.findall(page.partition("### Where would I look for")[2].partition("\n## ")[0])
    assert len({question for question, _ in walk}) == len(walk) == 20
    assert [folder for _, folder in walk if not list((ROOT / folder).glob("*.py"))] == []


def test_the_tests_of_the_app_are_the_same_tree_as_the_app() -> None:
    folders = {
        path.parent.relative_to(ROOT / "tests") for path in (ROOT / "tests/app").rglob("*.py")
    }
    assert [folder for folder in sorted(folders) if not (ROOT / folder).is_dir()] == []
