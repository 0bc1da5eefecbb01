"""Rows and the error of the database, without SQLAlchemy, which is slow to load."""

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from uuid import uuid4

from kitemq.model.access import UserSource

# The address of the current request, for its audit entries. Each endpoint sets it; work without a
# request, such as a scheduled run, has none.
CLIENT_ADDRESS: ContextVar[str] = ContextVar("client_address", default="")


DONE = "done"  # the result of a change that was made


class DatabaseError(Exception):
    """The database cannot be opened, or a call failed; the text says why."""


@dataclass(frozen=True)
class Actor:
    """The user, token or address that makes a change; `request_id` links entry, log and answer."""

    name: str
    request_id: str = ""


def actor_at(name: str, request_id: str = "") -> Actor:
    """The actor `name` as authenticated: a user, a token, or an address."""
    return Actor(name[:255], (request_id or uuid4().hex)[:64])


@dataclass(frozen=True, kw_only=True)
class AuditEntry:
    """One change: its actor, action, object, values before and after, and result."""

    id: int = 0
    at_ms: int
    actor: str
    action: str
    object_kind: str
    object_name: str
    before_json: str = ""
    after_json: str = ""
    result: str = DONE
    request_id: str = ""
    address: str = field(default_factory=CLIENT_ADDRESS.get)

    @classmethod
    def of(
        cls,
        actor: Actor,
        action: str,
        kind: str,
        name: str,
        *,
        at_ms: int,
        before_json: str = "",
        after_json: str = "",
        result: str = DONE,
    ) -> "AuditEntry":
        """The entry of a change that `actor` makes to an object."""
        return cls(
            at_ms=at_ms,
            actor=actor.name[:255],
            action=action,
            object_kind=kind,
            object_name=name[:512],
            before_json=before_json,
            after_json=after_json,
            result=result,
            request_id=actor.request_id[:64],
        )


@dataclass(frozen=True, kw_only=True)
class AuditFilter:
    """A filter of entries; empty and None fields match all.

    `name_part` may be anywhere in the object's name; `from_ms` is inclusive, `to_ms` exclusive.
    """

    object_kind: str = ""
    object_name: str = ""
    name_part: str = ""
    action: str = ""
    actor: str = ""
    result: str = ""
    request_id: str = ""
    address: str = ""
    from_ms: int | None = None
    to_ms: int | None = None


@dataclass(frozen=True, kw_only=True)
class AuditTally:
    """Counts over the newest `examined` entries, by field and value."""

    examined: int
    actions: Mapping[str, int]
    kinds: Mapping[str, int]
    results: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class UserRow:
    """A user with role and patterns."""

    id: int = 0
    name: str
    password_hash: str = field(repr=False)
    role: str
    patterns: tuple[str, ...] = ()
    disabled: bool = False
    created_ms: int
    issuer: str | None = None  # with `subject`, the user at a provider; None for a local user
    subject: str | None = None

    @property
    def source(self) -> UserSource:
        """How this user is authenticated."""
        return UserSource.LOCAL if self.issuer is None else UserSource.OIDC

    def described(self) -> dict[str, object]:
        """The form in the audit trail, without the hash."""
        provider = {} if self.issuer is None else {"issuer": self.issuer, "subject": self.subject}
        return {
            "name": self.name,
            "role": self.role,
            "patterns": self.patterns,
            "disabled": self.disabled,
            **provider,
        }


@dataclass(frozen=True, kw_only=True)
class TokenRow:
    """A program's key to the server; `user_id` owns it."""

    id: int = 0
    name: str
    prefix: str
    secret_hash: str = field(repr=False)
    user_id: int
    role: str
    patterns: tuple[str, ...] = ()
    created_ms: int
    expires_ms: int | None = None
    used_ms: int | None = None

    def described(self) -> dict[str, object]:
        """The form in the audit trail, without the hash."""
        return {
            "name": self.name,
            "prefix": self.prefix,
            "role": self.role,
            "patterns": self.patterns,
            "expires_ms": self.expires_ms,
        }


@dataclass(frozen=True, kw_only=True)
class SessionRow:
    """One login of a user, in one browser."""

    id: int = 0
    secret_hash: str = field(repr=False)
    user_id: int
    created_ms: int
    seen_ms: int
    expires_ms: int
    address: str
    user_agent: str


@dataclass(frozen=True)
class UserRows:
    """All users, tokens and sessions of one version."""

    version: int
    users: list[UserRow]
    tokens: list[TokenRow]
    sessions: list[SessionRow]
