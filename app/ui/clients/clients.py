"""The list of clients: members of all consumer groups, producers and other connections."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from app.pause import paced
from app.services.client_figures import ClientActivity, ClientFigures
from app.services.connections import Connected
from app.ui.framework import formats, list_exports, pages, tables
from app.ui.framework.console import Console
from app.ui.framework.language import _
from app.ui.framework.list_exports import Listing
from app.ui.framework.page_request import PageRequest
from app.ui.framework.tables import Cut, Query
from engine.broker import Member
from engine.errors import NotFound

SORTS = ("client", "group", "version", "seen", "joined", "handed", "sent", "failed")
COLUMNS = (
    "client", "group", "kind", "language", "version", "address", "ways", "topics", "joined_at",
    "seen_at", "in_flight", "handed_per_s", "sent_per_s", "failed", "last_error",
    "processing_p99_ms", "clock_skew_ms", "unknown",
)  # fmt: skip
CONSUMER, PRODUCER, CONNECTED = "consumer", "producer", "connected"
CONNECTIONS_SHOWN_MAX = 100
VERSIONS_SHOWN_MAX = 12


@dataclass(frozen=True)
class ClientEntry:
    """A client as a member of one group; `member` is None for one that only is connected.

    `kind` is consumer, producer or connected.
    """

    client: str
    group: str
    kind: str
    language: str
    version: str
    address: str
    since_ms: int | None
    member: Member | None


@dataclass(frozen=True)
class ClientLine(ClientEntry):
    """A row of the list; `inflight` is None if the group was deleted meanwhile.

    `sent_rate` is None if it is unknown.
    """

    ways: tuple[str, ...]
    inflight: int | None
    activity: ClientActivity
    sent_rate: float | None


@dataclass(frozen=True)
class VersionTally:
    """The number of clients of a language and version; both are "" if unknown."""

    language: str
    version: str
    clients: int


@dataclass(frozen=True)
class ClientSelection:
    """The page of entries to show, and the counts over all of them.

    `clients` counts names, as a client may be in several groups; `producing` those that send and
    are in no group, as far as their endpoint knows; `clients_total` those in `versions`.
    """

    cut: Cut[ClientEntry]
    clients: int
    producing: int
    groups: int
    members: int
    clients_total: int
    versions: list[VersionTally]


@dataclass(frozen=True)
class ClientsPage:
    """The context of `clients.html`; the versions, producers and connections are the first ones.

    `producers` are producer groups with the number of connections that answer their checks.
    """

    selection: ClientSelection
    cut: Cut[ClientLine]
    query: Query
    members_max: int
    timeout_s: float
    versions: list[VersionTally]
    producers: list[tuple[str, int]]
    producers_total: int
    connections: list[Connected]
    connections_total: int


async def show(request: PageRequest) -> Response:
    """GET /clients"""
    console = request.console
    query = tables.parse_query(request.query_params, SORTS, "client")
    figures, connected = request.services.client_figures, request.services.connections.all()
    entries = await _everyone(console, figures, connected)
    values = await _values(figures, entries, query.sort, console.now_ms())
    kind_of_file = list_exports.file_kind(request)
    cut = tables.whole(query, len(entries)) if kind_of_file else query
    selection = await console.render(lambda: _select(entries, cut, values))
    if kind_of_file:
        rows = await _rows(console, figures, selection.cut.rows)
        listing = Listing("clients", COLUMNS, map(_cells, rows), len(rows))
        return await list_exports.respond(console, listing, kind_of_file)
    producers = sorted(request.services.transactions.producers.groups().items())
    rows = await _rows(console, figures, selection.cut.rows)
    context = ClientsPage(
        selection=selection,
        cut=selection.cut.with_rows(rows),
        query=query,
        members_max=console.host.config.members_max,
        timeout_s=console.administration.members.timeout_s,
        versions=selection.versions[:VERSIONS_SHOWN_MAX],
        producers=producers[:CONNECTIONS_SHOWN_MAX],
        producers_total=len(producers),
        connections=connected[:CONNECTIONS_SHOWN_MAX],
        connections_total=len(connected),
    )
    return await pages.respond(request, "clients.html", context, title=_("Clients"), is_live=True)


async def _everyone(
    console: Console, figures: ClientFigures, connected: Sequence[Connected]
) -> list[ClientEntry]:
    """All members of groups, then connected clients that are in no group."""
    entries: list[ClientEntry] = []
    async for group, member in paced(await console.administration.members.everyone()):
        facts = (member.language, member.version, member.address, member.joined_ms)
        entries.append(ClientEntry(member.client, group, CONSUMER, *facts, member))
    consuming = {each.client for each in entries}
    now_ms = console.now_ms()
    async for each in paced(connected):
        if each.client not in consuming:
            sends = figures.rates(each.client, now_ms)[1] > 0
            kind = PRODUCER if each.is_producer or sends else CONNECTED
            facts = (each.language, each.version, each.address, each.since_ms)
            entries.append(ClientEntry(each.client, "", kind, *facts, None))
    return entries


async def _values(
    figures: ClientFigures, entries: Sequence[ClientEntry], sort: str, now_ms: int
) -> dict[str, float]:
    """The rate to sort by for each client; empty if `sort` is no rate."""
    if sort not in RATES:
        return {}
    return {
        each.client: figures.rates(each.client, now_ms)[RATES[sort]]
        async for each in paced(entries)
    }


def _select(
    entries: list[ClientEntry], query: Query, values: Mapping[str, float]
) -> ClientSelection:
    """Filter, count, sort and cut the entries; pure, because it runs on another thread."""
    versions = Counter({each.client: (each.language, each.version) for each in entries}.values())
    words = query.text.lower().split()
    matches = [each for each in entries if _matches(each, words)]
    key = (lambda each: values[each.client]) if query.sort in RATES else KEYS[query.sort]
    tables.order(matches, key, _name, down=query.is_downward)
    members = [each for each in entries if each.member is not None]
    return ClientSelection(
        cut=tables.cut(matches, query),
        clients=len({each.client for each in members}),
        producing=len({each.client for each in entries if each.kind == PRODUCER}),
        groups=len({each.group for each in members}),
        members=len(members),
        clients_total=versions.total(),
        versions=[VersionTally(*key, count) for key, count in versions.most_common()],
    )


def _matches(each: ClientEntry, words: list[str]) -> bool:
    parts = (each.client, each.group, each.address, each.version, each.language, each.kind)
    text = " ".join(parts).lower()
    return all(word in text for word in words)


def _name(each: ClientEntry) -> str:
    return f"{each.client}\0{each.group}"


RATES = {"handed": 0, "sent": 1, "failed": 2}  # where `ClientFigures.rates` has them
KEYS: dict[str, Callable[[ClientEntry], Any]] = {
    "client": _name,
    "group": lambda each: each.group or None,
    # Clients without a version go last.
    "version": lambda each: (each.language, each.version) if each.version else None,
    "seen": lambda each: None if each.member is None else each.member.seen_ms,
    "joined": lambda each: each.since_ms,
}


async def _rows(
    console: Console, figures: ClientFigures, entries: Sequence[ClientEntry]
) -> list[ClientLine]:
    return [await _row(console, figures, each) async for each in paced(entries)]


def _cells(row: ClientLine) -> Sequence[str | int | None]:
    member, activity = row.member, row.activity
    return (
        *(row.client, row.group, row.kind, row.language, row.version, row.address),
        " ".join(row.ways),
        " ".join(sorted(member.topics)) if member else "",
        formats.iso(row.since_ms) if row.since_ms else None,
        formats.iso(member.seen_ms) if member and member.seen_ms else None,
        row.inflight,
        f"{activity.handed_rate:.3f}",
        None if row.sent_rate is None else f"{row.sent_rate:.3f}",
        *(activity.failed, activity.error, activity.processing_p99_ms, activity.clock_skew_ms),
        _unknown(row),
    )


def _unknown(row: ClientLine) -> str:
    """The reasons why cells of a row are empty."""
    reasons = ["the group is gone"] if row.inflight is None and row.group else []
    reasons += ["requests do not say who sends"] if row.sent_rate is None else []
    reasons += ["no acknowledgement was seen"] if row.activity.processing_p99_ms is None else []
    reasons += ["no time of its clock was seen"] if row.activity.clock_skew_ms is None else []
    return "; ".join(reasons)


async def _row(console: Console, figures: ClientFigures, entry: ClientEntry) -> ClientLine:
    member = entry.member
    activity = figures.of(entry.client, console.now_ms())
    has_rate = member is None or member.is_connected or bool(activity.sent)
    return ClientLine(
        **vars(entry),
        ways=_ways(member),
        inflight=await _in_flight(console, entry),
        activity=activity,
        sent_rate=activity.sent_rate if has_rate else None,
    )


def _ways(member: Member | None) -> tuple[str, ...]:
    if member is None:
        return (_("connected"),)
    ways = ((_("heartbeats"), member.is_pulling), ("WebSocket", member.is_connected))
    return tuple(way for way, is_on in ways if is_on) or (_("receives"),)


async def _in_flight(console: Console, entry: ClientEntry) -> int | None:
    if entry.member is None or not console.messaging.capabilities.member_shares:
        return None
    try:
        return len(await console.messaging.held(entry.group, entry.client))
    except NotFound:  # the group was deleted meanwhile
        return None
