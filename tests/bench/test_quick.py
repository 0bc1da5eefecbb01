"""The benchmark itself, run once with short runs: it ends, and leaves whole results behind."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_quick_run_measures_every_line_and_writes_it_down(tmp_path: Path):
    path = tmp_path / "result.json"
    words = [sys.executable, "-m", "bench", "--quick", "--json", str(path)]
    done = subprocess.run(
        words,
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1150,
        env=os.environ | {"ROCKETMQ_HOME": str(tmp_path)},  # Apache's broker takes long to start
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(path.read_text())
    assert {"at", "commit", "machine", "versions", "settings", "lines", "targets"} <= set(result)
    assert all(line["figures"] for line in result["lines"])
    assert any(target["is_met"] is not None for target in result["targets"])


def test_an_unknown_line_is_refused_with_the_names_there_are():
    words = [sys.executable, "-m", "bench", "--only", "no-such-line"]
    done = subprocess.run(words, check=False, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "end-to-end" in done.stdout
