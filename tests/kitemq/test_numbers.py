"""Whole numbers in texts of callers."""

import pytest

from kitemq.model.numbers import is_whole, whole


@pytest.mark.parametrize("text", ["0", "7", "007", "9" * 18])
def test_digits_are_a_whole_number(text: str) -> None:
    assert is_whole(text)


@pytest.mark.parametrize("text", ["", "-1", "+1", " 1", "1 ", "1.0", "1e3", "٣", "²", "9" * 19])
def test_any_other_text_is_none(text: str) -> None:
    assert not is_whole(text)
    assert whole(text, 10**18 - 1) is None


def test_a_number_is_at_most_as_large_as_the_limit() -> None:
    assert whole("255", 255) == 255
    assert whole("256", 255) is None
    assert whole("0255", 255) == 255
    assert whole("0" * 17 + "255", 255) is None, "more digits than 64 bits need"
