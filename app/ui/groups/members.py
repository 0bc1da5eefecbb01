"""The members of a group, and whether their subscriptions agree."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

import msgspec
from starlette.responses import Response

from app.capabilities import require
from app.pause import paced
from app.services.client_figures import ClientActivity
from app.ui.clients.client import path_of as path_of_client
from app.ui.framework import forms, tables
from app.ui.framework.language import _, ngettext
from app.ui.framework.page_request import PageRequest
from app.ui.framework.tables import Cut, Query
from app.ui.groups.confirm import Confirmation, ask
from app.ui.groups.head import GroupTab, group_of, head_of, path_of, respond
from engine.broker import Member, SubscriptionVariant
from engine.errors import NotFound
from kitemq.model.conversion import convert
from kitemq.model.members import MemberInfo, MemberQueue

RANGES_MAX = 12
MISSING = ""  # not subscribed to a topic that others of the group subscribe to


@dataclass(frozen=True)
class TopicShare:
    """A topic of a member: its filter, and the queues that it reads, as "0-3, 6".

    `cached` messages of them are with the member; None as `locked` where it does not tell. All is
    empty but the filter where the member reads no queue.
    """

    topic: str
    expression: str
    numbers: str
    count: int
    is_shared: bool
    cached: int | None
    locked: int | None


class GroupClient(MemberInfo, frozen=True):
    """A live consumer and its messages in flight."""

    inflight: int | None  # None as below where the engine does not tell
    locks: int | None
    path: str
    activity: ClientActivity
    why_no_stack: str
    shares: Sequence[TopicShare] = ()
    why_no_queues: str = ""


@dataclass(frozen=True)
class GroupClients(GroupTab):
    """The context of `group_clients.html`; `inflight` is the whole group's."""

    cut: Cut[GroupClient]
    query: Query
    inflight: int | None
    timeout_ms: int


@dataclass(frozen=True)
class MatrixCell:
    """A client's filter on one topic; `is_odd` if it differs from the others'."""

    expression: str
    is_odd: bool


@dataclass(frozen=True)
class MatrixRow:
    """One client's cells in the order of topics; `is_silent` without any subscription."""

    client: str
    cells: Sequence[MatrixCell]
    is_silent: bool


@dataclass(frozen=True)
class MatrixColumn:
    """A topic, whether the members' filters differ, and the usual filter."""

    topic: str
    is_differing: bool
    usual: str | None


@dataclass(frozen=True)
class SubscriptionPage(GroupTab):
    """The context of `group_subscriptions.html`."""

    columns: Sequence[MatrixColumn]
    cut: Cut[MatrixRow]
    query: Query
    variants: Sequence[SubscriptionVariant]  # with the first few of their clients
    last_heartbeat: Mapping[str, str]


async def clients(request: PageRequest) -> Response:
    """GET /groups/{group}/clients"""
    console = request.console
    config = await group_of(request)
    query = tables.parse_query(request.query_params, ("client",), "client")
    members = tables.cut(await console.administration.members.of(config.name), query)
    lag = await console.administration.present_lag(config.name)
    locks = await _locks(request, config.name)
    queues = await request.services.member_queues.of(config.name, members.rows)
    rows = [
        msgspec.structs.replace(
            await _client(request, config.name, member, locks),
            shares=_shares(member.topics, told.queues or ()),
            why_no_queues=told.unknown,
        )
        async for member, told in paced(zip(members.rows, queues, strict=True))
    ]
    context = GroupClients(
        head=await head_of(console, config, "clients", lag),
        cut=members.with_rows(rows),
        query=query,
        inflight=lag.inflight,
        timeout_ms=round(console.administration.members.timeout_s * 1000),
    )
    return await respond(request, "group_clients.html", context, is_live=True)


async def subscriptions(request: PageRequest) -> Response:
    """GET /groups/{group}/subscriptions"""
    console = request.console
    config = await group_of(request)
    query = tables.parse_query(request.query_params, ("client",), "client")
    members = await console.administration.members.of(config.name)
    warning = await console.administration.members.warning(config.name)
    columns = await console.render(lambda: _columns(members))
    page = tables.cut(members, query)
    context = SubscriptionPage(
        head=await head_of(console, config, "subscriptions"),
        columns=columns,
        cut=page.with_rows([_matrix_row(member, columns) for member in page.rows]),
        query=query,
        variants=[
            msgspec.structs.replace(each, clients=each.clients[:5])
            for each in (warning.variants if warning else ())
        ],
        last_heartbeat=await console.administration.members.subscription(config.name),
    )
    return await respond(request, "group_subscriptions.html", context, is_live=True)


async def leave(request: PageRequest) -> Response:
    """POST /groups/{group}/leave"""
    require(request.console.messaging.capabilities, "member_shares")
    config = await group_of(request)
    client = (await forms.read(request)).one("client")
    if not await request.services.groups.leave(request.actor, config.name, client):
        raise NotFound(
            _("%(client)s is no longer a member of the group", client=f"{client!r}"),
            remedy=_("reload the group's clients"),
        )
    return forms.go(request, f"{path_of(config.name)}/clients?done=left")


