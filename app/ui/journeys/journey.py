"""The page of a message's journey: waterfall, table, verdicts, and reasons for an empty one."""

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.responses import Response

from app.ui.framework import pages
from app.ui.framework.language import _, ngettext, translated
from app.ui.framework.page_request import PageRequest
from app.ui.framework.templating import segment
from app.ui.journeys import layout as journey_layout
from app.ui.journeys import otel as journey_otel
from app.ui.journeys import words as journey_words
from app.ui.journeys.delivery_status import are_told, dead_letter_href
from app.ui.journeys.filtered import filtered_out
from app.ui.journeys.layout import AxisTick, StageBar, StageSpan
from app.ui.messages.message import address
from engine.broker import Branch, CheckedReason, Journey, Stage, StageName
from kitemq.model import journeys
from kitemq.model.conversion import convert

STAGES_MAX = 200  # in the chart and the table; the JSON has all of them
STORY_MAX = 12  # the last sentences of a group's block


class StageRow(journeys.Stage, frozen=True):
    """A row of the chart and the table; `note` is the text beside the bar.

    `outcome` is in words. `took` is "" for a moment, `href` is "" for a record without a page.
    """

    number: int
    label: str
    tone: str
    after: str
    took: str
    is_open: bool
    note: str
    href: str
    bar: StageBar


@dataclass(frozen=True)
class Axis:
    """The time axis of the chart; `can_compress` if the scale can be switched."""

    begin_ms: int
    length: str
    is_compressed: bool
    can_compress: bool
    ticks: list[tuple[AxisTick, str]]


@dataclass(frozen=True)
class StorySentence:
    """A sentence with a link to its subject."""

    text: str
    tone: str
    href: str
    link: str


@dataclass(frozen=True)
class GroupBlock:
    """The block of one group; `left_out` sentences precede those in `story`."""

    group: str
    state: str
    verdict: str
    tone: str
    is_open: bool
    deliveries: int
    since_ms: int
    balance: str
    story: list[StorySentence]
    left_out: int
    dead_href: str


class ReasonRow(journeys.JourneyReason, frozen=True):
    question: str


@dataclass(frozen=True)
class JourneyPage:
    """The context of `journey.html`; if `stages` is empty, `reasons` say why.

    `has_deliveries` is false where the engine does not tell of any.
    """

    message_id: str
    requested_id: str
    topic: str
    summary: str
    axis: Axis | None
    stages: list[StageRow]
    stages_total: int
    only_group: str
    groups: list[GroupBlock]
    story: list[StorySentence]
    story_left_out: int
    reasons: list[ReasonRow]
    is_complete: bool
    has_deliveries: bool
    is_over: bool
    message_href: str


async def show(request: PageRequest) -> Response:
    """GET /trace/{id}"""
    console = request.console
    message_id = request.path_params["id"]
    journey = await request.services.journeys.find(message_id)
    if request.query_params.get("format") == "otel":
        content = await console.render(lambda: journey_otel.encode(journey, console.now_ms()))
        headers = pages.as_file(f"trace-{journey.message_id[:120]}.json", is_free=True)
        return Response(content, media_type="application/json", headers=headers)
    filtered = await filtered_out(console, journey)
    query = dict(request.query_params)
    now_ms = console.now_ms()
    context = await console.render(
        lambda: _page(journey, message_id, filtered, now_ms=now_ms, query=query)
    )
    return await pages.respond(
        request,
        "journey.html",
        context,
        title=_("Journey of %(asked)s", asked=message_id[:64]),
        is_live=not context.is_over,
    )


def _page(
    journey: Journey,
    message_id: str,
    filtered: frozenset[str],
    *,
    now_ms: int,
    query: dict[str, str],
) -> JourneyPage:
    """Build the page's context; pure, because it runs on another thread."""
    only = query.get("group", "")
    stages = [each for each in journey.stages if not only or each.group in ("", only)]
    axis, rows = _rows(stages[:STAGES_MAX], now_ms, to_scale=query.get("axis") == "scale")
    common = [each for each in journey.stages if not each.group or _is_common(each)]
    groups = [_block(journey, branch, filtered, now_ms) for branch in journey.groups]
    is_waiting = any(branch.state in journey_words.OPEN_STATES for branch in journey.groups)
    is_waiting = is_waiting or any(journey_words.goes_on(each) for each in journey.stages)
    story = [_sentence(each, journey.message_id, now_ms) for each in common]
    return JourneyPage(
        message_id=journey.message_id,
        requested_id=message_id,
        topic=journey.topic,
        summary=_summary(journey, now_ms),
        axis=axis,
        stages=rows,
        stages_total=len(stages),
        only_group=only,
        groups=groups,
        story=story[:STORY_MAX],
        story_left_out=max(0, len(story) - STORY_MAX),
        reasons=[_reason(each) for each in journey.reasons_checked],
        is_complete=journey.complete,
        has_deliveries=are_told(journey),
        is_over=not is_waiting,
        message_href=_message_href(journey.stages),
    )


def _is_common(stage: Stage) -> bool:
    """Whether a stage belongs to the message rather than to a consumer group."""
    return stage.name in (StageName.TRANSACTION, StageName.CHECK)


