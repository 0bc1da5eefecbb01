"""Several results of the bench as one: of each figure the median, of each target the middle run.

    python -m bench.medians FILE FILE FILE [--docs]

FILE is what `python -m bench` wrote, three times at different hours say. A figure is the median of
the files', its loop delay the worst of them. A target is a ratio within one run, so what counts of
it is the run whose ratio lies in the middle. A line that only some files have counts as in those.
"""

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

from bench import report
from bench.figures import FIGURE_HEAD, Check, Figure, Verdict, figure_row, middle_of
from bench.lines import LINES

Result = dict[str, Any]  # as `report.document` makes it


def main() -> int:
    """Print both tables; with --docs put them into docs/benchmarks.md as well."""
    parser = argparse.ArgumentParser(prog="python -m bench.medians", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument(
        "--docs", action="store_true", help="put the tables into docs/benchmarks.md"
    )
    options = parser.parse_args()
    if len(options.files) % 2 == 0:
        parser.error("FILE: an even number of results has none in the middle; give one more")
    results = [json.loads(path.read_bytes()) for path in options.files]
    if unknown := sorted(unknown_lines(results)):
        parser.error(f"FILE: lines that the bench has not, or not here: {', '.join(unknown)}")
    runs = [figures_of(result) for result in results]
    said = [*map(report.introduction, results), _partial(runs)]
    introduction = "\n\n".join(filter(None, said))
    measured, verdicts = middle(runs), middle_verdicts(runs)
    print(f"{introduction}\n\n{FIGURE_HEAD}")
    for line, figures in measured:
        for figure in figures:
            print(figure_row(line.name, figure))
    print(report.verdict_table(verdicts))
    if options.docs:
        names = " ".join(map(str, options.files))
        command = f"python -m bench.medians {names} --docs"
        report.publish(introduction, measured, verdicts, command)
    return 0


def unknown_lines(results: Sequence[Result]) -> set[str]:
    """Lines of the results without which theirs would be silently left out.

    Some are there only where what they measure is installed.
    """
    known = {line.name for line in LINES}
    return {row["name"] for result in results for row in result["lines"]} - known


def figures_of(result: Result) -> report.Measured:
    """The lines of a result that the bench has today, with their figures."""
    rows = {row["name"]: list(map(_figure, row["figures"])) for row in result["lines"]}
    return [(line, rows[line.name]) for line in LINES if line.name in rows]


def middle(runs: Sequence[report.Measured]) -> report.Measured:
    """Medians of what the runs have, in the order of the bench."""
    found: dict[str, dict[str, list[Figure]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        for line, figures in run:
            for each in figures:
                found[line.name][each.broker].append(each)
    return [
        (line, [middle_of(each) for each in found[line.name].values()])
        for line in LINES
        if line.name in found
    ]


def middle_verdicts(runs: Sequence[report.Measured]) -> list[Verdict]:
    """Of each target the run with the middle ratio; runs that did not measure it do not count."""
    found: dict[tuple[str, Check], list[Verdict]] = defaultdict(list)
    for run in runs:
        for line, figures in run:
            for check in line.checks:
                found[line.name, check].append(check.verdict(line.name, figures))
    in_order = [found[line.name, check] for line in LINES for check in line.checks]
    delays = [report.worst_delay(run) for run in runs]
    return [_middle_verdict(each) for each in (*in_order, delays) if each]


def _figure(row: dict[str, Any]) -> Figure:
    return Figure(**row | {"rates": tuple(row["rates"])})


def _middle_verdict(verdicts: Sequence[Verdict]) -> Verdict:
    measured = [each for each in verdicts if each.ratio is not None]
    ordered = sorted(measured, key=attrgetter("ratio"))
    return ordered[len(ordered) // 2] if ordered else verdicts[0]


def _partial(runs: Sequence[report.Measured]) -> str:
    """Which lines only some of the runs have, in words; "" for none."""
    counts = Counter(line.name for run in runs for line, _ in run)
    names = [f"{name} ({count})" for name, count in counts.items() if count < len(runs)]
    return f"Not in all {len(runs)} runs, but in as many: {', '.join(names)}." if names else ""


if __name__ == "__main__":
    sys.exit(main())
