"""The rights that addresses of the console need, and the locks of controls that they forbid.

`routes.py` names the right of each address. `lock_of` checks in advance, so that the page can show
the control disabled, with the reason.
"""

from dataclasses import dataclass

from starlette.requests import Request

from app.security.access import (
    EVERYTHING,
    NAMED,
    Action,
    Kind,
    Needs,
    Principal,
    Right,
    Role,
    is_frozen,
    lacks,
    least_role,
    owned,
    principal_of,
    require_replay,
    right_text,
)
from app.ui.framework.language import N_, _, translated
from app.ui.framework.unread import reason_of

READ_AUDIT = Needs(Action.READ, Kind.AUDIT)
READ_OWN = Needs(Action.READ, Kind.OWN)
TOPIC = Needs(Action.ADMINISTER, Kind.TOPIC, "topic")
GROUP = Needs(Action.ADMINISTER, Kind.GROUP, "group")
ANY_TOPIC = Needs(Action.ADMINISTER, Kind.TOPIC)  # the handler checks the actual object
ANY_GROUP = Needs(Action.ADMINISTER, Kind.GROUP)
EVERY_TOPIC = Needs(Action.ADMINISTER, Kind.TOPIC, EVERYTHING)
PRODUCE = Needs(Action.PRODUCE, Kind.TOPIC, "topic")
ANY_PRODUCE = Needs(Action.PRODUCE, Kind.TOPIC)
ADMINISTER_REPORT = Needs(Action.ADMINISTER, Kind.REPORT)

READ_ONLY_TEXT = N_("Read-only mode: changes are disabled")
STANDBY_TEXT = N_("Standby: changes are disabled")
# The sentence that names the lowest sufficient role, by kind and by whether a name is known.
ONE, EACH, SOME = "one", "each", "some"
NEEDS_TEXTS = {
    (Kind.TOPIC, ONE): N_("Requires operator on topic %(name)s"),
    (Kind.TOPIC, EACH): N_("Requires operator on all topics"),
    (Kind.TOPIC, SOME): N_("Requires operator on a topic"),
    (Kind.GROUP, ONE): N_("Requires operator on group %(name)s"),
    (Kind.GROUP, EACH): N_("Requires operator on all groups"),
    (Kind.GROUP, SOME): N_("Requires operator on a group"),
}


@dataclass(frozen=True)
class Lock:
    """The reason for a disabled control; `id` is the element that shows it.

    `right` is the missing right, "" if no right would help.
    """

    id: str
    reason: str
    right: str = ""


def lock_of(who: Principal, id: str, *rights: Right) -> Lock | None:
    """The lock of a change that read-only mode or a missing right forbids; None otherwise."""
    for action, kind, name in rights:
        if is_frozen(who, action, kind):
            return Lock(id, translated(STANDBY_TEXT if who.standby_of else READ_ONLY_TEXT))
        missing = lacks(who, action, kind, name)
        if missing:
            return Lock(id, needs_text(action, kind, name), missing)
    return None


def needs_text(action: Action, kind: Kind, name: str) -> str:
    """The required role in words: "Needs operator on group payments", "Needs admin"."""
    kind, name = owned(kind, name)
    if action is Action.READ_MESSAGES:
        return reason_of(right_text(action, kind, name))
    if kind is Kind.REPORT:
        return _("Requires permission to run reports")
    # A token may not change its owner's account.
    role = least_role(action, Kind.PEOPLE if kind is Kind.OWN else kind)
    if role is Role.ADMIN:
        return _("Requires admin")
    if kind not in NAMED:
        return _("Requires operator")
    scope = EACH if name == EVERYTHING else ONE if name else SOME
    return translated(NEEDS_TEXTS[kind, scope]) % {"name": name}


def require_resend(request: Request, source: str, to: str, to_name: str) -> None:
    """Raise RightMissing unless the user may send messages of `source` to the target."""
    require_replay(principal_of(request.scope), source, to, to_name)
