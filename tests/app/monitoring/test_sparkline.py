"""Sparklines: where they have gaps and dots."""

from app.monitoring.sparkline import line


def test_an_unknown_value_is_a_gap_and_keeps_its_place() -> None:
    drawn = line([2, 4, None, 4, 0], width=80, height=24)
    assert drawn.path == "M0.0,12.0 20.0,2.0M60.0,2.0 80.0,22.0"
    assert drawn.area == "M0.0,24 0.0,12.0 20.0,2.0 20.0,24zM60.0,24 60.0,2.0 80.0,22.0 80.0,24z"


def test_a_value_between_gaps_is_a_dot() -> None:
    assert line([None, 4, None, 4, 4], width=80, height=24).path.startswith("M20.0,2.0h0M60.0")


def test_one_known_value_or_zeros_alone_draw_nothing() -> None:
    assert line([None, 4, None]).path == ""
    assert line([0, 0, None]).path == ""
