"""Who may do what: one table of role, action and resource, and the one decision over it.

A grant is a role with its patterns. An operator's rights over topics and groups reach as far as
the patterns, `ACTION:KIND:GLOB` as in `produce:topic:orders-*`; `*` stands for any action or kind.
So do a viewer's and an operator's rights to read messages, and an operator's to run reports.
A token carries its own grant beside its owner's, and may do only what both allow.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache
from typing import Any

from engine.broker import DEAD_LETTER_PREFIX, RETRY_PREFIX
from engine.errors import Forbidden, Invalid
from kitemq.model.access import Action as Action
from kitemq.model.access import Kind as Kind
from kitemq.model.access import Reach as Reach
from kitemq.model.access import Role as Role

Right = tuple["Action", "Kind", str]  # as `require` takes it

WHO = "kitemq.who"  # where the gate leaves the principal in a request's scope
EVERYTHING = "*"  # as a name: whatever there is
PATTERN = re.compile(r"(\*|[a-z_]+):(\*|[a-z]+):([A-Za-z0-9_%|.*?\[\]!-]{1,255})\Z")
PATTERNS_MAX = 100
# Topics that belong to a group: whoever has the group has them.
OF_GROUP = (RETRY_PREFIX, DEAD_LETTER_PREFIX)


NAMED = (Kind.TOPIC, Kind.GROUP)
PATTERNED = (*NAMED, Kind.REPORT)  # of which a pattern may speak
LOOKING = (Action.READ, Action.READ_MESSAGES)  # which change nothing
# What goes on while nothing may be changed: one's own login, and the switch that ends it.
NEVER_FROZEN = (Kind.OWN, Kind.PUBLIC, Kind.CONTROL)
NONE, MATCHING, ALL = Reach.NONE, Reach.MATCHING, Reach.ALL

# Rows: the kinds. Columns: viewer, operator, admin. What stands nowhere is nobody's.
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
        Kind.GROUP: (NONE, MATCHING, ALL),  # to speak for a group of producers
    },
    Action.CONSUME: {
        Kind.TOPIC: (NONE, MATCHING, ALL),
        Kind.GROUP: (NONE, MATCHING, ALL),
    },
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
    """The one who asks may not do this; the text names the right."""

    code = "right_missing"


class ReadOnly(Forbidden):
    """Nobody may change anything, whoever asks."""

    code = "read_only"


@dataclass(frozen=True)
class Grant:
    """A role, and how far it reaches where it is the operator's."""

    role: Role
    patterns: tuple[str, ...] = ()

    def reaches(self, action: Action, kind: Kind, name: str) -> bool:
        """Whether this covers `name`; an empty one asks whether anything is covered."""
        reach = TABLE.get((self.role, action, kind), Reach.NONE)
        if reach is not Reach.MATCHING:
            return reach is Reach.ALL
        return any(_matches(pattern, action, kind, name) for pattern in self.patterns)


@dataclass(frozen=True)
class Principal:
    """Who sends a request. Without grants he may do nothing but what is public."""

    name: str
    grants: tuple[Grant, ...] = ()
    token: str = ""  # its name, where a token was sent
    session_id: int = 0
    is_open: bool = False  # there are no users: everybody may do everything
    is_read_only: bool = False

    @property
    def role(self) -> Role | None:
        """The role of the one who asks; None for nobody, and where there are no users."""
        return self.grants[0].role if self.grants and not self.is_open else None

    @property
    def caller(self) -> str:
        """Whose share of the server's memory a request takes: the token's, else the user's."""
        return f"{self.name}/{self.token}" if self.token else self.name

    def audit_name(self, client: str) -> str:
        """How the trail names him: "ann", "ann/ci" with a token, else by the address."""
        if not self.name:
            return f"anonymous@{client or 'local'}"[:255]
        return f"{self.name}/{self.token}"[:255] if self.token else self.name


@dataclass(frozen=True)
class Needs:
    """The right that an operation or a page asks for.

    `of` is the path's parameter that names the resource, EVERYTHING where all of its kind may be
    touched, and "" where there is but one, or where the handler checks the name that it reads
    from the body.
    """

    action: Action
    kind: Kind
    of: str = ""

    def name_in(self, parameters: dict[str, Any]) -> str:
        """The resource that a request's path names."""
        return EVERYTHING if self.of == EVERYTHING else str(parameters.get(self.of, ""))

    def check(self, scope: Any) -> None:
        """Raise RightMissing or ReadOnly unless the request's sender has this right."""
        who = who_of(scope)
        if who.is_open and not who.is_read_only:
            return
        require(who, self.action, self.kind, self.name_in(scope.get("path_params") or {}))


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


def who_of(scope: Any) -> Principal:
    """The sender of a request as the gate knew him; nobody where it passed no gate."""
    who: Principal = scope.get(WHO, NOBODY)
    return who


