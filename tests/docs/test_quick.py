"""`make quick` leaves out what the list of wide tests and the markers name, and nothing else."""

import re
import tomllib
from fnmatch import fnmatch

import pytest

from tests.conftest import LONG, WIDE
from tests.docs.pages import ROOT, own_files


@pytest.mark.parametrize("pattern", WIDE + LONG)
def test_every_pattern_of_wide_or_long_tests_names_a_file_that_exists(pattern: str) -> None:
    names = (path.relative_to(ROOT).as_posix() for path in own_files())
    assert any(fnmatch(name, f"{pattern}*") for name in names)


# They say before what a test runs, not that it takes long.
DAILY = {"makers", "capabilities"}


def test_quick_leaves_out_every_other_marker_that_pytest_knows() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    known = {marker.partition(":")[0] for marker in settings["markers"]}
    found = re.search(r"^QUICK = not \((.+)\)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert found is not None
    assert set(found[1].split(" or ")) == known - DAILY
