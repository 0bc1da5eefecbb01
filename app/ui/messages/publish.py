"""The form that sends a message to a topic."""

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta
from starlette.responses import Response

from app.security.message_rights import require_message
from app.send_batcher import BatchSlice
from app.services.bodies import decompress
from app.ui.framework import forms, typed_forms
from app.ui.framework.forms import Form
from app.ui.framework.language import N_, _
from app.ui.framework.page_request import PageRequest
from app.ui.framework.templating import segment
from app.ui.framework.typed_forms import Fields, InvalidField, Verbatim
from app.ui.messages.message import address
from app.ui.topics.head import TopicTab, head_of, respond, topic_of
from engine.broker import TopicConfig
from engine.errors import Busy, EngineError, Invalid, Refused
from engine.message import RESERVED, AppendResult, Message
from kitemq.model.conversion import convert
from kitemq.model.numbers import is_whole

ENGINE_NAMES = {"id": "body", "topic": "body", "message_group": "message_group"}
DELAYS = (
    "1 s", "5 s", "10 s", "30 s", "1 min", "2 min", "3 min", "4 min", "5 min", "6 min", "7 min",
    "8 min", "9 min", "10 min", "20 min", "30 min", "1 h", "2 h",
)  # fmt: skip
AT_ONCE = ("0", N_("immediately"))
COUNT_MAX = 100
LISTED_MAX = 20
QUEUES_LISTED = 256
LINK_CHARS_MAX = 4000


def keys_of(text: str) -> tuple[str, ...]:
    """Typed keys, between spaces."""
    return tuple(text.split())


def properties_of(text: str) -> dict[str, str]:
    """Typed properties, one "name: value" per line. Raises InvalidField, which names the line."""
    properties: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        name, colon, value = (part.strip() for part in line.partition(":"))
        if not (colon and name and value):
            raise InvalidField(_("Line %(number)s is not “name: value”.", number=number))
        if name in RESERVED:
            raise InvalidField(
                _(
                    "Line %(number)s: %(name)s is a reserved name.",
                    number=number,
                    name=name,
                )
            )
        properties[name] = value
    return properties


class PublishFields(Fields, frozen=True):
    """The form; the highest `queue` depends on the topic."""

    body: Verbatim
    tag: str
    keys: Annotated[tuple[str, ...], keys_of]
    properties: Annotated[dict[str, str], properties_of]
    message_group: str
    delay_level: Annotated[int, Meta(title=N_("Delay"), ge=0, le=len(DELAYS))]
    queue: str
    count: Annotated[int, Meta(title=N_("Copies"), ge=1, le=COUNT_MAX)]


@dataclass(frozen=True)
class SentMessage:
    """A message that was just stored; `is_waiting` until its delay is over."""

    message_id: str
    href: str
    place: str
    is_waiting: bool


@dataclass(frozen=True)
class Source:
    """The stored message that the form was filled from; `is_text` if its body is text."""

    topic: str
    queue: int
    offset: int
    is_text: bool


@dataclass(frozen=True)
class Publish(TopicTab):
    """The context of `topic_produce.html`."""

    form: Form
    queues: list[tuple[str, str]]
    sent: list[SentMessage]
    sent_total: int
    source: Source | None = None
    delays: tuple[tuple[str, str], ...] = ()


async def show(request: PageRequest) -> Response:
    """GET /topics/{topic}/produce"""
    form = typed_forms.fill({"delay_level": "0", "count": "1"}, PublishFields)
    source = await _fill_from(request, form.values)
    stored = await _sent_before(request)
    return await _page(request, topic_of(request), form, stored, source=source)


async def _fill_from(request: PageRequest, values: dict[str, str]) -> Source | None:
    """Fill the form from the stored message that the address names as "topic:queue:offset"."""
    name = request.query_params.get("from", "")
    if not name:
        return None
    topic, queue, offset = ([*name.rsplit(":", 2), "", ""])[:3]
    if not all(is_whole(text) for text in (queue, offset)):
        raise Invalid(
            _("%(name)s is not a message reference", name=f"{name[:60]!r}"),
            field="from",
            remedy=_("use topic:queue:offset"),
        )
    message = await request.console.messaging.message(topic, int(queue), int(offset))
    require_message(request.who, message)
    await decompress([message])
    try:
        values["body"], is_text = message.plain.body.decode(), True
    except UnicodeDecodeError:
        is_text = False
    own = [(name, value) for name, value in message.properties.items() if name not in RESERVED]
    values["tag"] = message.tag
    values["keys"] = " ".join(message.keys)
    values["message_group"] = message.message_group
    values["properties"] = "\n".join(f"{name}: {value}" for name, value in own)
    return Source(message.topic, message.queue, message.offset, is_text)


