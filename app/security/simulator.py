"""What somebody could do, worked out beforehand by the very decision that the doors make.

The rights are the rows of `matrix.py`; each is put to `access.require`, as a door would. Only the
reasons are found here, by asking that decision about each grant alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from app.security import matrix
from app.security.access import (
    NAMED,
    TABLE,
    Action,
    Grant,
    Kind,
    Principal,
    Reach,
    ReadOnly,
    RightMissing,
    lacks,
    parse_patterns,
    require,
    right_text,
)
from app.security.drafts import checked_role
from app.security.people import People
from engine.errors import Invalid, NotFound
from kitemq.model.access import CheckedRight, RightReason


@dataclass(frozen=True)
class Subject:
    """Whose rights are asked about; `shut_out` says why he would not even be let in."""

    who: Principal
    shut_out: str = ""


def judge(
    subject: Subject, *, action: Action | None = None, kind: Kind | None = None, name: str = ""
) -> list[CheckedRight]:
    """Every right that a door asks for, in the table's order; those of one action or kind if given.

    `name` is that of a topic or a group, without a kind only they are judged then; "" asks whether
    there is any that may be touched.
    """
    wanted = [
        (each, of)
        for each, of in rights()
        if action in (None, each)
        and (of is kind or (kind is None and not (name and of not in NAMED)))
    ]
    return [_verdict(subject, each, of, name if of in NAMED else "") for each, of in wanted]


def subject_of(
    people: People, *, user: str = "", token: str = "", role: str = "", patterns: Sequence[str] = ()
) -> Subject:
    """The one who is asked about: a user, a token by its id, or a role that nobody need have.

    Raises NotFound for whom nobody knows, Invalid unless exactly one of the three is given.
    """
    if sum(map(bool, (user, token, role))) != 1:
        raise Invalid(
            "it is not said whose rights are asked for",
            field="user",
            remedy="give one of user, token (its id) and role",
        )
    if role:
        grant = Grant(checked_role(role), parse_patterns(patterns))
        return Subject(Principal(f"any {grant.role}", (grant,), is_read_only=people.is_read_only))
    if token:
        found = next((row for row in people.tokens() if str(row.id) == token), None)
        if found is None:
            detail = f"there is no token {token[:40]!r}"
            raise NotFound(detail, field="token", code="no_such_token")
        return Subject(*people.as_token(found))
    row = people.user(user.strip().lower())
    if row is None:
        raise NotFound(f"there is no user {user[:80]!r}", field="user", code="no_such_user")
    return Subject(*people.as_user(row))


@cache
def rights() -> Mapping[tuple[Action, Kind], dict[str, tuple[str, ...]]]:
    """Action and kind of every right in the tables, with the doors that ask for it."""
    found: dict[tuple[Action, Kind], dict[str, list[str]]] = {}
    for title, table in matrix.TABLES.items():
        for door, needed in matrix.rights_by_door(table).items():
            for right in needed:
                if ":" not in right:
                    continue  # what calls an operation needs the operation's rights
                action, kind, *__ = right.split(":")
                if kind != Kind.PUBLIC:
                    doors = found.setdefault((Action(action), Kind(kind)), {})
                    doors.setdefault(title, []).append(door)
    return {
        pair: {title: tuple(doors) for title, doors in found[pair].items()}
        for pair in TABLE_ORDER
        if pair in found
    }


TABLE_ORDER = tuple(dict.fromkeys((action, kind) for __, action, kind in TABLE))


def _verdict(subject: Subject, action: Action, kind: Kind, name: str) -> CheckedRight:
    who = subject.who
    is_allowed, reason, by = False, RightReason.ROLE, ""
    if subject.shut_out:
        reason = RightReason(subject.shut_out)
    else:
        try:
            require(who, action, kind, name)
        except ReadOnly:
            reason = RightReason.READ_ONLY
        except RightMissing:
            reason, by = _refused_by(who, action, kind, name)
        else:
            is_allowed = True
            reason, by = _allowed_by(who, action, kind, name)
    doors = rights()[action, kind]
    right = right_text(action, kind, name)
    return CheckedRight(right, action, kind, name, is_allowed, reason, by, doors)


def _refused_by(who: Principal, action: Action, kind: Kind, name: str) -> tuple[RightReason, str]:
    """Which grant stands in the way; of a token and its owner the token's is told first."""
    for index, grant in enumerate(who.grants):
        alone = replace(who, grants=(grant,), token="")
        if not lacks(alone, action, kind, name):
            continue
        of_token = bool(who.token) and index == 0
        if _reach(grant, action, kind) is Reach.MATCHING:
            return (RightReason.TOKEN_PATTERN if of_token else RightReason.PATTERN), ", ".join(
                grant.patterns
            )
        return (RightReason.TOKEN_ROLE if of_token else RightReason.ROLE), grant.role
    return RightReason.TOKEN_OWN, who.token


def _allowed_by(who: Principal, action: Action, kind: Kind, name: str) -> tuple[RightReason, str]:
    if who.is_open:
        return RightReason.OPEN, ""
    for grant in who.grants:
        if _reach(grant, action, kind) is Reach.MATCHING:
            for pattern in grant.patterns:
                alone = replace(who, grants=(Grant(grant.role, (pattern,)),), token="")
                if not lacks(alone, action, kind, name):
                    return RightReason.PATTERN, pattern
    return RightReason.ROLE, who.grants[0].role


def _reach(grant: Grant, action: Action, kind: Kind) -> Reach:
    return TABLE.get((grant.role, action, kind), Reach.NONE)
