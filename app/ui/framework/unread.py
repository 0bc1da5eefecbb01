"""The notice on pages whose user may not read messages."""

from app.ui.framework.language import _


def reason_of(right: str) -> str:
    """The sentence for a missing right to read messages; "" if none is missing."""
    if not right:
        return ""
    __, kind, name = right.split(":", 2)
    if kind == "group":
        return _("You do not have permission to read message bodies of group %(name)s.", name=name)
    return _("You do not have permission to read message bodies of this topic.")
