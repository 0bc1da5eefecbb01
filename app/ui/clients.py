"""Who is connected: members of all consumer groups, producers of transactions, WebSockets."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from app.pause import Pause
from app.services.connections import Connected, Connections
from app.services.transactions import Transactions
from app.ui import formats, list_exports, pages, tables
from app.ui.console import Console
from app.ui.language import _
from app.ui.list_exports import Listing
from app.ui.tables import Cut, Query
from engine.broker import Member
from engine.errors import NotFound

SORTS = ("client", "group", "version", "seen", "joined")
COLUMNS = (
    "client", "group", "language", "version", "address", "ways", "topics", "joined_at", "seen_at",
    "in_flight", "unknown",
)  # fmt: skip
CONNECTIONS_SHOWN_MAX = 100
VERSIONS_SHOWN_MAX = 12


@dataclass(frozen=True)
class ClientRow:
    """A client as a member of one group; `inflight` is None where it could not be read."""

    client: str
    group: str
    version: str
    language: str
    address: str
    ways: tuple[str, ...]
    topics: tuple[str, ...]
    joined_ms: int
    seen_ms: int
    inflight: int | None


@dataclass(frozen=True)
class VersionTally:
    """How many clients state a language and version; both empty: they state none."""

    language: str
    version: str
    clients: int


@dataclass(frozen=True)
class ProducerRow:
    """A producer group and the connections that answer its checks."""

    group: str
    connections: int


@dataclass(frozen=True)
class ClientList:
    """The context of `clients.html`; `clients` counts names, a client may be in several groups."""

    cut: Cut[ClientRow]
    query: Query
    clients: int
    members: int
    groups: int
    members_max: int
    timeout_s: float
    versions: list[VersionTally]
    versions_total: int
    producers: list[ProducerRow]
    producers_total: int
    connections: list[Connected]
    connections_total: int


@dataclass(frozen=True)
class Selection:
    """What is shown of all members, and the counts over all of them."""

    cut: Cut[tuple[str, Member]]
    clients: int
    groups: int
    versions: list[VersionTally]


async def show(request: Request) -> Response:
    """GET /clients"""
    console = pages.console_of(request)
    query = tables.parse_query(request.query_params, SORTS, "client")
    members = await _everyone(console)
    kind_of_file = list_exports.wanted(request)
    if kind_of_file:
        whole = tables.whole(query, len(members))
        chosen = await console.render(lambda: _select(members, whole).cut.rows)
        listing = _listing(await _rows(console, chosen))
        return await list_exports.respond(console, listing, kind_of_file)
    found = await console.render(lambda: _select(members, query))
    transactions: Transactions = request.app.state.transactions
    connections: Connections = request.app.state.connections
    producers = sorted(transactions.producers.groups().items())
    connected = connections.all()
    cut = found.cut
    context = ClientList(
        cut=Cut(
            await _rows(console, cut.rows),
            cut.total,
            cut.first,
            cut.last,
            cut.page,
            cut.pages,
            cut.size,
        ),
        query=query,
        clients=found.clients,
        members=len(members),
        groups=found.groups,
        members_max=console.host.config.members_max,
        timeout_s=console.broker.members.timeout_s,
        versions=found.versions[:VERSIONS_SHOWN_MAX],
        versions_total=len(found.versions),
        producers=[ProducerRow(*each) for each in producers[:CONNECTIONS_SHOWN_MAX]],
        producers_total=len(producers),
        connections=connected[:CONNECTIONS_SHOWN_MAX],
        connections_total=len(connected),
    )
    return await pages.respond(
        request, "clients.html", context, title=_("Clients"), section="clients", is_live=True
    )


async def _everyone(console: Console) -> list[tuple[str, Member]]:
    members: list[tuple[str, Member]] = []
    pause = Pause()
    for each in console.broker.members.everyone():
        members.append(each)
        await pause.when_due()
    return members


def _select(members: list[tuple[str, Member]], query: Query) -> Selection:
    """Filter, count, sort and cut; pure, as another thread does it."""
    versions = Counter(
        {member.client: (member.language, member.version) for __, member in members}.values()
    )
    words = query.text.lower().split()
    chosen = [each for each in members if _matches(each, words)]
    tables.order(chosen, KEYS[query.sort], _name, down=query.is_downward)
    return Selection(
        cut=tables.cut(chosen, query),
        clients=versions.total(),
        groups=len({group for group, __ in members}),
        versions=[VersionTally(*key, count) for key, count in versions.most_common()],
    )


def _matches(each: tuple[str, Member], words: list[str]) -> bool:
    group, member = each
    parts = (member.client, group, member.address, member.version, member.language)
    text = " ".join(parts).lower()
    return all(word in text for word in words)


def _name(each: tuple[str, Member]) -> str:
    return f"{each[1].client}\0{each[0]}"


KEYS: dict[str, Callable[[tuple[str, Member]], Any]] = {
    "client": _name,
    "group": lambda each: each[0],
    # Who states no version is unknown, and goes last.
    "version": lambda each: (each[1].language, each[1].version) if each[1].version else None,
    "seen": lambda each: each[1].seen_ms,
    "joined": lambda each: each[1].joined_ms,
}


async def _rows(console: Console, members: Sequence[tuple[str, Member]]) -> list[ClientRow]:
    rows: list[ClientRow] = []
    pause = Pause()
    for group, member in members:
        rows.append(_row(console, group, member))
        await pause.when_due()
    return rows


def _listing(rows: Sequence[ClientRow]) -> Listing:
    """Members as a file."""
    lines = (
        (
            row.client,
            row.group,
            row.language,
            row.version,
            row.address,
            " ".join(row.ways),
            " ".join(row.topics),
            formats.iso(row.joined_ms),
            formats.iso(row.seen_ms),
            row.inflight,
            "the group is gone" if row.inflight is None else "",
        )
        for row in rows
    )
    return Listing("clients", COLUMNS, lines, len(rows))


def _row(console: Console, group: str, member: Member) -> ClientRow:
    try:
        inflight = len(console.broker.held(group, member.client))
    except NotFound:  # the group was deleted meanwhile
        inflight = None
    ways = ((_("heartbeats"), member.is_pulling), ("WebSocket", member.is_connected))
    return ClientRow(
        client=member.client,
        group=group,
        version=member.version,
        language=member.language,
        address=member.address,
        ways=tuple(way for way, is_on in ways if is_on) or (_("receives"),),
        topics=tuple(sorted(member.topics)),
        joined_ms=member.joined_ms,
        seen_ms=member.seen_ms,
        inflight=inflight,
    )
