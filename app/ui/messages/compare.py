"""The page that compares a message with another one: properties by name, bodies line by line."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta
from starlette.responses import Response

from app.security.access import Action, Kind, require
from app.security.message_rights import require_message
from app.services.bodies import decompress
from app.ui.bodies import bodies, json_text
from app.ui.bodies.trees import NotDecodable
from app.ui.framework import pages, typed_forms
from app.ui.framework.forms import Form
from app.ui.framework.language import _
from app.ui.framework.page_request import PageRequest
from app.ui.framework.typed_forms import Fields
from app.ui.messages import line_diff
from app.ui.messages.line_diff import LineDiff
from app.ui.messages.message import address, parse_place, place_of, queue_of
from engine.compression import PlainBody
from engine.errors import MessageNotFound, NotFound
from engine.message import RESERVED, StoredMessage

CHARS_MAX = 256 * 1024
# The first that both bodies can be read as; "hex" is for any bytes.
VIEWS = ("json", "avro", "msgpack", "protobuf", "text")


class CompareFields(Fields, frozen=True, rename={"other": "with"}):
    """The message to compare with: an id, or topic:queue:offset; "" for the neighbour."""

    other: Annotated[str, Meta(max_length=512)]


@dataclass(frozen=True)
class ComparedMessage:
    """One of the two messages."""

    topic: str
    queue: int
    offset: int
    stored_ms: int
    href: str


@dataclass(frozen=True)
class ComparedProperty:
    """A property of either message; None where it is missing."""

    name: str
    old: str | None
    new: str | None
    is_reserved: bool


@dataclass(frozen=True)
class MessageComparison:
    """The differences of two messages, from the older one to the newer one.

    `view` is how both bodies were read; `is_cut` if only the beginning of one was.
    """

    old: ComparedMessage
    new: ComparedMessage
    properties: list[ComparedProperty]
    equal_properties: int
    view: str
    body: LineDiff
    is_cut: bool


@dataclass(frozen=True)
class ComparePage:
    """The context of `message_compare.html`; the offsets of the queue's neighbours, if any."""

    this: ComparedMessage
    form: Form
    earlier: int | None
    later: int | None
    result: MessageComparison | None


async def show(request: PageRequest) -> Response:
    """GET /messages/{topic}/{queue}/{offset}/compare?with="""
    console = request.console
    message = await console.messaging.message(*place_of(request))
    require_message(request.who, message)
    stats = await queue_of(console, message.topic, message.queue)
    earlier = message.offset - 1 if stats and message.offset > stats.min_offset else None
    later = message.offset + 1 if stats and message.offset + 1 < stats.max_offset else None
    form, fields = typed_forms.read(request.query_params, CompareFields)
    neighbour = later if earlier is None else earlier
    text = fields.other
    if not text and neighbour is not None:
        text = f"{message.topic}:{message.queue}:{neighbour}"
        form.values["with"] = text
    other = await _find(request, message, text, form) if text else None
    result = None
    if other is not None:
        await decompress([message, other])
        old, new = sorted((message, other), key=lambda one: one.position)
        result = await console.render(lambda: _compared(old, new))
    context = ComparePage(_side(message), form, earlier, later, result)
    return await pages.respond(
        request, "message_compare.html", context, title=_("Compare messages"), section="topics"
    )


async def _find(
    request: PageRequest, message: StoredMessage, text: str, form: Form
) -> StoredMessage | None:
    """The other message; None with an error at the field. Raises RightMissing."""
    place = parse_place(text)
    try:
        if place and place[0]:
            require(request.who, Action.READ, Kind.TOPIC, place[0])
            records = [await request.console.messaging.message(*place)]
        else:
            records = await request.services.search.by_id(text)
    except (NotFound, MessageNotFound):
        records = []
    others = [one for one in records if one.position != message.position]
    if not others:
        form.refuse("with", _("No other message with this id or at this place."))
        return None
    require(request.who, Action.READ, Kind.TOPIC, others[0].topic)
    require_message(request.who, others[0])
    return others[0]


def _compared(old: StoredMessage, new: StoredMessage) -> MessageComparison:
    view, texts = _texts(old.plain, new.plain)
    properties = _properties(old.properties, new.properties)
    different = [one for one in properties if one.old != one.new]
    return MessageComparison(
        old=_side(old),
        new=_side(new),
        properties=different,
        equal_properties=len(properties) - len(different),
        view=view,
        body=line_diff.compare(*(text[:CHARS_MAX] for text in texts)),
        is_cut=any(len(text) > CHARS_MAX for text in texts),
    )


def _side(message: StoredMessage) -> ComparedMessage:
    place = message.topic, message.queue, message.offset
    return ComparedMessage(*place, message.stored_ms, address(*place))


def _properties(old: Mapping[str, str], new: Mapping[str, str]) -> list[ComparedProperty]:
    """Every property, the producer's own first."""
    names = sorted({*old, *new}, key=lambda name: (name in RESERVED, name))
    return [
        ComparedProperty(name, old.get(name), new.get(name), name in RESERVED) for name in names
    ]


def _texts(old: PlainBody | bytes, new: PlainBody | bytes) -> tuple[str, list[str]]:
    """Both bodies as texts of lines, and how they were read. A little over CHARS_MAX at most."""
    for view in VIEWS:
        try:
            texts = [bodies.line(plain, view) for plain in (old, new)]
        except NotDecodable:
            continue
        if view != "text":
            texts = [json_text.indented(text, CHARS_MAX + 1) for text in texts]
        return view, [text[: CHARS_MAX + 1] for text in texts]
    return "hex", ["\n".join(bodies.hex_lines(plain)) for plain in (old, new)]
