"""The fuzzing in short: every target over its corpus, then over 2,000 changed inputs of it.

`make fuzz MINUTES=` runs the same targets guided by coverage, and adds what it finds to the corpus.
"""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.mutate import changed
from tests.fuzz.seeds import of_target
from tests.fuzz.targets import TARGETS

CORPUS = Path(__file__).parent / "corpus"
CORPUS_BYTES_MAX = 1_000_000
RUNS = 2_000
SLOW_RUNS = {"directories": 200, "lag_files": 1_000}  # these start an engine, or write files
SEED = 12


def corpus_of(name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((CORPUS / name).glob("*"))]


@pytest.mark.parametrize("name", TARGETS)
def test_no_input_makes_a_decoder_do_what_it_does_not_durability(name: str) -> None:
    known = [*of_target(name), *corpus_of(name)]
    for data in known:
        run(name, data)
    for data in changed(known, SLOW_RUNS.get(name, RUNS), SEED):
        run(name, data)


def run(name: str, data: bytes) -> None:
    try:
        TARGETS[name](data)
    except Exception as error:
        error.add_note(f"target {name}, input {data!r}")
        raise


def test_the_corpus_is_small_and_each_file_belongs_to_a_target() -> None:
    assert {path.name for path in CORPUS.iterdir()} <= TARGETS.keys()
    assert sum(path.stat().st_size for path in CORPUS.rglob("*")) < CORPUS_BYTES_MAX


@pytest.mark.slow
@pytest.mark.skipif(
    not importlib.util.find_spec("atheris") and sys.version_info >= (3, 14),
    reason="atheris has no wheel for this Python",
)
def test_the_guided_fuzzer_finds_its_way_into_our_modules() -> None:
    words = [sys.executable, "-m", "tests.fuzz", "--target", "receipts", "--guided", "-runs=2000"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "DONE" in done.stderr
    assert "no interesting inputs were found" not in done.stderr
