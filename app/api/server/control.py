"""The running server: its self-checks, its log's levels, the read-only switch, a support bundle."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec

from app.api.framework.operation import Call, Operations, Raw
from app.api.monitoring.metrics import metrics
from app.api.server.system import readiness
from app.security.access import ADMINISTER_CONTROL, READ_CONTROL, READ_SERVER
from app.services import support
from app.services.log_levels import LINES_MAX, LogRing
from app.services.read_only import ReadOnlyState
from app.services.settings_view import describe_settings, secrets_of
from app.services.support import Part
from app.version import VERSION
from engine.errors import Busy
from kitemq.model.conversion import convert
from kitemq.model.server import (
    LoggerLevel,
    LoggerList,
    NewLoggerLevel,
    NewReadOnlyMode,
    ReadOnlyMode,
    SelfCheckList,
)

operations = Operations("control", name="kitemq.alerts")
ZIP = b"application/zip"
NAMES_MAX = 1000


@operations.get("/self-checks", needs=READ_SERVER)
async def list_self_checks(call: Call[None, None]) -> SelfCheckList:
    """Run the server's self-checks.

    The checks are made now, or were within the last ten seconds; each ends after five at the
    latest.
    """
    return SelfCheckList(await call.services.self_checks.run())


@operations.get("/read-only", needs=READ_SERVER)
async def get_read_only(call: Call[None, None]) -> ReadOnlyMode:
    """Get the read-only state."""
    return _read_only(call.services.read_only.state)


@operations.put(
    "/read-only",
    needs=ADMINISTER_CONTROL,
    errors=(409, 503),
    example_body='{"read_only": true, "reason": "moving to another disk"}',
)
async def set_read_only(call: Call[None, NewReadOnlyMode]) -> ReadOnlyMode:
    """Make the server read-only, or writable again.

    From the next request on every change is refused at every endpoint, producing and consuming
    included; what runs already goes on. It lasts until it is switched off, through restarts too.
    Where the setting `read_only` holds it, this answers 409.
    """
    switch = call.services.read_only
    body = call.body
    return _read_only(await switch.switch(call.actor, is_on=body.read_only, reason=body.reason))


def _read_only(state: ReadOnlyState) -> ReadOnlyMode:
    return convert(state, ReadOnlyMode, read_only=state.is_on)


@operations.get("/loggers", needs=READ_SERVER)
async def list_loggers(call: Call[None, None]) -> LoggerList:
    """List the parts of the server that write to its log, with their levels."""
    return LoggerList(call.services.log_levels.list())


@operations.put("/loggers/{name}", needs=ADMINISTER_CONTROL, example_body='{"level": "debug"}')
async def set_log_level(call: Call[None, NewLoggerLevel]) -> LoggerLevel:
    """Let a part of the server write more or less to its log, until the next start."""
    return await call.services.log_levels.change(call.actor, call.path("name"), call.body.level)


@operations.get(
    "/support-bundle",
    needs=READ_CONTROL,
    answer=str,
    media_type="application/zip",
    curl_flags="-o bundle.zip",
)
async def get_support_bundle(call: Call[None, None]) -> Raw:
    """Download a support archive.

    A manifest, settings and versions, engine figures, self-checks, metrics, the newest 2,000 lines
    of the log, the first 1,000 topics and groups, the stack of each thread. At most 1 MB of each;
    without secrets, message bodies and users. It is written to the audit trail.
    """
    audit = call.services.audit
    try:
        async with audit.change(call.actor, "support.bundle", "", kind="server") as change:
            data = await _bundle(call)
            change.after = {"bytes": len(data)}
    except Busy:  # the trail cannot be written, which is when help is needed most
        data = await _bundle(call)
    return Raw(data, ZIP)


async def _bundle(call: Call[None, None]) -> bytes:
    parts = await _figures(call)
    topics = await call.administration.topics(system=True)
    groups = await call.administration.groups()
    # Beside the loop: a thousand names become text, sources and every package's files are read.
    parts += await asyncio.to_thread(_names, topics, groups)
    parts += await asyncio.to_thread(_process, call.services.log_ring)
    clock, settings = call.host.clock, call.settings
    return await asyncio.to_thread(
        support.pack,
        parts,
        secrets_of(settings),
        made_at=datetime.fromtimestamp(clock.now_ms() // 1000, UTC).isoformat(),
        version=VERSION,
        environment=settings.environment,
    )


async def _figures(call: Call[None, None]) -> list[Part]:
    services = call.services
    checks = services.self_checks
    page = await metrics.handler(call)
    assert isinstance(page, Raw)
    has = call.messaging.capabilities
    engine = {
        "readiness": await readiness(services),
        "health": await call.administration.health(),
        "retention": await services.purges.status() if has.log_figures else None,
        "statistics": call.services.sampler.meter.broker(),
        "lag_keeping": call.host.lags.lag_keeping() if has.lag_history else None,
        "traces": await services.journeys.status() if has.delivery_records else None,
        "read_only": replace(services.read_only.state, by=""),  # nobody is named
    }
    settings = describe_settings(call.settings, services.origins)
    return [
        Part("settings.json", "every setting, and who set it", _text(settings)),
        Part("engine.json", "health, retention, statistics", _text(engine)),
        Part("self_checks.json", "what the server found out", _text(await checks.run())),
        Part("metrics.txt", "as /metrics gives them", page.body.decode()),
    ]


def _names(topics: list[Any], groups: list[Any]) -> list[Part]:
    return [
        Part("topics.json", "the first topics by name", _text(_first(topics))),
        Part("groups.json", "the first groups by name", _text(_first(groups))),
    ]


def _process(ring: LogRing) -> list[Part]:
    lines = ring.lines()
    head = f"the newest {len(lines)} of {ring.count} lines; at most {LINES_MAX} are kept"
    return [
        Part("log.txt", head, "\n".join(lines) + "\n", newest_last=True),
        Part("threads.txt", "what each thread does", support.stacks()),
        Part("versions.json", "Python and its packages", _text(support.versions())),
    ]


def _first(items: list[Any]) -> dict[str, object]:
    rows = [{name: getattr(each, name) for name in each.__struct_fields__} for each in
            items[:NAMES_MAX]]  # fmt: skip
    return {"total": len(items), "shown": len(rows), "items": rows}


def _text(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