def lacks(who: Principal, action: Action, kind: Kind, name: str = "") -> str:
    """The right that `who` has not, as "administer:topic:orders"; "" where he may.

    This is the one decision; `name` is that of a topic or a group, EVERYTHING for all of them, and
    "" for any.
    """
    if kind is Kind.PUBLIC or who.is_open:
        return ""
    kind, name = owned(kind, name)
    if kind is Kind.REPORT:
        name = EVERYTHING  # reports have no names
    if kind is Kind.OWN and action is not Action.READ and who.token:
        # Else a token could make another one that may do more than itself.
        kind = Kind.PEOPLE
    if who.grants and all(grant.reaches(action, kind, name) for grant in who.grants):
        return ""
    return right_text(action, kind, name)


def require(who: Principal, action: Action, kind: Kind, name: str = "") -> None:
    """Raise RightMissing where `lacks` says so, ReadOnly where nothing may be changed."""
    missing = lacks(who, action, kind, name)
    if missing:
        raise RightMissing(
            f"{who.audit_name('') if who.name else 'nobody'} lacks the right {missing}",
            field="right",
            remedy=f"ask an admin for {missing}",
        )
    if is_frozen(who, action, kind):
        raise ReadOnly(
            "the server is read-only, so nothing was changed",
            remedy="an admin can switch that off on the page Engine, unless the setting read_only "
            "holds it",
        )


def is_frozen(who: Principal, action: Action, kind: Kind) -> bool:
    """Whether the server being read-only keeps `who` from this, whatever his rights are."""
    return who.is_read_only and action not in LOOKING and kind not in NEVER_FROZEN


def require_replay(who: Principal, source: str, to: str, to_name: str) -> None:
    """Raise RightMissing unless `who` may send messages of `source` again, and there."""
    for right in replay_rights(source, to, to_name):
        require(who, *right)


def replay_rights(source: str, to: str, to_name: str) -> list[Right]:
    """What sending messages of `source` again to `to` asks for.

    Back to where they came from needs no more than the right over the source. A topic of one's own
    choice may be read by others, so whoever names one must be allowed to read the source.
    """
    rights: list[Right] = [(Action.ADMINISTER, Kind.TOPIC, source)]
    if to == "topic":
        rights.append((Action.PRODUCE, Kind.TOPIC, to_name))
        rights.append((Action.READ_MESSAGES, Kind.TOPIC, source))
    elif to_name:
        rights.append((Action.ADMINISTER, Kind.GROUP, to_name))
    return rights


def require_decision(who: Principal, topic: str, *, by_hand: bool) -> None:
    """Raise RightMissing unless `who` may decide about a transaction's message for `topic`."""
    require(who, Action.ADMINISTER if by_hand else Action.PRODUCE, Kind.TOPIC, topic)


def right_text(action: Action, kind: Kind, name: str = "") -> str:
    """How a right is written: with a name only where its kind has names."""
    return f"{action}:{kind}:{name or EVERYTHING}" if kind in NAMED else f"{action}:{kind}"


def least_role(action: Action, kind: Kind) -> Role:
    """The least role that can have a right over this kind, perhaps by a pattern."""
    return next(role for role in Role if TABLE.get((role, action, kind), NONE) is not NONE)


def owned(kind: Kind, name: str) -> tuple[Kind, str]:
    """Whose rights count for `name`: those of the group for its retry and dead-letter topics."""
    if kind is Kind.TOPIC and name.startswith(OF_GROUP):
        return Kind.GROUP, name.split("%", 2)[2]
    return kind, name


def parse_patterns(texts: Iterable[str]) -> tuple[str, ...]:
    """Patterns as they are kept; Invalid names the first that is none."""
    found: list[str] = []
    for index, text in enumerate(part.strip() for part in texts):
        match = PATTERN.match(text)
        known = match is not None and (
            match[1] in {EVERYTHING, *Action}
            and match[2] in {EVERYTHING, *PATTERNED}
            and (match[2] != Kind.REPORT or match[3] == EVERYTHING)
        )
        if not known:
            raise Invalid(
                f"{text[:80]!r} is no pattern",
                field=f"patterns[{index}]",
                remedy="write ACTION:KIND:GLOB, as in produce:topic:orders-*, *:group:billing or "
                "administer:report:*",
            )
        if text not in found:
            found.append(text)
    if len(found) > PATTERNS_MAX:
        raise Invalid(f"more than {PATTERNS_MAX} patterns", field="patterns", remedy="join some")
    return tuple(found)


def _matches(pattern: str, action: Action, kind: Kind, name: str) -> bool:
    wanted_action, wanted_kind, glob = pattern.split(":", 2)
    if wanted_action not in (EVERYTHING, action):
        return False
    if not name:  # any topic or group: whoever reads its name asks again
        return True
    if wanted_kind not in (EVERYTHING, kind):
        return False
    if name == EVERYTHING:
        return glob == EVERYTHING
    return _glob(glob).match(name) is not None


@lru_cache(maxsize=1024)
def _glob(text: str) -> re.Pattern[str]:
    return re.compile(translate(text))
