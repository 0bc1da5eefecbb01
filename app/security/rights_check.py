"""What somebody could do, worked out beforehand by the very decision that the doors make.

The rights are the rows of `required_rights.py`; each is put to `access.require`, as a door would. Only the
reasons are found here, by asking that decision about each grant alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache

from app.security import required_rights
from app.security.access import (
    NAMED,
    TABLE,
    Action,
    Grant,
    Principal,
    Reach,
    ResourceKind,
    RightMissing,
    ServerReadOnly,
    lacks,
    parse_patterns,
    require,
    right_text,
)
from app.security.credentials import parse_role
from app.security.user_directory import UserDirectory
from engine.errors import Invalid, NotFound


class RightReason(StrEnum):
    """Why something is allowed or refused."""

    OPEN = "open"  # there are no users, so everybody may
    ROLE = "role"  # the role has it, or has it not
    PATTERN = "pattern"  # a pattern covers it, or none does
    TOKEN_ROLE = "token_role"  # the token's own role has it not
    TOKEN_PATTERN = "token_pattern"  # none of the token's own patterns covers it
    TOKEN_OWN = "token_own"  # a token may not change what is its owner's own
    READ_ONLY = "read_only"  # nobody may change anything
    EXPIRED = "expired"  # the token is over
    DISABLED = "disabled"  # the user is switched off
    PROVIDER = "provider"  # a provider that is no longer this server's vouched for the user


@dataclass(frozen=True)
class RightsSubject:
    """Whose rights are asked about; `shut_out` says why he would not even be let in."""

    who: Principal
    shut_out: str = ""


@dataclass(frozen=True)
class RightDecision:
    """One right of one subject.

    `by` is the role or the pattern that decided; `doors` says by table what the right opens.
    """

    action: Action
    kind: ResourceKind
    name: str
    right: str
    is_allowed: bool
    reason: RightReason
    by: str
    doors: Mapping[str, tuple[str, ...]]


def decide_all(
    subject: RightsSubject,
    *,
    action: Action | None = None,
    kind: ResourceKind | None = None,
    name: str = "",
) -> list[RightDecision]:
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
    directory: UserDirectory,
    *,
    user: str = "",
    token: str = "",
    role: str = "",
    patterns: Sequence[str] = (),
) -> RightsSubject:
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
        grant = Grant(parse_role(role), parse_patterns(patterns))
        return RightsSubject(
            Principal(f"any {grant.role}", (grant,), is_read_only=directory.is_read_only)
        )
    if token:
        found = next((row for row in directory.tokens() if str(row.id) == token), None)
        if found is None:
            detail = f"there is no token {token[:40]!r}"
            raise NotFound(detail, field="token", code="no_such_token")
        return RightsSubject(*directory.as_token(found))
    row = directory.user(user.strip().lower())
    if row is None:
        raise NotFound(f"there is no user {user[:80]!r}", field="user", code="no_such_user")
    return RightsSubject(*directory.as_user(row))


@cache
def rights() -> Mapping[tuple[Action, ResourceKind], Mapping[str, tuple[str, ...]]]:
    """Action and kind of every right in the tables, with the doors that ask for it."""
    found: dict[tuple[Action, ResourceKind], dict[str, list[str]]] = {}
    for title, table in required_rights.TABLES.items():
        for door, needed in required_rights.rights_by_endpoint(table).items():
            for right in needed:
                if ":" not in right:
                    continue  # what calls an operation needs the operation's rights
                action, kind, *__ = right.split(":")
                if kind != ResourceKind.PUBLIC:
                    doors = found.setdefault((Action(action), ResourceKind(kind)), {})
                    doors.setdefault(title, []).append(door)
    return {
        pair: {title: tuple(doors) for title, doors in found[pair].items()}
        for pair in TABLE_ORDER
        if pair in found
    }


TABLE_ORDER = tuple(dict.fromkeys((action, kind) for __, action, kind in TABLE))


def _verdict(
    subject: RightsSubject, action: Action, kind: ResourceKind, name: str
) -> RightDecision:
    who = subject.who
    is_allowed, reason, by = False, RightReason.ROLE, ""
    if subject.shut_out:
        reason = RightReason(subject.shut_out)
    else:
        try:
            require(who, action, kind, name)
        except ServerReadOnly:
            reason = RightReason.READ_ONLY
        except RightMissing:
            reason, by = _refused_by(who, action, kind, name)
        else:
            is_allowed = True
            reason, by = _allowed_by(who, action, kind, name)
    doors = rights()[action, kind]
    return RightDecision(
        action, kind, name, right_text(action, kind, name), is_allowed, reason, by, doors
    )


def _refused_by(
    who: Principal, action: Action, kind: ResourceKind, name: str
) -> tuple[RightReason, str]:
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


def _allowed_by(
    who: Principal, action: Action, kind: ResourceKind, name: str
) -> tuple[RightReason, str]:
    if who.is_open:
        return RightReason.OPEN, ""
    for grant in who.grants:
        if _reach(grant, action, kind) is Reach.MATCHING:
            for pattern in grant.patterns:
                alone = replace(who, grants=(Grant(grant.role, (pattern,)),), token="")
                if not lacks(alone, action, kind, name):
                    return RightReason.PATTERN, pattern
    return RightReason.ROLE, who.grants[0].role


def _reach(grant: Grant, action: Action, kind: ResourceKind) -> Reach:
    return TABLE.get((grant.role, action, kind), Reach.NONE)
