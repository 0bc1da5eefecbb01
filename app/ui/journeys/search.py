"""The search for journeys: by id or key, recent failures, and the state of tracing."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.container import services_of
from app.pause import Pause
from app.security.access import Principal, principal_of
from app.security.message_rights import lacks_messages, visible, visible_matches
from app.ui.framework import pages
from app.ui.framework.console import Console
from app.ui.framework.forms import Form
from app.ui.framework.language import N_, _, translated
from app.ui.framework.templating import segment
from engine.broker import StageOutcome, TraceStatus
from engine.errors import EngineError, NotFound
from engine.message import StoredMessage

TEXT_MAX = 255
RECENT_MAX = 6
LATELY_MAX = 200  # deliveries that "slowest" and "failed" choose from
LATELY_SHOWN = 25
WAYS = ("failed", "slowest")
KEY_HITS_MAX = 64


@dataclass(frozen=True)
class Hit:
    """A message with a journey; `why` is its outcome in words."""

    message_id: str
    topic: str
    group: str
    tag: str
    keys: tuple[str, ...]
    at_ms: int
    why: str
    tone: str
    took_ms: int | None = None


@dataclass(frozen=True)
class Lately:
    """The failed or slowest of the last `looked` traced deliveries, since `since_ms`.

    Their duration is the time from storing to acknowledgement.
    """

    by: str
    hits: list[Hit]
    found: int
    looked: int
    since_ms: int | None


@dataclass(frozen=True)
class TracePage:
    """The context of `trace.html`; `lately` is None unless `by` is given."""

    form: Form
    hits: list[Hit]
    is_cut: bool
    is_by_key: bool
    failed: list[Hit]
    others: list[Hit]
    lately: Lately | None
    status: TraceStatus


WHY = {
    "failed": (N_("failed"), "bad"),
    "expired": (N_("timed out"), "bad"),
    "dead": (N_("given up"), "bad"),
    "acked": (N_("done"), "ok"),
    "inflight": (N_("handed out"), ""),
}


async def show(request: Request) -> Response:
    """GET /trace?q=, ?topic=&key= or ?by=failed|slowest&topic=; one hit leads to its journey."""
    console = pages.console_of(request)
    names = ("q", "topic", "key")
    form = Form({name: request.query_params.get(name, "").strip() for name in names})
    by = request.query_params.get("by", "")
    by = by if by in WAYS else ""
    is_by_key = not by and bool(form.values["topic"] or form.values["key"])
    hits: list[Hit] = []
    is_cut = False
    target = ""
    if is_by_key:
        hits, is_cut = await _by_key(request, form)
    elif form.values["q"]:
        hits, is_cut, target = await _by_text(request, form)
    if len(hits) == 1 and not is_cut:
        target = hits[0].message_id
    if target:
        return RedirectResponse(f"/trace/{segment(target)}", status_code=302)
    who = principal_of(request.scope)
    failed, others = await _recent(console, who)
    lately = await _lately(console, who, by, form.values["topic"]) if by else None
    context = TracePage(
        form=form,
        hits=hits,
        is_cut=is_cut,
        is_by_key=is_by_key,
        failed=failed,
        others=others,
        lately=lately,
        status=console.broker.traces.status(),
    )
    status = 422 if form.is_wrong else 200
    return await pages.respond(
        request, "trace.html", context, title=_("Journeys"), section="trace", status=status
    )


async def _by_text(request: Request, form: Form) -> tuple[list[Hit], bool, str]:
    """Messages with this key, whether there may be more, and the id to go to at once."""
    text = form.values["q"]
    if len(text) > TEXT_MAX:
        form.refuse(
            "q",
            _(
                "An id or a key has at most %(text_max)s characters, this has %(n)s.",
                text_max=TEXT_MAX,
                n=len(text),
            ),
        )
        return [], False, ""
    try:
        result = await services_of(request.scope).search.anything(text)
    except EngineError as error:
        form.blame(error)
        return [], False, ""
    is_id = any(text in (m.message_id, m.offset_id) for m in result.messages)
    hits = _distinct(visible_matches(principal_of(request.scope), text, result.messages))
    # An id without a message may still have a journey (a refused send), or reasons for none.
    return hits, result.messages_cut, text if is_id or not (hits or result.messages_cut) else ""


async def _by_key(request: Request, form: Form) -> tuple[list[Hit], bool]:
    for name in ("topic", "key"):
        if not form.values[name]:
            form.refuse(name, _("A key is looked for in one topic: give both."))
    if form.is_wrong:
        return [], False
    topic, key = form.values["topic"], form.values["key"]
    if lacks_messages(principal_of(request.scope), topic):
        form.refuse("topic", _("You may not read message bodies of this topic."))
        return [], False
    try:
        page = await services_of(request.scope).search.by_key(topic, key, count_max=KEY_HITS_MAX)
    except NotFound:
        form.refuse("topic", _("There is no topic %(topic)s.", topic=topic))
        return [], False
    except EngineError as error:
        form.blame(error)
        return [], False
    return _distinct(page.messages), bool(page.next_cursor)


def _distinct(messages: Sequence[StoredMessage]) -> list[Hit]:
    """The newest record of each message."""
    hits: dict[str, Hit] = {}
    for message in sorted(messages, key=lambda one: -one.position):
        hits.setdefault(message.message_id, _hit(message, message.stored_ms))
    return list(hits.values())


async def _recent(console: Console, who: Principal) -> tuple[list[Hit], list[Hit]]:
    """Recently traced messages: those that failed, and the others."""
    failed: dict[str, Hit] = {}
    others: dict[str, Hit] = {}
    pause = Pause()
    for each in console.broker.traces.recent(RECENT_MAX):
        await pause.when_due()
        try:
            stored = await console.messaging.message(each.topic, each.queue, each.offset)
        except EngineError:
            continue  # retention took it since
        message = visible(who, stored)
        why, tone = WHY[each.outcome.value]
        hits = failed if each.is_failure else others
        if message.message_id not in failed and message.message_id not in others:
            reason = translated(why)
            hit = _hit(message, each.at_ms, group=each.group, why=reason, tone=tone)
            hits[message.message_id] = hit
    return list(failed.values()), list(others.values())


async def _lately(console: Console, who: Principal, by: str, topic: str) -> Lately:
    """The recently traced messages, worst first, each once."""
    hits_by_id: dict[str, Hit] = {}
    times: list[int] = []
    pause = Pause()
    for each in console.broker.traces.recent(LATELY_MAX):
        await pause.when_due()
        try:
            stored = await console.messaging.message(each.topic, each.queue, each.offset)
        except EngineError:
            continue  # retention took it since
        message = visible(who, stored)
        if topic and message.origin_topic != topic:
            continue
        times.append(each.at_ms)
        is_match = each.is_failure if by == "failed" else each.outcome is StageOutcome.ACKED
        if is_match:
            why, tone = WHY[each.outcome.value]
            hit = _hit(message, each.at_ms, group=each.group, why=translated(why), tone=tone)
            took_ms = max(0, each.at_ms - message.stored_ms)
            previous = hits_by_id.get(hit.message_id)
            if previous is None or (previous.took_ms or 0) < took_ms:
                hits_by_id[hit.message_id] = replace(hit, took_ms=took_ms)
    hits = sorted(hits_by_id.values(), key=lambda hit: -(hit.took_ms or 0))
    if by == "failed":
        hits = sorted(hits_by_id.values(), key=lambda hit: -hit.at_ms)
    return Lately(by, hits[:LATELY_SHOWN], len(hits), len(times), min(times, default=None))


def _hit(
    message: StoredMessage, at_ms: int, *, group: str = "", why: str = "", tone: str = ""
) -> Hit:
    return Hit(
        message_id=message.message_id,
        topic=message.origin_topic,
        group=group,
        tag=message.tag,
        keys=message.keys,
        at_ms=at_ms,
        why=why,
        tone=tone,
    )
