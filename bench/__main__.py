"""`make bench`: measure KiteMQ and, where they are installed, its peers in the same run.

Prints two Markdown tables, every figure and every target, and writes both with what they were
measured on to a dated JSON file in `bench/results/`. Exit status 1 where a line could not be
measured; a missed target is no failure.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench import report
from bench.figures import FIGURE_HEAD, Figure, figure_row
from bench.line import FULL, QUICK, Line, Scale, SharedProcesses
from bench.lines import LINES
from bench.server import COMPILED, PROFILE_ENV, compile_modules


def main() -> int:
    """Run the lines that were asked for."""
    parser = _parser()
    options = parser.parse_args()
    is_part = options.only not in ("", *report.SECTIONS) or options.without
    if options.docs and (is_part or options.quick):
        sections = ", ".join(report.SECTIONS)
        parser.error(f"--docs wants the whole result, or --only with one of: {sections}")
    lines = [
        line
        for line in LINES
        if options.only in line.name and not any(name in line.name for name in options.without)
    ]
    if options.list or not lines:
        for line in LINES:
            print(f"{line.name:20} {line.title}")
        return 0 if options.list else 2
    # Whoever ends us wants the servers ended too.
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(143))
    if options.profile:
        os.environ[PROFILE_ENV] = str(options.profile.absolute())
    about = report.surroundings()
    print(f"{report.introduction(about)}\n\n{FIGURE_HEAD}", flush=True)
    began_s = time.perf_counter()
    scale = QUICK if options.quick else FULL
    with tempfile.TemporaryDirectory(prefix="kitemq-bench-", ignore_cleanup_errors=True) as folder:
        measured, failures = run(lines, scale, Path(folder))
    verdicts = report.verdicts_of(measured)
    print(report.verdict_table(verdicts))
    result = report.document(about, scale, measured, failures, verdicts)
    path = report.write(result, options.json)
    if options.docs:
        words = f"--only {options.only} --docs" if options.only else "--docs"
        command = f"python -m bench {words}"
        report.publish(report.introduction(about), measured, verdicts, command, options.only)
    print(f"\n{time.perf_counter() - began_s:.0f} s; written to {path}")
    return 1 if failures else 0


def run(
    lines: Sequence[Line], scale: Scale, folder: Path
) -> tuple[report.Measured, dict[str, str]]:
    """The figures of each line, and why a line has none; one that fails does not stop the rest."""
    measured: report.Measured = []
    failures: dict[str, str] = {}
    compile_modules(folder / COMPILED)
    with SharedProcesses(folder) as pool:
        if scale is QUICK:  # whether it works at all is shown by a server that others used, too
            scale = replace(scale, pool=pool)
        for line in lines:
            try:
                measured.append((line, measure(line, scale, folder)))
            except Exception as error:
                failures[line.name] = f"{type(error).__name__}: {error}"
                print(f"| {line.name} | failed: {failures[line.name]} | | | | | | |", flush=True)
    return measured, failures


def measure(line: Line, scale: Scale, folder: Path) -> list[Figure]:
    """Measure one line and print its rows; what it stored is gone afterwards."""
    # A child of a killed server may still write there.
    with tempfile.TemporaryDirectory(
        dir=folder, prefix=f"{line.name}-", ignore_cleanup_errors=True
    ) as own:
        (Path(own) / COMPILED).symlink_to(folder / COMPILED)
        figures = line.measure(scale, Path(own))
    for figure in figures:
        print(figure_row(line.name, figure), flush=True)
    return figures


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short runs: does it work at all?")
    parser.add_argument("--only", default="", metavar="NAME", help="lines with NAME in their name")
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        metavar="NAME",
        help="leave out lines with NAME in their name; may be given more than once",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result there")
    parser.add_argument(
        "--docs", action="store_true", help="put the tables into docs/benchmarks.md"
    )
    parser.add_argument("--list", action="store_true", help="name the lines and stop")
    parser.add_argument(
        "--profile",
        type=Path,
        metavar="FILE",
        help="run our server under cProfile and leave the profile of the last one there",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
