"""The form that sends a message to a topic."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal
from urllib.parse import unquote, urlencode

from msgspec import Meta
from starlette.responses import Response

from app.db.rows import TemplateRow
from app.security.message_rights import require_message
from app.services.bodies import decompress
from app.ui.framework import forms, typed_forms, typed_time
from app.ui.framework.forms import Form
from app.ui.framework.language import N_, _
from app.ui.framework.page_request import PageRequest
from app.ui.framework.templating import segment
from app.ui.framework.typed_forms import InvalidField, Verbatim
from app.ui.messages import delivery_time, saved_templates
from app.ui.messages.delivery_time import DeliveryTime, TimeTexts
from app.ui.messages.message import address, parse_place
from app.ui.topics.head import TopicTab, head_of, respond, topic_of
from engine.broker import TopicConfig, TransactionDecision, TransactionState
from engine.errors import Busy, Conflict, EngineError, Invalid, Refused
from engine.message import RESERVED, TRAN_MSG, Message

ENGINE_NAMES = {"id": "body", "topic": "body"}
OUTCOMES = (
    ("commit", N_("Commit: deliver the message")),
    ("rollback", N_("Roll back: do not deliver it")),
    ("open", N_("Leave open: decide later")),
)
DEFAULTS = {
    **delivery_time.DEFAULTS,
    "count": "1",
    "outcome": "commit",
    "transaction_group": "console",
}
MINUTE_MS, HOUR_MS = 60_000, 3_600_000
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


class PublishFields(TimeTexts, frozen=True):
    """The form; the highest `queue` depends on the topic."""

    body: Verbatim
    tag: str
    keys: Annotated[tuple[str, ...], keys_of]
    properties: Annotated[dict[str, str], properties_of]
    message_group: str
    queue: str
    count: Annotated[int, Meta(title=N_("Copies"), ge=1, le=COUNT_MAX)]
    template: str = ""
    transaction_group: str = ""
    outcome: Annotated[
        Literal["commit", "rollback", "open"] | None, Meta(title=N_("Transaction"))
    ] = None


@dataclass(frozen=True)
class SentMessage:
    """A message that was just stored: in its queue, scheduled, or as a transaction.

    `place` is empty but for the first.
    """

    message_id: str
    href: str
    place: str
    is_transaction: bool = False


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
    sent: Sequence[SentMessage]
    sent_total: int
    source: Source | None = None
    templates: Sequence[TemplateRow] = ()
    templates_failure: str = ""
    levels: Sequence[tuple[str, str]] = ()
    deliveries: Sequence[tuple[str, str]] = ()
    outcomes: Sequence[tuple[str, str]] = OUTCOMES


async def show(request: PageRequest) -> Response:
    """GET /topics/{topic}/produce"""
    soon_ms = request.console.now_ms() // MINUTE_MS * MINUTE_MS + HOUR_MS
    times = {"at": typed_time.moment_text(soon_ms, request.zone)}
    form = typed_forms.fill({**DEFAULTS, **times, **_preset(request.query_params)}, PublishFields)
    source = await _fill_from(request, form.values)
    form.values |= await saved_templates.fields_of(request)
    config = await topic_of(request)
    sent = await _sent_before(request, config)
    return await respond_form(request, config, form, sent, source=source)


async def go(request: PageRequest) -> Response:
    """GET /produce: redirect to the form of the topic that is named; TopicNotFound."""
    config = await request.administration.topic(request.query_params.get("topic", "").strip())
    query = urlencode(_preset(request.query_params))
    return forms.go(request, f"/topics/{segment(config.name)}/produce?{query}")


def _preset(query: Mapping[str, str]) -> dict[str, str]:
    """The choice of a delivery time that a link makes."""
    chosen = query.get("deliver", "")
    return {"deliver": chosen} if chosen in dict(delivery_time.CHOICES) else {}


async def _fill_from(request: PageRequest, values: dict[str, str]) -> Source | None:
    """Fill the form from the stored message that the address names as "topic:queue:offset"."""
    name = request.query_params.get("from", "")
    if not name:
        return None
    place = parse_place(name)
    if place is None:
        raise Invalid(
            _("%(name)s is not a message reference", name=f"{name[:60]!r}"),
            field="from",
            remedy=_("use topic:queue:offset"),
        )
    message = await request.console.messaging.message(*place)
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
    config = await topic_of(request)
    form, fields = await request.read_form(PublishFields, bytes_max=forms.LARGE_BYTES_MAX)
    queue = form.number("queue", _("Queue"), 0, config.write_queues - 1) if fields.queue else -1
    time = delivery_time.read(form, request.console.now_ms(), request.zone)
    if fields.outcome and not fields.transaction_group:
        form.refuse("transaction_group", _("Enter a producer group."))
    if form.is_wrong:
        return await respond_form(request, config, form, [])
    messages = _messages(request, config, fields, queue, time)
    try:
        sent = await _send(request, config, messages, fields)
    except (Invalid, Refused, Busy) as error:
        form.blame(error, {**ENGINE_NAMES, "deliver_at_ms": fields.deliver})
        return await respond_form(request, config, form, [])
    if request.headers.get("hx-request") == "true":
        # Without a redirect: the form keeps its values for another send.
        return await respond_form(request, config, form, sent)
    return forms.go(request, f"/topics/{segment(config.name)}/produce?sent={_places(sent)}")


async def _send(
    request: PageRequest, config: TopicConfig, messages: list[Message], fields: PublishFields
) -> list[SentMessage]:
    """Store the messages, and decide their transactions as their producer."""
    stored = await request.console.messaging.send(messages)
    sent: list[SentMessage] = []
    for message, stored_at in zip(stored.messages, stored.offsets, strict=True):
        topic, queue, offset = message.topic, message.queue, stored_at
        is_open = bool(fields.outcome)
        if fields.outcome in ("commit", "rollback"):
            done = await request.services.transactions.decide(
                message.message_id, TransactionDecision(fields.outcome), fields.transaction_group
            )
            if done.state is TransactionState.COMMITTED and done.offset is not None:
                topic, queue, offset, is_open = done.topic, done.queue, done.offset, False
        if (message.delay_level or message.deliver_at_ms) and topic == config.name:
            sent.append(_waiting(message.message_id))
            continue
        sent.append(
            _as_sent(config, message.message_id, topic, queue, offset, is_transaction=is_open)
        )
    return sent


def _waiting(message_id: str) -> SentMessage:
    """A message whose place is not known: brokers of a cluster do not tell where it waits."""
    return SentMessage(message_id, f"/scheduled/{segment(message_id)}", "", is_transaction=False)


def _as_sent(
    config: TopicConfig,
    message_id: str,
    topic: str,
    queue: int,
    offset: int,
    *,
    is_transaction: bool,
) -> SentMessage:
    href = address(topic, queue, offset)
    place = ""
    if topic == config.name:
        place = _("queue %(queue)s, offset %(offset)s", queue=queue, offset=offset)
    return SentMessage(message_id, href, place, is_transaction)


def _messages(
    request: PageRequest,
    config: TopicConfig,
    fields: PublishFields,
    queue: int,
    time: DeliveryTime,
) -> list[Message]:
    return [
        Message(
            topic=config.name,
            body=fields.body.encode(),
            tag=fields.tag,
            keys=fields.keys,
            properties=dict(fields.properties),
            message_group=fields.message_group,
            queue=queue,
            delay_level=time.delay_level,
            deliver_at_ms=time.deliver_at_ms,
            transaction_group=fields.transaction_group if fields.outcome else "",
            born_host=request.born_host,
        )
        for __ in range(fields.count)
    ]


async def respond_form(
    request: PageRequest,
    config: TopicConfig,
    form: Form,
    sent: Sequence[SentMessage],
    source: Source | None = None,
) -> Response:
    """Render the form with its errors, and what was sent."""
    templates = await saved_templates.glance(request)
    context = Publish(
        head=await head_of(request, config, "produce"),
        form=form,
        queues=[("", _("selected by the broker"))]
        + [(str(queue), str(queue)) for queue in range(min(config.write_queues, QUEUES_LISTED))],
        sent=sent[:LISTED_MAX],
        sent_total=len(sent),
        source=source,
        templates=templates.value,
        templates_failure=templates.failure,
        levels=delivery_time.levels(),
        deliveries=delivery_time.choices(request.console.messaging.capabilities),
    )
    return await respond(request, "topic_produce.html", context)


def _places(sent: Sequence[SentMessage]) -> str:
    """Places of the messages for the redirect: "topic:queue:offset,…", or ids of waiting ones."""
    places = ",".join(
        one.href.removeprefix("/messages/").removeprefix("/scheduled/").replace("/", ":")
        for one in sent
    )
    if len(places) > LINK_CHARS_MAX:
        places = places[:LINK_CHARS_MAX].rpartition(",")[0]
    return forms.quoted(places)


async def _sent_before(request: PageRequest, config: TopicConfig) -> list[SentMessage]:
    """The messages named in the address that can still be read, and those that wait."""
    messaging = request.console.messaging
    sent: list[SentMessage] = []
    for place in request.query_params.get("sent", "")[:LINK_CHARS_MAX].split(",")[:COUNT_MAX]:
        if place and ":" not in place:
            sent.append(_waiting(unquote(place)))
            continue
        try:
            topic, queue, offset = place.split(":")
            message = await messaging.message(unquote(topic), int(queue), int(offset))
        except (ValueError, EngineError):
            continue
        is_half = TRAN_MSG in message.properties and message.topic != config.name
        where = (message.message_id, message.topic, message.queue, message.offset)
        sent.append(_as_sent(config, *where, is_transaction=is_half))
    return sent


async def save_template(request: PageRequest) -> Response:
    """POST /topics/{topic}/produce/templates: keep the texts of the form, valid or not."""
    config = await topic_of(request)
    form = typed_forms.fill(
        await forms.read(request, bytes_max=forms.LARGE_BYTES_MAX), PublishFields
    )
    try:
        saved = await saved_templates.save(request, config.name, form)
    except (Invalid, Conflict) as error:
        form.blame(error, {"name": "template"})
        return await respond_form(request, config, form, [])
    there = f"/topics/{segment(config.name)}/produce?template={saved.id}&done=template-saved"
    return forms.go(request, there)
