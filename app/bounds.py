"""Checks settings against the bounds that stand beside them (`engine.config.setting`)."""

from collections.abc import Sequence
from dataclasses import Field, fields
from typing import Any


def complaint(settings: Any) -> str:
    """What is wrong with the first setting out of its bounds, as a sentence; "" where none is.

    A number without bounds is 0 or more.
    """
    for item in fields(settings):
        value = getattr(settings, item.name)
        expected = _expected(item, value)
        if expected:
            text = repr(value) if isinstance(value, str) else str(value)
            return f"setting {item.name!r} is {text}; expected {expected}"
    return ""


def words_of(choices: Sequence[str]) -> str:
    """The choices as words, "nothing" for an empty one; the last one after "or"."""
    *others, last = choices
    return f"{', '.join(others)} or {last or 'nothing'}"


def _expected(item: Field[Any], value: Any) -> str:
    """The values that a setting may have; "" where it has one of them."""
    bounds = item.metadata
    if "choices" in bounds:
        return "" if value in bounds["choices"] else words_of(bounds["choices"])
    if not isinstance(value, (int, float)):
        return ""
    if "above" in bounds:
        return "" if value > bounds["above"] else f"more than {bounds['above']}"
    least, most = bounds.get("least", 0), bounds.get("most")
    if least <= value and (most is None or value <= most):
        return ""
    return f"{least} or more" if most is None else f"{least} to {most}"
