"""The texts of a topic's retention and share of traced messages in forms. Pure."""

from app.ui.framework import typed_time
from app.ui.framework.language import _, translated
from app.ui.framework.typed_forms import InvalidField

PERCENT = 100


def retention_text(value_ms: int | None) -> str:
    """The form's text of a retention: "" for the broker's, "0" for unlimited, "12h"."""
    if value_ms is None:
        return ""
    return typed_time.length_text(value_ms) if value_ms else "0"


def retention_ms(text: str) -> int | None:
    """A typed retention in ms; None for the broker's. Raises InvalidField."""
    text = text.strip()
    if text in ("", "0"):
        return 0 if text else None
    length_ms = typed_time.find_length_ms(text)
    if not length_ms:
        length_help = translated(typed_time.LENGTH_HELP)
        raise InvalidField(_("Invalid duration. %(length_help)s", length_help=length_help))
    return length_ms


def percent_text(share: float | None) -> str:
    """A share as percent: "25" for 0.25, "" for the broker's."""
    return "" if share is None else f"{share * PERCENT:.10g}"


def share_of(text: str) -> float | None:
    """A share from 0 to 1, typed as percent; None for the broker's. Raises InvalidField."""
    try:
        percent = float(text) if text.strip() else None
    except ValueError:
        percent = -1.0
    if percent is not None and not 0 <= percent <= PERCENT:
        raise InvalidField(
            _("Enter a number from 0 to 100, or leave empty for the broker default.")
        )
    return None if percent is None else percent / PERCENT