async def leave_page(request: PageRequest) -> Response:
    """GET /groups/{group}/leave?client=: ask before removing a member."""
    console, config = request.console, await group_of(request)
    require(console.messaging.capabilities, "member_shares")
    client = request.query_params.get("client", "")
    members = await console.administration.members.of(config.name)
    matches = [each for each in members if each.client == client]
    if not matches:
        raise NotFound(
            _(
                "%(client)s is not a member of group %(name)s",
                client=f"{client!r}",
                name=f"{config.name!r}",
            ),
            remedy=_("reload the group's clients"),
        )
    row = await _client(request, config.name, matches[0], await _locks(request, config.name))
    others = await console.administration.members.count(config.name) - 1
    impact = [
        ngettext(
            "%(num)s message in flight stays with it until its invisible time ends, then is "
            "redelivered.",
            "%(num)s messages in flight stay with it until their invisible time ends, then are "
            "redelivered.",
            row.inflight or 0,
        ),
        _(
            "%(locks)s queue locks are released; its queues go to %(others)s others.",
            locks=f"{row.locks or 0:,}",
            others=f"{others:,}",
        ),
        _("The client is not notified. Its next heartbeat or receive makes it a member again."),
    ]
    if row.is_connected:
        impact.append(
            _("Its open WebSocket keeps it a member; only its other subscriptions are dropped.")
        )
    return await ask(
        request,
        config,
        Confirmation(
            "leave",
            _("Remove %(client)s?", client=client),
            impact,
            _("Remove"),
            {"client": client},
            "danger",
        ),
    )


async def _locks(request: PageRequest, group: str) -> Counter[str] | None:
    """How many queues each client has locked; None where the engine does not tell."""
    console = request.console
    if not console.messaging.capabilities.member_shares:
        return None
    return Counter(lock.client for lock in await console.messaging.locks.of(group))


async def _client(
    request: PageRequest, group: str, member: Member, locks: Counter[str] | None
) -> GroupClient:
    console, services = request.console, request.services
    held = None if locks is None else await console.messaging.held(group, member.client)
    return convert(
        member,
        GroupClient,
        inflight=None if held is None else len(held),
        locks=None if locks is None else locks[member.client],
        path=path_of_client(member.client),
        activity=services.client_figures.of(member.client, console.now_ms()),
        why_no_stack=services.connections.why_no_stack(member.client),
    )


def _shares(topics: Mapping[str, str], queues: Sequence[MemberQueue]) -> list[TopicShare]:
    shares: dict[str, list[MemberQueue]] = {topic: [] for topic in topics}
    for each in sorted(queues, key=attrgetter("topic", "queue")):
        shares.setdefault(each.topic, []).append(each)
    return [_share(topic, topics.get(topic, ""), share) for topic, share in sorted(shares.items())]


def _share(topic: str, expression: str, queues: Sequence[MemberQueue]) -> TopicShare:
    cached = [each.cached for each in queues if each.cached is not None]
    locked = [each.is_locked for each in queues if each.is_locked is not None]
    return TopicShare(
        topic=topic,
        expression=expression,
        numbers=_ranges([each.queue for each in queues]),
        count=len(queues),
        is_shared=any(each.is_shared for each in queues),
        cached=sum(cached) if len(cached) == len(queues) else None,
        locked=sum(locked) if locked else None,
    )


def _ranges(numbers: Sequence[int]) -> str:
    """Numbers in their order as "0-3, 6"; the first RANGES_MAX parts."""
    runs = [
        [number for _, number in run]
        for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])
    ]
    parts = [f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs]
    return ", ".join([*parts[:RANGES_MAX], *["…"] * (len(parts) > RANGES_MAX)])


def _columns(members: Sequence[Member]) -> list[MatrixColumn]:
    """A column per subscribed topic; members without subscriptions are ignored."""
    telling = [member.topics for member in members if member.topics]
    columns = []
    for topic in sorted({name for topics in telling for name in topics}):
        expressions = Counter(topics.get(topic, MISSING) for topics in telling).most_common(2)
        is_differing = len(expressions) > 1
        # In a tie no filter is the usual one, so all of them are marked.
        is_draw = is_differing and expressions[0][1] == expressions[1][1]
        columns.append(MatrixColumn(topic, is_differing, None if is_draw else expressions[0][0]))
    return columns


def _matrix_row(member: Member, columns: Sequence[MatrixColumn]) -> MatrixRow:
    is_silent = not member.topics
    cells = []
    for column in columns:
        expression = member.topics.get(column.topic, MISSING)
        is_odd = column.is_differing and not is_silent and expression != column.usual
        cells.append(MatrixCell(expression, is_odd))
    return MatrixRow(member.client, cells, is_silent)
