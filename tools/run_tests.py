"""Runs pytest in several workers, and what failed there once more, alone.

Beside neighbours that take both cores a client may miss a time limit that it keeps alone. A test
that fails twice fails the run; one that passes alone is named at the end, for it has a race or too
short a limit. More than MOST_AGAIN failures are no accident: nothing is repeated then.

    python -m tools.run_tests WORKERS [arguments of pytest ...]
"""

import json
import re
import subprocess
import sys
from pathlib import Path

MOST_AGAIN = 8
# pytest's exit status where tests ran and some failed; others mean a broken run.
TESTS_FAILED = 1
LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")
# Workers append the number of a test's xdist_group to its name; one process does not know it so.
GROUP = re.compile(r"@\d+$")


def run(workers: str, arguments: list[str]) -> int:
    """Run the tests that the arguments choose; return pytest's exit status."""
    status = _pytest("-n", workers, "--dist", "loadgroup", "--no-loadscope-reorder", *arguments)
    if status != TESTS_FAILED:
        return status
    failed = sorted(
        GROUP.sub("", name) for name in json.loads(LAST_FAILED.read_text(encoding="utf-8"))
    )
    if len(failed) > MOST_AGAIN:
        return status
    print(f"\n{len(failed)} failed; once more, alone:", *failed, sep="\n  ", flush=True)
    LAST_FAILED.write_text(json.dumps(dict.fromkeys(failed, True)), encoding="utf-8")
    appended = ["--cov-append"] if "--cov" in arguments else []
    status = _pytest("--last-failed", *arguments, *appended)
    if status == 0:
        print("\nFLAKY, passed only alone; to be mended:", *failed, sep="\n  ", flush=True)
    return status


def _pytest(*arguments: str) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2:]))
