"""What stands in place of a message's body for somebody who may look at it, but not read it."""

from app.security.message_rights import missing_right
from app.ui.bodies import bodies
from app.ui.framework.language import _
from engine.message import StoredMessage


def preview_of(message: StoredMessage) -> str:
    """The body as one line; of a concealed message, why there is none."""
    missing = missing_right(message)
    if missing:
        return _("(not shown: needs the right %(right)s)", right=missing)
    return bodies.preview(message.plain.body)


def reason_of(right: str) -> str:
    """Why messages are not shown, by the right that is missing; "" for none."""
    if not right:
        return ""
    __, kind, name = right.split(":", 2)
    if kind == "group":
        return _("You may not read message bodies of group %(name)s.", name=name)
    return _("You may not read message bodies of this topic.")
