"""What a journey's stages say."""

import pytest

from app.ui.journeys import words as journey_words
from app.ui.journeys.filtered import is_filtered
from engine.broker import GroupState, ReasonCode, Stage, StageName, StageOutcome
from engine.trace.journey import StageSource

AT_MS = 1_790_000_000_000
NOW_MS = AT_MS + 65_000


def stage(name: StageName, outcome: StageOutcome, length_ms: int | None, **fields: object) -> Stage:
    until_ms = None if length_ms is None else AT_MS + length_ms
    known = {"source": StageSource.TRACE, "group": "g", **fields}
    return Stage(name=name, at_ms=AT_MS, until_ms=until_ms, outcome=outcome, **known)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("length_ms", "text"),
    [
        (-5, "0 ms"),
        (0, "0 ms"),
        (999, "999 ms"),
        (1000, "1 s"),
        (3249, "3.2 s"),
        (59_999, "59.9 s"),
        (125_000, "2 min 5 s"),
        (3_600_000, "1 h"),
        (4_800_000, "1 h 20 min"),
        (86_400_000 * 3 + 4 * 3_600_000, "3 d 4 h"),
    ],
)
def test_lengths_are_told_to_two_places(length_ms: int, text: str) -> None:
    assert journey_words.span(length_ms) == text


def test_every_stage_outcome_state_and_reason_has_its_words() -> None:
    assert set(journey_words.LABELS) == set(StageName)
    assert set(journey_words.OUTCOMES) == set(StageOutcome)
    assert set(journey_words.VERDICTS) == set(GroupState)
    assert set(journey_words.QUESTIONS) == set(ReasonCode)


@pytest.mark.parametrize("name", list(StageName))
@pytest.mark.parametrize("outcome", list(StageOutcome))
@pytest.mark.parametrize("length_ms", [None, 0, 40])
def test_every_stage_makes_a_sentence_and_a_note(
    name: StageName, outcome: StageOutcome, length_ms: int | None
) -> None:
    each = stage(name, outcome, length_ms, client="c", attempt=2, topic="t", detail="why")
    sentence = journey_words.sentence(each, NOW_MS)
    assert sentence[0] == sentence[0].upper()
    assert not sentence.endswith((".", " ", ","))
    assert "  " not in sentence
    assert isinstance(journey_words.note(each, NOW_MS), str)


@pytest.mark.parametrize(
    ("name", "outcome", "length_ms", "sentence"),
    [
        (
            StageName.DELIVERY,
            StageOutcome.FAILED,
            40,
            "Attempt 2 failed after 40 ms on client c: no water",
        ),
        (
            StageName.DELIVERY,
            StageOutcome.INFLIGHT,
            None,
            "Attempt 2 in progress on client c for 1 min 5 s so far: no water",
        ),
        (StageName.WAIT, StageOutcome.DELIVERED, 3200, "In the queue for 3.2 s"),
        (
            StageName.WAIT,
            StageOutcome.WAITING,
            None,
            "In the queue for 1 min 5 s, not delivered yet",
        ),
        (
            StageName.RETRY_WAIT,
            StageOutcome.RELEASED,
            10_000,
            "Waited 10 s before attempt 2",
        ),
        (StageName.DEAD_LETTER, StageOutcome.DEAD, None, "Moved to dead letters: no water"),
        (StageName.DELAY, StageOutcome.WAITING, None, "Scheduled, waiting for 1 min 5 s so far"),
        (
            StageName.TRANSACTION,
            StageOutcome.COMMITTED,
            3000,
            "Transaction committed no water after 3 s",
        ),
        (StageName.REQUEST, StageOutcome.REPLIED, 50, "Client c received its reply after 50 ms"),
    ],
)
def test_sentences_say_what_happened_for_how_long_and_why(
    name: StageName, outcome: StageOutcome, length_ms: int | None, sentence: str
) -> None:
    each = stage(name, outcome, length_ms, client="c", attempt=2, detail="no water")
    assert journey_words.sentence(each, NOW_MS) == sentence


def test_what_failed_has_the_failures_colour_and_a_mark() -> None:
    for outcome in journey_words.FAILED:
        each = stage(StageName.DELIVERY, outcome, 40)
        assert journey_words.tone(each) == "bad"
        assert journey_words.note(each, NOW_MS).startswith("✕")
        assert journey_words.note(each, NOW_MS).endswith("40 ms")


def test_the_balance_says_where_a_groups_time_went() -> None:
    stages = [
        stage(StageName.WAIT, StageOutcome.DELIVERED, 3200),
        stage(StageName.DELIVERY, StageOutcome.FAILED, 40),
        stage(StageName.RETRY_WAIT, StageOutcome.RELEASED, 10_000),
        stage(StageName.DELIVERY, StageOutcome.INFLIGHT, None),
    ]
    assert journey_words.balance(stages, NOW_MS) == (
        "3.2 s in the queue, 1 min 5 s processing, 10 s waiting for a retry"
    )


@pytest.mark.parametrize(
    ("tag", "expression", "is_out"),
    [
        ("blue", "*", False),
        ("blue", "", False),
        ("blue", "red || blue", False),
        ("blue", "red||green", True),
        ("", "red", True),
        ("blue", "SQL92: color = 'red'", False),
    ],
)
def test_a_filter_by_tags_is_compared_and_no_other(tag: str, expression: str, is_out: bool) -> None:
    assert is_filtered(tag, expression) is is_out
