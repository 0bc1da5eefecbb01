"""The search for journeys: by id or key, recent failures, and the state of tracing."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Annotated

from starlette.responses import RedirectResponse, Response

from app.pause import Pause
from app.security.message_rights import lacks_messages, visible, visible_matches
from app.ui.framework import pages, typed_forms
from app.ui.framework.forms import Form
from app.ui.framework.language import N_, _, translated
from app.ui.framework.page_request import PageRequest
from app.ui.framework.templating import segment
from app.ui.framework.typed_forms import Fields
from engine.broker import Recent, StageOutcome, TraceStatus
from engine.errors import EngineError, NotFound
from engine.message import StoredMessage
from kitemq.model.conversion import convert

TEXT_MAX = 255
RECENT_MAX = 6
LATEST_MAX = 200  # deliveries that "slowest" and "failed" choose from
LATEST_SHOWN = 25
WAYS = ("failed", "slowest")
KEY_HITS_MAX = 64


def _way(text: str) -> str:
    return text if text in WAYS else ""


class TraceFields(Fields, frozen=True):
    """The search in an address: an id or a key, a key in a topic, or one of WAYS."""

    q: str
    topic: str
    key: str
    by: Annotated[str, _way]


@dataclass(frozen=True)
class TraceHit:
    """A message with a journey; `why` is its outcome in words."""

    message_id: str
    topic: str
    tag: str
    keys: tuple[str, ...]
    at_ms: int
    group: str = ""
    why: str = ""
    tone: str = ""
    took_ms: int = 0


@dataclass(frozen=True)
class LatestDeliveries:
    """The failed or slowest of the last `examined` traced deliveries, since `since_ms`.

    Their duration is the time from storing to acknowledgement.
    """

    by: str
    hits: list[TraceHit]
    total: int
    examined: int
    since_ms: int | None


@dataclass(frozen=True)
class TracePage:
    """The context of `trace.html`; `latest` is None unless `by` is given.

    `status` is None where the engine records no traces of its own.
    """

    form: Form
    hits: list[TraceHit]
    is_cut: bool
    is_by_key: bool
    failed: list[TraceHit]
    others: list[TraceHit]
    latest: LatestDeliveries | None
    status: TraceStatus | None


WHY = {
    "failed": (N_("failed"), "bad"),
    "expired": (N_("timed out"), "bad"),
    "dead": (N_("given up"), "bad"),
    "acked": (N_("done"), "ok"),
    "inflight": (N_("delivered"), ""),
}


async def show(request: PageRequest) -> Response:
    """GET /trace?q=, ?topic=&key= or ?by=failed|slowest&topic=; one hit leads to its journey."""
    form, fields = typed_forms.read(request.query_params, TraceFields)
    is_by_key = not fields.by and bool(fields.topic or fields.key)
    hits: list[TraceHit] = []
    is_cut = False
    target = ""
    if is_by_key:
        hits, is_cut = await _by_key(request, form)
    elif fields.q:
        hits, is_cut, target = await _by_text(request, form)
    if len(hits) == 1 and not is_cut:
        target = hits[0].message_id
    if target:
        return RedirectResponse(f"/trace/{segment(target)}", status_code=302)
    failed, others = await _recent(request)
    has_own = request.console.messaging.capabilities.delivery_records
    context = TracePage(
        form=form,
        hits=hits,
        is_cut=is_cut,
        is_by_key=is_by_key,
        failed=failed,
        others=others,
        latest=await _latest(request, fields) if fields.by else None,
        status=await request.services.journeys.status() if has_own else None,
    )
    return await pages.respond(request, "trace.html", context, title=_("Journeys"))


async def _by_text(request: PageRequest, form: Form) -> tuple[list[TraceHit], bool, str]:
    """Messages with this key, whether there may be more, and the id to go to at once."""
    text = form.values["q"]
    if len(text) > TEXT_MAX:
        detail = _(
            "An id or key has at most %(text_max)s characters; this one has %(n)s.",
            text_max=TEXT_MAX,
            n=len(text),
        )
        form.refuse("q", detail)
        return [], False, ""
    try:
        result = await request.services.search.anything(text)
    except EngineError as error:
        form.blame(error)
        return [], False, ""
    is_id = any(text in (m.message_id, m.offset_id) for m in result.messages)
    hits = _distinct(visible_matches(request.who, text, result.messages))
    # An id without a message may still have a journey (a refused send), or reasons for none.
    return hits, result.messages_cut, text if is_id or not (hits or result.messages_cut) else ""


async def _by_key(request: PageRequest, form: Form) -> tuple[list[TraceHit], bool]:
    for name in ("topic", "key"):
        if not form.values[name]:
            form.refuse(name, _("Keys are searched within one topic: enter both."))
    if form.is_wrong:
        return [], False
    topic, key = form.values["topic"], form.values["key"]
    if lacks_messages(request.who, topic):
        form.refuse("topic", _("You do not have permission to read message bodies of this topic."))
        return [], False
    try:
        page = await request.services.search.by_key(topic, key, count_max=KEY_HITS_MAX)
    except NotFound:
        form.refuse("topic", _("There is no topic %(topic)s.", topic=topic))
        return [], False
    except EngineError as error:
        form.blame(error)
        return [], False
    return _distinct(page.messages), bool(page.next_cursor)


def _distinct(messages: Sequence[StoredMessage]) -> list[TraceHit]:
    """The newest record of each message."""
    hits: dict[str, TraceHit] = {}
    for message in sorted(messages, key=lambda one: -one.position):
        hits.setdefault(message.message_id, _hit(message, message.stored_ms))
    return list(hits.values())


async def _recent(request: PageRequest) -> tuple[list[TraceHit], list[TraceHit]]:
    """Recently traced messages: those that failed, and the others."""
    failed: dict[str, TraceHit] = {}
    others: dict[str, TraceHit] = {}
    async for each, hit in _traced(request, RECENT_MAX):
        if hit.message_id not in failed and hit.message_id not in others:
            (failed if each.is_failure else others)[hit.message_id] = hit
    return list(failed.values()), list(others.values())


async def _traced(request: PageRequest, count_max: int) -> AsyncIterator[tuple[Recent, TraceHit]]:
    """The deliveries that were traced last, as far as their messages are still stored."""
    pause = Pause()
    for each in await request.services.journeys.recent(count_max):
        await pause.when_due()
        try:
            stored = await request.console.messaging.message(each.topic, each.queue, each.offset)
        except EngineError:
            continue  # retention took it since
        why, tone = WHY[each.outcome.value]
        hit = _hit(visible(request.who, stored), each.at_ms)
        took_ms = max(0, each.at_ms - stored.stored_ms)
        yield each, replace(hit, group=each.group, why=translated(why), tone=tone, took_ms=took_ms)


async def _latest(request: PageRequest, fields: TraceFields) -> LatestDeliveries:
    """The recently traced messages, worst first, each once."""
    hits_by_id: dict[str, TraceHit] = {}
    times: list[int] = []
    async for each, hit in _traced(request, LATEST_MAX):
        if fields.topic and hit.topic != fields.topic:
            continue
        times.append(each.at_ms)
        is_match = each.is_failure if fields.by == "failed" else each.outcome is StageOutcome.ACKED
        previous = hits_by_id.get(hit.message_id)
        if is_match and (previous is None or previous.took_ms < hit.took_ms):
            hits_by_id[hit.message_id] = hit
    key = "at_ms" if fields.by == "failed" else "took_ms"
    hits = sorted(hits_by_id.values(), key=attrgetter(key), reverse=True)
    return LatestDeliveries(
        fields.by, hits[:LATEST_SHOWN], len(hits), len(times), min(times, default=None)
    )


def _hit(message: StoredMessage, at_ms: int) -> TraceHit:
    return convert(message, TraceHit, topic=message.origin_topic, at_ms=at_ms)
