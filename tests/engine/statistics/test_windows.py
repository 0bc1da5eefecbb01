"""WindowRates and their rings: exact over the time they say."""

import pytest

from engine.statistics.windows import (
    COARSE,
    DAY_MS,
    FINE,
    HOUR_MS,
    MINUTE_MS,
    SECOND_MS,
    TEN_SECONDS_MS,
    Levels,
    WindowedCounter,
    WindowRates,
)

START_MS = 1_700_000_000_000 // DAY_MS * DAY_MS


def steady(levels: Levels, per_second: int, seconds: int) -> WindowedCounter:
    series = WindowedCounter(levels, START_MS, START_MS)
    for second in range(seconds):
        series.add(START_MS + second * 1000, per_second)
    return series


@pytest.mark.parametrize("levels", [FINE, COARSE])
def test_a_steady_stream_has_its_rate_in_every_window(levels: Levels) -> None:
    series = steady(levels, 5, 3600)
    rates = series.rates(START_MS + HOUR_MS)
    assert rates == WindowRates(18_000, 5.0, 5.0, 5.0, 5.0)
    assert series.rates(START_MS + HOUR_MS - 1).second == pytest.approx(5.0, rel=0.001)


@pytest.mark.parametrize("levels", [FINE, COARSE])
def test_what_is_older_than_a_window_is_not_in_it(levels: Levels) -> None:
    series = WindowedCounter(levels, START_MS, START_MS)
    series.add(START_MS, 600)
    after = START_MS + 70 * SECOND_MS
    assert series.rate(after, MINUTE_MS, TEN_SECONDS_MS) == 0
    assert series.rates(after).ten_minutes == pytest.approx(600 / 70)
    assert series.rates(START_MS + 11 * MINUTE_MS).ten_minutes == 0
    assert series.rates(START_MS + DAY_MS).day == pytest.approx(600 / 86_400)
    assert series.rates(START_MS + DAY_MS + HOUR_MS) == WindowRates(600, 0, 0, 0, 0)


def test_a_young_series_is_divided_by_its_own_age() -> None:
    series = WindowedCounter(FINE, START_MS, START_MS)
    series.add(START_MS + 1_000, 30)
    rates = series.rates(START_MS + 3_000)
    assert rates.minute == rates.day == 10


def test_a_long_silence_empties_every_bucket() -> None:
    series = steady(FINE, 7, 1000)
    series.add(START_MS + 40 * DAY_MS, 1)
    assert sum(series.history(START_MS + 40 * DAY_MS, TEN_SECONDS_MS, 90)) == 0
    assert series.rate(START_MS + 40 * DAY_MS, DAY_MS, HOUR_MS) == pytest.approx(1 / 86_400)


def test_a_history_leaves_out_the_bucket_that_is_filling() -> None:
    series = WindowedCounter(FINE, START_MS, START_MS)
    series.add(START_MS, 3)
    series.add(START_MS + 10_000, 4)
    assert series.history(START_MS + 19_999, TEN_SECONDS_MS, 2) == [0, 3]
    assert series.history(START_MS + 20_000, TEN_SECONDS_MS, 2) == [3, 4]


def test_reading_changes_nothing() -> None:
    series = steady(FINE, 5, 100)
    later = START_MS + HOUR_MS
    assert series.rates(later).minute == 0
    assert series.rates(START_MS + 100_000).minute == 5
    assert series.history(START_MS + 100_000, TEN_SECONDS_MS, 10) == [50] * 10


def test_a_time_before_the_newest_counts_into_that() -> None:
    series = WindowedCounter(FINE, START_MS, START_MS)
    series.add(START_MS + 30_000, 1)
    series.add(START_MS, 2)
    assert series.total == 3
    assert series.history(START_MS + 40_000, TEN_SECONDS_MS, 1) == [3]


@pytest.mark.parametrize("levels", [FINE, COARSE])
def test_what_came_between_two_times_is_spread_over_them(levels: Levels) -> None:
    series = WindowedCounter(levels, START_MS, START_MS)
    series.spread(START_MS + 5_000, START_MS + 35_000, 31)
    parts = series.history(START_MS + 40_000, TEN_SECONDS_MS, 4)
    assert parts == [5, 10, 10, 6]  # rounded together: none of it is lost
    assert series.rates(START_MS + 60_000).total == 31
    assert series.rate(START_MS + 60_000, MINUTE_MS, TEN_SECONDS_MS) == pytest.approx(31 / 60)


def test_what_is_spread_back_goes_into_the_past_that_is_kept() -> None:
    series = WindowedCounter(FINE, START_MS, START_MS)
    series.spread(START_MS, START_MS + 30_000, 30)
    series.spread(START_MS + 10_000, START_MS + 20_000, 7)
    assert series.history(START_MS + 30_000, TEN_SECONDS_MS, 3) == [10, 17, 10]
    series.spread(START_MS, START_MS + 2 * HOUR_MS, 7_200)
    later = START_MS + 2 * HOUR_MS
    assert series.history(later, TEN_SECONDS_MS, 90) == [10] * 90
    assert series.rates(later).total == 7_237
    assert series.rates(later).day == pytest.approx(7_237 / 7_200)
