"""Why messages are not shown to somebody who may look at a page, but not read them."""

from app.ui.framework.language import _


def reason_of(right: str) -> str:
    """Why messages are not shown, by the right that is missing; "" for none."""
    if not right:
        return ""
    __, kind, name = right.split(":", 2)
    if kind == "group":
        return _("You may not read message bodies of group %(name)s.", name=name)
    return _("You may not read message bodies of this topic.")
