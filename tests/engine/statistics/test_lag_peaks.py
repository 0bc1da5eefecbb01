"""The highest lag of many groups in one pass: the same figures as a query for each of them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from engine.errors import Invalid
from engine.statistics.lag_history import LagHistoryStore
from engine.statistics.lag_peaks import peak_query
from engine.statistics.lag_points import query
from engine.statistics.windows import MINUTE_MS
from engine.store.files import OsFiles
from tests.engine.statistics.test_lag_history import START_MS, STEP_MS, history, round_of

HALF_MS = 30 * MINUTE_MS


def peaks(
    kept: LagHistoryStore, groups: Sequence[str], from_ms: int, to_ms: int
) -> Mapping[str, Sequence[int | None]]:
    found: list[Mapping[str, Sequence[int | None]]] = []
    kept.read_peaks(peak_query(groups, from_ms, to_ms, HALF_MS), found.append)
    return found[0]


def test_peaks_are_the_highest_counts_of_each_step_from_blocks_and_from_memory(
    tmp_path: Path,
) -> None:
    kept = history(OsFiles(), tmp_path / "lag")
    for number in range(1000):
        # Two queues of billing, one of log; none is sampled for an hour in between.
        if not 360 <= number < 720:
            at_ms = START_MS + number * STEP_MS
            kept.append(round_of(at_ms, number % 97, 1000 - number, number * 2))
    to_ms = START_MS + 6 * HALF_MS
    found = peaks(kept, ["billing", "log", "nobody"], START_MS, to_ms)
    for group in ("billing", "log"):
        page: list[int | None] = []
        kept.read(
            query(group, None, None, START_MS, to_ms, 7, STEP_MS),
            lambda got: page.extend(point.count_max for point in got.points),  # noqa: B023
        )
        assert list(found[group]) == page
    assert found["log"] == [358, 718, None, None, 1798, 1998]
    assert found["nobody"] == [None] * 6
    kept.close()


@pytest.mark.parametrize(
    ("groups", "to_ms", "step_ms", "field"),
    [
        ([str(number) for number in range(501)], 10, 1, "groups"),
        (["a"], 0, 1, "step_ms"),
        (["a"], 10, 0, "step_ms"),
        (["a"], 2001, 1, "step_ms"),
    ],
)
def test_a_query_that_is_too_large_is_refused(
    groups: list[str], to_ms: int, step_ms: int, field: str
) -> None:
    with pytest.raises(Invalid) as caught:
        peak_query(groups, 0, to_ms, step_ms)
    assert caught.value.field == field
