"""How much of the log may go, as pure decisions."""

import pytest

from engine.retention.policy import SEGMENTS_MAX, LogExtent, by_age, by_room, by_size

FOUR = LogExtent((400, 500, 600, 700), 750, 100)


def test_a_segment_is_as_old_as_the_first_record_behind_it() -> None:
    begun = {500: 10, 600: 20, 700: 30}
    ages = [by_age(FOUR, begun.get, before_ms) for before_ms in (9, 10, 20, 29, 30, 99)]
    assert ages == [400, 500, 600, 600, 700, 700]


def test_a_segment_whose_begin_cannot_be_read_goes_with_the_next_one() -> None:
    assert by_age(FOUR, {500: None, 600: 20, 700: 30}.get, 25) == 600
    assert by_age(FOUR, {500: None, 600: None, 700: None}.get, 99) == 400


@pytest.mark.parametrize(
    ("bytes_max", "position"), [(350, 400), (349, 500), (250, 500), (50, 700), (1, 700)]
)
def test_the_log_takes_no_more_than_it_may_but_for_its_last_segment(
    bytes_max: int, position: int
) -> None:
    assert by_size(FOUR, bytes_max) == position


@pytest.mark.parametrize(
    ("excess", "position"), [(0, 500), (100, 500), (101, 600), (300, 700), (9999, 700)]
)
def test_room_is_made_by_as_many_segments_as_it_takes(excess: float, position: int) -> None:
    assert by_room(FOUR, excess) == position


def test_one_look_takes_ten_segments_at_most() -> None:
    many = LogExtent(tuple(range(0, 3000, 100)), 2950, 100)
    assert by_age(many, lambda base: 0, 1) == SEGMENTS_MAX * 100
    assert by_size(many, 1) == SEGMENTS_MAX * 100
    assert by_room(many, 1e9) == SEGMENTS_MAX * 100


def test_a_log_of_one_segment_stays() -> None:
    one = LogExtent((400,), 450, 100)
    assert [by_age(one, lambda base: 0, 99), by_size(one, 1), by_room(one, 50)] == [400] * 3
