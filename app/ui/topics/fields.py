"""The form fields for a topic's retention and share of traced messages. Pure."""

from app.ui.framework import typed_time
from app.ui.framework.forms import Form
from app.ui.framework.language import _, translated

PERCENT = 100


def retention_text(value_ms: int | None) -> str:
    """The form's text of a retention: "" for the broker's, "0" for unlimited, "12h"."""
    if value_ms is None:
        return ""
    return typed_time.length_text(value_ms) if value_ms else "0"


def read_retention(form: Form, name: str) -> int | None:
    """The retention in a field in ms; None for the broker's, or after an error at the field."""
    text = form.values[name].strip()
    if text in ("", "0"):
        return 0 if text else None
    length_ms = typed_time.find_length_ms(text)
    if not length_ms:
        form.refuse(
            name,
            _(
                "That is no length of time. %(length_help)s",
                length_help=translated(typed_time.LENGTH_HELP),
            ),
        )
    return length_ms


def percent_text(share: float | None) -> str:
    """A share as percent: "25" for 0.25, "" for the broker's."""
    return "" if share is None else f"{share * PERCENT:.10g}"


def read_percent(form: Form, name: str) -> float | None:
    """A share from 0 to 1, typed as percent; None for the broker's."""
    text = form.values[name].strip()
    if not text:
        return None
    try:
        percent = float(text)
    except ValueError:
        percent = -1.0
    if not 0 <= percent <= PERCENT:
        form.refuse(name, _("Write a number from 0 to 100, or nothing for the broker's."))
        return None
    return percent / PERCENT
