"""Authorization: one table of role, action and resource, and the one decision over it.

A grant is a role with patterns. Patterns limit an operator's rights over topics and groups, as
`ACTION:KIND:GLOB`, for example `produce:topic:orders-*`; `*` stands for any action or kind. They
also limit a viewer's and an operator's right to read messages, and an operator's right to run
reports. A token has its own grant beside its owner's, and may do only what both allow.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache
from typing import Any

from engine.broker import DEAD_LETTER_PREFIX, RETRY_PREFIX
from engine.errors import Forbidden, Invalid, OnStandby
from kitemq.model.access import Action as Action
from kitemq.model.access import Kind as Kind
from kitemq.model.access import Reach as Reach
from kitemq.model.access import Role as Role

Right = tuple["Action", "Kind", str]  # as `require` takes it

PRINCIPAL = "kitemq.who"  # key of the principal in a request's scope
EVERYTHING = "*"  # as a name: all resources of a kind
PATTERN = re.compile(r"(\*|[a-z_]+):(\*|[a-z]+):([A-Za-z0-9_%|.*?\[\]!-]{1,255})\Z")
PATTERNS_MAX = 100
# Topics of a group: the rights over the group apply.
OF_GROUP = (RETRY_PREFIX, DEAD_LETTER_PREFIX)


NAMED = (Kind.TOPIC, Kind.GROUP)
PATTERNED = (*NAMED, Kind.REPORT)  # allowed in patterns
LOOKING = (Action.READ, Action.READ_MESSAGES)  # actions that change nothing
# Allowed while the server is read-only: one's own account, and switching read-only off.
NEVER_FROZEN = (Kind.OWN, Kind.PUBLIC, Kind.CONTROL)
NONE, MATCHING, ALL = Reach.NONE, Reach.MATCHING, Reach.ALL

# Rows: the kinds. Columns: viewer, operator, admin. A missing row means NONE.
_ROWS: dict[Action, dict[Kind, tuple[Reach, Reach, Reach]]] = {
    Action.READ: {
        Kind.TOPIC: (ALL, ALL, ALL),
        Kind.GROUP: (ALL, ALL, ALL),
        Kind.SERVER: (ALL, ALL, ALL),
        Kind.AUDIT: (NONE, ALL, ALL),
        Kind.CONTROL: (NONE, NONE, ALL),
        Kind.PEOPLE: (NONE, NONE, ALL),
        Kind.OWN: (ALL, ALL, ALL),
    },
    Action.READ_MESSAGES: {
        Kind.TOPIC: (MATCHING, MATCHING, ALL),
        Kind.GROUP: (MATCHING, MATCHING, ALL),  # in its retry and dead-letter topics
    },
    Action.PRODUCE: {
        Kind.TOPIC: (NONE, MATCHING, ALL),
        Kind.GROUP: (NONE, MATCHING, ALL),  # to act as a producer group
    },
    Action.CONSUME: {Kind.TOPIC: (NONE, MATCHING, ALL), Kind.GROUP: (NONE, MATCHING, ALL)},
    Action.ADMINISTER: {
        Kind.TOPIC: (NONE, MATCHING, ALL),
        Kind.GROUP: (NONE, MATCHING, ALL),
        Kind.SERVER: (NONE, NONE, ALL),
        Kind.REPORT: (NONE, MATCHING, ALL),
        Kind.CONTROL: (NONE, NONE, ALL),
        Kind.PEOPLE: (NONE, NONE, ALL),
        Kind.OWN: (ALL, ALL, ALL),
    },
}
TABLE: dict[tuple[Role, Action, Kind], Reach] = {
    (role, action, kind): reach
    for action, kinds in _ROWS.items()
    for kind, reaches in kinds.items()
    for role, reach in zip(Role, reaches, strict=True)
}


class RightMissing(Forbidden):
    """The caller lacks a right, which the text names."""

    code = "right_missing"


class ServerReadOnly(Forbidden):
    """The server is read-only, for all callers."""

    code = "read_only"


@dataclass(frozen=True)
class Grant:
    """A role with the patterns that limit it."""

    role: Role
    patterns: tuple[str, ...] = ()

    def reaches(self, action: Action, kind: Kind, name: str) -> bool:
        """Whether this covers `name`; "" asks whether any resource is covered."""
        reach = TABLE.get((self.role, action, kind), Reach.NONE)
        if reach is not Reach.MATCHING:
            return reach is Reach.ALL
        return any(_matches(pattern, action, kind, name) for pattern in self.patterns)


@dataclass(frozen=True)
class Principal:
    """The sender of a request; without grants, only public paths are allowed."""

    name: str
    grants: tuple[Grant, ...] = ()
    token: str = ""  # its name, where a token was sent
    session_id: int = 0
    is_open: bool = False  # there are no users, so everything is allowed
    is_read_only: bool = False
    standby_of: str = ""  # the leader, where the server is a standby and therefore read-only

    @property
    def role(self) -> Role | None:
        """The caller's role; None without a login, and if there are no users."""
        return self.grants[0].role if self.grants and not self.is_open else None

    @property
    def caller(self) -> str:
        """The name under which requests are counted: the token's, else the user's."""
        return f"{self.name}/{self.token}" if self.token else self.name

    def audit_name(self, client: str) -> str:
        """The name in the audit trail: "ann", "ann/ci" with a token, else the address."""
        if not self.name:
            return f"anonymous@{client or 'local'}"[:255]
        return f"{self.name}/{self.token}"[:255] if self.token else self.name


