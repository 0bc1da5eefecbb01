"""Numbers and times as people read them."""

import pytest

from app.ui.framework import formats

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (1_234_567, "1.18 MiB"),
        (999 * 1024, "999 KiB"),
        (1000 * 1024, "0.98 MiB"),
        (81_234_567_890, "75.7 GiB"),
        (2**62, "4096 PiB"),
    ],
)
def test_sizes_have_binary_units_and_three_digits(value: int, text: str) -> None:
    assert formats.size(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.01, "<0.1"), (0.26, "0.3"), (99.94, "99.9"), (1234.5, "1,234")]
)
def test_a_rate_that_is_not_zero_never_reads_as_zero(value: float, text: str) -> None:
    assert formats.rate(value) == text


@pytest.mark.parametrize(
    ("before_ms", "text"),
    [
        (0, "now"),
        (-400, "now"),
        (1_000, "1 s ago"),
        (119_999, "119 s ago"),
        (120_000, "2 min ago"),
        (2 * 3_600_000, "2 h ago"),
        (48 * 3_600_000, "2 d ago"),
        (-90_000, "in 90 s"),
    ],
)
def test_ages_have_one_fitting_unit(before_ms: int, text: str) -> None:
    assert formats.ago(NOW_MS - before_ms, NOW_MS) == text


def test_absolute_times_name_their_zone() -> None:
    assert formats.absolute(1_700_000_000_123) == "2023-11-14 22:13:20.123 UTC"


def test_a_time_that_no_calendar_holds_is_shown_as_the_number_it_is() -> None:
    assert formats.absolute(2**62) == f"{2**62} ms since 1970"
    assert formats.iso(2**62) == ""


def test_the_clock_shows_the_date_only_for_other_days() -> None:
    assert formats.clock(NOW_MS, NOW_MS + 1) == "22:13:20.000"
    assert formats.clock(NOW_MS - 86_400_000, NOW_MS) == "2023-11-13 22:13:20.000"
