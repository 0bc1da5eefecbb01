"""Who may do what, worked out anew from plain words: the judge of the tests of rights.

It knows nothing of `app.security`, so that a mistake there is not made here once more.
"""

from dataclasses import dataclass, field
from fnmatch import fnmatchcase

PASSWORD = "correct horse"
INSIDE, OUTSIDE = "orders-1", "payments"
PATTERNS = ("*:*:orders-*",)
GROUP_TOPICS = ("%DLQ%", "%RETRY%")


@dataclass(frozen=True)
class Person:
    """Somebody who asks: a role with patterns, and perhaps a token that may do less."""

    name: str
    role: str
    patterns: tuple[str, ...] = ()
    token_role: str = ""
    token_patterns: tuple[str, ...] = ()
    has_token: bool = False
    user: str = field(default="", compare=False)

    @property
    def owner(self) -> str:
        """The user's name, which a token has beside its own."""
        return self.user or self.name

    def may(self, right: str) -> bool:
        """Whether a right with its name filled in, as "produce:topic:orders-1", is this one's."""
        if not self.role:
            return right == "read:public"
        action, kind, *_ = right.split(":")
        if self.has_token and kind == "own" and action != "read":
            right = "administer:people"
        if not _role_may(self.role, self.patterns, right):
            return False
        if not self.has_token:
            return True
        return _role_may(self.token_role, self.token_patterns or self.patterns, right)


def _role_may(role: str, patterns: tuple[str, ...], right: str) -> bool:
    action, kind, *names = right.split(":")
    if role == "admin" or kind in ("own", "public"):
        return True
    if kind in ("people", "control") or (kind == "audit" and role == "viewer"):
        return False
    if action == "read":
        return True
    if role == "viewer" and action != "read_messages":
        return False
    if kind not in ("topic", "group", "report"):
        return False
    (name,) = names or ("*",)
    if name.startswith(GROUP_TOPICS):
        kind, name = "group", name.split("%")[2]
    return any(_matches(pattern, action, kind, name) for pattern in patterns)


def _matches(pattern: str, action: str, kind: str, name: str) -> bool:
    of_action, of_kind, glob = pattern.split(":")
    fits = of_action in ("*", action) and of_kind in ("*", kind)
    return fits and (glob == "*" if name == "*" else fnmatchcase(name, glob))


NOBODY = Person("nobody", "")
ADMIN = Person("ann", "admin")
VIEWER = Person("vera", "viewer", ("read_messages:*:*",))
WATCHER = Person("walt", "viewer")
READER = Person("rita", "viewer", ("read_messages:topic:orders-*",))
OPERATOR = Person("otto", "operator", ("*:*:*",))
LIMITED = Person("petra", "operator", PATTERNS)
SENDER = Person("pia", "operator", ("produce:topic:orders-*",))
USERS = (ADMIN, VIEWER, WATCHER, READER, OPERATOR, LIMITED, SENDER)
# A token may do what both its own rights and its owner's allow.
TOKENS = (
    Person("reader", "admin", (), "viewer", ("read_messages:*:*",), True, "ann"),
    Person("producer", "admin", (), "operator", ("produce:topic:*",), True, "ann"),
    Person("orders", "admin", (), "operator", PATTERNS, True, "ann"),
    Person("greedy", "operator", PATTERNS, "admin", (), True, "petra"),
    Person("all", "admin", (), "admin", (), True, "ann"),
)
PEOPLE = (*USERS, *TOKENS, NOBODY)
