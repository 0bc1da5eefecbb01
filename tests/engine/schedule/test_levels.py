import pytest

from engine.errors import Invalid
from engine.schedule.levels import DelayLevels

WAITS_S = [1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200]


def test_the_eighteen_levels_are_those_of_rocketmq():
    levels = DelayLevels()
    assert levels.count == 18
    assert [levels.delay_ms(level) // 1000 for level in range(1, 19)] == WAITS_S


def test_a_level_past_the_last_is_the_last_and_none_below_the_first():
    levels = DelayLevels()
    assert levels.clamp(99) == 18
    assert levels.delay_ms(99) == levels.longest_ms == 7_200_000
    assert (levels.clamp(0), levels.clamp(-3), levels.delay_ms(0)) == (0, 0, 0)


@pytest.mark.parametrize(
    ("delay_ms", "level"),
    [(-5, 0), (0, 0), (1, 1), (1000, 1), (1001, 2), (10_000, 3), (7_200_000, 18), (9_000_000, 18)],
)
def test_a_wait_is_rounded_up_to_a_level(delay_ms, level):
    assert DelayLevels().level_for(delay_ms) == level


def test_levels_can_be_set_in_seconds_minutes_hours_and_days():
    levels = DelayLevels("2s 3m 4h 5d")
    assert [levels.delay_ms(level) for level in range(1, 5)] == [
        2_000,
        180_000,
        14_400_000,
        432_000_000,
    ]
    assert levels.due_ms(1, 7) == 180_007


@pytest.mark.parametrize("text", ["", "5s 1s", "1s 1s", "1x", "s", "-1s", "1.5s"])
def test_a_list_that_is_no_ascending_list_of_waits_is_refused(text):
    with pytest.raises(Invalid):
        DelayLevels(text)
