"""Which dead letters are meant: reading conditions, choosing, counting facets."""

import msgspec
import pytest

from app.monitoring.dead_index import DeadRow, row_of
from app.ui.dead_letters import filters as dead_filter
from app.ui.dead_letters.filters import NONE, Criteria
from app.ui.framework import zones
from app.ui.framework.zones import UTC_ZONE
from engine.broker import DeadLetter, DeadLetterState, StateCounts
from engine.errors import Invalid
from engine.message import FAILED_ERROR, StoredMessage

HOUR_MS = 3_600_000
NOW_MS = 1_700_000_000_000
REASONS = ("rejected", "attempts_exhausted", "attempts_exhausted")


def rows(count: int = 12) -> list[DeadRow]:
    """One every hour, the newest last; three reasons in turn over two topics."""
    return [
        DeadRow(
            offset=number,
            died_ms=NOW_MS - (count - 1 - number) * HOUR_MS,
            reason=REASONS[number % 3],
            topic=f"topic-{number % 2}",
            tag="paid" if number % 4 else "",
            client="c-1",
            attempts=str(number % 2),
            is_back=number == 5,
        )
        for number in range(count)
    ]


def counts(selection: dead_filter.DeadLetterSelection, name: str) -> dict[str, int]:
    facet = next(facet for facet in selection.facets if facet.name == name)
    return {one.value: one.count for one in facet.values}


def test_without_conditions_all_are_chosen_newest_first_and_each_facet_adds_up() -> None:
    selection = dead_filter.select(rows(), Criteria(), NOW_MS, None)
    assert selection.offsets == list(range(11, -1, -1))
    assert selection.returned == 1
    for name in dead_filter.FACETS:
        assert sum(counts(selection, name).values()) == 12, name
    assert counts(selection, "age") == {"hour": 1, "day": 11}
    assert counts(selection, "tag") == {"paid": 9, NONE: 3}


def test_a_facet_counts_what_choosing_it_would_show() -> None:
    chosen = Criteria(reason="rejected")
    selection = dead_filter.select(rows(), chosen, NOW_MS, None)
    assert len(selection.offsets) == 4
    assert counts(selection, "reason") == {"rejected": 4, "attempts_exhausted": 8}
    for value, count in counts(selection, "topic").items():
        both = Criteria(reason="rejected", topic=value)
        assert len(dead_filter.select(rows(), both, NOW_MS, None).offsets) == count


def test_an_age_means_the_same_when_it_is_settled_into_times() -> None:
    for name, *_ in dead_filter.AGES:
        by_age = Criteria(age=name)
        settled = by_age.settled(NOW_MS)
        assert settled.age == ""
        expected = dead_filter.select(rows(400), by_age, NOW_MS, None).offsets
        assert dead_filter.select(rows(400), settled, NOW_MS, None).offsets == expected
        met = [r.offset for r in rows(400) if dead_filter.meets(r, settled, NOW_MS, "open")]
        assert sorted(met) == sorted(expected)


def test_ids_and_ticks_narrow_what_the_other_conditions_choose() -> None:
    selection = dead_filter.select(rows(), Criteria(reason="rejected"), NOW_MS, {0, 1, 3})
    assert selection.offsets == [3, 0]


def test_missing_values_can_be_asked_for() -> None:
    assert len(dead_filter.select(rows(), Criteria(tag=NONE), NOW_MS, None).offsets) == 3


def test_an_address_is_read_back_as_it_was_written() -> None:
    chosen = Criteria("rejected", "orders", "paid", "c-1", "16", "", 5, 9, "id", "key", (3, 7))
    assert dead_filter.parse(chosen.query()) == chosen
    assert dead_filter.parse({}) == Criteria()
    assert Criteria().is_any
    assert not chosen.is_any


def test_times_are_read_as_date_fields_send_them() -> None:
    read = dead_filter.parse({"from": "2026-01-31T09:00", "until": "2026-01-31T09:00:30Z"})
    assert read.until_ms - read.from_ms == 30_000
    assert dead_filter.field_text(read.from_ms, UTC_ZONE) == "2026-01-31T09:00:00"
    assert dead_filter.field_text(0, UTC_ZONE) == ""


