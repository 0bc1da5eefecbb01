"""Computes the rights of a user, a token or a role, with the decision that the endpoints use.

Each right in `required_rights.toml` is passed to `access.require`, as an endpoint does. The reason
is found by repeating that decision with each grant alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from app.security import required_rights
from app.security.access import (
    NAMED,
    TABLE,
    Action,
    Grant,
    Kind,
    Principal,
    Reach,
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
from kitemq.model.access import CheckedRight, RightReason


@dataclass(frozen=True)
class RightsSubject:
    """The subject of a check; `shut_out` is the reason why its login would be refused."""

    principal: Principal
    refusal: str = ""


def decide_all(
    subject: RightsSubject,
    *,
    action: Action | None = None,
    kind: Kind | None = None,
    name: str = "",
) -> list[CheckedRight]:
    """A decision for every right in the tables, in their order; of one action or kind if given.

    `name` is that of a topic or a group; without a kind it limits the check to these two. With ""
    the question is whether any resource of the kind may be used.
    """
    pairs = [
        (each, of)
        for each, of in rights()
        if action in (None, each)
        and (of is kind or (kind is None and not (name and of not in NAMED)))
    ]
    return [_verdict(subject, each, of, name if of in NAMED else "") for each, of in pairs]


def subject_of(
    directory: UserDirectory,
    *,
    user: str = "",
    token: str = "",
    role: str = "",
    patterns: Sequence[str] = (),
) -> RightsSubject:
    """The subject of a check: a user, a token by its id, or a role with patterns.

    Raises NotFound, or Invalid unless exactly one of the three is given.
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
        token_row = next((row for row in directory.tokens() if str(row.id) == token), None)
        if token_row is None:
            detail = f"there is no token {token[:40]!r}"
            raise NotFound(detail, field="token", code="no_such_token")
        return RightsSubject(*directory.check_token(token_row))
    row = directory.user(user.strip().lower())
    if row is None:
        raise NotFound(f"there is no user {user[:80]!r}", field="user", code="no_such_user")
    return RightsSubject(*directory.check_user(row))


@cache
def rights() -> Mapping[tuple[Action, Kind], dict[str, tuple[str, ...]]]:
    """The endpoints that need each right, by action and kind."""
    endpoints_by_right: dict[tuple[Action, Kind], dict[str, list[str]]] = {}
    for title, table in required_rights.TABLES.items():
        for endpoint, needed in required_rights.rights_by_endpoint(table).items():
            for right in needed:
                if ":" not in right:
                    continue  # what calls an operation needs the operation's rights
                action, kind, *__ = right.split(":")
                if kind != Kind.PUBLIC:
                    endpoints = endpoints_by_right.setdefault((Action(action), Kind(kind)), {})
                    endpoints.setdefault(title, []).append(endpoint)
    return {
        pair: {title: tuple(endpoints) for title, endpoints in endpoints_by_right[pair].items()}
        for pair in TABLE_ORDER
        if pair in endpoints_by_right
    }


TABLE_ORDER = tuple(dict.fromkeys((action, kind) for __, action, kind in TABLE))


def _verdict(subject: RightsSubject, action: Action, kind: Kind, name: str) -> CheckedRight:
    principal = subject.principal
    is_allowed, reason, by = False, RightReason.ROLE, ""
    if subject.refusal:
        reason = RightReason(subject.refusal)
    else:
        try:
            require(principal, action, kind, name)
        except ServerReadOnly:
            reason = RightReason.READ_ONLY
        except RightMissing:
            reason, by = _refused_by(principal, action, kind, name)
        else:
            is_allowed = True
            reason, by = _allowed_by(principal, action, kind, name)
    return CheckedRight(
        action=action,
        kind=kind,
        name=name,
        right=right_text(action, kind, name),
        allowed=is_allowed,
        reason=reason,
        by=by,
        operations=rights()[action, kind],
    )


def _refused_by(
    principal: Principal, action: Action, kind: Kind, name: str
) -> tuple[RightReason, str]:
    """The grant that is missing; the token's is named before its owner's."""
    for index, grant in enumerate(principal.grants):
        alone = replace(principal, grants=(grant,), token="")
        if not lacks(alone, action, kind, name):
            continue
        of_token = bool(principal.token) and index == 0
        if _reach(grant, action, kind) is Reach.MATCHING:
            return (RightReason.TOKEN_PATTERN if of_token else RightReason.PATTERN), ", ".join(
                grant.patterns
            )
        return (RightReason.TOKEN_ROLE if of_token else RightReason.ROLE), grant.role
    return RightReason.TOKEN_OWN, principal.token


def _allowed_by(
    principal: Principal, action: Action, kind: Kind, name: str
) -> tuple[RightReason, str]:
    if principal.is_open:
        return RightReason.OPEN, ""
    for grant in principal.grants:
        if _reach(grant, action, kind) is Reach.MATCHING:
            for pattern in grant.patterns:
                alone = replace(principal, grants=(Grant(grant.role, (pattern,)),), token="")
                if not lacks(alone, action, kind, name):
                    return RightReason.PATTERN, pattern
    return RightReason.ROLE, principal.grants[0].role


def _reach(grant: Grant, action: Action, kind: Kind) -> Reach:
    return TABLE.get((grant.role, action, kind), Reach.NONE)
