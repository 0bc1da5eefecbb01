"""Users, tokens and logins; rights, and what decides about them."""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from kitemq.model.values import Int64, Milliseconds


class Action(StrEnum):
    READ = "read"
    READ_MESSAGES = "read_messages"  # their bodies, keys and properties
    PRODUCE = "produce"
    CONSUME = "consume"
    ADMINISTER = "administer"


class Kind(StrEnum):
    """The kind of object of an action."""

    TOPIC = "topic"
    GROUP = "group"
    SERVER = "server"
    AUDIT = "audit"
    REPORT = "report"  # to run and to cancel reports; they are read with the server
    CONTROL = "control"  # the running server: log levels, read-only, its support bundle
    PEOPLE = "people"  # users, tokens and sessions of everybody
    OWN = "own"  # one's own password, tokens and sessions
    PUBLIC = "public"  # health, the login page: no login is asked for


class Role(StrEnum):
    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


class Reach(StrEnum):
    """How far a right goes."""

    NONE = "none"
    MATCHING = "matching"  # what the patterns name
    ALL = "all"


class UserSource(StrEnum):
    """Who vouches for a user: a password of this server, or an OpenID Connect provider."""

    LOCAL = "local"
    OIDC = "oidc"


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


Patterns = Annotated[
    list[str],
    Meta(
        max_length=100,
        description="How far rights reach: ACTION:KIND:GLOB, where `*` stands for any action or "
        "kind, as in `produce:topic:orders-*` and `administer:report:*`; a viewer's in "
        "`read_messages:topic:orders-*`. Left out: everywhere; a viewer then reads all messages.",
    ),
]
Password = Annotated[str, Meta(description="8 to 256 characters.")]


class User(msgspec.Struct, frozen=True):
    """A user of the server."""

    name: str
    role: Role
    patterns: tuple[str, ...]
    disabled: bool
    created_ms: Milliseconds
    source: Annotated[
        UserSource,
        Meta(description="By a password of this server, or through the OpenID Connect provider."),
    ]


class UserList(msgspec.Struct, frozen=True):
    items: list[User]


class NewUser(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A user to be added."""

    name: str
    password: Password
    role: Role = Role.VIEWER
    patterns: Patterns | UnsetType = UNSET


class UserPatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Changes of a user; absent fields stay. A new password ends the user's sessions."""

    role: Role | UnsetType = UNSET
    patterns: Patterns | UnsetType = UNSET
    disabled: bool | UnsetType = UNSET
    password: Password | UnsetType = UNSET


class Right(msgspec.Struct, frozen=True):
    """One cell of a role's rights."""

    action: Action
    kind: Kind
    reach: Annotated[Reach, Meta(description="all, matching (what the patterns name) or none")]


class Me(msgspec.Struct, frozen=True):
    """The caller. While there are no users, `open` is true and everything is allowed."""

    name: str
    open: bool
    role: Role | None
    patterns: tuple[str, ...]
    token: Annotated[str, Meta(description="The name of the token that was sent.")]
    read_only: bool
    rights: list[Right]


class NewPassword(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One's own password; changing it ends all one's sessions."""

    old: str
    new: Password


class Token(msgspec.Struct, frozen=True):
    """A token of a program; `prefix` is how its text begins."""

    id: Int64
    name: str
    owner: str
    prefix: str
    role: Role
    patterns: tuple[str, ...]
    created_ms: Milliseconds
    expires_ms: Milliseconds | None
    used_ms: Annotated[int | None, Meta(description="When it was used last; null: never.")]


class TokenList(msgspec.Struct, frozen=True):
    items: list[Token]


class MadeToken(Token, frozen=True):
    """A token with its text, which is shown this once.

    `access_key` and `secret_key` are the same token for RocketMQ 5 clients, which sign with them.
    """

    token: str
    access_key: str
    secret_key: str


class NewToken(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A token to be made. It may do what both its own and its owner's rights allow."""

    name: str
    owner: Annotated[str, Meta(description="Oneself, where it is left out.")] = ""
    role: Role | UnsetType = UNSET
    patterns: Patterns | UnsetType = UNSET
    days: Annotated[int | None, Meta(description="Until it expires, 1 to 3650; null: never.")] = (
        None
    )


class LoginSession(msgspec.Struct, frozen=True):
    """One login of a user."""

    id: Int64
    user: str
    created_ms: Milliseconds
    seen_ms: Milliseconds
    expires_ms: Milliseconds
    address: str
    user_agent: str


class SessionList(msgspec.Struct, frozen=True):
    items: list[LoginSession]


class CheckedRight(msgspec.Struct, frozen=True):
    """One right and the reason for its decision; `operations`: those it opens, by table."""

    right: str
    action: Action
    kind: Kind
    name: str
    allowed: bool
    reason: RightReason
    by: Annotated[str, Meta(description="The role or the patterns that decided.")]
    operations: dict[str, tuple[str, ...]]


class AccessCheck(msgspec.Struct, frozen=True):
    """The requested rights, in the order of docs/access.md."""

    who: str
    items: list[CheckedRight]
