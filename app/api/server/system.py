"""REST for the server itself: liveness, readiness, version and audit trail."""

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from app.api.framework.operation import Call, Operations, Raw, encode
from app.api.framework.paging import PAGE_DEFAULT, Limit, NumberCursor, number_in
from app.container import Services
from app.db.rows import AuditFilter
from app.security.access import ADMINISTER_CONTROL, PUBLIC, READ_SERVER, Action, Kind, Needs
from app.version import VERSION
from kitemq.model.conversion import convert
from kitemq.model.server import (
    Alive,
    AuditItem,
    AuditPage,
    HandoverDone,
    LogTailItem,
    NewHandover,
    NewPromotion,
    Promotion,
    Readiness,
    Replication,
    ServerInfo,
    StandbyItem,
)

operations = Operations("system")
ID_MAX = 2**63 - 1


class AuditQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Filters of the audit trail."""

    object_kind: Annotated[str, Meta(description="topic or group.")] = ""
    object_name: str = ""
    action: Annotated[str, Meta(description="As `topic.create`, or `refused`.")] = ""
    result: Annotated[str, Meta(description="done, started, failed, or an error's code.")] = ""
    actor: str = ""
    address: str = ""
    limit: Limit = PAGE_DEFAULT
    cursor: NumberCursor = ""


async def readiness(services: Services) -> Readiness:
    """Ready: the engine has started, is not stopping, and can write.

    A database that fails is a problem, yet messages flow without it.
    """
    host, following = services.host, services.following
    if host.is_loading:
        return Readiness("starting", {"engine": "it loads what its leader sent"})
    if not host.is_ready:
        return Readiness("starting", {"engine": "it is starting or stopping"})
    health = await services.administration.health()
    problems = dict(health.failures)
    if services.database.failure:
        problems["database"] = services.database.failure
    if not health.is_ready and "cluster" not in problems:
        problems.setdefault("engine", "writes are refused; the log says why")
    if failure := following.failure or services.handover.failure():
        problems["replication"] = failure
    status = "ready" if health.is_ready else "degraded"
    warnings = dict(health.warnings)
    if health.damages:
        first = health.damages[0]
        warnings["damage"] = (
            f"the start found {len(health.damages)} damages, the first in {first.file} from byte"
            f" {first.start} on; the engine's page and `kitemq store verify` name all"
        )
    if following.leader:
        warnings["standby"] = following.text(host.broker.log_end)
    if services.leadership.rival:
        warnings["epoch"] = services.leadership.rival
    return Readiness(status, problems, warnings, health.kernel)


@operations.get("/healthz", prefix="", needs=PUBLIC)
async def healthz(call: Call[None, None]) -> Alive:
    """Check that the process is alive."""
    return Alive("ok")


@operations.get("/readyz", prefix="", needs=PUBLIC, answer=Readiness)
async def readyz(call: Call[None, None]) -> Raw:
    """Check that requests can be served.

    200 when ready; 503 with the same body while starting, stopping, or unable to write.
    """
    state = await readiness(call.services)
    return Raw(encode(state), status=200 if state.status == "ready" else 503)


@operations.get("/system", needs=READ_SERVER)
async def about(call: Call[None, None]) -> ServerInfo:
    """Get the version and identity of this server."""
    administration = call.administration
    started_ms: int = call.services.started_ms
    return ServerInfo(
        version=VERSION,
        environment=call.settings.environment,
        started_ms=started_ms,
        uptime_s=(call.host.clock.now_ms() - started_ms) / 1000,
        topics=len(await administration.topics()),
        groups=len(await administration.groups()),
        data=str(call.settings.data.absolute()),
        data_mark=_mark_of(call.settings.data),
        capabilities=call.messaging.capabilities,
        kernel=(await administration.health()).kernel,
    )


@operations.get("/replication", needs=READ_SERVER)
async def replication(call: Call[None, None]) -> Replication:
    """Get whom this server follows, and who copies it."""
    following, standbys = call.services.following, call.services.standbys
    log_end = call.host.broker.log_end
    items = [
        convert(link, StandbyItem, lag_bytes=link.lag_bytes(log_end)) for link in standbys.links
    ]
    leadership = call.services.leadership
    return convert(
        following,
        Replication,
        lag_bytes=following.lag_bytes(log_end),
        standbys=items,
        refusal=standbys.refusal,
        epoch=leadership.state.epoch,
        heir=leadership.state.heir,
        tails=[
            convert(each.tail, LogTailItem, file=each.file, size_bytes=each.size_bytes)
            for each in await leadership.tails()
        ],
    )


@operations.post(
    "/replication/promotion",
    needs=ADMINISTER_CONTROL,
    errors=(409, 503),
    example_body='{"force": false}',
)
async def promote(call: Call[None, NewPromotion]) -> Promotion:
    """Make this standby the leader.

    The server starts anew in its process, on the same port, and leads with the answer's epoch. The
    leader before it stops as soon as either of the two reaches the other.
    """
    services = call.services
    leadership = services.leadership
    epoch = await leadership.promote(call.actor, services.audit, is_forced=call.body.force)
    return Promotion(epoch)


@operations.post(
    "/replication/handover",
    needs=ADMINISTER_CONTROL,
    errors=(404, 409, 503),
    example_body='{"to": "10.0.0.2:10912"}',
)
async def hand_over(call: Call[None, NewHandover]) -> HandoverDone:
    """Let a standby lead in this server's place, without loss.

    Changes are refused with 503 and the code `handing_over` while the standby gets what it lacks;
    then it leads, and this server starts anew in its process, as its standby. Where the standby has
    not everything in time, or refuses, this server goes on (`handover_failed`). Where it was told
    and has not answered (`heir_silent`), changes stay refused until it does.
    """
    services, body = call.services, call.body
    epoch, leader = await services.handover.hand_over(
        call.actor, services.audit, body.to, timeout_s=body.timeout_s
    )
    return HandoverDone(epoch, leader)


def _mark_of(data: Path) -> str:
    """The identity of the store's lock file, for comparison by readers of the store's files."""
    try:
        stat = (data / "lock").stat()
    except FileNotFoundError:  # no embedded engine, no store
        return ""
    return f"{stat.st_dev:x}-{stat.st_ino:x}-{stat.st_ctime_ns:x}"


@operations.get("/audit", needs=Needs(Action.READ, Kind.AUDIT), example="?object_kind=topic")
async def list_audit(call: Call[AuditQuery, None]) -> AuditPage:
    """List the audit trail, newest first.

    Refused attempts to change something are there too, with the action `refused` and the error's
    code as result; the same one within ten minutes is one entry that counts.
    """
    query = call.query
    audit = call.services.audit
    before_id = number_in(query.cursor)
    criteria = convert(query, AuditFilter)
    entries = await audit.find(criteria, limit=query.limit, before_id=before_id)
    items = [convert(entry, AuditItem) for entry in entries]
    return AuditPage(items, items[-1].id if len(items) == query.limit else None)
