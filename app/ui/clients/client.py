"""The page of one client: its own data, its activity, thread stacks, and disconnecting."""

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.responses import Response

from app.services.client_figures import ClientActivity, Refusals
from app.services.clients import ASK_S, ClientState
from app.services.connections import ClientFacts
from app.ui.framework import forms, pages
from app.ui.framework.language import _, ngettext
from app.ui.framework.page_request import PageRequest
from app.ui.framework.templating import segment
from engine.broker import Member
from engine.errors import Busy, NotFound, Refused
from kitemq.model.clients import SentAway, ThreadStack

TOPICS_SHOWN = 20


@dataclass(frozen=True)
class ClientPage:
    """The context of `client.html`; `stack` is its latest answer, `trouble` the error instead.

    If several endpoints know it, `language`, `version` and `kind` are the first known ones.
    """

    client: ClientState
    language: str
    version: str
    kind: str
    user: str
    activity: ClientActivity
    refusals: Refusals
    is_heard: bool
    seen_ms: int | None
    stack: ThreadStack | None
    trouble: str
    topics_max: int = TOPICS_SHOWN
    ask_s: float = ASK_S


@dataclass(frozen=True)
class DisconnectPage:
    """The context of `client_disconnect.html`: the impact, or what was `done`."""

    name: str
    impact: Sequence[str]
    done: SentAway | None


def path_of(name: str) -> str:
    """The page of a client."""
    return f"/clients/{segment(name)}"


async def show(request: PageRequest) -> Response:
    """GET /clients/{id}"""
    return await _page(request, await request.services.clients.find(request.path_params["id"]))


async def stack(request: PageRequest) -> Response:
    """POST /client/stack: request and show the client's thread stacks."""
    name = (await forms.read(request)).one("client")
    clients = request.services.clients
    client = await clients.find(name)
    answer, trouble = None, ""
    try:
        answer = await clients.stack(request.actor, name)
    except (Refused, Busy) as error:
        trouble = error.detail
    try:
        client = await clients.find(name)  # as it is after five seconds
    except NotFound:
        trouble = trouble or _("it is no longer connected")
    return await _page(request, client, answer, trouble)


async def disconnect_page(request: PageRequest) -> Response:
    """GET /client/disconnect?client=: ask for confirmation and show the impact."""
    client = await request.services.clients.find(request.query_params.get("client", ""))
    return await _disconnect(request, client.name, _impact(client))


async def disconnect(request: PageRequest) -> Response:
    """POST /client/disconnect"""
    name = (await forms.read(request)).one("client")
    done = await request.services.clients.disconnect(request.actor, name)
    return await _disconnect(request, name, [], done)


async def _disconnect(
    request: PageRequest, name: str, impact: Sequence[str], done: SentAway | None = None
) -> Response:
    return await pages.respond(
        request,
        "client_disconnect.html",
        DisconnectPage(name, impact, done),
        title=_("Disconnect %(name)s", name=name),
    )


def _impact(client: ClientState) -> list[str]:
    connections = sum(1 for each in client.endpoints if each.is_open)
    return [
        ngettext(
            "%(num)s connection is closed; gRPC connections shared with other clients stay open.",
            "%(num)s connections are closed; gRPC connections shared with other clients stay open.",
            connections,
        )
        if client.endpoints
        else _("No open connection: only its group memberships end."),
        ngettext(
            "It leaves %(num)s group; its queues and locks are reassigned.",
            "It leaves %(num)s groups; its queues and locks are reassigned.",
            len(client.memberships),
        ),
        ngettext(
            "%(num)s message in flight is redelivered within a second, with the attempt counted. "
            "If the client still finishes it, it is processed twice.",
            "%(num)s messages in flight are redelivered within a second, with the attempt "
            "counted. If the client still finishes them, they are processed twice.",
            client.in_flight or 0,
        ),
        _(
            "The client is not blocked: most clients reconnect at once. To block it, revoke its "
            "token or access key."
        ),
    ]


async def _page(
    request: PageRequest, client: ClientState, answer: ThreadStack | None = None, trouble: str = ""
) -> Response:
    now_ms = request.console.now_ms()
    figures = request.services.client_figures
    members = [each.member for each in client.memberships]
    sources: list[ClientFacts | Member] = [*client.endpoints, *members]
    seen_times = [each.seen_ms for each in sources if each.seen_ms is not None]
    activity = figures.of(client.name, now_ms)
    addresses = {each.address for each in sources if each.address}
    refusals = [figures.refused(address) for address in sorted(addresses)]
    context = ClientPage(
        client=client,
        language=next((each.language for each in sources if each.language), ""),
        version=next((each.version for each in sources if each.version), ""),
        kind=next((each.kind for each in client.endpoints if each.kind), ""),
        user=next((each.user for each in client.endpoints if each.user), ""),
        activity=activity,
        refusals=max(refusals, key=lambda each: each.at_ms or 0, default=Refusals()),
        is_heard=bool(activity.handed or activity.sent or activity.failed),
        seen_ms=max(seen_times, default=None),
        stack=answer,
        trouble=trouble,
    )
    return await pages.respond(
        request, "client.html", context, title=client.name, is_live=answer is None and not trouble
    )