def _rows(
    stages: Sequence[Stage], now_ms: int, *, to_scale: bool
) -> tuple[Axis | None, list[StageRow]]:
    if not stages:
        return None, []
    spans = [_span(stage, now_ms) for stage in stages]
    chart = journey_layout.lay_out(spans, to_scale=to_scale)
    axis = Axis(
        begin_ms=chart.begin_ms,
        length=journey_words.span(chart.end_ms - chart.begin_ms),
        is_compressed=chart.is_compressed,
        can_compress=journey_layout.needs_compression(spans),
        ticks=[(tick, _after(tick.after_ms)) for tick in chart.ticks],
    )
    rows = [
        _row(number, stage, bar, chart.begin_ms, now_ms)
        for number, (stage, bar) in enumerate(zip(stages, chart.bars, strict=True), 1)
    ]
    return axis, rows


def _span(stage: Stage, now_ms: int) -> StageSpan:
    """The time of a stage in the chart: until now if it goes on, a moment if its end is unknown."""
    end_ms = journey_words.end_ms(stage, now_ms)
    return StageSpan(stage.at_ms, end_ms, is_handout=stage.name is StageName.DELIVERY)


def _row(number: int, stage: Stage, bar: StageBar, begin_ms: int, now_ms: int) -> StageRow:
    return convert(
        stage,
        StageRow,
        number=number,
        label=journey_words.label(stage),
        outcome=journey_words.outcome(stage),
        tone=journey_words.tone(stage),
        after=_after(stage.at_ms - begin_ms),
        took=journey_words.took(stage, now_ms),
        detail=journey_words.detail(stage),
        is_open=journey_words.goes_on(stage),
        note=journey_words.note(stage, now_ms),
        href=_record_href(stage),
        bar=bar,
    )


def _after(length_ms: int) -> str:
    return f"+{journey_words.span(length_ms)}" if length_ms else "0"


def _block(journey: Journey, branch: Branch, filtered: frozenset[str], now_ms: int) -> GroupBlock:
    own = [each for each in journey.stages if each.group == branch.group and not _is_common(each)]
    is_filtered = branch.group in filtered
    verdict, tone = journey_words.verdict(branch.state, is_filtered=is_filtered)
    story = own[-STORY_MAX:]
    dead = [each for each in own if each.name is StageName.DEAD_LETTER]
    return GroupBlock(
        group=branch.group,
        state=branch.state.value,
        verdict=verdict,
        tone=tone,
        is_open=branch.state in journey_words.OPEN_STATES,
        deliveries=branch.deliveries,
        since_ms=branch.at_ms,
        balance=journey_words.balance(own, now_ms),
        story=[_sentence(each, journey.message_id, now_ms) for each in story],
        left_out=len(own) - len(story),
        dead_href=_dead_href(dead[-1]) if dead else "",
    )


def _sentence(stage: Stage, message_id: str, now_ms: int) -> StorySentence:
    """The sentence of a stage with its link."""
    href, link = "", ""
    if stage.name is StageName.DEAD_LETTER:
        href, link = _dead_href(stage), _("the dead letter")
    elif stage.name is StageName.REPLAY and stage.client:
        href, link = f"/jobs/{segment(stage.client)}", _("the replay job")
    elif stage.name is StageName.STORE:
        href, link = _record_href(stage), _("the message")
    elif stage.name in (StageName.REQUEST, StageName.REPLY) and stage.detail != message_id:
        link = (
            _("the request's journey")
            if stage.name is StageName.REQUEST
            else _("the reply's journey")
        )
        href = f"/trace/{segment(stage.detail)}" if stage.detail else ""
    tone = journey_words.tone(stage)
    return StorySentence(journey_words.sentence(stage, now_ms), tone, href, link if href else "")


def _record_href(stage: Stage) -> str:
    if not stage.topic or stage.offset is None:
        return ""
    return address(stage.topic, stage.queue, stage.offset)


def _dead_href(stage: Stage) -> str:
    return dead_letter_href(stage) or _record_href(stage)


def _message_href(stages: Sequence[Stage]) -> str:
    """The page of the message's original record, or of the first stage with a page."""
    stored = [_record_href(each) for each in stages if each.name is StageName.STORE]
    others = [_record_href(each) for each in stages]
    return next(filter(None, [*stored, *others]), "")


def _reason(reason: CheckedReason) -> ReasonRow:
    question = translated(journey_words.QUESTIONS[reason.code])
    return convert(reason, ReasonRow, question=question)


def _summary(journey: Journey, now_ms: int) -> str:
    """The chart in one sentence."""
    if not journey.stages:
        return ""
    handed = [each for each in journey.stages if each.name is StageName.DELIVERY]
    failed = sum(each.outcome in journey_words.FAILED for each in handed)
    end_ms = max(_span(each, now_ms).end_ms for each in journey.stages)
    length = journey_words.span(end_ms - min(each.at_ms for each in journey.stages))
    if not handed:
        return _("No delivery recorded; the known events span %(length)s.", length=length)
    times = ngettext("Delivered once", "Delivered %(num)s times", len(handed))
    groups = len({each.group for each in handed})
    to = _(" to %(groups)s groups", groups=groups) if groups > 1 else ""
    how = _(", %(failed)s of them failed", failed=failed) if failed else ""
    if failed == len(handed):
        how = _(" and failed") if failed == 1 else _(" and failed each time")
    hops = journey_words.hops(journey.stages)
    return _(
        "%(times)s%(to)s over %(length)s%(how)s%(hops)s.",
        times=times,
        to=to,
        length=length,
        how=how,
        hops=hops,
    )
