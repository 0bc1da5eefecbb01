"""One run of a job by an engine: reads, computes and writes every table."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from analytics.errors import Refused
from analytics.jobs import inputs, lag_now, lag_plan
from analytics.jobs.definitions import Params
from analytics.jobs.engines import JobEngine
from analytics.jobs.inputs import Input
from analytics.jobs.lag_series import Previous
from analytics.jobs.outputs import Rows, write
from analytics.jobs.progress import JobProgress
from analytics.jobs.traces import build, message_ids, tables
from analytics.jobs.traces.finish import COUNTED
from analytics.manifest import FrameManifest
from analytics.schemas import LAG, MESSAGES, TRACE
from engine.report_tables import ALL, LAG_JOB, RESULTS_BY_NAME, TRACES_JOB, ResultTable, manifest

Inputs = dict[str, Input]
Made = tuple[dict[str, Rows], dict[str, int]]  # the rows of each table, and the counters


class RunWork(msgspec.Struct):
    """What is to be done; `previous` may be None."""

    job: str
    hours: list[str]
    root: str
    output: Path
    params: Params
    previous: Path | None


def run(engine: JobEngine, work: RunWork, progress: JobProgress) -> dict[str, Any]:
    """What of `result.json` only the work itself knows. Raises Refused, and the engine's errors."""
    known = engine.manifest(work.root)
    input_hours = inputs.input_hours(known, work.job, work.hours)
    progress.enter("computing")
    perform = _traces if work.job == TRACES_JOB else _lag
    rows, counters = perform(engine, work, known, input_hours, progress)
    progress.enter("writing")
    for name, those in rows.items():
        rows[name] = write(those, RESULTS_BY_NAME[name], work.output)
    counters |= {"late": sum(each.late_rows for each in input_hours.values())}
    return {
        "fingerprints": inputs.fingerprints(known, work.job, work.hours),
        "input": msgspec.to_builtins(input_hours),
        "rows_in": sum(each.rows for each in input_hours.values()),
        "rows_out": sum(len(each) for each in rows.values()),
        "input_position": known.position,
        "input_at_ms": known.at_ms,
        "lag_ms": known.lag_ms,
        "counters": counters,
        "tables": {
            name: _result_fields(RESULTS_BY_NAME[name], those) for name, those in rows.items()
        },
    }


def _traces(
    engine: JobEngine,
    work: RunWork,
    known: FrameManifest,
    input_hours: Inputs,
    progress: JobProgress,
) -> Made:
    params = replace(work.params, at_ms=known.at_ms, is_traced_by_clients=known.is_of_cluster)
    read = [(frame, each.hours) for frame, each in input_hours.items()]
    pieces = engine.pieces(work.root, known, read)
    made = build.build(pieces, _rows(known, work.hours, params.hours), params).collect()
    rows, counters = tables.collect(made, TRACES_JOB)
    progress.enter("naming")
    records = engine.pieces(work.root, known, [(MESSAGES, input_hours[MESSAGES].hours)])
    message_ids.fill_in(rows["slowest"], records)
    return rows, dict.fromkeys(COUNTED, 0) | counters


def _rows(known: FrameManifest, names: list[str], hours: tuple[int, ...]) -> dict[int, int]:
    """How many rows each wanted hour reads; of earlier records few."""
    return {
        hour: known.row_count(TRACE, inputs.hours_read(TRACE, [name]))
        + known.row_count(MESSAGES, [name])
        for name, hour in zip(names, hours, strict=True)
    }


def _lag(
    engine: JobEngine,
    work: RunWork,
    known: FrameManifest,
    input_hours: Inputs,
    progress: JobProgress,
) -> Made:
    params = replace(work.params, at_ms=known.lag_ms)
    pieces = engine.pieces(work.root, known, [(LAG, input_hours[LAG].hours)])
    previous = _previous(work.previous) if work.previous else {}
    made = lag_plan.build(pieces, input_hours[LAG].rows, params, previous).collect()
    rows, counters = tables.collect(made, LAG_JOB)
    if not lag_now.is_covered(params):
        rows = {name: those for name, those in rows.items() if not _replaces_all(name)}
    return rows, {"duplicates": 0} | counters


def _replaces_all(name: str) -> bool:
    return RESULTS_BY_NAME[name].replaces == ALL


def _result_fields(table: ResultTable, rows: Rows) -> dict[str, object]:
    return {"rows": len(rows), "file": f"{table.name}.ndjson", **manifest(table)}


def _previous(path: Path) -> Previous:
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return {
            (row["group"], row["topic"], row["queue"]): (row["state"], row["raw_state"])
            for row in rows
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Refused(
            f"{path} cannot be read ({type(error).__name__}: {error})",
            "give rows of lag_now as JSON lines",
            field="previous",
        ) from None
