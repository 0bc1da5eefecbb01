"""Several results of the bench as one: of each figure the median, of each target the middle run.

    python -m bench.medians FILE FILE FILE [--docs]

FILE is what `python -m bench` wrote, three times at different hours say. A figure is the median of
the files', its loop delay the worst of them. A target is a ratio within one run, so what counts of
it is the run whose ratio lies in the middle. A line that a file lacks is left out.
"""

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

from bench import report
from bench.figures import FIGURE_HEAD, Figure, Verdict, figure_row, middle_of
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
    introduction = "\n\n".join(map(report.introduction, results))
    runs = [figures_of(result) for result in results]
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


def figures_of(result: Result) -> report.Measured:
    """The lines of a result that the bench has today, with their figures."""
    rows = {row["name"]: list(map(_figure, row["figures"])) for row in result["lines"]}
    return [(line, rows[line.name]) for line in LINES if line.name in rows]


def middle(runs: Sequence[report.Measured]) -> report.Measured:
    """Medians of what all runs have; the order is that of the first."""
    found: dict[tuple[str, str], list[Figure]] = defaultdict(list)
    for run in runs:
        for line, figures in run:
            for each in figures:
                found[line.name, each.broker].append(each)
    measured: report.Measured = []
    for line, figures in runs[0]:
        of_brokers = [found[line.name, each.broker] for each in figures]
        rows = [middle_of(each) for each in of_brokers if len(each) == len(runs)]
        if rows:
            measured.append((line, rows))
    return measured


def middle_verdicts(runs: Sequence[report.Measured]) -> list[Verdict]:
    """Of each target the run with the middle ratio; one that a run did not measure is not."""
    by_target = zip(*(report.verdicts_of(run) for run in runs), strict=True)
    return [_middle_verdict(each) for each in by_target]


def _figure(row: dict[str, Any]) -> Figure:
    return Figure(**row | {"rates": tuple(row["rates"])})


def _middle_verdict(verdicts: Sequence[Verdict]) -> Verdict:
    missing = [each for each in verdicts if each.ratio is None]
    if missing:
        return missing[0]
    return sorted(verdicts, key=attrgetter("ratio"))[len(verdicts) // 2]


if __name__ == "__main__":
    sys.exit(main())