async def send(request: PageRequest) -> Response:
    """POST /topics/{topic}/produce"""
    config = topic_of(request)
    form, fields = await request.read_form(PublishFields, bytes_max=forms.LARGE_BYTES_MAX)
    queue = form.number("queue", _("Queue"), 0, config.write_queues - 1) if fields.queue else -1
    if form.is_wrong:
        return await _page(request, config, form, [])
    messages = _messages(request, config, fields, queue)
    try:
        slice_ = await request.console.messaging.send(messages)
    except (Invalid, Refused, Busy) as error:
        form.blame(error, ENGINE_NAMES)
        return await _page(request, config, form, [])
    stored = _results(slice_)
    if request.headers.get("hx-request") == "true":
        # Without a redirect: the form keeps its values for another send.
        return await _page(request, config, form, stored)
    return forms.go(request, f"/topics/{segment(config.name)}/produce?sent={_places(stored)}")


def _messages(
    request: PageRequest, config: TopicConfig, fields: PublishFields, queue: int
) -> list[Message]:
    client = request.client
    return [
        Message(
            topic=config.name,
            body=fields.body.encode(),
            tag=fields.tag,
            keys=fields.keys,
            properties=dict(fields.properties),
            message_group=fields.message_group,
            queue=queue,
            delay_level=fields.delay_level,
            born_host=f"{client.host}:{client.port}" if client else "",
        )
        for __ in range(fields.count)
    ]


async def _page(
    request: PageRequest,
    config: TopicConfig,
    form: Form,
    stored: list[AppendResult],
    source: Source | None = None,
) -> Response:
    context = Publish(
        head=await head_of(request, config, "produce"),
        form=form,
        queues=[("", _("selected by the broker"))]
        + [(str(queue), str(queue)) for queue in range(min(config.write_queues, QUEUES_LISTED))],
        sent=[
            SentMessage(
                message_id=one.message_id,
                href=address(one.topic, one.queue, one.offset),
                place=_("queue %(queue)s, offset %(offset)s", queue=one.queue, offset=one.offset),
                is_waiting=one.topic != config.name,
            )
            for one in stored[:LISTED_MAX]
        ],
        sent_total=len(stored),
        source=source,
        delays=_delays(),
    )
    return await respond(request, "topic_produce.html", context)


def _delays() -> tuple[tuple[str, str], ...]:
    levels = enumerate(DELAYS, 1)
    choices = [
        (str(level), _("level %(level)s: after %(wait)s", level=level, wait=w))
        for level, w in levels
    ]
    return (AT_ONCE, *choices)


def _results(sent: BatchSlice) -> list[AppendResult]:
    return [
        AppendResult(message.message_id, message.topic, message.queue, offset, position)
        for message, offset, position in zip(
            sent.messages, sent.offsets, sent.positions, strict=True
        )
    ]


def _places(stored: list[AppendResult]) -> str:
    """The places of the messages for the redirect: "topic:queue:offset,…"."""
    places = ",".join(f"{one.topic}:{one.queue}:{one.offset}" for one in stored)
    if len(places) > LINK_CHARS_MAX:
        places = places[:LINK_CHARS_MAX].rpartition(",")[0]
    return forms.quoted(places)


async def _sent_before(request: PageRequest) -> list[AppendResult]:
    """The messages named in the address that can still be read."""
    messaging = request.console.messaging
    stored: list[AppendResult] = []
    for place in request.query_params.get("sent", "")[:LINK_CHARS_MAX].split(",")[:COUNT_MAX]:
        try:
            topic, queue, offset = place.split(":")
            message = await messaging.message(topic, int(queue), int(offset))
        except (ValueError, EngineError):
            continue
        stored.append(convert(message, AppendResult))
    return stored
