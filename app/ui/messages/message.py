"""The page of one message: its record, its decoded body, and its copies."""

import contextlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.security.message_rights import all_visible, missing_right, require_message, visible
from app.services.bodies import decompress
from app.services.topic_kinds import USER_KINDS, group_of, kind_of
from app.ui.bodies import bodies
from app.ui.bodies.bodies import Body
from app.ui.framework import pages, typed_forms
from app.ui.framework.console import Console
from app.ui.framework.language import _
from app.ui.framework.page_request import PageRequest
from app.ui.framework.templating import segment
from app.ui.framework.typed_forms import Fields
from app.ui.journeys import delivery_status
from app.ui.journeys.delivery_status import Verdict
from app.ui.topics.messages import MessageRow, row_of
from engine.broker import DEAD_LETTER_PREFIX, RETRY_PREFIX, QueueStats
from engine.errors import EngineError, MessageNotFound, NotFound
from engine.host import pack_host
from engine.message import (
    DELAY,
    DLQ_ORIGIN_MESSAGE_ID,
    FAILED_CLIENT,
    FAILED_ERROR,
    FAILED_REASON,
    ORIGIN_MESSAGE_ID,
    REAL_TOPIC,
    RESERVED,
    TRAN_MSG,
    StoredMessage,
)
from kitemq.model.numbers import is_whole

COPIES_MAX = 50
ID_DIGITS = 32  # of an id made by a broker at an IPv4 address, the last 16 its position
HEX_DIGITS = frozenset("0123456789abcdefABCDEF")
CLI_BODY_MAX = 2048


class BodyQuery(Fields, frozen=True):
    """How to show a body: decoded as `view` says, cut or as a whole."""

    view: str = ""
    body: str = ""


@dataclass(frozen=True)
class Property:
    name: str
    value: str
    is_reserved: bool


@dataclass(frozen=True)
class FailureOfMessage:
    """The failed delivery that led to this record."""

    reason: str
    error: str
    client: str
    origin_id: str


@dataclass(frozen=True)
class WaitsFor:
    """What a record waits for: its due time, or without one the decision of its transaction.

    Then it goes to `topic`, or to be delivered again to `group`.
    """

    topic: str
    group: str
    due_ms: int | None


@dataclass(frozen=True)
class MessagePage:
    """The context of `message.html`."""

    message: StoredMessage = field(repr=False)  # its text would be as large as the body
    group: str
    is_dead: bool
    is_retry: bool
    properties: list[Property]
    failure: FailureOfMessage | None
    body: Body
    copies: list[MessageRow]
    verdicts: list[Verdict] | None
    waits: WaitsFor | None
    read_in: str  # the topic whose groups get it
    min_offset: int
    max_offset: int
    curl: str
    cli: str
    unread: str  # the missing right that conceals body, keys and properties
    send_topic: str  # where a copy can be sent; "" if that topic is gone or the broker's own
    can_resend: bool  # a dead letter, to its group


@dataclass(frozen=True)
class Gone:
    """The context of `message_gone.html`; the queue begins at `min_offset` now.

    Without a topic the message was looked up by id, and `begins_ms` is the beginning of the log.
    """

    topic: str
    queue: int
    offset: int
    min_offset: int
    max_offset: int
    begins_ms: int | None
    id: str = ""


async def show(request: PageRequest) -> Response:
    """GET /messages/{topic}/{queue}/{offset}"""
    console = request.console
    message = await _find(console, request)
    if message is None:
        return await _show_gone(request)
    who = request.who
    message = visible(who, message)
    # Decoding a large body takes milliseconds, too long for the event loop.
    body = await console.render(lambda: body_of(request, message))
    records = all_visible(who, await _records(request, message))
    await decompress(records[: COPIES_MAX + 1])
    stats = await queue_of(console, message.topic, message.queue)
    where = f"/api/v1/topics/{segment(message.topic)}/messages/{message.queue}/{message.offset}"
    group = group_of(message.topic)
    is_dead = message.topic.startswith(DEAD_LETTER_PREFIX)
    send_topic = await _send_topic(console, message)
    context = MessagePage(
        message=message,
        group=group,
        is_dead=is_dead,
        is_retry=message.topic.startswith(RETRY_PREFIX),
        properties=properties_of(message),
        failure=_failure(message),
        body=body,
        copies=_copies(records, message),
        verdicts=await delivery_status.verdicts(request, records),
        waits=await _waits_for(console, message),
        read_in=message.properties.get(REAL_TOPIC, message.topic),
        min_offset=stats.min_offset if stats else message.offset,
        max_offset=stats.max_offset if stats else message.offset + 1,
        curl=f"curl -s {shlex.quote(str(request.base_url).rstrip('/') + where)}",
        cli=_send_again(message, send_topic),
        unread=missing_right(message),
        send_topic=send_topic,
        can_resend=is_dead
        and message.queue == 0
        and await pages.exists(console.administration.group, group),
    )
    title = f"{message.topic} {message.queue}:{message.offset}"
    return await pages.respond(request, "message.html", context, title=title, section="topics")