def test_times_are_typed_by_the_clocks_that_the_page_names() -> None:
    shanghai = zones.parse("Asia/Shanghai")
    assert shanghai is not None
    read = dead_filter.parse({"from": "2026-01-31T17:00", "zone": "Asia/Shanghai"})
    assert read == dead_filter.parse({"from": "2026-01-31T09:00Z"})
    assert dead_filter.field_text(read.from_ms, shanghai) == "2026-01-31T17:00:00"


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"from": "yesterday"}, "from"),
        ({"until": "2026-13-01T00:00"}, "until"),
        ({"from": "2026-03-29T02:30", "zone": "Europe/Berlin"}, "from"),
        ({"from": "2026-03-29T02:30", "zone": "Nowhere/Else"}, "zone"),
        ({"age": "ancient"}, "age"),
        ({"offsets": "1,x"}, "offsets"),
        ({"offsets": ",".join(["1"] * 10_001)}, "offsets"),
    ],
)
def test_a_condition_that_makes_no_sense_is_refused_and_never_left_out(
    values: dict[str, str], field: str
) -> None:
    with pytest.raises(Invalid) as refusal:
        dead_filter.parse(values)
    assert refusal.value.field == field


def test_words_say_what_is_chosen() -> None:
    words = Criteria(reason="rejected", tag=NONE, from_ms=NOW_MS, age="day").words()
    assert words == ["reason rejected", "tag none", "1 to 24 hours", "from 2023-11-14 22:13:20 UTC"]


def test_only_open_ones_are_chosen_unless_another_state_is_asked_for() -> None:
    states = {0: "dismissed", 3: "dismissed", 5: "dismissed", 7: "resent"}
    for state, offsets in (
        ("", [11, 10, 9, 8, 6, 4, 2, 1]),
        ("resent", [7]),
        ("dismissed", [5, 3, 0]),
        ("all", list(range(11, -1, -1))),
    ):
        selection = dead_filter.select(rows(), Criteria(state=state), NOW_MS, None, states)
        assert selection.offsets == offsets
        assert selection.states == StateCounts(open=8, resent=1, dismissed=3)
        for name in dead_filter.FACETS:
            assert sum(counts(selection, name).values()) == len(offsets), (state, name)
    ticked = Criteria(offsets=(3, 4))
    assert dead_filter.select(rows(), ticked, NOW_MS, {3, 4}, states).offsets == [4, 3]
    both = dead_filter.select(rows(), Criteria(reason="rejected"), NOW_MS, None, states)
    assert both.offsets == [9, 6]
    assert both.states == StateCounts(open=2, resent=0, dismissed=2)
    for state in DeadLetterState:
        met = dead_filter.meets(rows()[0], Criteria(), NOW_MS, state)
        assert met is (state is DeadLetterState.OPEN)


def test_a_facet_cuts_by_the_class_and_the_line_of_an_error() -> None:
    long = "ValueError: " + "x" * 200
    errors = ("KeyError: 'a'", "KeyError: 'b'", long, "")
    blank = StoredMessage("%DLQ%g", 0, 0, 0, 0, b"", b"", 0, 0, 1, 0, "", 0, "")

    def letter(number: int, error: str) -> DeadLetter:
        message = msgspec.structs.replace(blank, offset=number, parsed={FAILED_ERROR: error})
        return DeadLetter(
            message, number, "", error, "", 1, "t", "", [], "", 0, DeadLetterState.OPEN, ""
        )

    items = [row_of(letter(number, error)) for number, error in enumerate(errors)]

    def offsets(**criteria: str) -> list[int]:
        return dead_filter.select(items, Criteria(**criteria, state="all"), NOW_MS, None).offsets

    assert offsets(error_class="KeyError") == [1, 0]
    assert offsets(error="KeyError: 'b'") == [1]
    assert offsets(error="KeyError*") == [1, 0]
    assert offsets(error=long) == [2]
    assert offsets(error=NONE) == offsets(error_class=NONE) == [3]
    whole = dead_filter.select(items, Criteria(error_class="KeyError"), NOW_MS, None)
    assert counts(whole, "error_class") == {"KeyError": 2, "ValueError": 1, NONE: 1}
    shown = dead_filter.select(items, Criteria(), NOW_MS, None)
    (cut,) = [value for value in counts(shown, "error") if value.startswith("ValueError")]
    assert offsets(error=cut) == [2]


def test_a_state_is_read_and_written_and_a_wrong_one_refused() -> None:
    assert dead_filter.parse({"state": "open"}) == Criteria()
    assert dead_filter.parse({"state": "dismissed"}).query() == {"state": "dismissed"}
    assert Criteria(state="all").is_any
    with pytest.raises(Invalid, match="not a state"):
        dead_filter.parse({"state": "gone"})