@dataclass(frozen=True)
class Needs:
    """The right that an operation or a page needs.

    `of` is the path parameter that names the resource, EVERYTHING if all of its kind are affected,
    and "" if there is only one, or if the handler checks a name in the body.
    """

    action: Action
    kind: Kind
    of: str = ""

    def name_in(self, parameters: dict[str, Any]) -> str:
        """The resource that a request's path names."""
        return EVERYTHING if self.of == EVERYTHING else str(parameters.get(self.of, ""))

    def check(self, scope: Any) -> None:
        """Raise RightMissing or ServerReadOnly unless the caller has this right."""
        principal = principal_of(scope)
        if principal.is_open and not principal.is_read_only:
            return
        require(principal, self.action, self.kind, self.name_in(scope.get("path_params") or {}))


NOBODY = Principal("")
PUBLIC = Needs(Action.READ, Kind.PUBLIC)
OWN = Needs(Action.ADMINISTER, Kind.OWN)
READ_TOPIC = Needs(Action.READ, Kind.TOPIC)
READ_GROUP = Needs(Action.READ, Kind.GROUP)
READ_MESSAGES = Needs(Action.READ_MESSAGES, Kind.TOPIC, "topic")
READ_SERVER = Needs(Action.READ, Kind.SERVER)
ADMINISTER_SERVER = Needs(Action.ADMINISTER, Kind.SERVER)
RUN_REPORTS = Needs(Action.ADMINISTER, Kind.REPORT)
ADMINISTER_PEOPLE = Needs(Action.ADMINISTER, Kind.PEOPLE)
READ_PEOPLE = Needs(Action.READ, Kind.PEOPLE)
READ_CONTROL = Needs(Action.READ, Kind.CONTROL)
ADMINISTER_CONTROL = Needs(Action.ADMINISTER, Kind.CONTROL)


def principal_of(scope: Any) -> Principal:
    """The principal that the middleware found; NOBODY without the middleware."""
    principal: Principal = scope.get(PRINCIPAL, NOBODY)
    return principal


def lacks(principal: Principal, action: Action, kind: Kind, name: str = "") -> str:
    """The right that `principal` lacks, such as "administer:topic:orders"; "" if allowed.

    This is the one decision. `name` is that of a topic or a group, EVERYTHING for all of them, ""
    for any.
    """
    if kind is Kind.PUBLIC or principal.is_open:
        return ""
    kind, name = owned(kind, name)
    if kind is Kind.REPORT:
        name = EVERYTHING  # reports have no names
    if kind is Kind.OWN and action is not Action.READ and principal.token:
        # Otherwise a token could create one with more rights than its own.
        kind = Kind.PEOPLE
    if principal.grants and all(grant.reaches(action, kind, name) for grant in principal.grants):
        return ""
    return right_text(action, kind, name)