async def by_id(request: PageRequest) -> Response:
    """GET /m/{id}: redirect to the message with this message id or offset id."""
    text = request.path_params["id"]
    result = await request.services.search.by_id(text)
    if not result:
        gone = await _show_gone_id(request, text)
        if gone is not None:
            return gone
        raise MessageNotFound(
            _("no message has the id %(text)s", text=text),
            field="id",
            remedy=_("ids must match exactly; the message may have expired"),
        )
    first = min(result, key=lambda m: (bool(group_of(m.topic)), _waits(m), m.position))
    return _go(first)


async def _waits_for(console: Console, message: StoredMessage) -> WaitsFor | None:
    """What the record waits for; None for one that is due or waits for nothing."""
    if not _waits(message):
        return None
    topic = message.properties[REAL_TOPIC]
    if TRAN_MSG in message.properties:
        return WaitsFor(topic, "", None)
    if group := group_of(topic):  # a retry waits in its level until its turn, whatever is asked
        levels = await console.messaging.delay_levels()
        waits_ms = {str(each.level): each.delay_ms for each in levels}
        due_ms = message.stored_ms + waits_ms.get(message.properties.get(DELAY, ""), 0)
        return WaitsFor(topic, group, due_ms) if due_ms > console.now_ms() else None
    item = await console.messaging.find_scheduled(message.offset_id)
    return WaitsFor(item.topic, "", item.due_ms) if item else None


def _waits(message: StoredMessage) -> bool:
    """Whether the record waits, or waited, for its time or its transaction's decision."""
    return message.properties.get(REAL_TOPIC, message.topic) != message.topic


async def download(request: PageRequest) -> Response:
    """GET /messages/{topic}/{queue}/{offset}/raw: the body's bytes as a file."""
    message = await request.console.messaging.message(*place_of(request))
    require_message(request.who, message)
    return await body_file(message, f"{message.topic}-{message.queue}-{message.offset}.bin")


async def body_file(message: StoredMessage, name: str) -> Response:
    """The bytes of a message's body as a download."""
    await decompress([message])
    return Response(
        message.plain.body,
        media_type="application/octet-stream",
        headers=pages.as_file(name, is_free=True) | {"X-Content-Type-Options": "nosniff"},
    )


def properties_of(message: StoredMessage) -> list[Property]:
    """The properties of a message, the producer's own first."""
    pairs = sorted(message.properties.items(), key=lambda item: (item[0] in RESERVED, item[0]))
    return [Property(name, value, name in RESERVED) for name, value in pairs]


def address(topic: str, queue: int, offset: int) -> str:
    """The page of one message."""
    return f"/messages/{segment(topic)}/{queue}/{offset}"


def body_of(request: Request, message: StoredMessage) -> Body:
    """The body in the view that the query asks for."""
    query = typed_forms.query(request.query_params, BodyQuery)
    return bodies.decode(message.plain, view=query.view, is_all=query.body == "all")


def place_of(request: PageRequest) -> tuple[str, int, int]:
    """Topic, queue and offset in the path; raises NotFound if they are no numbers."""
    numbers = (request.path_params["queue"], request.path_params["offset"])
    if not all(is_whole(text) for text in numbers):
        raise NotFound(_("a message is addressed as topic, queue number and offset"))
    queue, offset = (int(text) for text in numbers)
    return request.path_params["topic"], queue, offset


def parse_place(text: str) -> tuple[str, int, int] | None:
    """The place that "topic:queue:offset" names; None for any other text."""
    topic, queue, offset = ([*text.rsplit(":", 2), "", ""])[:3]
    is_place = all(map(is_whole, (queue, offset)))
    return (topic, int(queue), int(offset)) if is_place else None


