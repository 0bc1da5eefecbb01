"""The histogram of due times, and what people type about topics; pure."""

import asyncio
from bisect import bisect_left
from collections.abc import Sequence
from typing import Annotated

import pytest

from app.ui.framework import typed_forms
from app.ui.framework.forms import Form, Posted
from app.ui.framework.typed_forms import Fields
from app.ui.scheduled.due_histogram import DAY_MS, HOUR_MS, MINUTE_MS, DueHistogram, histogram
from app.ui.topics import fields as topic_fields

NOW_MS = 1_800_000_123_456


class TopicTexts(Fields, frozen=True):
    retention: Annotated[int | None, topic_fields.retention_ms] = None
    share: Annotated[float | None, topic_fields.share_of] = None


def read(**texts: str) -> tuple[Form, TopicTexts]:
    return typed_forms.read(Posted({name: [text] for name, text in texts.items()}), TopicTexts)


def drawn(dues: list[int], span: str = "") -> DueHistogram:
    dues.sort()

    async def counts(times_ms: Sequence[int]) -> list[int]:
        return [bisect_left(dues, each) for each in times_ms]

    return asyncio.run(histogram(counts, NOW_MS, span))


@pytest.mark.parametrize("span", ["", "hour", "day", "week", "month", "year"])
def test_every_message_is_counted_once_whatever_the_span(span: str) -> None:
    dues = [NOW_MS + n * n * MINUTE_MS for n in range(-2, 300)]
    chart = drawn(dues, span)
    counted = chart.overdue + sum(bar.count for bar in chart.bars) + chart.later
    assert counted == chart.total == len(dues)


def test_the_span_is_the_shortest_that_holds_nine_tenths() -> None:
    near = [NOW_MS + n * MINUTE_MS // 10 for n in range(90)]
    assert drawn(near + [NOW_MS + 9 * DAY_MS] * 10).label == "next hour"
    assert drawn(near + [NOW_MS + 9 * DAY_MS] * 11).label == "next 30 days"
    assert drawn([NOW_MS + 20 * HOUR_MS]).label == "next day"


def test_bars_stand_still_while_time_goes_on() -> None:
    chart = drawn([NOW_MS + 5 * MINUTE_MS], "hour")
    assert chart.begin_ms % MINUTE_MS == 0
    (bar,) = [bar for bar in chart.bars if bar.count]
    assert bar.begin_ms <= NOW_MS + 5 * MINUTE_MS < bar.end_ms
    assert bar.y >= 0
    assert bar.y + bar.height == pytest.approx(chart.height)


def test_nothing_waiting_draws_nothing() -> None:
    chart = drawn([])
    assert (chart.total, chart.top, chart.later) == (0, 0, 0)


@pytest.mark.parametrize(
    ("text", "value"),
    [("", None), ("0", 0), ("12h", 12 * HOUR_MS), ("30d", 30 * DAY_MS), ("1500ms", 1500)],
)
def test_a_retention_is_read_as_it_is_written(text: str, value: int | None) -> None:
    form, fields = read(retention=text)
    assert fields.retention == value
    assert topic_fields.retention_text(value) == text
    assert not form.is_wrong


@pytest.mark.parametrize("text", ["soon", "-1h", "12", "0h"])
def test_what_is_no_retention_is_said_at_its_field(text: str) -> None:
    form, __ = read(retention=text)
    assert "retention" in form.errors


@pytest.mark.parametrize(("text", "value"), [("", None), ("0", 0.0), ("12.5", 0.125), ("100", 1.0)])
def test_a_share_is_typed_as_percent(text: str, value: float | None) -> None:
    __, fields = read(share=text)
    assert fields.share == value
    assert topic_fields.percent_text(value) == text


@pytest.mark.parametrize("text", ["101", "-1", "nan", "half"])
def test_what_is_no_percent_is_said_at_its_field(text: str) -> None:
    form, __ = read(share=text)
    assert "share" in form.errors
