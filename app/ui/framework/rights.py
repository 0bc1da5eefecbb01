"""The right that each address of the console needs: one table by method and path.

A GET needs the right to read the object in the path. The table lists every change; a change that is
missing here is for admins only and fails a test. If a form names the topic or the group, or the
path has only an id, the handler checks again with `require`. `lock_of` checks in advance, so that
the page can show the control disabled, with the reason.
"""

from dataclasses import dataclass

from starlette.requests import Request

from app.security.access import (
    ADMINISTER_CONTROL,
    ADMINISTER_PEOPLE,
    ADMINISTER_SERVER,
    EVERYTHING,
    NAMED,
    OWN,
    PUBLIC,
    READ_GROUP,
    READ_PEOPLE,
    READ_SERVER,
    READ_TOPIC,
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
from app.security.access import require as require_right
from app.security.access import require_decision as require_decision_right
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
ADMINISTER_REPORT = Needs(Action.ADMINISTER, Kind.REPORT)

LOOKS = {
    "/login": PUBLIC,
    "/login/provider": PUBLIC,
    "/login/callback": PUBLIC,
    "/login/left": PUBLIC,
    "/login/leave-provider": PUBLIC,
    "/static/{name:path}": PUBLIC,
    "/access": READ_OWN,
    "/access/users/{name}": READ_PEOPLE,
    "/access/check": READ_PEOPLE,
    "/audit": READ_AUDIT,
    "/views": READ_OWN,
    "/help": READ_OWN,
}
CHANGES = {
    "/login": PUBLIC,
    "/logout": OWN,
    "/preferences": READ_OWN,
    "/settings": READ_OWN,  # of the user's own browser
    "/topics": ANY_TOPIC,
    "/topics/{topic}/produce": PRODUCE,
    "/topics/{topic}/config": TOPIC,
    "/topics/{topic}/delete": TOPIC,
    "/topics/{topic}/purge": TOPIC,
    "/topics/{topic}/star": OWN,
    "/topics/{topic}/docs": TOPIC,
    "/bulk/topics": ANY_TOPIC,
    "/import/topics": ANY_TOPIC,
    "/bulk/groups": ANY_GROUP,
    "/messages/{topic}/{queue}/{offset}/verify": ANY_GROUP,  # the form names the object
    "/client/stack": ADMINISTER_SERVER,
    "/client/disconnect": ADMINISTER_SERVER,
    "/dlq/{group}/resend": GROUP,
    "/groups/{group}/offsets/plan": READ_GROUP,  # a preview, too large for an address
    "/dlq/{group}/dismiss": GROUP,
    "/dlq/{group}/restore": GROUP,
    "/dlq/{group}/{offset}/resend": GROUP,
    "/jobs": ANY_TOPIC,  # checked again by source and target
    "/jobs/{id}/rate": ANY_GROUP,
    "/views": OWN,
    "/views/{id}/delete": OWN,
    "/access/users": ADMINISTER_PEOPLE,
    "/access/users/{name}": ADMINISTER_PEOPLE,
    "/access/users/{name}/password": ADMINISTER_PEOPLE,
    "/access/users/{name}/delete": ADMINISTER_PEOPLE,
    "/access/tokens": OWN,
    "/access/tokens/{id}/revoke": OWN,
    "/access/sessions/{id}/end": OWN,
    "/access/password": OWN,
}


READ_ONLY_TEXT = N_("Read-only mode: changes are disabled")
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
            return Lock(id, translated(READ_ONLY_TEXT))
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


def is_labelled(method: str, path: str) -> bool:
    """Whether the table has a row for this change."""
    return method == "GET" or _of_change(path) is not None


def needs_of(method: str, path: str) -> Needs:
    """The right that `method` on a route's `path` needs."""
    if method != "GET":
        return _of_change(path) or ADMINISTER_SERVER
    if path in LOOKS:
        return LOOKS[path]
    if path.startswith("/audit"):
        return READ_AUDIT
    if "{topic}" in path:
        return READ_TOPIC
    return READ_GROUP if "{group}" in path else READ_SERVER


def require(request: Request, action: Action, kind: Kind, name: str) -> None:
    """Raise RightMissing unless the user may do this to the object that a form names."""
    require_right(principal_of(request.scope), action, kind, name)


def require_resend(request: Request, source: str, to: str, to_name: str) -> None:
    """Raise RightMissing unless the user may send messages of `source` to the target."""
    require_replay(principal_of(request.scope), source, to, to_name)


def require_decision(request: Request, topic: str) -> None:
    """Raise RightMissing unless the user may decide transactions of `topic`."""
    require_decision_right(principal_of(request.scope), topic, by_hand=True)


def _of_change(path: str) -> Needs | None:
    if path in CHANGES:
        return CHANGES[path]
    for folder, needs in FOLDERS.items():
        if path.startswith(folder):
            return needs
    return None


# Prefixes that cover all paths below; the longest match comes first.
FOLDERS = {
    "/groups/{group}/": GROUP,
    "/jobs/{id}/": ANY_GROUP,
    "/scheduled/": EVERY_TOPIC,
    "/transactions/": ANY_TOPIC,
    "/alerts": ADMINISTER_SERVER,
    "/engine": ADMINISTER_CONTROL,
    "/reports/runs": ADMINISTER_REPORT,
    "/reports": ADMINISTER_SERVER,
}
