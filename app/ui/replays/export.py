"""The report of a replay job as a file: the outcome of each message, and totals.

The file is streamed; its last line has the state of the job.
"""

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import msgspec
from starlette.responses import Response, StreamingResponse

from app.pause import Pause
from app.security.message_rights import lacks_messages
from app.ui.framework import cells, list_exports, pages
from app.ui.framework.page_request import PageRequest
from app.ui.replays.jobs import OUTCOMES
from engine.broker import OutcomeRow

STEP = 100
COLUMNS = (
    "job", "queue", "offset", "outcome", "meaning", "message_id", "tag", "keys", "to_topic",
)  # fmt: skip


async def export(request: PageRequest) -> Response:
    """GET /jobs/{id}/export?format=csv|ndjson, of one outcome where `outcome` names it."""
    console = request.console
    kind = list_exports.require_kind(request, ("csv", "ndjson"))
    outcome = request.query_params.get("outcome", "")
    replays = request.services.replays
    job = await replays.get(request.path_params["id"])
    await replays.outcomes(job.id, outcome=outcome, count_max=1)  # Invalid
    may_read = not lacks_messages(request.who, job.source)
    console.exports.check()
    return StreamingResponse(
        _parts(request, job.id, outcome, kind, may_read),
        media_type=list_exports.MEDIA_TYPES[kind],
        headers=pages.as_file(f"replay-{job.id}.{kind}")
        | {"X-Total": str(job.totals.get(outcome, 0) if outcome else job.selected)},
    )


async def _parts(
    request: PageRequest, job_id: str, outcome: str, kind: str, may_read: bool
) -> AsyncIterator[bytes]:
    console, replays = request.console, request.services.replays
    with console.exports.taken():
        if kind == "csv":
            yield cells.lines([COLUMNS])
        rows, after = 0, -1
        pause = Pause()
        while True:
            page = await replays.outcomes(job_id, outcome=outcome, after=after, count_max=STEP)
            rows += len(page.items)
            items = page.items
            if not may_read:
                items = [msgspec.structs.replace(row, keys=()) for row in items]
            if items:
                yield await console.render(partial(_lines, kind, job_id, items))
            if page.next is None:
                break
            after = page.next
            await pause.when_due()
        job = await replays.get(job_id)
        last = {
            "job": job_id,
            "state": job.state.value,
            "dry_run": job.dry_run,
            "rows": rows,
            "selected": job.selected,
            "totals": job.totals,
        }
        yield _last(last, kind)


def _record(job_id: str, row: OutcomeRow) -> dict[str, Any]:
    return {
        "job": job_id,
        "queue": row.queue,
        "offset": str(row.offset),
        "outcome": row.outcome,
        "meaning": OUTCOMES[row.outcome][0],
        "message_id": row.message_id,
        "tag": row.tag,
        "keys": list(row.keys),
        "to_topic": row.to_topic,
    }


def _lines(kind: str, job_id: str, rows: list[OutcomeRow]) -> bytes:
    return list_exports.encoded(kind, (_record(job_id, row) for row in rows))


def _last(summary: dict[str, Any], kind: str) -> bytes:
    if kind == "ndjson":
        return list_exports.encoded(kind, [{"report": summary}])
    totals = ", ".join(f"{count} {name}" for name, count in summary["totals"].items())
    sentence = f"{summary['rows']} rows; {summary['selected']} chosen: {totals}; {summary['state']}"
    return cells.lines([["# report", sentence + (" dry run" if summary["dry_run"] else "")]])
