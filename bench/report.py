"""The result as a file: every figure, every target, and what it was measured on."""

import dataclasses
import datetime
import importlib.metadata
import json
import os
import platform
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.figures import (
    FIGURE_HEAD,
    VERDICT_HEAD,
    Figure,
    Verdict,
    figure_row,
    verdict_row,
)
from bench.line import Line, Scale
from bench.peers import nats, redis

RESULTS = Path(__file__).parent / "results"
LIBRARIES = ("fastapi", "starlette", "uvicorn", "uvloop", "httptools", "websockets", "msgspec")
DELAY_MAX_MS = 10.0
DOCUMENT = Path(__file__).parents[1] / "docs" / "benchmarks.md"
LATEST = "## The latest result"
# Lines with a heading of their own, before that, which may be measured by themselves.
SECTIONS = {"console": "## The console at scale, measured"}
VERSION = re.compile(r"v=?(\d[\w.]*)")

Measured = list[tuple[Line, list[Figure]]]


def worst_delay(measured: Measured) -> Verdict:
    """The target that holds over all lines: the event loop is never held up for long."""
    delays = [
        (figure.delay_ms, line.name, figure.broker)
        for line, figures in measured
        for figure in figures
        if figure.delay_ms is not None
    ]
    if not delays:
        return Verdict("all", "KiteMQ", "event loop never held up", "-", None, None)
    worst_ms, line_name, broker = max(delays)
    return Verdict(
        f"all ({line_name})",
        broker,
        f"≤ {DELAY_MAX_MS:g} worst loop delay ms",
        f"{worst_ms:.0f} ms",
        worst_ms / DELAY_MAX_MS,
        worst_ms <= DELAY_MAX_MS,
    )


def surroundings() -> dict[str, Any]:
    """When, on what and with which versions something is measured."""
    return {
        "at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "machine": machine(),
        "versions": versions(),
        "loop": "uvloop on both sides",
    }


def introduction(about: dict[str, Any]) -> str:
    """The same in a few lines for people."""
    machine, versions = about["machine"], about["versions"]
    libraries = ", ".join(f"{name} {versions[name]}" for name in LIBRARIES)
    return (
        f"{about['at']}, commit {about['commit']}; {machine['cores']} cores ({machine['processor']}"
        f"), {machine['memory']} of memory, Linux {machine['kernel']}; load before the run "
        f"{machine['load_at_start']}.\n"
        f"Python {versions['python']}; {libraries}; Redis {versions['redis']}; "
        f"NATS {versions['nats']}."
    )


def machine() -> dict[str, str | int]:
    """What it was measured on."""
    return {
        "processor": _first_match(Path("/proc/cpuinfo"), r"model name\s*:\s*(.+)"),
        "cores": os.cpu_count() or 0,
        "memory": _first_match(Path("/proc/meminfo"), r"MemTotal:\s*(.+)"),
        "kernel": platform.release(),
        "load_at_start": f"{os.getloadavg()[0]:.2f}",
    }


def versions() -> dict[str, str]:
    """Python, libraries and peers; peers that are not installed say so."""
    by_library = {name: importlib.metadata.version(name) for name in LIBRARIES}
    by_library["python"] = platform.python_version()
    by_library["redis"] = _peer_version(redis.BINARY, redis.is_installed())
    by_library["nats"] = _peer_version(nats.BINARY, nats.is_installed())
    return by_library


def commit() -> str:
    """The git commit, with "+" where the tree has changes; empty outside of a repository."""
    try:
        name = _run("git", "rev-parse", "--short=12", "HEAD")
        return name + ("+" if _run("git", "status", "--porcelain") else "")
    except (OSError, subprocess.CalledProcessError):
        return ""


def document(
    about: dict[str, Any],
    scale: Scale,
    measured: Measured,
    failures: dict[str, str],
    verdicts: Sequence[Verdict],
) -> dict[str, Any]:
    """The whole result as it goes into the file."""
    return {
        **about,
        "settings": dataclasses.asdict(dataclasses.replace(scale, pool=None)),
        "failures": failures,
        "lines": [
            {
                "name": line.name,
                "title": line.title,
                "figures": [dataclasses.asdict(figure) for figure in figures],
            }
            for line, figures in measured
        ],
        "targets": [dataclasses.asdict(verdict) for verdict in verdicts],
    }


def write(result: dict[str, Any], path: Path | None) -> Path:
    """Write the result to `path`, else to a file of `results` named for the time; where it is."""
    if path is None:
        RESULTS.mkdir(exist_ok=True)
        at = datetime.datetime.fromisoformat(result["at"])
        path = RESULTS / f"{at:%Y-%m-%dT%H%M}.json"
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    return path


def verdicts_of(measured: Measured) -> list[Verdict]:
    """How each target came out."""
    verdicts = [
        check.verdict(line.name, figures) for line, figures in measured for check in line.checks
    ]
    return [*verdicts, worst_delay(measured)]


def verdict_table(verdicts: Sequence[Verdict]) -> str:
    """The table of targets."""
    return "\n".join(["", VERDICT_HEAD, *map(verdict_row, verdicts)])


def publish(
    introduction: str,
    measured: Measured,
    verdicts: Sequence[Verdict],
    command: str,
    only: str = "",
) -> None:
    """Put the tables that a command printed under their headings in docs/benchmarks.md.

    `only` is the name of the one section that was measured.
    """
    text = DOCUMENT.read_text()
    for name, heading in SECTIONS.items():
        own = [each for each in measured if each[0].name == name]
        if own:
            of_line = [verdict for verdict in verdicts if verdict.line == name]
            text = _replaced(text, heading, _tables(command, introduction, own, of_line))
    if not only:
        others = [each for each in measured if each[0].name not in SECTIONS]
        rest = [verdict for verdict in verdicts if verdict.line not in SECTIONS]
        text = _replaced(text, LATEST, _tables(command, introduction, others, rest))
    DOCUMENT.write_text(text)


def _tables(
    command: str, introduction: str, measured: Measured, verdicts: Sequence[Verdict]
) -> str:
    rows = [figure_row(line.name, figure) for line, figures in measured for figure in figures]
    parts = [
        f"Printed by `{command}`:",
        introduction,
        "\n".join([FIGURE_HEAD, *rows]),
        verdict_table(verdicts).strip(),
    ]
    return "\n\n".join(parts)


def _replaced(text: str, heading: str, content: str) -> str:
    """The document with other content under a heading; all that follows the heading stays."""
    before, _, after = text.partition(f"{heading}\n")
    _, mark, rest = after.partition("\n## ")
    return f"{before}{heading}\n\n{content}\n" + (f"{mark}{rest}" if mark else "")


def _peer_version(binary: str, is_installed: bool) -> str:
    if not is_installed:
        return "not installed: its lines are left out"
    match = VERSION.search(_run(binary, "--version"))
    return match[1] if match else "unknown"


def _first_match(path: Path, pattern: str) -> str:
    try:
        match = re.search(pattern, path.read_text())
    except OSError:
        return ""
    return match[1].strip() if match else ""


def _run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, check=True, text=True, timeout=10)
    return done.stdout.strip()
