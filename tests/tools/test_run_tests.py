"""What fails beside other tests runs once more alone, and is named where it passes then."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import run_tests

ROOT = Path(__file__).parents[2]
FLAKY = """
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group(352)

def test_that_passes():
    with Path("passes").open("a") as runs:
        runs.write("1")

def test_that_passes_the_second_time():
    seen = Path("seen")
    first = not seen.exists()
    seen.touch()
    assert not first
"""
BROKEN = """
def test_that_never_passes():
    assert False
"""


def run(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = xdist_group\n")
    (folder / "test_it.py").write_text(text)
    return subprocess.run(
        [sys.executable, "-m", "tools.run_tests", "2", "-q"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_test_that_passes_alone_is_named_as_flaky(tmp_path: Path) -> None:
    done = run(tmp_path, FLAKY)
    assert done.returncode == 0, done.stdout + done.stderr
    named = done.stdout.partition("FLAKY")[2]
    assert "test_it.py::test_that_passes_the_second_time" in named
    assert "test_it.py::test_that_passes\n" not in named
    assert (tmp_path / "passes").read_text() == "1", "what passed ran again"


def test_a_test_that_fails_twice_fails_the_run(tmp_path: Path) -> None:
    done = run(tmp_path, FLAKY + BROKEN)
    assert done.returncode == 1
    assert "FLAKY" not in done.stdout


def test_many_failures_are_not_repeated(tmp_path: Path) -> None:
    broken = "".join(BROKEN.replace("never", f"never_{n}") for n in range(9))
    done = run(tmp_path, FLAKY + broken)
    assert done.returncode == 1
    assert "once more" not in done.stdout


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for the file system in memory, and no TMPDIR."""
    monkeypatch.setenv("TMPDIR", "unset below, and back afterwards")
    monkeypatch.delenv("TMPDIR")
    monkeypatch.setattr(run_tests, "MEMORY", tmp_path)
    monkeypatch.setattr(run_tests, "MEMORY_BYTES_MIN", 1)
    return tmp_path


def test_temporary_files_lie_in_memory_and_are_gone_afterwards(memory: Path) -> None:
    with run_tests.files_in_memory():
        folder = Path(os.environ["TMPDIR"])
        assert folder.parent == memory
        (folder / "left").touch()
    assert list(memory.iterdir()) == []
    assert "TMPDIR" not in os.environ


def test_little_memory_is_left_alone(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_tests, "MEMORY_BYTES_MIN", 2**60)
    with run_tests.files_in_memory():
        assert "TMPDIR" not in os.environ


def test_a_chosen_place_stays(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/chosen")
    with run_tests.files_in_memory():
        assert os.environ["TMPDIR"] == "/chosen"


@pytest.mark.parametrize("group", ["", "@7", "@421_rocketmq"])
def test_the_group_of_a_test_is_no_part_of_its_name(group: str) -> None:
    assert run_tests.GROUP.sub("", f"tests/a.py::test_b[x@y]{group}") == "tests/a.py::test_b[x@y]"
