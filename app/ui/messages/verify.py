"""Verifying a message: one client processes it outside of delivery and reports the result."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from starlette.responses import Response

from app.pause import paced
from app.security.access import Action, Kind, require
from app.security.message_rights import visible
from app.services.clients import ASK_S, ClientState
from app.services.topic_kinds import group_of
from app.ui.framework import forms, pages
from app.ui.framework.console import Console
from app.ui.framework.language import _
from app.ui.framework.page_request import PageRequest
from app.ui.messages.message import address, place_of
from engine.errors import Busy, NotFound, Refused
from engine.message import StoredMessage
from kitemq.model.clients import Processing

GROUPS_LISTED = 20
CLIENTS_LISTED = 50  # per group


@dataclass(frozen=True)
class ClientChoice:
    """A client; `why_not` is the reason why it cannot verify, "" if it can."""

    name: str
    about: str
    why_not: str


@dataclass(frozen=True)
class GroupChoice:
    """A group with its first fifty clients; those that can verify come first."""

    group: str
    clients: Sequence[ClientChoice]
    total: int
    can_ask: bool


@dataclass(frozen=True)
class VerifyPage:
    """The context of `message_verify.html`; `result` is the latest of a client."""

    message: StoredMessage = field(repr=False)  # its text would be as large as the body
    back: str
    groups: Sequence[GroupChoice]
    groups_total: int
    ask_s: float
    result: Processing | None
    trouble: str


async def show(
    request: PageRequest, result: Processing | None = None, trouble: str = "", status: int = 200
) -> Response:
    """GET /messages/{topic}/{queue}/{offset}/verify?group=: choose a client."""
    console = request.console
    message = await console.messaging.message(*place_of(request))
    groups = await _groups(console, message, request.query_params.get("group", ""))
    context = VerifyPage(
        message=visible(request.who, message),
        back=address(message.topic, message.queue, message.offset),
        groups=[await _choices(request, group) for group in groups[:GROUPS_LISTED]],
        groups_total=len(groups),
        ask_s=ASK_S,
        result=result,
        trouble=trouble,
    )
    return await pages.respond(
        request,
        "message_verify.html",
        context,
        title=_("Process on a client"),
        section="topics",
        status=status,
    )


async def verify(request: PageRequest) -> Response:
    """POST /messages/{topic}/{queue}/{offset}/verify"""
    posted = await forms.read(request)
    group, client = posted.one("group"), posted.one("client")
    require(request.who, Action.ADMINISTER, Kind.GROUP, group)
    if not client:
        return await show(request, trouble=_("select a client"), status=422)
    actor = request.actor
    try:
        result = await request.services.clients.verify(actor, client, group, *place_of(request))
    except (Refused, Busy, NotFound) as error:
        return await show(request, trouble=error.detail, status=409)
    return await show(request, result)


async def _groups(console: Console, message: StoredMessage, group: str) -> list[str]:
    """The group of a retry or a dead letter, else the groups that read the topic."""
    own = group_of(message.topic) or group
    if own:
        return [own]
    return sorted(await console.administration.groups_of(message.topic))


async def _choices(request: PageRequest, group: str) -> GroupChoice:
    clients = request.services.clients
    offers = [offer async for offer in paced(await clients.offers(group))]
    offers.sort(key=lambda client: (bool(client.why_no_verify), client.name))
    return GroupChoice(
        group,
        [
            ClientChoice(each.name, _about(each), each.why_no_verify)
            for each in offers[:CLIENTS_LISTED]
        ],
        len(offers),
        any(not each.why_no_verify for each in offers),
    )


def _about(client: ClientState) -> str:
    for each in client.endpoints:
        words = [each.endpoint, each.language, each.version, each.kind]
        return " ".join(word for word in words if word)
    return "REST"
