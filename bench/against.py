"""Compare lines of the bench with those of an earlier commit, in turns on one machine.

    python -m bench.against COMMIT --only one-stored --only consume --rounds 5

Each round runs a line at the commit, in a work tree that is removed afterwards, and then at the
present state. The table shows the median of each rate and of the broker's processor time per
message, and how the present state relates to the commit: above 1.00 is better in both columns.
The commit runs in the same Python environment, whose packages it has to accept.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parent.parent
LINES = ("engine-256", "ws-1024", "rest-64", "one-stored", "consume")
HEAD = (
    "| line | broker | messages/s before | now | ratio | broker us before | now | ratio |\n"
    "|---|---|---:|---:|---:|---:|---:|---:|"
)

Subject = tuple[str, str]  # line and broker
Figures = dict[Subject, list[tuple[float | None, float | None]]]  # rate, broker's us per message


def main() -> int:
    """Print the table of medians; exit status 1 where a run fails."""
    parser = argparse.ArgumentParser(prog="python -m bench.against", description=__doc__)
    parser.add_argument("commit")
    parser.add_argument("--only", action="append", metavar="NAME", help="as of python -m bench")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    # An end from outside removes the work tree, too.
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="kitemq-against-") as folder:
        before = Path(folder) / "before"
        _git("worktree", "add", "--quiet", "--detach", str(before), options.commit)
        if (before / "setup.py").exists():  # its kernel, or a commit with one would seem slow
            build = ("setup.py", "--quiet", "build_ext", "--inplace")
            subprocess.run([sys.executable, *build], cwd=before, check=True)
        try:
            return compare(before, options.only or LINES, options.rounds)
        finally:
            _git("worktree", "remove", "--force", str(before))


def compare(before: Path, lines: Sequence[str], rounds: int) -> int:
    """Run every line `rounds` times in each work tree, one after the other."""
    old: Figures = defaultdict(list)
    new: Figures = defaultdict(list)
    for number in range(rounds):
        for line in lines:
            print(f"round {number + 1} of {rounds}: {line}", file=sys.stderr, flush=True)
            for tree, figures in ((before, old), (ROOT, new)):
                _measure(tree, line, figures)
    print(HEAD)
    for (line, broker), values in new.items():
        rates = _pair(old[line, broker], values, 0)
        costs = _pair(old[line, broker], values, 1)
        print(f"| {line} | {broker} | {_cells(*rates)} | {_cells(*costs, is_cost=True)} |")
    return 0


def _measure(tree: Path, line: str, figures: Figures) -> None:
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        subprocess.run(
            [sys.executable, "-m", "bench", "--only", line, "--json", file.name],
            cwd=tree,
            env={**os.environ, "PYTHONPATH": str(tree)},
            check=True,
            stdout=subprocess.DEVNULL,
        )
        result = json.loads(Path(file.name).read_bytes())
    for item in result["lines"]:
        for figure in item["figures"]:
            subject = item["name"], figure["broker"]
            figures[subject].append((figure["rate"], figure["broker_us"]))


def _pair(
    old: Sequence[tuple[float | None, float | None]],
    new: Sequence[tuple[float | None, float | None]],
    column: int,
) -> tuple[float | None, float | None]:
    medians = []
    for rows in (old, new):
        values = [row[column] for row in rows if row[column] is not None]
        medians.append(median(value for value in values if value) if any(values) else None)
    return medians[0], medians[1]


def _cells(before: float | None, now: float | None, *, is_cost: bool = False) -> str:
    if before is None or now is None:
        return "- | - | -"
    ratio = before / now if is_cost else now / before
    shown = ".2f" if is_cost else ",.0f"
    return f"{before:{shown}} | {now:{shown}} | {ratio:.2f}"


def _git(*words: str) -> None:
    subprocess.run(["git", *words], cwd=ROOT, check=True)


if __name__ == "__main__":
    sys.exit(main())
