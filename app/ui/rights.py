"""Which right each address of the console asks for: one table, by method and path.

Looking needs the right to read what the path names. What changes something stands here; what is
missing here is the admins' alone, and a test fails. Where a form names the topic or the group, or
a path only an id, the handler asks once more with `require`.
"""

from starlette.requests import Request

from app.security.access import (
    ADMINISTER_PEOPLE,
    ADMINISTER_SERVER,
    EVERYTHING,
    OWN,
    PUBLIC,
    READ_GROUP,
    READ_SERVER,
    READ_TOPIC,
    Action,
    Kind,
    Needs,
    require_replay,
    who_of,
)
from app.security.access import require as require_right

READ_AUDIT = Needs(Action.READ, Kind.AUDIT)
READ_PEOPLE = Needs(Action.READ, Kind.PEOPLE)
READ_OWN = Needs(Action.READ, Kind.OWN)
TOPIC = Needs(Action.ADMINISTER, Kind.TOPIC, "topic")
GROUP = Needs(Action.ADMINISTER, Kind.GROUP, "group")
ANY_TOPIC = Needs(Action.ADMINISTER, Kind.TOPIC)  # the handler asks for the one it is
ANY_GROUP = Needs(Action.ADMINISTER, Kind.GROUP)
EVERY_TOPIC = Needs(Action.ADMINISTER, Kind.TOPIC, EVERYTHING)
PRODUCE = Needs(Action.PRODUCE, Kind.TOPIC, "topic")

LOOKS = {
    "/login": PUBLIC,
    "/static/{name:path}": PUBLIC,
    "/access": READ_OWN,
    "/access/users/{name}": READ_PEOPLE,
    "/audit": READ_AUDIT,
}
CHANGES = {
    "/login": PUBLIC,
    "/logout": OWN,
    "/preferences": READ_OWN,
    "/settings": READ_OWN,  # of one's own browser
    "/topics": ANY_TOPIC,
    "/topics/{topic}/produce": PRODUCE,
    "/topics/{topic}/config": TOPIC,
    "/topics/{topic}/delete": TOPIC,
    "/topics/{topic}/purge": TOPIC,
    "/dlq/{group}/resend": GROUP,
    "/dlq/{group}/{offset}/resend": GROUP,
    "/jobs/{id}/rate": ANY_GROUP,
    "/access/users": ADMINISTER_PEOPLE,
    "/access/users/{name}": ADMINISTER_PEOPLE,
    "/access/users/{name}/password": ADMINISTER_PEOPLE,
    "/access/users/{name}/delete": ADMINISTER_PEOPLE,
    "/access/tokens": OWN,
    "/access/tokens/{id}/revoke": OWN,
    "/access/sessions/{id}/end": OWN,
    "/access/password": OWN,
}


def is_labelled(method: str, path: str) -> bool:
    """Whether somebody has said what changing something here asks for."""
    return method == "GET" or _of_change(path) is not None


def needs_of(method: str, path: str) -> Needs:
    """The right that `method` on a route's `path` asks for."""
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
    """Raise RightMissing unless the one who asks may do this to what a form names."""
    require_right(who_of(request.scope), action, kind, name)


def require_resend(request: Request, source: str, to: str, to_name: str) -> None:
    """Raise RightMissing unless the one who asks may send messages of `source` there."""
    require_replay(who_of(request.scope), source, to, to_name)


def _of_change(path: str) -> Needs | None:
    if path in CHANGES:
        return CHANGES[path]
    for folder, needs in FOLDERS.items():
        if path.startswith(folder):
            return needs
    return None


# All that is below; the longer ones of two that fit stand first.
FOLDERS = {
    "/groups/{group}/": GROUP,
    "/jobs/{id}/": ANY_GROUP,
    "/scheduled/": EVERY_TOPIC,
    "/transactions/": EVERY_TOPIC,
    "/alerts": ADMINISTER_SERVER,
    "/engine": ADMINISTER_SERVER,
    "/reports": ADMINISTER_SERVER,
}