def require(principal: Principal, action: Action, kind: Kind, name: str = "") -> None:
    """Raise RightMissing for a missing right, ServerReadOnly if the server is read-only.

    OnStandby if it is so as a standby.
    """
    missing = lacks(principal, action, kind, name)
    if missing:
        raise RightMissing(
            f"{principal.audit_name('') if principal.name else 'nobody'} lacks the right {missing}",
            field="right",
            remedy=f"ask an admin for {missing}",
        )
    if is_frozen(principal, action, kind):
        if principal.standby_of:
            raise OnStandby(principal.standby_of)
        raise ServerReadOnly(
            "the server is read-only, so nothing was changed",
            remedy="an admin can switch that off on the page Engine, unless the setting read_only "
            "holds it",
        )


def is_frozen(principal: Principal, action: Action, kind: Kind) -> bool:
    """Whether the action is refused only because the server is read-only."""
    return principal.is_read_only and action not in LOOKING and kind not in NEVER_FROZEN


def require_replay(principal: Principal, source: str, to: str, to_name: str) -> None:
    """Raise RightMissing unless `principal` may replay messages of `source` to this target."""
    for right in replay_rights(source, to, to_name):
        require(principal, *right)


def replay_rights(source: str, to: str, to_name: str) -> list[Right]:
    """The rights needed to replay messages of `source` to `to`.

    Replaying to their origin needs only the right over the source. Another topic may be readable
    by others, so naming one also needs the right to read the source.
    """
    rights: list[Right] = [(Action.ADMINISTER, Kind.TOPIC, source)]
    if to == "topic":
        rights.append((Action.PRODUCE, Kind.TOPIC, to_name))
        rights.append((Action.READ_MESSAGES, Kind.TOPIC, source))
    elif to_name:
        rights.append((Action.ADMINISTER, Kind.GROUP, to_name))
    return rights


def require_decision(principal: Principal, topic: str, *, by_hand: bool) -> None:
    """Raise RightMissing unless `principal` may commit or roll back a message for `topic`."""
    require(principal, Action.ADMINISTER if by_hand else Action.PRODUCE, Kind.TOPIC, topic)


def right_text(action: Action, kind: Kind, name: str = "") -> str:
    """A right as text; with a name only if its kind has names."""
    return f"{action}:{kind}:{name or EVERYTHING}" if kind in NAMED else f"{action}:{kind}"


def least_role(action: Action, kind: Kind) -> Role:
    """The lowest role that can have this right, perhaps by a pattern."""
    return next(role for role in Role if TABLE.get((role, action, kind), NONE) is not NONE)


def owned(kind: Kind, name: str) -> tuple[Kind, str]:
    """The resource whose rights apply: the group, for its retry and dead-letter topics."""
    if kind is Kind.TOPIC and name.startswith(OF_GROUP):
        return Kind.GROUP, name.split("%", 2)[2]
    return kind, name


def parse_patterns(texts: Iterable[str]) -> tuple[str, ...]:
    """The patterns without duplicates; raises Invalid with the first invalid one."""
    patterns: list[str] = []
    for index, text in enumerate(part.strip() for part in texts):
        match = PATTERN.match(text)
        is_pattern = match is not None and (
            match[1] in {EVERYTHING, *Action}
            and match[2] in {EVERYTHING, *PATTERNED}
            and (match[2] != Kind.REPORT or match[3] == EVERYTHING)
        )
        if not is_pattern:
            raise Invalid(
                f"{text[:80]!r} is no pattern",
                field=f"patterns[{index}]",
                remedy="write ACTION:KIND:GLOB, as in produce:topic:orders-*, *:group:billing or "
                "administer:report:*",
            )
        if text not in patterns:
            patterns.append(text)
    if len(patterns) > PATTERNS_MAX:
        raise Invalid(f"more than {PATTERNS_MAX} patterns", field="patterns", remedy="join some")
    return tuple(patterns)


def _matches(pattern: str, action: Action, kind: Kind, name: str) -> bool:
    pattern_action, pattern_kind, glob = pattern.split(":", 2)
    if pattern_action not in (EVERYTHING, action):
        return False
    if not name:  # any topic or group: a handler that reads the name checks again
        return True
    if pattern_kind not in (EVERYTHING, kind):
        return False
    if name == EVERYTHING:
        return glob == EVERYTHING
    return _glob(glob).match(name) is not None


@lru_cache(maxsize=1024)
def _glob(text: str) -> re.Pattern[str]:
    return re.compile(translate(text))