async def _find(console: Console, request: PageRequest) -> StoredMessage | None:
    """The message of a permalink, None if it was deleted; raises MessageNotFound."""
    topic, queue, offset = place_of(request)
    try:
        return await console.messaging.message(topic, queue, offset)
    except MessageNotFound:
        stats = await queue_of(console, topic, queue)
        if stats is not None and offset < stats.min_offset:
            return None
        raise


async def queue_of(console: Console, topic: str, queue: int) -> QueueStats | None:
    """The extent of a queue; None if the topic has no such queue."""
    stats = await console.administration.topic_stats(topic)
    return next((one for one in stats.queues if one.queue == queue), None)


async def _show_gone(request: PageRequest) -> Response:
    """The 410 page for an offset below the queue's beginning, with its first message."""
    console = request.console
    topic, queue, offset = place_of(request)
    stats = await queue_of(console, topic, queue)
    begin = stats.min_offset if stats else 0
    begins_ms = None
    with contextlib.suppress(MessageNotFound):
        begins_ms = (await console.messaging.message(topic, queue, begin)).stored_ms
    context = Gone(topic, queue, offset, begin, stats.max_offset if stats else 0, begins_ms)
    return await _gone_page(request, context)


async def _gone_page(request: PageRequest, context: Gone) -> Response:
    return await pages.respond(
        request, "message_gone.html", context, title=_("Gone"), section="topics", status=410
    )


async def _show_gone_id(request: PageRequest, text: str) -> Response | None:
    """The 410 page for a deleted message with an id of this broker; else None."""
    console = request.console
    if not console.messaging.capabilities.log_figures:
        return None  # its ids tell no position in a log
    purged = await request.services.search.purged(text)
    if purged is not None:
        return _go(purged)
    host = pack_host(console.host.config.store_host)[:4].hex().upper()
    is_id = len(text) == ID_DIGITS and HEX_DIGITS.issuperset(text)
    if not (is_id and text.upper().startswith(host)):
        return None
    position = int(text[ID_DIGITS // 2 :], 16)
    status = await request.services.purges.status()
    if position >= status.oldest_position:
        return None
    return await _gone_page(request, Gone("", 0, 0, 0, 0, status.oldest_ms, id=text))


def _go(message: StoredMessage) -> Response:
    place = address(message.topic, message.queue, message.offset)
    return RedirectResponse(place, status_code=302)


async def _send_topic(console: Console, message: StoredMessage) -> str:
    """The topic that a copy of the message goes to; "" if nobody can send there."""
    topic = message.origin_topic
    if topic == message.topic:
        topic = message.properties.get(REAL_TOPIC, topic)
    try:
        return topic if kind_of(await console.administration.topic(topic)) in USER_KINDS else ""
    except NotFound:
        return ""


def _send_again(message: StoredMessage, topic: str) -> str:
    """The command that sends the same message; "" without a topic, or if it is no short text."""
    plain = message.plain
    if not topic or plain.why_raw or not 0 < len(plain.body) <= CLI_BODY_MAX:
        return ""
    try:
        body = plain.body.decode()
    except UnicodeDecodeError:
        return ""
    words = ["kitemq", "produce", topic, "--body", body]
    words += ["--tag", message.tag] if message.tag else []
    for key in message.keys:
        words += ["--key", key]
    words += ["--group", message.message_group] if message.message_group else []
    for name, value in message.properties.items():
        if name not in RESERVED:
            words += ["--property", f"{name}={value}"]
    return shlex.join(words) if body.isprintable() else ""


def _failure(message: StoredMessage) -> FailureOfMessage | None:
    properties = message.properties
    if not group_of(message.topic):
        return None
    return FailureOfMessage(
        reason=properties.get(FAILED_REASON, ""),
        error=properties.get(FAILED_ERROR, ""),
        client=properties.get(FAILED_CLIENT, ""),
        origin_id=properties.get(DLQ_ORIGIN_MESSAGE_ID) or properties.get(ORIGIN_MESSAGE_ID, ""),
    )


async def _records(request: PageRequest, message: StoredMessage) -> list[StoredMessage]:
    """All records of the message, oldest first; none if too many searches are running.

    A record of a topic that is not searched is alone.
    """
    try:
        return await request.services.search.by_id(message.message_id) or [message]
    except EngineError:
        return []


def _copies(records: Sequence[StoredMessage], message: StoredMessage) -> list[MessageRow]:
    """The other records of the same message: retries and dead letters."""
    others = [other for other in records if other.position != message.position]
    return [row_of(other) for other in others[:COPIES_MAX]]
