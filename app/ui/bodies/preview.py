"""The one-line preview of a message's body in lists."""

from app.security.message_rights import missing_right
from app.ui.bodies import bodies
from app.ui.framework.language import _
from engine.message import StoredMessage


def preview_of(message: StoredMessage) -> str:
    """The body as one line, or the missing right for a concealed message."""
    missing = missing_right(message)
    if missing:
        return _("(hidden: requires %(right)s)", right=missing)
    return bodies.preview(message.plain.body)
